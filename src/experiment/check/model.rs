//! The sense of `[model]`.

use super::{Sense, images, position};
use crate::data::masking::Pairs;
use crate::model::{EncoderConfig, EncoderDecoderConfig, Keys, ModelConfig};
use crate::nn::attention::multi_head::MultiHeadConfig;
use crate::nn::feed_forward::FeedForwardConfig;
use crate::nn::init::InitConfig;
use crate::nn::norm::NormConfig;
use crate::nn::position::PositionConfig;
use crate::stack::NormPlacement;
use crate::task::TaskConfig;
use crate::task::text_classification::Pooling;

const MOST_LAYERS: usize = 10_000;
const MOST_SEGMENTS: usize = 1024;
const MOST_HEADS: usize = 4096;
/// Of any vector inside a model.
pub(super) const WIDEST: usize = 1 << 24;
/// Positions of any table or input.
pub(super) const LONGEST: usize = 1 << 24;

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
    }
    if let Some(keys) = model.keys() {
        transformer(sense, &keys, context);
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

fn encoder(sense: &mut Sense, c: &EncoderConfig) {
    if c.segments > MOST_SEGMENTS {
        let rule = format!("segments = {} is more than {MOST_SEGMENTS}", c.segments);
        sense.fault(&["model.segments"], rule);
    }
    let task = &sense.loaded.experiment.task;
    let pooled = match task {
        TaskConfig::MaskedLm(task) => task.pairs != Pairs::None,
        TaskConfig::TextClassification(task) => task.pooling == Pooling::First,
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
fn transformer(sense: &mut Sense, c: &Keys, context: Option<usize>) {
    for (key, layers) in c.n_layers.iter().flatten() {
        sense.count(&format!("model.{key}"), *layers, MOST_LAYERS);
    }
    let width = sense.count("model.d_model", c.d_model, WIDEST);
    norm(sense, "model.norm", c.norm);
    placement(sense, c);
    dropouts(sense, c);
    feed_forward(sense, c.feed_forward);
    match c.init {
        InitConfig::Gpt2(i) => sense.positive("model.init.std", i.std),
        InitConfig::Xavier(i) => {
            sense.positive("model.init.gain", i.gain);
            sense.positive("model.init.embedding_std", i.embedding_std);
        }
        InitConfig::TruncatedNormal(i) => sense.positive("model.init.std", i.std),
    }
    for (key, rule) in c.attention.faults() {
        sense.fault(&[&format!("model.attention.{key}")], rule);
    }
    let heads = multi_head(sense, &c.attention.heads(), width.then_some(c.d_model));
    position::check(sense, c.position, heads, context);
    if let PositionConfig::Sinusoidal2d(_) = c.position {
        images::grid_positions(sense, c.d_model);
    }
}

fn norm(sense: &mut Sense, key: &str, norm: &NormConfig) {
    match norm {
        NormConfig::Layer(c) => sense.positive(&format!("{key}.eps"), c.eps),
        NormConfig::Rms(c) => sense.positive(&format!("{key}.eps"), c.eps),
        NormConfig::None(_) => {}
    }
}

/// Norms that contradict their place.
fn placement(sense: &mut Sense, c: &Keys) {
    let placed = match c.norm_placement {
        NormPlacement::Pre | NormPlacement::Parallel => None,
        NormPlacement::Post => Some("post"),
        NormPlacement::Sandwich => Some("sandwich"),
        NormPlacement::Deepnorm => Some("deepnorm"),
    };
    if let NormConfig::None(_) = c.norm {
        if let Some(name) = placed {
            sense.fault(
                &["model.norm_placement", "model.norm.kind"],
                format!("norm_placement = \"{name}\" places norms, but norm is \"none\"; use \"pre\" or another norm"),
            );
        }
        for (key, set) in [
            ("model.final_norm", c.final_norm == Some(true)),
            ("model.embedding_norm", c.embedding_norm),
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

fn dropouts(sense: &mut Sense, c: &Keys) {
    let [embedding, attention, residual] = c.own_dropouts;
    let own = [
        ("model.dropout_embedding", embedding),
        ("model.dropout_attention", attention),
        ("model.dropout_residual", residual),
    ];
    sense.probability("model.dropout", c.dropout);
    sense.probability("model.drop_path", c.drop_path);
    let single = c.n_layers.iter().flatten().find(|(_, layers)| *layers == 1);
    if let Some((key, _)) = single.filter(|_| c.drop_path > 0.0) {
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

fn feed_forward(sense: &mut Sense, feed_forward: &FeedForwardConfig) {
    let d_ff = match feed_forward {
        FeedForwardConfig::Dense(c) => c.d_ff,
        FeedForwardConfig::Gated(c) => c.d_ff,
    };
    sense.count("model.feed_forward.d_ff", d_ff.unwrap_or(1), WIDEST);
}

/// Returns the width of a head, when it has one.
fn multi_head(sense: &mut Sense, c: &MultiHeadConfig, d_model: Option<usize>) -> Option<usize> {
    let key = |name: &str| format!("model.attention.{name}");
    norm(sense, &key("qk_norm"), &c.qk_norm);
    if let Some(cap) = c.softcap {
        sense.positive(&key("softcap"), cap);
    }
    if let Some(scale) = c.scale {
        sense.positive(&key("scale"), scale);
    }
    let heads = sense.count(&key("n_heads"), c.n_heads, MOST_HEADS);
    let kv = sense.count(&key("n_kv_heads"), c.n_kv_heads.unwrap_or(1), MOST_HEADS);
    let head = sense.count(&key("d_head"), c.d_head.unwrap_or(1), WIDEST);
    if !heads {
        return None;
    }
    if kv && !c.n_heads.is_multiple_of(c.n_kv_heads()) {
        sense.fault(
            &[&key("n_heads"), &key("n_kv_heads")],
            format!(
                "n_heads = {} is not a multiple of n_kv_heads = {}",
                c.n_heads,
                c.n_kv_heads()
            ),
        );
    }
    let d_model = d_model?;
    if c.d_head.is_none() && !d_model.is_multiple_of(c.n_heads) {
        sense.fault(
            &["model.d_model", &key("n_heads")],
            format!(
                "d_model = {d_model} is not a multiple of [model.attention] n_heads = {}; change one, or give d_head",
                c.n_heads
            ),
        );
        return None;
    }
    head.then(|| c.d_head(d_model))
}
