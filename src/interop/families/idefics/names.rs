//! The table between HF's names and our paths of the parameters of Idefics.

use super::parts;
use crate::interop::families::{HfShape, clip, llama};
use crate::interop::rename::Table;
use crate::model::vision::StemConfig;
use crate::model::{ModelConfig, VisionConfig};

/// The table of a model of this shape.
pub(super) fn table(of: &HfShape) -> Table {
    let Some((model, image, text)) = parts(of) else {
        unreachable!("the family reads a vision transformer and a decoder that looks at it")
    };
    let alone = HfShape {
        model: ModelConfig::Decoder(text.clone()),
        ..of.clone()
    };
    let mut table = llama::table(&alone).below("model.").within("model.text.");
    table.prefix = "";
    add_image(&mut table, image, of);
    let latents = "model.perceiver_resampler";
    for layer in 0..model.resampler.as_ref().map_or(0, |c| c.n_layers) {
        let [attention, feed_forward] =
            [0, 1].map(|part| format!("{latents}.blocks.{layer}.{part}"));
        let ours = format!("model.resampler.layers.{layer}");
        table.norm(
            &format!("{attention}.context_layer_norm"),
            &format!("{ours}.image_norm"),
        );
        table.norms(
            &attention,
            &ours,
            &[
                ("latents_layer_norm", "attention_residual.norm"),
                ("q_layer_norm", "attention.query_norm"),
                ("k_layer_norm", "attention.key_norm"),
            ],
        );
        table.linears(
            &attention,
            &ours,
            &[
                ("q_proj", "attention.query"),
                ("k_proj", "attention.key"),
                ("v_proj", "attention.value"),
                ("output_proj", "attention.output"),
            ],
        );
        let norm = format!("{ours}.feed_forward_residual.norm");
        table.norm(&format!("{feed_forward}.ln"), &norm);
        table.linears(
            &feed_forward,
            &ours,
            &[("fc", "feed_forward.up"), ("c_proj", "feed_forward.down")],
        );
    }
    table.same(format!("{latents}.latents"), "model.resampler.latents");
    table.norm(
        &format!("{latents}.layer_norm"),
        "model.resampler.final_norm",
    );
    for number in 0..text.n_layers().div_ceil(model.cross_attention.every.max(1)) {
        add_cross(&mut table, number);
    }
    table
}

/// Adds the image network.
fn add_image(table: &mut Table, image: &VisionConfig, of: &HfShape) {
    let size = match &image.stem {
        StemConfig::Patches(patches) => patches.size,
        StemConfig::Resnet(_) => unreachable!("the family has patches"),
    };
    let ([channels, ..], width) = (of.shape.image.unwrap_or_default(), image.stack.d_model);
    let (theirs, ours) = ("model.vision_model", "model.image");
    let embeddings = format!("{theirs}.embeddings");
    table.same(
        format!("{embeddings}.class_embedding"),
        format!("{ours}.class_token"),
    );
    table.same(
        format!("{embeddings}.position_embedding.weight"),
        format!("{ours}.position.table"),
    );
    table.reshaped(
        format!("{embeddings}.patch_embedding.weight"),
        format!("{ours}.stem.projection.weight"),
        vec![width, channels, size, size],
    );
    table.norm(
        &format!("{theirs}.pre_layrnorm"),
        &format!("{ours}.embedding_norm"),
    );
    clip::add_blocks(table, [theirs, ours], image.depth().blocks());
    // The norm of the whole image's vector, which no class uses.
    for (name, value) in [("weight", 1.0), ("bias", 0.0)] {
        let name = format!("{theirs}.post_layernorm.{name}");
        table.constant(name, vec![width], true, move || vec![value; width]);
    }
    table.ignored.extend([
        "vision_model.post_layernorm.weight",
        "vision_model.post_layernorm.bias",
        ".position_ids",
    ]);
}

/// Adds a gated cross-attention block.
fn add_cross(table: &mut Table, number: usize) {
    let theirs = format!("model.gated_cross_attn_layers.{number}");
    let ours = format!("model.cross.{number}");
    table.linears(
        &theirs,
        &ours,
        &[
            ("cross_attn.q_proj", "attention.query"),
            ("cross_attn.k_proj", "attention.key"),
            ("cross_attn.v_proj", "attention.value"),
            ("cross_attn.o_proj", "attention.output"),
            ("mlp.gate_proj", "feed_forward.gate"),
            ("mlp.up_proj", "feed_forward.up"),
            ("mlp.down_proj", "feed_forward.down"),
        ],
    );
    table.norms(
        &theirs,
        &ours,
        &[
            ("input_layernorm", "attention_residual.norm"),
            ("post_attention_layernorm", "feed_forward_residual.norm"),
            ("cross_attn.q_layer_norm", "attention.query_norm"),
            ("cross_attn.k_layer_norm", "attention.key_norm"),
        ],
    );
    for (name, path) in [
        ("alpha_cross_attn", "attention_gate"),
        ("alpha_dense", "feed_forward_gate"),
    ] {
        table.same(format!("{theirs}.{name}"), format!("{ours}.{path}"));
    }
}
