//! Names of Formwork's parameters in the oracles of encoders and encoder-decoders.

use formwork::interop::rename::{Fused, Orientation, Table};

/// Pairs of torch's layer names and Formwork's.
type Pairs<'a> = &'a [(&'a str, &'a str)];

fn linears(table: &mut Table, theirs: &str, ours: &str, pairs: Pairs) {
    for (name, path) in pairs {
        let path = format!("{ours}.{path}");
        table.linear(&format!("{theirs}.{name}"), &path, Orientation::OutIn);
    }
}

fn norms(table: &mut Table, theirs: &str, ours: &str, pairs: Pairs) {
    for (name, path) in pairs {
        table.norm(&format!("{theirs}.{name}"), &format!("{ours}.{path}.norm"));
    }
}

/// The encoder of BERT or RoBERTa (`body` is its prefix) in a [`formwork::task::MaskedLm`].
fn bert_body(body: &str, layers: usize) -> Table {
    let mut table = Table::new("");
    let embeddings = format!("{body}.embeddings");
    for (name, path) in [
        ("word_embeddings", "model.embedding.weight"),
        ("position_embeddings", "model.position.table"),
        ("token_type_embeddings", "model.segments"),
    ] {
        table.same(format!("{embeddings}.{name}.weight"), path);
    }
    table.norm(&format!("{embeddings}.LayerNorm"), "model.embedding_norm");
    bert_layers(&mut table, body, "model", layers);
    table
}

/// The blocks of BERT, in Formwork's `stack` below `root`.
fn bert_layers(table: &mut Table, body: &str, root: &str, layers: usize) {
    for layer in 0..layers {
        let theirs = format!("{body}.encoder.layer.{layer}");
        let ours = format!("{root}.stack.blocks.{layer}");
        let both = [
            ("attention.self.query", "attention.query"),
            ("attention.self.key", "attention.key"),
            ("attention.self.value", "attention.value"),
            ("attention.output.dense", "attention.output"),
            ("intermediate.dense", "feed_forward.up"),
            ("output.dense", "feed_forward.down"),
        ];
        linears(table, &theirs, &ours, &both);
        let both = [
            ("attention.output.LayerNorm", "attention_residual"),
            ("output.LayerNorm", "feed_forward_residual"),
        ];
        norms(table, &theirs, &ours, &both);
    }
}

/// HF's `ElectraForPreTraining` and `ElectraForMaskedLM` with shared embeddings, as a [`formwork::task::ReplacedToken`].
pub fn replaced_token(layers: usize) -> Table {
    let (told, guessed) = ("discriminator.electra", "generator.electra");
    let mut table = bert_body(told, layers);
    bert_layers(&mut table, guessed, "generator.network", layers);
    let predictions = "discriminator.discriminator_predictions";
    for (theirs, ours) in [
        (format!("{told}.embeddings_project"), "model.projection"),
        (format!("{predictions}.dense"), "head.dense"),
        (format!("{predictions}.dense_prediction"), "head.product"),
        (
            format!("{guessed}.embeddings_project"),
            "generator.network.projection",
        ),
        (
            "generator.generator_predictions.dense".into(),
            "generator.head.transform",
        ),
    ] {
        table.linear(&theirs, ours, Orientation::OutIn);
    }
    let norm = "generator.generator_predictions.LayerNorm";
    table.norm(norm, "generator.head.norm");
    table.same("generator.generator_lm_head.bias", "generator.head.bias");
    table
}

/// HF's `BertForPreTraining` as a [`formwork::task::MaskedLm`].
pub fn bert(layers: usize) -> Table {
    with_bert_heads(layers, "bert.pooler.dense")
}

fn with_bert_heads(layers: usize, pooler: &str) -> Table {
    with_heads(bert_body("bert", layers), pooler)
}

/// The embeddings and the heads of a class that has BERT's under its own name.
pub fn kin_of_bert(body: &str) -> Table {
    with_heads(bert_body(body, 0), &format!("{body}.pooler.dense"))
}

fn with_heads(mut table: Table, pooler: &str) -> Table {
    table.linear(pooler, "model.pooler", Orientation::OutIn);
    let transform = "cls.predictions.transform";
    table.linear(
        &format!("{transform}.dense"),
        "head.transform",
        Orientation::OutIn,
    );
    table.norm(&format!("{transform}.LayerNorm"), "head.norm");
    table.same("cls.predictions.bias", "head.bias");
    table.linear("cls.seq_relationship", "pair_head", Orientation::OutIn);
    table
}

/// HF's `BigBirdForPreTraining` as a [`formwork::task::MaskedLm`].
pub fn big_bird(layers: usize) -> Table {
    with_bert_heads(layers, "bert.pooler")
}

/// HF's `RoFormerForMaskedLM` as a [`formwork::task::MaskedLm`].
pub fn roformer(layers: usize) -> Table {
    let mut table = bert_body("roformer", layers);
    for (theirs, ours) in [
        ("roformer.embeddings_project", "model.projection"),
        ("cls.predictions.transform.dense", "head.transform"),
    ] {
        table.linear(theirs, ours, Orientation::OutIn);
    }
    table.norm("cls.predictions.transform.LayerNorm", "head.norm");
    table.same("cls.predictions.bias", "head.bias");
    table
}

/// HF's `AlbertForPreTraining` as a [`formwork::task::MaskedLm`]; `blocks` are Formwork's blocks that have parameters, each
/// with its group and inner layer.
pub fn albert(blocks: &[(usize, [usize; 2])]) -> Table {
    let mut table = bert_body("albert", 0);
    for (block, [group, inner]) in blocks {
        let theirs = format!("albert.encoder.albert_layer_groups.{group}.albert_layers.{inner}");
        let ours = format!("model.stack.blocks.{block}");
        let both = [
            ("attention.query", "attention.query"),
            ("attention.key", "attention.key"),
            ("attention.value", "attention.value"),
            ("attention.dense", "attention.output"),
            ("ffn", "feed_forward.up"),
            ("ffn_output", "feed_forward.down"),
        ];
        linears(&mut table, &theirs, &ours, &both);
        let both = [
            ("attention.LayerNorm", "attention_residual"),
            ("full_layer_layer_norm", "feed_forward_residual"),
        ];
        norms(&mut table, &theirs, &ours, &both);
    }
    for (theirs, ours) in [
        (
            "albert.encoder.embedding_hidden_mapping_in",
            "model.projection",
        ),
        ("albert.pooler", "model.pooler"),
        ("predictions.dense", "head.transform"),
        ("sop_classifier.classifier", "pair_head"),
    ] {
        table.linear(theirs, ours, Orientation::OutIn);
    }
    table.norm("predictions.LayerNorm", "head.norm");
    table.same("predictions.bias", "head.bias");
    table
}

/// HF's `RobertaForMaskedLM` as a [`formwork::task::MaskedLm`].
pub fn roberta(layers: usize) -> Table {
    let mut table = bert_body("roberta", layers);
    table.linear("lm_head.dense", "head.transform", Orientation::OutIn);
    table.norm("lm_head.layer_norm", "head.norm");
    table.same("lm_head.bias", "head.bias");
    table
}

/// Torch's `nn.Transformer` between shared embeddings as a [`formwork::model::EncoderDecoder`], whose path is `root`.
pub fn transformer(root: &str, layers: usize, heads: usize, d_model: usize) -> Table {
    let mut table = Table::new("");
    table.same("embedding.weight", format!("{root}embedding.weight"));
    let fused = Fused {
        groups: 1,
        query: heads,
        key_value: heads,
        d_head: d_model / heads,
    };
    for side in ["encoder", "decoder"] {
        let theirs = format!("transformer.{side}");
        let stack = format!("{root}{side}.stack");
        for layer in 0..layers {
            let theirs = format!("{theirs}.layers.{layer}");
            let ours = format!("{stack}.blocks.{layer}");
            let both = [
                ("linear1", "feed_forward.up"),
                ("linear2", "feed_forward.down"),
            ];
            linears(&mut table, &theirs, &ours, &both);
            let attentions: Pairs = match side {
                "encoder" => &[("self_attn", "attention")],
                _ => &[
                    ("self_attn", "attention"),
                    ("multihead_attn", "cross.attention"),
                ],
            };
            for (name, path) in attentions {
                let (theirs, path) = (format!("{theirs}.{name}"), format!("{ours}.{path}"));
                table.fused(
                    &format!("{theirs}.in_proj"),
                    &path,
                    Orientation::OutIn,
                    fused,
                );
                linears(&mut table, &theirs, &path, &[("out_proj", "output")]);
            }
            let residuals: Pairs = match side {
                "encoder" => &[
                    ("norm1", "attention_residual"),
                    ("norm2", "feed_forward_residual"),
                ],
                _ => &[
                    ("norm1", "attention_residual"),
                    ("norm2", "cross.residual"),
                    ("norm3", "feed_forward_residual"),
                ],
            };
            norms(&mut table, &theirs, &ours, residuals);
        }
        table.norm(&format!("{theirs}.norm"), &format!("{stack}.final_norm"));
    }
    for rule in &mut table.rules {
        for name in &mut rule.theirs {
            *name = name.replace("in_proj.", "in_proj_");
        }
    }
    table
}

/// HF's Marian and BART models as a [`formwork::model::EncoderDecoder`].
pub fn marian_or_bart(layers: usize) -> Table {
    let mut table = Table::new("");
    table.same("model.shared.weight", "embedding.weight");
    for side in ["encoder", "decoder"] {
        let theirs = format!("model.{side}");
        table.same(
            format!("{theirs}.embed_positions.weight"),
            format!("{side}.position.table"),
        );
        table.norm(
            &format!("{theirs}.layernorm_embedding"),
            &format!("{side}.embedding_norm"),
        );
        for layer in 0..layers {
            let theirs = format!("{theirs}.layers.{layer}");
            let ours = format!("{side}.stack.blocks.{layer}");
            let both = [("fc1", "feed_forward.up"), ("fc2", "feed_forward.down")];
            linears(&mut table, &theirs, &ours, &both);
            let attentions: Pairs = match side {
                "encoder" => &[("self_attn", "attention")],
                _ => &[
                    ("self_attn", "attention"),
                    ("encoder_attn", "cross.attention"),
                ],
            };
            for (name, path) in attentions {
                let both = [
                    ("q_proj", "query"),
                    ("k_proj", "key"),
                    ("v_proj", "value"),
                    ("out_proj", "output"),
                ];
                let path = format!("{ours}.{path}");
                linears(&mut table, &format!("{theirs}.{name}"), &path, &both);
            }
            let both = [
                ("self_attn_layer_norm", "attention_residual"),
                ("encoder_attn_layer_norm", "cross.residual"),
                ("final_layer_norm", "feed_forward_residual"),
            ];
            norms(&mut table, &theirs, &ours, &both);
        }
    }
    table
}

/// HF's `T5ForConditionalGeneration` as a [`formwork::model::EncoderDecoder`].
pub fn t5(layers: usize) -> Table {
    let mut table = Table::new("");
    table.same("shared.weight", "embedding.weight");
    for side in ["encoder", "decoder"] {
        table.same(
            format!("{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"),
            format!("{side}.position.table"),
        );
        table.norm(
            &format!("{side}.final_layer_norm"),
            &format!("{side}.stack.final_norm"),
        );
        let parts: Pairs = match side {
            "encoder" => &[
                ("SelfAttention", "attention"),
                ("DenseReluDense", "feed_forward"),
            ],
            _ => &[
                ("SelfAttention", "attention"),
                ("EncDecAttention", "cross"),
                ("DenseReluDense", "feed_forward"),
            ],
        };
        for layer in 0..layers {
            let ours = format!("{side}.stack.blocks.{layer}");
            for (number, (name, part)) in parts.iter().enumerate() {
                let theirs = format!("{side}.block.{layer}.layer.{number}");
                let (path, residual, both): (_, _, Pairs) = match *part {
                    "feed_forward" => (
                        "feed_forward",
                        "feed_forward_residual",
                        &[("wi", "up"), ("wo", "down")],
                    ),
                    "cross" => ("cross.attention", "cross.residual", T5_ATTENTION),
                    _ => ("attention", "attention_residual", T5_ATTENTION),
                };
                let path = format!("{ours}.{path}");
                linears(&mut table, &format!("{theirs}.{name}"), &path, both);
                let norm = format!("{ours}.{residual}.norm");
                table.norm(&format!("{theirs}.layer_norm"), &norm);
            }
        }
    }
    table
}

const T5_ATTENTION: Pairs = &[
    ("q", "query"),
    ("k", "key"),
    ("v", "value"),
    ("o", "output"),
];
