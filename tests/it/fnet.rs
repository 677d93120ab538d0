//! FNet: Fourier transforms in place of attention, against HF's class (`tests/goldens/make_fnet.py`) applied to each text
//! alone, and where the mixer is allowed.

use crate::diagnostics::{judged, says};
use crate::goldens_encoders;
use crate::names;
use formwork::data::masked::masking::Pairs;
use formwork::interop::rename::Orientation;
use formwork::model::EncoderConfig;
use formwork::nn::attention::AttentionConfig;
use formwork::nn::feed_forward::{Activation, DenseConfig, FeedForwardConfig};
use formwork::nn::position::learned::LearnedConfig;
use formwork::nn::recurrent::MixerConfig;
use formwork::nn::recurrent::fourier::FourierConfig;
use formwork::stack::{LayerGroup, StackConfig};

fn config() -> EncoderConfig {
    let positions = LearnedConfig {
        max_len: Some(20),
        ..LearnedConfig::default()
    };
    let bert = goldens_encoders::config(positions, 2, 1e-12, true);
    EncoderConfig {
        layers: vec![LayerGroup {
            mixer: Some(MixerConfig::Fourier(FourierConfig::default())),
            feed_forward: Some(FeedForwardConfig::Dense(DenseConfig {
                d_ff: Some(40),
                activation: Activation::GeluTanh,
                bias: true,
                ..DenseConfig::default()
            })),
            ..LayerGroup::default()
        }],
        d_embedding: Some(24),
        head_activation: Activation::GeluTanh,
        stack: StackConfig {
            attention: AttentionConfig::default(),
            feed_forward: FeedForwardConfig::default(),
            ..bert.stack
        },
        ..bert
    }
}

/// Texts of three lengths in one batch give the outputs, losses and gradients that each gives alone.
#[test]
fn fnet_is_hf_s_on_each_text_alone() {
    let mut table = names::kin_of_bert("fnet");
    let projection = "fnet.embeddings.projection";
    table.linear(projection, "model.projection", Orientation::OutIn);
    for layer in 0..2 {
        let theirs = format!("fnet.encoder.layer.{layer}");
        let ours = format!("model.stack.blocks.{layer}");
        let both = [
            ("intermediate.dense", "feed_forward.up"),
            ("output.dense", "feed_forward.down"),
        ];
        table.linears(&theirs, &ours, &both);
        let both = [
            ("fourier.output.LayerNorm", "attention_residual.norm"),
            ("output.LayerNorm", "feed_forward_residual.norm"),
        ];
        table.norms(&theirs, &ours, &both);
    }
    goldens_encoders::check("fnet", &config(), Pairs::NextSentence, &table);
}

/// An experiment with this model, task and data.
fn text(model: &str, task: &str, data: &str) -> String {
    format!(
        "name = \"x\"\n[model]\nd_model = 16\n{model}\n[[model.layers]]\nmixer = {{ kind = \"fourier\" }}\nfeed_forward = {{ kind = \"dense\" }}\n\
         [task]\n{task}\n[data]\n{data}\n[optimizer]\nkind = \"adamw\"\nlr = 1e-3\n[train]\nsteps = 1\nbatch_size = 1\n"
    )
}

const CLASSES: [&str; 2] = ["kind = \"text_classification\"", "kind = \"listops\""];

#[test]
fn the_mixer_stands_in_encoders() {
    let [task, data] = CLASSES;
    let encoder = "kind = \"encoder\"\nposition = { kind = \"learned\" }";
    judged(&text(encoder, task, data), &[]).unwrap();
    let tokens = "kind = \"random_tokens\"\nvocab_size = 7\ncontext = 8";
    says(
        &text("kind = \"decoder\"", "kind = \"causal_lm\"", tokens),
        "mixer = { kind = \"fourier\" } reads both ways, but this stack reads from left to right; use it in an encoder",
    );
    let rotary = "kind = \"encoder\"\nposition = { kind = \"rotary\" }";
    says(
        &text(rotary, task, data),
        "this position scheme acts in attention, but no layer has attention",
    );
    let late =
        "kind = \"encoder\"\nposition = { kind = \"learned\" }\ndropout_after_projection = true";
    says(
        &text(late, task, data),
        "dropout_after_projection = true has no effect without a projection; set d_embedding or remove it",
    );
}
