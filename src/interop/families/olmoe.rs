//! OLMoE (Muennighoff et al. 2024, arXiv:2409.02060): LLaMA with many narrow experts in every layer, and norms across all heads'
//! queries and keys.

use super::deepseek::add_expert_matrices;
use super::{Family, HfShape, llama, multi_head_mut};
use crate::interop::HfConfig;
use crate::interop::rename::{Orientation, Table};
use crate::nn::feed_forward::FeedForwardConfig;
use crate::nn::feed_forward::moe::{ExpertConfig, MoeConfig};
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "olmoe",
    summary: "OLMoE: LLaMA with narrow experts, and norms on queries and keys",
    read,
    write,
    table,
    declined: None,
};

fn read(hf: &HfConfig) -> HfShape {
    if let Some(clip) = hf.get("clip_qkv") {
        hf.fault(format!(
            "`clip_qkv` = {clip} is not supported: the class of transformers clips queries and keys after their norms, and this \
             model before them; it must be null"
        ));
    }
    // The class has no such biases, whatever a file says.
    hf.only("mlp_bias", false);
    let mut config = llama::config(hf);
    let norm = super::rms_norm(hf.real("rms_norm_eps", 1e-5));
    config.stack.norm = norm.clone();
    let d_model = config.stack.d_model;
    let attention = multi_head_mut(&mut config);
    // The class's norms of queries and keys have the width of the model.
    hf.only("head_dim", d_model / attention.n_heads.max(1));
    attention.qk_norm = norm;
    attention.qk_norm_across = true;
    if let FeedForwardConfig::Gated(expert) = config.stack.feed_forward {
        let (n_experts, top_k) = experts(hf);
        config.stack.feed_forward = FeedForwardConfig::Moe(MoeConfig {
            n_experts,
            top_k,
            expert: ExpertConfig::Gated(expert),
            normalize_weights: Some(hf.flag("norm_topk_prob", false)),
            ..MoeConfig::default()
        });
    }
    llama::shape(hf, config)
}

/// The number of experts, and how many of them a token uses.
fn experts(hf: &HfConfig) -> (usize, usize) {
    let n_experts = hf.count(&["num_experts"], 64);
    let top_k = hf.count(&["num_experts_per_tok"], 8);
    if top_k > n_experts {
        hf.fault(format!(
            "`num_experts_per_tok` = {top_k} is more than `num_experts` = {n_experts}"
        ));
    }
    (n_experts, top_k)
}

fn write(of: &HfShape) -> Option<Value> {
    let config = of.decoder_if_any()?;
    let FeedForwardConfig::Moe(moe) = config.stack.block(&config.depth(), 0).feed_forward? else {
        return None;
    };
    let mut written = llama::write_as(of, "OlmoeForCausalLM")?;
    let keys = written.as_object_mut()?;
    for key in ["mlp_bias", "head_dim"] {
        keys.shift_remove(key);
    }
    written["num_experts"] = json!(moe.n_experts);
    written["num_experts_per_tok"] = json!(moe.top_k);
    written["norm_topk_prob"] = json!(moe.normalizes());
    Some(written)
}

/// LLaMA's table, and the experts in place of its gated layers, whose rules are skipped.
fn table(of: &HfShape) -> Table {
    let mut table = llama::table(of);
    let config = of.decoder();
    let FeedForwardConfig::Moe(moe) = &config.stack.feed_forward else {
        return table;
    };
    for layer in 0..config.n_layers() {
        let theirs = format!("model.layers.{layer}.mlp");
        let ours = format!("model.stack.blocks.{layer}.feed_forward");
        let router = format!("{ours}.router");
        table.linear(&format!("{theirs}.gate"), &router, Orientation::OutIn);
        add_expert_matrices(&mut table, &theirs, &ours, moe.n_experts);
    }
    table
}
