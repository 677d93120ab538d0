//! The table of wav2vec 2.0 and HuBERT. The weights of convolutional positions are stored as a direction and a length, under the
//! names of PyTorch's weight norm since version 2; files of earlier versions call them `weight_v` and `weight_g`.

use super::wav2vec2::network;
use super::{HfShape, bart};
use crate::interop::rename::{Orientation, Table};
use crate::model::SpeechEncoderConfig;
use crate::model::speech_encoder::FeatureNorm;
use crate::task::{ContrastiveSpeechConfig, TaskConfig};

/// The parameters that only training without transcripts has.
const PRETRAINING: [&str; 7] = [
    "project_q.weight",
    "project_q.bias",
    "project_hid.weight",
    "project_hid.bias",
    "quantizer.codevectors",
    "quantizer.weight_proj.weight",
    "quantizer.weight_proj.bias",
];

/// The table of a model whose names begin with `body`.
pub(super) fn table(of: &HfShape, body: &'static str) -> Table {
    let Some(config) = network(of) else {
        unreachable!("the family reads encoders of samples alone")
    };
    let features = &config.features;
    let mut table = Table::new(body);
    let mut inputs = 1;
    for (number, (width, size)) in features.widths.iter().zip(&features.sizes).enumerate() {
        let theirs = format!("{body}feature_extractor.conv_layers.{number}");
        let ours = format!("model.features.convolutions.{number}");
        table.reshaped(
            format!("{theirs}.conv.weight"),
            format!("{ours}.weight"),
            vec![*width, inputs, *size],
        );
        table.same(format!("{theirs}.conv.bias"), format!("{ours}.bias"));
        let norm = match features.norm {
            FeatureNorm::First if number == 0 => "model.features.over_frames".to_owned(),
            _ => format!("model.features.norms.{number}"),
        };
        table.norm(&format!("{theirs}.layer_norm"), &norm);
        inputs = *width;
    }
    let projection = format!("{body}feature_projection");
    table.norm(&format!("{projection}.layer_norm"), "model.projection_norm");
    table.linears(&projection, "model", &[("projection", "projection")]);
    masked(&mut table, config, body);
    let (theirs, ours) = (
        format!("{body}encoder.pos_conv_embed.conv"),
        "model.convolutional_positions",
    );
    let size = config
        .convolutional_positions
        .as_ref()
        .map_or(1, |p| p.size);
    let weight = format!("{theirs}.parametrizations.weight");
    let length = format!("{ours}.length");
    table.reshaped(format!("{weight}.original0"), length, vec![1, 1, size]);
    table.same(format!("{weight}.original1"), format!("{ours}.direction"));
    table.same(format!("{theirs}.bias"), format!("{ours}.bias"));
    let norm = match config.embedding_norm {
        true => "model.encoder.embedding_norm",
        false => "model.encoder.stack.final_norm",
    };
    table.norm(&format!("{body}encoder.layer_norm"), norm);
    for block in 0..config.depth().blocks() {
        let theirs = format!("{body}encoder.layers.{block}");
        let ours = format!("model.encoder.stack.blocks.{block}");
        let attention = format!("{theirs}.attention");
        table.linears(&attention, &format!("{ours}.attention"), bart::ATTENTION);
        let mlp = [("intermediate_dense", "up"), ("output_dense", "down")];
        table.linears(
            &format!("{theirs}.feed_forward"),
            &format!("{ours}.feed_forward"),
            &mlp,
        );
        let norms = [
            ("layer_norm", "attention_residual.norm"),
            ("final_layer_norm", "feed_forward_residual.norm"),
        ];
        table.norms(&theirs, &ours, &norms);
    }
    if let TaskConfig::ContrastiveSpeech(task) = &of.task {
        codebooks(&mut table, task);
    } else {
        table.linear("lm_head", "model.head", Orientation::OutIn);
        table.ignored.extend(PRETRAINING);
    }
    table.aliases(&[
        ("parametrizations.weight.original0", "weight_g"),
        ("parametrizations.weight.original1", "weight_v"),
    ]);
    table.optional = vec!["model.head.", "model.mask_vector"];
    table
}

/// Adds the codebooks, and the maps into the space where codes and hidden states are compared.
fn codebooks(table: &mut Table, task: &ContrastiveSpeechConfig) {
    let width = task.d_code / task.codebooks.max(1);
    table.reshaped(
        "quantizer.codevectors".to_owned(),
        "contrastive_head.entries".to_owned(),
        vec![1, task.codebooks * task.entries, width],
    );
    for (theirs, ours) in [
        ("quantizer.weight_proj", "scores"),
        ("project_q", "codes"),
        ("project_hid", "states"),
    ] {
        let ours = format!("contrastive_head.{ours}");
        table.linear(theirs, &ours, Orientation::OutIn);
    }
}

/// Adds the vector of masked frames: the class has one if anything is masked.
fn masked(table: &mut Table, config: &SpeechEncoderConfig, body: &str) {
    let name = format!("{body}masked_spec_embed");
    if config.masks.time_share > 0.0 {
        return table.same(name, "model.mask_vector");
    }
    table.ignored.push("masked_spec_embed");
    if config.masks.channel_share > 0.0 {
        let d = config.stack.d_model;
        table.constant(name, vec![d], true, move || vec![0.0; d]);
    }
}
