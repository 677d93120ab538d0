//! Oracles beyond plain import: that each golden sees what sets its model apart, and parts of the decoder
//! that no importable family has (NTK scaling, sandwich norms, capped scores).

use crate::goldens::{Golden, TOLERANCE, check_model, logits};
use crate::oracle::{decoder_config, decoder_of};
use crate::oracle::{difference, hf_folder, values};
use burn::tensor::Device;
use formwork::data::Shape;
use formwork::interop::families::{Family, HfShape};
use formwork::interop::rename::{Stored, Table};
use formwork::interop::weights::Weights;
use formwork::interop::{HfModel, read_hf};
use formwork::model::DecoderConfig;
use formwork::model::ModelConfig;
use formwork::nn::attention::AttentionConfig;
use formwork::nn::attention::multi_head::MultiHeadConfig;
use formwork::nn::feed_forward::{Activation, FeedForwardConfig, GatedConfig};
use formwork::nn::norm::{NormConfig, RmsNormConfig};
use formwork::nn::position::PositionConfig;
use formwork::nn::position::rotary::{
    NoScalingConfig, NtkScalingConfig, Pairing, RotaryConfig, ScalingConfig,
};
use formwork::stack::NormPlacement;
use formwork::stack::StackConfig;
use formwork::task::{CausalLmConfig, TaskConfig};

type Change = fn(&mut DecoderConfig);

/// A golden would see each detail that sets its model apart: without it, logits move by more than twice
/// the tolerance.
#[test]
fn goldens_see_their_details() {
    let unscaled: Change = |c| {
        let PositionConfig::Rotary(rotary) = &mut c.stack.position else {
            panic!()
        };
        rotary.scaling = ScalingConfig::None(NoScalingConfig {});
    };
    let erf: Change = |c| {
        let FeedForwardConfig::Dense(dense) = &mut c.stack.feed_forward else {
            panic!()
        };
        dense.activation = Activation::Gelu;
    };
    let tanh: Change = |c| {
        let FeedForwardConfig::Dense(dense) = &mut c.stack.feed_forward else {
            panic!()
        };
        dense.activation = Activation::GeluTanh;
    };
    let other_pairs: Change = |c| {
        let PositionConfig::Rotary(rotary) = &mut c.stack.position else {
            panic!()
        };
        rotary.pairing = match rotary.pairing {
            Pairing::Half => Pairing::Interleaved,
            Pairing::Interleaved => Pairing::Half,
        };
    };
    let other_alibi: Change = |c| {
        let PositionConfig::Alibi(alibi) = &mut c.stack.position else {
            panic!()
        };
        alibi.scaled = !alibi.scaled;
    };
    let other_scale: Change = |c| {
        let AttentionConfig::MultiHead(attention) = &mut c.stack.attention else {
            panic!("GPT-2 has multi-head attention")
        };
        attention.scale = None;
    };
    let other_eps: Change = |c| match &mut c.stack.norm {
        NormConfig::Layer(norm) => norm.eps = 1e-3,
        NormConfig::Rms(norm) => norm.eps = 1e-3,
        NormConfig::None(_) => panic!(),
    };
    let other_distance: Change = |c| {
        let PositionConfig::RelativeBias(bias) = &mut c.stack.position else {
            panic!()
        };
        bias.max_distance = 100;
    };
    let changes = [
        ("llama_linear", unscaled),
        ("llama_yarn", unscaled),
        ("llama_llama3", unscaled),
        ("llama_gqa", other_pairs),
        ("llama", other_eps),
        ("gpt2", other_eps),
        ("mamba", other_eps),
        ("mamba2", other_eps),
        ("rwkv", other_eps),
        ("gpt_neox", other_pairs),
        ("gptj", other_pairs),
        ("falcon_alibi", other_alibi),
        ("bloom", other_alibi),
        ("mpt", other_alibi),
        ("t5_stack", other_scale),
        ("t5_stack", other_distance),
        ("t5_stack", |c| c.head_scale = false),
        ("gpt2", erf),
        ("bloom", erf),
        ("gptj", erf),
        ("falcon", tanh),
        ("gpt_neox", tanh),
        ("mpt", tanh),
    ];
    let device = Device::flex();
    for (i, (name, change)) in changes.into_iter().enumerate() {
        let golden = Golden::open(name);
        let (_dir, mut model) = golden.open_folder();
        change(decoder_config(&mut model));
        let logits = logits(&decoder_of(&model, &device).unwrap(), golden.ids(&device));
        let off = difference(&values(logits), &golden.oracle.array("logits").values);
        println!("{name}: change {i} moves logits by {off:.1e}");
        assert!(
            off > 2.0 * TOLERANCE,
            "{name}: change {i} is not seen, {off:e}"
        );
    }
}

/// HF's "dynamic" scaling recomputes the base for the length at hand: for one length it is NTK scaling.
#[test]
fn ntk_scaling_is_hf_s_dynamic_at_one_length() {
    let golden = Golden::open("llama_dynamic");
    let mut config: serde_json::Value = serde_json::from_str(&golden.oracle.config()).unwrap();
    config.as_object_mut().unwrap().remove("rope_scaling");
    let dir = hf_folder(&config.to_string(), &golden.weights);
    let mut model = read_hf(dir.path(), &[]).unwrap();
    let PositionConfig::Rotary(rotary) = &mut decoder_config(&mut model).stack.position else {
        panic!()
    };
    rotary.scaling = ScalingConfig::Ntk(NtkScalingConfig { factor: 1.6 });
    check_model("llama_dynamic", &golden, &model);
}

/// The names of Gemma 2: four norms a block.
fn gemma2_table(of: &HfShape) -> Table {
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
            ("post_attention_layernorm", "attention_residual.after"),
            ("pre_feedforward_layernorm", "feed_forward_residual.norm"),
            ("post_feedforward_layernorm", "feed_forward_residual.after"),
        ] {
            table.norm(&format!("{theirs}.{name}"), &format!("{ours}.{path}"));
        }
        for (name, path) in [
            ("self_attn.q_proj", "attention.query"),
            ("self_attn.k_proj", "attention.key"),
            ("self_attn.v_proj", "attention.value"),
            ("self_attn.o_proj", "attention.output"),
            ("mlp.gate_proj", "feed_forward.gate"),
            ("mlp.up_proj", "feed_forward.up"),
            ("mlp.down_proj", "feed_forward.down"),
        ] {
            let path = format!("{ours}.{path}");
            table.linear(&format!("{theirs}.{name}"), &path, Stored::OutIn);
        }
    }
    table.norm("model.norm", "stack.final_norm");
    table.within("model.")
}

/// Gemma 2 without the cap on its logits: sandwich norms, capped scores, embeddings times √d, its own scale.
#[test]
fn sandwich_norms_and_capped_scores_are_gemma_2_s() {
    let golden = Golden::open("gemma2");
    let dir = hf_folder(&golden.oracle.config(), &golden.weights);
    let config = DecoderConfig {
        n_layers: Some(2),
        embedding_scale: true,
        stack: StackConfig {
            d_model: 32,
            norm: NormConfig::Rms(RmsNormConfig {
                eps: 1e-5,
                ..RmsNormConfig::default()
            }),
            norm_placement: NormPlacement::Sandwich,
            position: PositionConfig::Rotary(RotaryConfig::default()),
            attention: AttentionConfig::MultiHead(MultiHeadConfig {
                n_heads: 4,
                n_kv_heads: Some(2),
                bias: false,
                softcap: Some(2.0),
                scale: Some(1.0 / 11f64.sqrt()),
                ..MultiHeadConfig::default()
            }),
            feed_forward: FeedForwardConfig::Gated(GatedConfig {
                d_ff: Some(40),
                activation: Activation::GeluTanh,
                bias: false,
                ..GatedConfig::default()
            }),
            ..StackConfig::default()
        },
        ..DecoderConfig::default()
    };
    let model = HfModel {
        modules: None,
        dir: dir.path().to_path_buf(),
        family: Family {
            model_type: "gemma2",
            summary: "",
            read: |_| panic!("its config is written out above"),
            write: |_| None,
            table: gemma2_table,
        },
        shape: HfShape {
            model: ModelConfig::Decoder(config),
            task: TaskConfig::CausalLm(CausalLmConfig::default()),
            shape: Shape::of_text(64, 61),
        },
        ignored_keys: Vec::new(),
        notes: Vec::new(),
        weights: Weights::open(dir.path()).unwrap(),
    };
    check_model("gemma2", &golden, &model);
}
