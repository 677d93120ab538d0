//! The sense of `[model]`.

use super::{Sense, images, layers};
use crate::data::masked::masking::Pairs;
use crate::faults::WIDEST;
use crate::model::recurrent::Use;
use crate::model::{
    EncoderConfig, EncoderDecoderConfig, ModelConfig, RecurrentModelConfig, Transformer,
};
use crate::stack::{Depth, NormPlacement};
use crate::task::TaskConfig;
use crate::task::text_classification::Pooling;

const MOST_SEGMENTS: usize = 1024;

/// All faults of `[model]`, for inputs of `context` tokens when that is known.
pub(super) fn check(sense: &mut Sense, mut context: Option<usize>) {
    let experiment = &sense.loaded.experiment;
    let (model, image) = (&experiment.model, experiment.data.set().image());
    match model {
        ModelConfig::Decoder(c) => {
            head(sense, c.head_bias, c.tie_embeddings);
            if matches!(experiment.task, TaskConfig::Translation(_)) {
                // Source and target stand in one row.
                context = context.map(|context| 2 * context);
                one_vocabulary(sense);
            }
        }
        ModelConfig::Encoder(c) => encoder(sense, c),
        ModelConfig::EncoderDecoder(c) => {
            head(sense, c.head_bias, c.tie_embeddings);
            encoder_decoder(sense, c);
        }
        ModelConfig::Vision(c) => context = images::vision(sense, c, image),
        ModelConfig::Resnet(c) => images::resnet(sense, "model", c),
        ModelConfig::Recurrent(c) => recurrent(sense, c),
    }
    if let Some(model) = model.transformer() {
        transformer(sense, &model, context);
    }
}

fn head(sense: &mut Sense, bias: bool, tied: bool) {
    if bias && tied {
        sense.fault(
            &["model.head_bias", "model.tie_embeddings"],
            "head_bias = true has no effect: the head is the embeddings' table; leave it out or set tie_embeddings = false",
        );
    }
}

fn recurrent(sense: &mut Sense, c: &RecurrentModelConfig) {
    let experiment = &sense.loaded.experiment;
    let use_of = match &experiment.task {
        TaskConfig::Translation(task) => {
            if task.bidirectional_source {
                sense.fault(
                    &["task.bidirectional_source", "model.kind"],
                    "bidirectional_source = true is for decoders: a recurrent network has an encoder; leave it out",
                );
            }
            Use::Pairs
        }
        TaskConfig::TextClassification(task) => {
            if task.pooling == Some(Pooling::First) {
                sense.fault(
                    &["task.pooling", "model.kind"],
                    "pooling = \"first\" is for encoders: the first position of recurrent cells has read one token; leave \
                     it out for the last one, or use \"mean\"",
                );
            }
            Use::Classes
        }
        TaskConfig::CausalLm(_) | TaskConfig::MaskedLm(_) | TaskConfig::ImageClassification(_) => {
            Use::Text
        }
    };
    sense.told("model", |at| c.faults(use_of, at));
    if use_of == Use::Pairs && c.shares() && experiment.data.set().separates_vocabularies() {
        sense.fault(
            &["model.share_embeddings", "data.separate_vocabularies"],
            "source and target share one table unless share_embeddings = false; set it, or leave [data] \
             separate_vocabularies out",
        );
    }
}

fn encoder(sense: &mut Sense, c: &EncoderConfig) {
    if c.segments > MOST_SEGMENTS {
        let rule = format!("segments = {} is more than {MOST_SEGMENTS}", c.segments);
        sense.fault(&["model.segments"], rule);
    }
    let task = &sense.loaded.experiment.task;
    let pooled = match task {
        TaskConfig::MaskedLm(task) => task.pairs != Pairs::None,
        TaskConfig::TextClassification(task) => task.pooling != Some(Pooling::Mean),
        TaskConfig::CausalLm(_)
        | TaskConfig::Translation(_)
        | TaskConfig::ImageClassification(_) => return,
    };
    if c.pooler && !pooled {
        sense.fault(
            &["model.pooler", "task.kind"],
            "pooler = true has no effect: the task reads no vector of a whole text from the first position; leave it out",
        );
    }
    let paired = matches!(task, TaskConfig::MaskedLm(task) if task.pairs != Pairs::None);
    if paired && c.segments < 2 {
        let rule = format!(
            "segments = {} cannot tell the two segments of [task] pairs apart; set 2",
            c.segments
        );
        sense.fault(&["model.segments", "task.pairs"], rule);
    }
}

fn encoder_decoder(sense: &mut Sense, c: &EncoderDecoderConfig) {
    if c.share_embeddings && sense.loaded.experiment.data.set().separates_vocabularies() {
        sense.fault(
            &["model.share_embeddings", "data.separate_vocabularies"],
            "share_embeddings = true needs one vocabulary; set it to false, or leave [data] separate_vocabularies out",
        );
    }
}

/// A decoder reads the source with the table that it writes the target with.
fn one_vocabulary(sense: &mut Sense) {
    if sense.loaded.experiment.data.set().separates_vocabularies() {
        sense.fault(
            &["data.separate_vocabularies", "model.kind"],
            "separate_vocabularies = true needs a model with two vocabularies: a decoder has one; leave it out, or set \
             [model] kind = \"encoder_decoder\"",
        );
    }
}

/// The keys that all transformers have.
fn transformer(sense: &mut Sense, model: &Transformer, context: Option<usize>) {
    let c = model.stack;
    for depth in model.depths() {
        layers::check(sense, model, &depth);
    }
    let width = sense.count("model.d_model", c.d_model, WIDEST);
    sense.told("model.norm", |at| c.norm.faults(at));
    placement(sense, model);
    dropouts(sense, model);
    sense.told("model.init", |at| c.init.faults(at));
    let heads = layers::all(sense, model, width.then_some(c.d_model));
    sense.told("model.position", |at| c.position.faults(heads, context, at));
    if c.position.is_on_a_grid() {
        images::grid_positions(sense, c.d_model);
    }
}

/// Norms that contradict their place.
fn placement(sense: &mut Sense, model: &Transformer) {
    let c = model.stack;
    let placed = match c.norm_placement {
        NormPlacement::Pre | NormPlacement::Parallel => None,
        NormPlacement::Post => Some("post"),
        NormPlacement::Sandwich => Some("sandwich"),
        NormPlacement::Deepnorm => Some("deepnorm"),
    };
    if c.norm.is_none() {
        if let Some(name) = placed {
            sense.fault(
                &["model.norm_placement", "model.norm.kind"],
                format!("norm_placement = \"{name}\" places norms, but norm is \"none\"; use \"pre\" or another norm"),
            );
        }
        for (key, set) in [
            ("model.final_norm", c.final_norm == Some(true)),
            ("model.embedding_norm", model.embedding_norm),
        ] {
            if set {
                let name = super::last(key);
                sense.fault(
                    &[key],
                    format!("{name} = true has no effect: norm is \"none\""),
                );
            }
        }
    } else if c.final_norm == Some(true) && !c.norm_placement.wants_final_norm() {
        sense.fault(
            &["model.final_norm", "model.norm_placement"],
            format!(
                "final_norm = true repeats a norm: with norm_placement = \"{}\" the last block ends in one; leave it out",
                placed.unwrap_or_default()
            ),
        );
    }
    if let Some(shared) = c.shared_parallel_norm
        && c.norm_placement != NormPlacement::Parallel
    {
        sense.fault(
            &["model.shared_parallel_norm", "model.norm_placement"],
            format!("shared_parallel_norm = {shared} has no effect: norm_placement is not \"parallel\"; leave it out"),
        );
    }
}

fn dropouts(sense: &mut Sense, model: &Transformer) {
    let c = model.stack;
    let own = [
        ("model.dropout_embedding", c.dropout_embedding),
        ("model.dropout_attention", c.dropout_attention),
        ("model.dropout_residual", c.dropout_residual),
    ];
    let inner = c.dropout_feed_forward.unwrap_or(0.0);
    sense.probability("model.dropout_feed_forward", inner);
    sense.probability("model.dropout", c.dropout);
    sense.probability("model.drop_path", c.drop_path);
    let single = model.depths().find(|depth| depth.blocks() == 1);
    if let Some(Depth { key, .. }) = single.filter(|_| c.drop_path > 0.0) {
        let rule = format!(
            "drop_path = {:?} has no effect: it rises from 0 at the first layer, and there is one; leave it out",
            c.drop_path
        );
        sense.fault(&["model.drop_path", &format!("model.{key}")], rule);
    }
    for (key, value) in own {
        sense.probability(key, value.unwrap_or(0.0));
    }
    if c.dropout != 0.0 && own.iter().all(|(_, value)| value.is_some()) {
        sense.fault(
            &["model.dropout"],
            format!("dropout = {:?} has no effect: each of its places has a key of its own; leave it out", c.dropout),
        );
    }
}
