//! ALBERT (Lan et al. 2019): BERT with embeddings narrower than its blocks and layers that share their parameters, for
//! masked tokens, for masked tokens and sentence order, or for classes of texts.
//!
//! HF divides `num_hidden_layers` steps into `num_hidden_groups` groups of consecutive steps. Each step applies the
//! `inner_group_num` layers of its group, so that the stack has `num_hidden_layers · inner_group_num` blocks.

use super::stack_summary::{positions, summarize};
use super::{Family, HfShape, bert, text_heads};
use crate::data::Shape;
use crate::data::masked::masking::{MaskingConfig, Pairs, Unit};
use crate::interop::HfConfig;
use crate::interop::rename::{Orientation, Table};
use crate::model::{EncoderConfig, ModelConfig};
use crate::nn::position::PositionConfig;
use crate::nn::position::learned::LearnedConfig;
use crate::stack::ShareConfig;
use crate::stack::sharing::SharedBy;
use crate::task::{MaskedLmConfig, TaskConfig};
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "albert",
    summary: "ALBERT: BERT with shared layers and narrow embeddings",
    read,
    write,
    table,
    declined: None,
};

fn read(hf: &HfConfig) -> HfShape {
    hf.only("position_embedding_type", "absolute");
    let context = hf.count(&["max_position_embeddings"], 512);
    let vocab_size = hf.count(&["vocab_size"], 30_000);
    let mut config = encoder(hf, context);
    let mut shape = Shape::of_text(context, vocab_size);
    let task = task(hf, &mut config, &mut shape);
    HfShape {
        model: ModelConfig::Encoder(config),
        task,
        shape,
    }
}

/// The number of blocks, and how they share parameters.
fn layers(hf: &HfConfig) -> (usize, ShareConfig) {
    let steps = hf.count(&["num_hidden_layers"], 12);
    let groups = hf.count(&["num_hidden_groups"], 1);
    let cycle = hf.count(&["inner_group_num"], 1);
    if groups == 0 || cycle == 0 || !steps.is_multiple_of(groups) {
        hf.fault(format!(
            "`num_hidden_layers` = {steps} is not a multiple of `num_hidden_groups` = {groups} of `inner_group_num` = \
             {cycle} layers"
        ));
        return (steps, ShareConfig::default());
    }
    let share = match steps == groups && cycle == 1 {
        true => ShareConfig::default(),
        false => ShareConfig::All(SharedBy { groups, cycle }),
    };
    (steps.saturating_mul(cycle), share)
}

fn encoder(hf: &HfConfig, context: usize) -> EncoderConfig {
    let (blocks, share_layers) = layers(hf);
    let usual = bert::Defaults {
        activation: "gelu_new",
        dropout: 0.0,
        ..bert::Defaults::of([4096, 64, 16_384])
    };
    let mut config = EncoderConfig {
        n_layers: Some(blocks),
        // The class has this projection even if the widths are equal.
        d_embedding: Some(hf.count(&["embedding_size"], 128)),
        segments: hf.count(&["type_vocab_size"], 2),
        ..bert::post_norm(hf, &usual)
    };
    config.stack.share_layers = share_layers;
    config.stack.position = PositionConfig::Learned(LearnedConfig {
        max_len: Some(context),
        ..LearnedConfig::default()
    });
    config
}

/// The task of the class; sets the pooler and the classes that it needs.
fn task(hf: &HfConfig, config: &mut EncoderConfig, shape: &mut Shape) -> TaskConfig {
    let masked = |pairs| {
        TaskConfig::MaskedLm(MaskedLmConfig {
            masking: MaskingConfig {
                unit: Unit::Ngram,
                ..MaskingConfig::default()
            },
            pairs,
            ..MaskedLmConfig::default()
        })
    };
    let class = hf.architecture().unwrap_or_default();
    let ending = text_heads::ending_of(class, "Albert");
    let dropout = hf.real("classifier_dropout_prob", 0.1);
    if let Some(task) = text_heads::task(hf, ending, dropout, config, shape) {
        return task;
    }
    match class {
        "AlbertForMaskedLM" => masked(Pairs::None),
        "AlbertForPreTraining" => {
            config.pooler = true;
            masked(Pairs::SentenceOrder)
        }
        _ => {
            hf.fault(format!(
                "`architectures` = [\"{class}\"] has no head that can be imported; the classes with one are AlbertForMaskedLM, \
                 AlbertForPreTraining, AlbertForSequenceClassification, AlbertForTokenClassification and \
                 AlbertForQuestionAnswering"
            ));
            masked(Pairs::None)
        }
    }
}

fn write(of: &HfShape) -> Option<Value> {
    let config = of.encoder_if_any()?;
    let plain = summarize(&config.stack, &config.depth())?;
    let class = match (&of.task, text_heads::ending(&of.task)) {
        (_, Some(ending)) => ending,
        (TaskConfig::MaskedLm(c), None) => match c.pairs {
            Pairs::None => "ForMaskedLM",
            Pairs::SentenceOrder => "ForPreTraining",
            Pairs::NextSentence => return None,
        },
        (_, None) => return None,
    };
    let by = match config.stack.share_layers {
        ShareConfig::All(by) => by,
        ShareConfig::None(_) => SharedBy {
            groups: plain.layers,
            cycle: 1,
        },
        ShareConfig::Attention(_) | ShareConfig::FeedForward(_) => return None,
    };
    let mut written = json!({
        "architectures": [format!("Albert{class}")],
        "vocab_size": of.shape.vocab_size,
        "embedding_size": config.d_embedding?,
        "hidden_size": config.stack.d_model,
        "num_hidden_layers": plain.layers / by.cycle.max(1),
        "num_hidden_groups": by.groups,
        "inner_group_num": by.cycle,
        "num_attention_heads": plain.heads.n_heads,
        "intermediate_size": plain.d_ff,
        "hidden_act": plain.activation,
        "type_vocab_size": config.segments,
        "layer_norm_eps": plain.eps,
        "max_position_embeddings": positions(&config.stack, of.shape.context),
        "tie_word_embeddings": config.tie_embeddings,
        "hidden_dropout_prob": plain.dropout.residual,
        "attention_probs_dropout_prob": plain.dropout.attention,
    });
    if let Some(dropout) = text_heads::dropout(&of.task) {
        written["classifier_dropout_prob"] = json!(dropout);
    }
    text_heads::write(&mut written, of);
    Some(written)
}

fn table(of: &HfShape) -> Table {
    let config = of.encoder();
    let mut table = Table::new("albert.");
    add_embeddings(&mut table);
    for (layer, theirs) in owned(config) {
        let ours = format!("model.stack.blocks.{layer}");
        table.linears(
            &theirs,
            &ours,
            &[
                ("attention.query", "attention.query"),
                ("attention.key", "attention.key"),
                ("attention.value", "attention.value"),
                ("attention.dense", "attention.output"),
                ("ffn", "feed_forward.up"),
                ("ffn_output", "feed_forward.down"),
            ],
        );
        table.norms(
            &theirs,
            &ours,
            &[
                ("attention.LayerNorm", "attention_residual.norm"),
                ("full_layer_layer_norm", "feed_forward_residual.norm"),
            ],
        );
    }
    if !text_heads::is_sequence_task(&of.task) {
        table.ignored.push("albert.pooler.weight");
        table.ignored.push("albert.pooler.bias");
    }
    if text_heads::add(&mut table, &of.task, ["albert.pooler", "classifier"]) {
        return table;
    }
    table.linear("albert.pooler", "model.pooler", Orientation::OutIn);
    table.linear("predictions.dense", "head.transform", Orientation::OutIn);
    table.norm("predictions.LayerNorm", "head.norm");
    table.same("predictions.bias", "head.bias");
    let order = "sop_classifier.classifier";
    table.linear(order, "pair_head", Orientation::OutIn);
    if config.tie_embeddings {
        table.ignored.push("predictions.decoder.weight");
        table.ignored.push("predictions.decoder.bias");
    } else {
        bert::add_untied(&mut table, "predictions.decoder", "predictions");
        table.ignored.push("predictions.bias");
    }
    // Released files may have these tensors even if their class does not use them.
    table.ignored.extend([
        "sop_classifier.classifier.weight",
        "sop_classifier.classifier.bias",
        "albert.pooler.weight",
        "albert.pooler.bias",
    ]);
    table
}

fn add_embeddings(table: &mut Table) {
    bert::add_embeddings(table, "albert.embeddings");
    let projection = "albert.encoder.embedding_hidden_mapping_in";
    table.linear(projection, "model.projection", Orientation::OutIn);
    table.ignored = vec!["embeddings.position_ids"];
}

/// The layers that own parameters, with HF's names of these layers.
fn owned(config: &EncoderConfig) -> impl Iterator<Item = (usize, String)> {
    let layers = config.n_layers();
    let share = config.stack.share_layers;
    let owners = share.owners(layers);
    let of_group = layers
        / share
            .groups_and_cycle()
            .map_or(layers, |by| by.groups)
            .max(1);
    let owned = (0..layers).filter(move |layer| owners.mixer_owner(*layer) == *layer);
    owned.map(move |layer| {
        let (group, inner) = (layer / of_group, layer % of_group);
        let name = format!("albert.encoder.albert_layer_groups.{group}.albert_layers.{inner}");
        (layer, name)
    })
}
