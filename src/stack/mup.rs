//! The maximal update parametrization, μP (Yang et al. 2022, Tensor Programs V, table 3): a model that is m times as wide as
//! another one trains with the learning rates and initial deviations that suit the narrower one, so that these are searched for
//! on a small model.
//!
//! ```text
//!                                 deviation at the start    learning rate (Adam)
//! embeddings, biases, gains       unchanged                 unchanged
//! matrices of the blocks          1/√m of it                1/m of it
//! matrices of heads               1/m of it                 1/m of it
//! ```
//!
//! If the embedding table is also the LM head, logits are divided by m (table 8). `output_multiplier` is a factor on logits,
//! searched for on the small model like the learning rate (section 6; `output_mult` of the released code's `MuReadout`). An
//! untied head is stored divided by m, so that its gradient, and its share of the norm that `clip_norm` bounds, is m times that
//! of a head whose logits are divided. Attention scores are products times √d₀/d in place of 1/√d, where d is the head width and
//! d₀ that of the narrower model; a configured factor is multiplied by d₀/d (definition 4.1). Decoupled weight decay is the
//! schedule's learning rate times `weight_decay` for every parameter, whatever the parameter's own rate, as in the released code.

use crate::faults::TableFaults;
use crate::nn::role::{ParameterKind, Place, Role};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `[model.mup]`: the narrower model of μP.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MupConfig {
    /// Width of the model whose learning rates and initial weights this one takes over; all other widths are this model's in
    /// proportion. Source: Yang et al. 2022, section 4.
    #[schemars(range(min = 1, max = crate::faults::MAX_WIDTH))]
    pub d_model: usize,
    /// Width of its heads; when absent, in proportion to its own width, as in a model with as many heads. Set it if wider models
    /// have more heads rather than wider ones. Source: Yang et al. 2022, appendix D.4.
    #[schemars(range(min = 1, max = crate::faults::MAX_WIDTH))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub d_head: Option<usize>,
    /// Factor on the logits of the vocabulary before their bias; the same in the narrower model. Source: Yang et al. 2022,
    /// section 6.
    #[schemars(extend("exclusiveMinimum" = 0))]
    #[serde(default = "plain", skip_serializing_if = "is_plain")]
    pub output_multiplier: f64,
}

/// The neutral multiplier.
fn plain() -> f64 {
    1.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_plain(multiplier: &f64) -> bool {
    *multiplier == plain()
}

impl MupConfig {
    /// Ratio of the width `d_model` to that of the narrower model.
    pub fn width_ratio(self, d_model: usize) -> f64 {
        d_model as f64 / self.d_model.max(1) as f64
    }

    /// The factor on attention scores besides 1/√d_head, for heads of width `d_head` in a model of width `d_model`.
    pub fn score_factor(self, d_model: usize, d_head: usize) -> f64 {
        let in_proportion = d_head as f64 / self.width_ratio(d_model);
        let theirs = self.d_head.map_or(in_proportion, |width| width as f64);
        (theirs / d_head as f64).sqrt()
    }

    /// The factor on the hidden states that an LM head reads, in a model of this width. If the head is tied to the embedding
    /// table, it includes the division by the ratio of widths, which an untied head has in its stored weights.
    pub fn head_factor(self, d_model: usize, tied: bool) -> f64 {
        match tied {
            true => self.output_multiplier / self.width_ratio(d_model),
            false => self.output_multiplier,
        }
    }

    /// Whether logits have a factor of their own.
    pub fn scales_logits(self) -> bool {
        !is_plain(&self.output_multiplier)
    }
}

/// Reports switches that scale by the model's width, which μP excludes.
pub fn switch_faults(mup: Option<MupConfig>, switches: &[(&str, bool)], at: &mut TableFaults) {
    let set = switches.iter().filter(|(_, set)| *set && mup.is_some());
    for (key, _) in set {
        let rule = format!(
            "{key} = true scales by the width of the model, which mup excludes; remove one of them"
        );
        at.fault(&[key, "mup"], rule);
    }
}

/// The learning rate of a parameter in a model `width` times as wide, relative to that in the narrower model.
pub fn learning_rate_factor(role: Role, width: f64) -> f64 {
    match (role.kind, role.place) {
        // The number of its inputs does not depend on the model's width.
        (Some(ParameterKind::Weight), Some(Place::Input)) => 1.0,
        (Some(ParameterKind::Weight), _) => 1.0 / width,
        (
            Some(
                ParameterKind::Bias
                | ParameterKind::Norm
                | ParameterKind::Table
                | ParameterKind::State
                | ParameterKind::Fixed,
            )
            | None,
            _,
        ) => 1.0,
    }
}
