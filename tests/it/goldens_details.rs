//! Tests beyond plain import: that each golden detects a change of its model's special features, and features of the decoder
//! that no importable family has (NTK scaling).

use crate::goldens::{Golden, TOLERANCE, check_model, logits};
use crate::oracle::{decoder_config, decoder_of};
use crate::oracle::{difference, hf_folder, values};
use burn::tensor::Device;
use formwork::interop::read_hf;
use formwork::model::DecoderConfig;
use formwork::nn::attention::AttentionConfig;
use formwork::nn::feed_forward::{Activation, FeedForwardConfig};
use formwork::nn::norm::NormConfig;
use formwork::nn::position::PositionConfig;
use formwork::nn::position::rotary::{NoScalingConfig, NtkScalingConfig, Pairing, ScalingConfig};

type Change = fn(&mut DecoderConfig);

/// Each golden would detect a change of any feature that sets its model apart: without it, logits move by more than twice the
/// tolerance.
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
        other => panic!("{other:?}"),
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

/// HF's "dynamic" scaling recomputes the base for the current length, which for a fixed length is NTK scaling.
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
