//! Gated delta networks against Hugging Face's Qwen3-Next with only such layers (`tests/goldens/make_language_models.py`):
//! logits, loss, gradients and decoding.

use crate::goldens::{Golden, TOLERANCE, check_model, logits};
use crate::oracle::{decoder_config, decoder_of, difference, hf_folder, values};
use burn::tensor::Device;
use formwork::data::Shape;
use formwork::interop::HfModel;
use formwork::interop::families::{Family, HfShape};
use formwork::interop::rename::{Orientation, Table};
use formwork::interop::weights::Weights;
use formwork::model::{DecoderConfig, ModelConfig};
use formwork::nn::recurrent::MixerConfig;
use formwork::nn::recurrent::gated_delta::GatedDeltaConfig;
use formwork::task::{CausalLmConfig, TaskConfig};

const CONFIG: &str = r#"
n_layers = 2
d_model = 24
tie_embeddings = false
norm = { kind = "rms", eps = 1e-6, zero_centered = true }
position = { kind = "none" }

[[layers]]
mixer = { kind = "gated_delta", n_heads = 4, n_key_heads = 2, d_key = 5, d_value = 6, norm_eps = 1e-6 }
feed_forward = { kind = "gated", activation = "silu", d_ff = 40, bias = false }
"#;

/// Maps the names of the golden's weights.
fn table(of: &HfShape) -> Table {
    let ModelConfig::Decoder(config) = &of.model else {
        panic!("it is a decoder")
    };
    let mut table = Table::new("");
    table.same("model.embed_tokens.weight", "embedding.weight");
    for layer in 0..config.n_layers() {
        let theirs = format!("model.layers.{layer}");
        let ours = format!("stack.blocks.{layer}");
        for (name, path) in [
            ("input_layernorm", "attention_residual.norm"),
            ("post_attention_layernorm", "feed_forward_residual.norm"),
            ("linear_attn.norm", "mixer.norm"),
        ] {
            table.norm(&format!("{theirs}.{name}"), &format!("{ours}.{path}"));
        }
        for (name, path) in [
            ("linear_attn.qkv_proj", "mixer.input"),
            ("linear_attn.z_proj", "mixer.gate"),
            ("linear_attn.b_proj", "mixer.beta"),
            ("linear_attn.out_proj", "mixer.output"),
            ("mlp.gate_proj", "feed_forward.gate"),
            ("mlp.up_proj", "feed_forward.up"),
            ("mlp.down_proj", "feed_forward.down"),
        ] {
            let path = format!("{ours}.{path}");
            table.linear(&format!("{theirs}.{name}"), &path, Orientation::OutIn);
        }
        for (name, path) in [
            ("a_proj.weight", "step.weight"),
            ("dt_bias", "step.bias"),
            ("A_log", "a_log"),
        ] {
            let path = format!("{ours}.mixer.decay.{path}");
            table.same(format!("{theirs}.linear_attn.{name}"), path);
        }
        let conv = format!("{theirs}.linear_attn.conv1d.weight");
        table.reshaped(conv, format!("{ours}.mixer.conv"), vec![44, 1, 4]);
    }
    table.norm("model.norm", "stack.final_norm");
    table.linear("lm_head", "head", Orientation::OutIn);
    table.within("model.")
}

/// Writes the golden's weights as a folder and opens it.
fn opened(golden: &Golden) -> (tempfile::TempDir, HfModel) {
    let dir = hf_folder(&golden.oracle.config(), &golden.weights);
    let config: DecoderConfig = toml::from_str(CONFIG).unwrap();
    let model = HfModel {
        modules: None,
        dir: dir.path().to_path_buf(),
        family: Family {
            model_type: "qwen3_next",
            summary: "",
            read: |_| panic!("its config is written out above"),
            write: |_| None,
            table,
            declined: None,
        },
        shape: HfShape {
            model: ModelConfig::Decoder(config),
            task: TaskConfig::CausalLm(CausalLmConfig::default()),
            shape: Shape::of_text(128, 61),
        },
        ignored_keys: Vec::new(),
        notes: Vec::new(),
        headless: false,
        weights: Weights::open(dir.path()).unwrap(),
    };
    (dir, model)
}

#[test]
fn gated_delta_networks_are_those_of_qwen3_next() {
    let golden = Golden::open("qwen3_next");
    let (_dir, model) = opened(&golden);
    check_model("qwen3_next", &golden, &model);
}

/// The golden would detect a change of either key.
#[test]
fn the_golden_of_qwen3_next_sees_its_details() {
    let golden = Golden::open("qwen3_next");
    let wanted = golden.oracle.array("logits").values;
    let changes: [fn(&mut GatedDeltaConfig); 2] =
        [|c| c.negative_eigenvalues = true, |c| c.norm_eps = 1e-3];
    for (number, change) in changes.into_iter().enumerate() {
        let (_dir, mut model) = opened(&golden);
        let mixer = &mut decoder_config(&mut model).layers[0].mixer;
        let Some(MixerConfig::GatedDelta(mixer)) = mixer else {
            panic!("the mixer of its config")
        };
        change(mixer);
        let device = Device::flex();
        let decoder = decoder_of(&model, &device).unwrap();
        let off = difference(&values(logits(&decoder, golden.ids(&device))), &wanted);
        assert!(
            off > 2.0 * TOLERANCE,
            "change {number} is not seen: {off:e}"
        );
    }
}
