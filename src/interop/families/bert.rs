//! BERT (Devlin et al. 2018): a post-norm encoder with learned positions and segments, for masked tokens, for masked
//! tokens and next sentences, for classification or regression of texts, or for tags of tokens.

use super::stack_summary::{positions, summarize};
use super::{Family, HfShape, layer_norm, text_heads};
use crate::data::Shape;
use crate::data::masked::masking::Pairs;
use crate::interop::HfConfig;
use crate::interop::rename::{Orientation, Table};
use crate::model::{EncoderConfig, ModelConfig};
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::multi_head::MultiHeadConfig;
use crate::nn::feed_forward::{Activation, DenseConfig, FeedForwardConfig};
use crate::nn::position::PositionConfig;
use crate::nn::position::learned::LearnedConfig;
use crate::stack::{NormPlacement, StackConfig};
use crate::task::{MaskedLmConfig, TaskConfig};
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "bert",
    summary: "BERT: post-norm encoder, learned positions, segments",
    read,
    write,
    table,
    declined: None,
};

fn read(hf: &HfConfig) -> HfShape {
    hf.only("position_embedding_type", "absolute");
    let context = hf.count(&["max_position_embeddings"], 512);
    let mut config = config(hf);
    config.stack.position = PositionConfig::Learned(LearnedConfig {
        max_len: Some(context),
        ..LearnedConfig::default()
    });
    let vocab_size = hf.count(&["vocab_size"], 30522);
    shape(hf, "Bert", config, Shape::of_text(context, vocab_size))
}

/// The encoder of BERT and related families, without positions.
pub(super) fn config(hf: &HfConfig) -> EncoderConfig {
    sized(hf, [12, 768, 12, 3072])
}

/// Same as [`config`], with the class's default number of layers, width, number of heads and inner width.
pub(super) fn sized(hf: &HfConfig, usual: [usize; 4]) -> EncoderConfig {
    let [layers, d_model, n_heads, d_ff] = usual;
    hf.only("is_decoder", false);
    hf.only("add_cross_attention", false);
    EncoderConfig {
        n_layers: Some(hf.count(&["num_hidden_layers"], layers)),
        segments: hf.count(&["type_vocab_size"], 2),
        ..post_norm(hf, &Defaults::of([d_model, n_heads, d_ff]))
    }
}

/// The default values of a class.
pub(super) struct Defaults {
    /// Width, number of heads and inner width.
    pub sizes: [usize; 3],
    /// Activation of feed-forward layers and of the head.
    pub activation: &'static str,
    /// Epsilon of norms.
    pub eps: f64,
    /// Dropout of layer outputs and of attention weights.
    pub dropout: f64,
}

impl Defaults {
    /// BERT's defaults with these sizes.
    pub fn of(sizes: [usize; 3]) -> Self {
        Self {
            sizes,
            activation: "gelu",
            eps: 1e-12,
            dropout: 0.1,
        }
    }
}

/// A post-norm encoder without positions; its family sets the numbers of blocks and segments.
pub(super) fn post_norm(hf: &HfConfig, usual: &Defaults) -> EncoderConfig {
    let activation = hf.activation("hidden_act", usual.activation);
    let [d_model, n_heads, d_ff] = usual.sizes;
    EncoderConfig {
        embedding_norm: true,
        tie_embeddings: hf.flag("tie_word_embeddings", true),
        head_activation: activation,
        stack: StackConfig {
            attention: AttentionConfig::MultiHead(MultiHeadConfig {
                n_heads: hf.count(&["num_attention_heads"], n_heads),
                ..MultiHeadConfig::default()
            }),
            feed_forward: FeedForwardConfig::Dense(DenseConfig {
                d_ff: Some(hf.count(&["intermediate_size"], d_ff)),
                activation,
                bias: true,
                ..DenseConfig::default()
            }),
            dropout_attention: Some(hf.real("attention_probs_dropout_prob", usual.dropout)),
            ..post_norm_stack(hf, d_model, usual.eps, usual.dropout)
        },
        ..EncoderConfig::default()
    }
}

/// A post-norm stack of this width, without positions and layers.
pub(super) fn post_norm_stack(
    hf: &HfConfig,
    d_model: usize,
    eps: f64,
    dropout: f64,
) -> StackConfig {
    StackConfig {
        d_model: hf.count(&["hidden_size"], d_model),
        norm: layer_norm(hf.real("layer_norm_eps", eps)),
        norm_placement: NormPlacement::Post,
        dropout: hf.real("hidden_dropout_prob", dropout),
        ..StackConfig::default()
    }
}

/// The encoder with the heads of its class, such as `BertForMaskedLM`; `name` is the prefix of the family's classes.
pub(super) fn shape(
    hf: &HfConfig,
    name: &str,
    mut config: EncoderConfig,
    mut shape: Shape,
) -> HfShape {
    let unnamed = format!("{name}{}", unnamed(hf));
    let class = hf.architecture().unwrap_or(&unnamed);
    let masked = |pairs| {
        TaskConfig::MaskedLm(MaskedLmConfig {
            pairs,
            ..MaskedLmConfig::default()
        })
    };
    let ending = text_heads::ending_of(class, name);
    let dropout = hf.real("classifier_dropout", config.stack.dropout);
    let headed = text_heads::task(hf, ending, dropout, &mut config, &mut shape);
    let task = match (ending, headed) {
        (_, Some(task)) => task,
        ("ForMaskedLM", None) => masked(Pairs::None),
        ("ForPreTraining", None) if ["Bert", "BigBird", "FNet"].contains(&name) => {
            config.pooler = true;
            masked(Pairs::NextSentence)
        }
        (_, None) => {
            let others = match name {
                "Longformer" | "BigBird" => format!("{name}ForTokenClassification"),
                _ => format!("{name}ForTokenClassification and {name}ForQuestionAnswering"),
            };
            hf.fault(format!(
                "`architectures` = [\"{class}\"] has no head that can be imported; the classes with one are {name}ForMaskedLM, \
                 {name}ForSequenceClassification, {others}; {name}Model can be imported without one"
            ));
            masked(Pairs::None)
        }
    };
    HfShape {
        model: ModelConfig::Encoder(config),
        task,
        shape,
    }
}

/// The ending of the class for a file that names none: released weights have the head for masked tokens, or no head.
fn unnamed(hf: &HfConfig) -> &'static str {
    const HEADS: [&str; 5] = [
        "cls.predictions.transform.dense.weight",
        "lm_head.dense.weight",
        "vocab_transform.weight",
        "generator_predictions.dense.weight",
        "head.dense.weight",
    ];
    match hf.has_weights() && HEADS.iter().all(|head| !hf.has_tensor(head)) {
        true => "Model",
        false => "ForMaskedLM",
    }
}

/// Sets the activation of a classifier's dense layer.
pub(super) fn set_pooler(model: &mut ModelConfig, activation: Activation) {
    if let ModelConfig::Encoder(config) = model {
        config.pooler_activation = Some(activation);
    }
}

/// The output projection of a masked LM head, with its bias; if the matrix is tied, only the bias.
pub(super) fn add_product(table: &mut Table, product: &str, tied: bool) {
    match tied {
        true => table.same(format!("{product}.bias"), "head.bias"),
        false => table.linear(product, "head.product", Orientation::OutIn),
    }
}

/// The embeddings of tokens, positions and segments, with their norm.
pub(super) fn add_embeddings(table: &mut Table, embeddings: &str) {
    for (name, path) in [
        ("word_embeddings", "model.embedding.weight"),
        ("position_embeddings", "model.position.table"),
        ("token_type_embeddings", "model.segments"),
    ] {
        table.same(format!("{embeddings}.{name}.weight"), path);
    }
    table.norm(&format!("{embeddings}.LayerNorm"), "model.embedding_norm");
}

/// The embeddings and blocks of an encoder whose names begin with `body`.
pub(super) fn add_body(table: &mut Table, body: &str, config: &EncoderConfig) {
    add_embeddings(table, &format!("{body}.embeddings"));
    for layer in 0..config.n_layers() {
        let theirs = format!("{body}.encoder.layer.{layer}");
        let ours = format!("model.stack.blocks.{layer}");
        table.linears(
            &theirs,
            &ours,
            &[
                ("attention.self.query", "attention.query"),
                ("attention.self.key", "attention.key"),
                ("attention.self.value", "attention.value"),
                ("attention.output.dense", "attention.output"),
                ("intermediate.dense", "feed_forward.up"),
                ("output.dense", "feed_forward.down"),
            ],
        );
        table.norms(
            &theirs,
            &ours,
            &[
                ("attention.output.LayerNorm", "attention_residual.norm"),
                ("output.LayerNorm", "feed_forward_residual.norm"),
            ],
        );
    }
    table.ignored = vec!["embeddings.position_ids"];
}

/// The masked LM head under BERT's names.
pub(super) fn add_predictions(table: &mut Table, tied: bool) {
    let predictions = "cls.predictions";
    let transform = format!("{predictions}.transform");
    table.linear(
        &format!("{transform}.dense"),
        "head.transform",
        Orientation::OutIn,
    );
    table.norm(&format!("{transform}.LayerNorm"), "head.norm");
    table.same(format!("{predictions}.bias"), "head.bias");
    if tied {
        table.ignored.push("cls.predictions.decoder.weight");
        table.ignored.push("cls.predictions.decoder.bias");
    } else {
        add_untied(table, &format!("{predictions}.decoder"), predictions);
        table.ignored.push("cls.predictions.bias");
    }
}

/// The heads for masked tokens and for next sentences; the latter reads the output of `pooler`.
pub(super) fn add_pretraining(table: &mut Table, pooler: &str, tied: bool) {
    table.linear(pooler, "model.pooler", Orientation::OutIn);
    add_predictions(table, tied);
    table.linear("cls.seq_relationship", "pair_head", Orientation::OutIn);
    // Released files may have these tensors even if their class does not use them.
    table.ignored.push("cls.seq_relationship.weight");
    table.ignored.push("cls.seq_relationship.bias");
}

fn write(of: &HfShape) -> Option<Value> {
    write_as(of, "Bert")
}

/// The ending of the class with these heads; `name` is the prefix of the family's classes.
pub(super) fn class_ending(of: &HfShape, name: &str) -> Option<&'static str> {
    match (&of.task, text_heads::ending(&of.task)) {
        (_, Some(ending)) => Some(ending),
        (TaskConfig::MaskedLm(c), None) if c.pairs == Pairs::NextSentence => Some("ForPreTraining"),
        (TaskConfig::MaskedLm(_), None) => Some("ForMaskedLM"),
        (TaskConfig::ReplacedToken(_), None) if name == "Electra" => Some("ForPreTraining"),
        (_, None) => None,
    }
}

/// The keys that related families share with BERT; `name` is the prefix of the family's classes.
pub(super) fn write_as(of: &HfShape, name: &str) -> Option<Value> {
    let config = of.encoder_if_any()?;
    let plain = summarize(&config.stack, &config.depth())?;
    let class = class_ending(of, name)?;
    let mut written = json!({
        "architectures": [format!("{name}{class}")],
        "vocab_size": of.shape.vocab_size,
        "hidden_size": config.stack.d_model,
        "num_hidden_layers": plain.layers,
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
    text_heads::write(&mut written, of);
    Some(written)
}

/// An untied output projection onto the vocabulary, `decoder`. Its own bias is the one that counts; `of` has a copy of the
/// bias, or in some files the only one.
pub(super) fn add_untied(table: &mut Table, decoder: &str, of: &str) {
    table.linear(decoder, "head.product", Orientation::OutIn);
    let copy = format!("{of}.bias");
    table.alias(copy.clone(), "head.product.bias".into());
    table.copies.push((copy, format!("{decoder}.bias")));
}

fn table(of: &HfShape) -> Table {
    let config = of.encoder();
    let mut table = Table::new("bert.");
    add_body(&mut table, "bert", config);
    let pooler = "bert.pooler.dense";
    if !text_heads::add(&mut table, &of.task, [pooler, "classifier"]) {
        add_pretraining(&mut table, pooler, config.tie_embeddings);
    }
    if !text_heads::is_sequence_task(&of.task) {
        table.ignored.push("bert.pooler.dense.weight");
        table.ignored.push("bert.pooler.dense.bias");
    }
    table
}
