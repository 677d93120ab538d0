//! DiffLlama: LLaMA with differential attention (Ye et al. 2024, arXiv:2410.05258).

use super::llama;
use super::{Family, HfShape, block};
use crate::interop::HfConfig;
use crate::interop::rename::Table;
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::differential::DifferentialConfig;
use crate::nn::norm::{NormConfig, RmsNormConfig};
use serde_json::Value;

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "diffllama",
    summary: "DiffLlama: LLaMA with differential attention",
    read,
    write,
    table,
    declined: None,
};

fn read(hf: &HfConfig) -> HfShape {
    let eps = hf.real("rms_norm_eps", 1e-5);
    // A key of initialisation only.
    hf.get("lambda_std_dev");
    llama::require_no_biases(hf, &["mlp_bias"]);
    let mut config = llama::config(hf);
    config.stack.norm = super::rms_norm(eps);
    config.stack.attention = AttentionConfig::Differential(DifferentialConfig {
        heads: super::multi_head(&config),
        lambda_init: None,
        norm: NormConfig::Rms(RmsNormConfig {
            eps,
            gain: false,
            ..RmsNormConfig::default()
        }),
    });
    config.stack.dropout_attention = Some(0.0);
    hf.only("attention_dropout", 0.0);
    llama::shape(hf, config)
}

fn write(of: &HfShape) -> Option<Value> {
    let mut written = llama::write_as(of, "DiffLlamaForCausalLM")?;
    written.as_object_mut()?.shift_remove("mlp_bias");
    Some(written)
}

fn table(of: &HfShape) -> Table {
    let mut table = llama::table(of);
    // LLaMA's projections belong to the inner heads here.
    for rule in &mut table.rules {
        for ours in &mut rule.ours {
            for part in ["query", "key", "value", "output"] {
                let (plain, within) = (
                    format!(".attention.{part}."),
                    format!(".attention.heads.{part}."),
                );
                *ours = ours.replace(&plain, &within);
            }
        }
    }
    for layer in 0..of.decoder().n_layers() {
        let ours = block(layer).attention;
        for name in ["lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"] {
            table.same(
                format!("model.layers.{layer}.self_attn.{name}"),
                format!("model.{ours}.{name}"),
            );
        }
    }
    table
}
