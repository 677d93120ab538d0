//! DeepSeek-V2 (DeepSeek-AI 2024, arXiv:2405.04434): latent attention, with experts chosen by a softmax beside shared experts.

use super::deepseek::{self, Defaults};
use super::{Family, HfShape};
use crate::interop::HfConfig;
use crate::nn::feed_forward::moe::{ExpertConfig, MoeConfig, Score};
use crate::nn::position::rotary::Pairing;
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "deepseek_v2",
    summary: "DeepSeek-V2: latent attention, shared and routed experts",
    read,
    write,
    table: deepseek::table,
    declined: None,
};

const DEFAULTS: Defaults = Defaults {
    context: 2048,
    n_layers: 32,
    dense_layers: 0,
    n_heads: 32,
    d_model: 4096,
    d_ff: 11008,
    vocab_size: 102_400,
};

/// `topk_method`: experts are chosen among all.
const GREEDY: &str = "greedy";

/// `topk_method`: experts are chosen among the groups whose best experts have the highest scores.
const IN_GROUPS: &str = "group_limited_greedy";

fn read(hf: &HfConfig) -> HfShape {
    hf.only("mlp_bias", false);
    deepseek::shape(hf, &DEFAULTS, Pairing::Interleaved, experts(hf))
}

fn experts(hf: &HfConfig) -> MoeConfig {
    hf.only("moe_layer_freq", 1);
    hf.only("scoring_func", "softmax");
    hf.only("norm_topk_prob", false);
    let n_experts = hf.count(&["n_routed_experts", "num_experts"], 64);
    let [groups, top_groups] = groups(hf, n_experts);
    let top_k = hf.count_if_any(&["num_experts_per_tok"]);
    if top_k.is_none() {
        hf.fault("`num_experts_per_tok` is missing, and the class has no default");
    }
    MoeConfig {
        n_experts,
        top_k: top_k.unwrap_or(1),
        expert: ExpertConfig::Gated(deepseek::gated(hf, "moe_intermediate_size", 1407)),
        shared: hf.count(&["n_shared_experts"], 2),
        score: Score::Softmax,
        normalize_weights: Some(false),
        scale: hf.real("routed_scaling_factor", 1.0),
        groups,
        top_groups,
        group_best: groups.map(|_| 1),
        ..MoeConfig::default()
    }
}

/// The number of groups and the number of groups that a token may use; `None` if it may use all.
fn groups(hf: &HfConfig, n_experts: usize) -> [Option<usize>; 2] {
    let (groups, top) = (
        hf.count_if_any(&["n_group"]),
        hf.count_if_any(&["topk_group"]),
    );
    match (hf.word("topk_method", GREEDY), groups, top) {
        (GREEDY, ..) => [None; 2],
        (IN_GROUPS, Some(groups), Some(top)) => {
            if !n_experts.is_multiple_of(groups) || top > groups {
                hf.fault(format!(
                    "`n_routed_experts` = {n_experts} must be a multiple of `n_group` = {groups}, and `topk_group` = {top} must \
                     be at most `n_group`"
                ));
            }
            [groups, top].map(|number| (top < groups).then_some(number))
        }
        (IN_GROUPS, ..) => {
            hf.fault(format!(
                "`topk_method` = \"{IN_GROUPS}\" needs `n_group` and `topk_group`"
            ));
            [None; 2]
        }
        (other, ..) => {
            hf.fault(format!(
                "`topk_method` = \"{other}\" is not supported; it must be \"{GREEDY}\" or \"{IN_GROUPS}\""
            ));
            [None; 2]
        }
    }
}

fn write(of: &HfShape) -> Option<Value> {
    let (mut written, moe) = deepseek::written(of, "DeepseekV2ForCausalLM")?;
    if moe.is_none() {
        // No layer uses it, but the class has no default.
        written["num_experts_per_tok"] = json!(1);
    }
    match moe.and_then(MoeConfig::groups) {
        None => written["topk_method"] = json!(GREEDY),
        Some(groups) => {
            written["topk_method"] = json!(IN_GROUPS);
            written["n_group"] = json!(groups.number);
            written["topk_group"] = json!(groups.top);
        }
    }
    Some(written)
}
