//! OLMo 2 (OLMo et al. 2024): LLaMA with norms on the outputs of layers, and norms across all heads' queries and
//! keys.

use super::llama;
use super::{Family, HfShape, multi_head_mut};
use crate::interop::HfConfig;
use crate::interop::rename::Table;
use crate::stack::NormPlacement;
use serde_json::Value;

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "olmo2",
    summary: "OLMo 2: LLaMA with norms after the layers, and on queries and keys",
    read,
    write,
    table,
    declined: None,
};

fn read(hf: &HfConfig) -> HfShape {
    llama::require_no_biases(hf, &["mlp_bias"]);
    let mut config = llama::config(hf);
    config.stack.norm = super::rms_norm(hf.real("rms_norm_eps", 1e-5));
    config.stack.norm_placement = NormPlacement::ResPost;
    let norm = config.stack.norm.clone();
    let attention = multi_head_mut(&mut config);
    attention.qk_norm = norm;
    attention.qk_norm_across = true;
    llama::shape(hf, config)
}

fn write(of: &HfShape) -> Option<Value> {
    let mut written = llama::write_as(of, "Olmo2ForCausalLM")?;
    written.as_object_mut()?.shift_remove("mlp_bias");
    llama::remove_default_head_dim(&mut written);
    Some(written)
}

/// LLaMA's table, except for the two norms of a layer.
fn table(of: &HfShape) -> Table {
    let mut table = llama::table(of);
    for name in table.rules.iter_mut().flat_map(|rule| &mut rule.theirs) {
        let behind = [
            ("post_attention_layernorm", "post_feedforward_layernorm"),
            ("input_layernorm", "post_attention_layernorm"),
        ];
        if let Some((old, new)) = behind.iter().find(|(old, _)| name.contains(old)) {
            *name = name.replace(old, new);
        }
    }
    table
}
