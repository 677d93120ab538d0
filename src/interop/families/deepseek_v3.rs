//! DeepSeek-V3 (DeepSeek-AI 2024, arXiv:2412.19437): latent attention, with experts chosen by sigmoids beside shared experts,
//! above some dense layers.
//!
//! Only what the transformers class computes is imported: the modules that predict further tokens are not part of it.

use super::deepseek::{self, Defaults};
use super::stack_summary::rotary;
use super::{Family, HfShape};
use crate::interop::HfConfig;
use crate::nn::feed_forward::moe::{ExpertConfig, MoeConfig, Score};
use crate::nn::position::rotary::Pairing;
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "deepseek_v3",
    summary: "DeepSeek-V3: latent attention, shared and routed experts",
    read,
    write,
    table: deepseek::table,
    declined: None,
};

const DEFAULTS: Defaults = Defaults {
    context: 4096,
    n_layers: 61,
    dense_layers: 3,
    n_heads: 128,
    d_model: 7168,
    d_ff: 18432,
    vocab_size: 129_280,
};

fn read(hf: &HfConfig) -> HfShape {
    let pairing = match hf.flag_or_off("rope_interleave", true) {
        true => Pairing::Interleaved,
        false => Pairing::Half,
    };
    deepseek::shape(hf, &DEFAULTS, pairing, experts(hf))
}

fn experts(hf: &HfConfig) -> MoeConfig {
    hf.only("moe_layer_freq", 1);
    hf.only("scoring_func", "sigmoid");
    hf.only("topk_method", "noaux_tc");
    let groups = hf.count(&["n_group"], 8);
    let top_groups = hf.count(&["topk_group"], 4);
    let n_experts = hf.count(&["n_routed_experts", "num_local_experts"], 256);
    let grouped = top_groups < groups;
    // The class adds the two best scores of each group, whether all groups are used or not.
    if !n_experts.is_multiple_of(groups) || n_experts / groups < 2 {
        hf.fault(format!(
            "`n_routed_experts` = {n_experts} cannot be divided into `n_group` = {groups} equal groups of two or more experts"
        ));
    }
    if top_groups > groups {
        hf.fault(format!(
            "`topk_group` = {top_groups} is more than `n_group` = {groups}"
        ));
    }
    MoeConfig {
        n_experts,
        top_k: hf.count(&["num_experts_per_tok"], 8),
        expert: ExpertConfig::Gated(deepseek::gated(hf, "moe_intermediate_size", 2048)),
        shared: hf.count(&["n_shared_experts"], 1),
        score: Score::Sigmoid,
        normalize_weights: Some(hf.flag_or_off("norm_topk_prob", true)),
        scale: hf.real("routed_scaling_factor", 2.5),
        groups: grouped.then_some(groups),
        top_groups: grouped.then_some(top_groups),
        correction: true,
        ..MoeConfig::default()
    }
}

fn write(of: &HfShape) -> Option<Value> {
    let (mut written, moe) = deepseek::written(of, "DeepseekV3ForCausalLM")?;
    if let Some(moe) = moe {
        let groups = moe.groups();
        let [groups, top] = groups.map_or([1, 1], |groups| [groups.number, groups.top]);
        written["norm_topk_prob"] = json!(moe.normalizes());
        written["n_group"] = json!(groups);
        written["topk_group"] = json!(top);
    }
    let rotary = rotary(&of.decoder_if_any()?.stack)?;
    written["rope_interleave"] = json!(rotary.pairing == Pairing::Interleaved);
    Some(written)
}
