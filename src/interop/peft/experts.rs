//! Families in which `peft` renames modules when it reads an adapter. Since version 5, transformers keeps all experts of a layer
//! in one parameter, and `peft` (0.21, `_convert_peft_config_moe`) takes every module whose name ends as an expert's matrix did
//! for an expert, including those of dense layers and shared experts. Their factors are then lost.

use std::collections::BTreeMap;

/// Each family, with the endings of the modules that `peft` turns into expert parameters.
const FAMILIES: [(&str, &[&str]); 5] = [
    ("mixtral", &["w1", "w2", "w3"]),
    ("deepseek_v2", GATED),
    ("deepseek_v3", GATED),
    ("olmoe", GATED),
    ("qwen3_next", GATED),
];

const GATED: &[&str] = &["gate_proj", "up_proj", "down_proj"];

/// The ending of routers: `peft` makes an expert parameter of them too, always with the default rank, whatever `rank_pattern`
/// says.
const ROUTER: &str = "gate";

/// The default rank of a configuration, from which `rank_pattern` lists the exceptions: that of the first module.
pub(super) fn default_rank(ranks: &BTreeMap<String, usize>) -> Option<usize> {
    ranks.values().next().copied()
}

/// Which of the modules, given with the ranks of their adapters, lose their factors when `peft` reads them into a model of the
/// family.
pub(super) fn lost_modules<'a>(family: &str, ranks: &'a BTreeMap<String, usize>) -> Vec<&'a str> {
    let Some((_, matrices)) = FAMILIES.iter().find(|(name, _)| *name == family) else {
        return Vec::new();
    };
    let usual = default_rank(ranks);
    let lost = ranks.iter().filter(|(module, rank)| {
        let last = module.rsplit('.').next().unwrap_or(module.as_str());
        matrices.contains(&last) || last == ROUTER && Some(**rank) != usual
    });
    lost.map(|(module, _)| module.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::lost_modules;
    use std::collections::BTreeMap;

    #[test]
    fn matrices_of_gated_layers_and_routers_of_another_rank_are_lost() {
        let ranks = |all: &[(&str, usize)]| -> BTreeMap<String, usize> {
            all.iter().map(|(m, r)| ((*m).to_string(), *r)).collect()
        };
        let dense = ranks(&[("l.0.mlp.up_proj", 2), ("l.0.self_attn.q_proj", 2)]);
        assert_eq!(lost_modules("deepseek_v3", &dense), ["l.0.mlp.up_proj"]);
        assert!(lost_modules("llama", &dense).is_empty());
        assert!(lost_modules("mixtral", &dense).is_empty());
        let routers = ranks(&[("l.0.mlp.gate", 2), ("l.0.mlp.shared_expert_gate", 2)]);
        assert!(lost_modules("qwen3_next", &routers).is_empty());
        let others = ranks(&[("l.0.mlp.gate", 2), ("l.0.self_attn.q_proj", 4)]);
        assert!(lost_modules("olmoe", &others).is_empty());
        let others = ranks(&[("l.0.self_attn.q_proj", 4), ("l.1.mlp.gate", 2)]);
        assert_eq!(lost_modules("olmoe", &others), ["l.1.mlp.gate"]);
    }
}
