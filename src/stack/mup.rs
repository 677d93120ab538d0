//! The maximal update parametrization, μP (Yang et al. 2022, Tensor Programs V, table 3): a model that is m times as wide as another
//! one learns at the rates and from the deviations that suit the other, so that they are searched for on a small model.
//!
//! ```text
//!                                 deviation at the start    learning rate (Adam)
//! embeddings, biases, gains       as it is                  as it is
//! matrices of the blocks          1/√m of it                1/m of it
//! matrices of heads               1/m of it                 1/m of it
//! ```
//!
//! Where the embeddings' table is the head as well, scores are divided by m (table 8). `output_multiplier` is a factor on scores that is
//! searched for on the small model as the learning rate is (section 6; `output_mult` of the released code's `MuReadout`). A head of its own is stored divided by m, so that
//! its gradient, and its share of the norm that `clip_norm` bounds, is m times that of a head whose scores are divided. Scores of
//! attention are products times √d₀/d in place of 1/√d, where d is the width of a head and d₀ that of the narrower model's, and a factor
//! that is given times d₀/d (definition 4.1). Decay that is apart from the gradient is the schedule's learning rate times
//! `weight_decay` for every parameter, whatever its own rate is, as in the released code.

use crate::faults::TableFaults;
use crate::nn::role::{ParameterKind, Place, Role};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `[model.mup]`: the narrower model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MupConfig {
    /// Width of the model whose learning rates and initial weights this one takes over; all other widths are those of this model in
    /// proportion. Source: Yang et al. 2022, section 4.
    #[schemars(range(min = 1, max = crate::faults::WIDEST))]
    pub d_model: usize,
    /// Width of its heads; in proportion to its own width when absent, as of a model with as many heads. Give it where wider models have
    /// more heads and not wider ones. Source: Yang et al. 2022, appendix D.4.
    #[schemars(range(min = 1, max = crate::faults::WIDEST))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub d_head: Option<usize>,
    /// Factor on the scores of the vocabulary before their bias; the same in the narrower model. Source: Yang et al. 2022, section 6.
    #[schemars(extend("exclusiveMinimum" = 0))]
    #[serde(default = "plain", skip_serializing_if = "is_plain")]
    pub output_multiplier: f64,
}

/// The multiplier that changes nothing.
fn plain() -> f64 {
    1.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_plain(multiplier: &f64) -> bool {
    *multiplier == plain()
}

impl MupConfig {
    /// How many times as wide a model of this width is.
    pub fn width(self, d_model: usize) -> f64 {
        d_model as f64 / self.d_model.max(1) as f64
    }

    /// What scores of heads of this width are multiplied by beside 1/√d_head, in a model of this width.
    pub fn scores(self, d_model: usize, d_head: usize) -> f64 {
        let in_proportion = d_head as f64 / self.width(d_model);
        let theirs = self.d_head.map_or(in_proportion, |width| width as f64);
        (theirs / d_head as f64).sqrt()
    }

    /// The factor on hidden states that a head reads, in a model of this width. One whose matrix is the embeddings' table is not stored
    /// divided by the ratio of the widths.
    pub fn head(self, d_model: usize, tied: bool) -> f64 {
        match tied {
            true => self.output_multiplier / self.width(d_model),
            false => self.output_multiplier,
        }
    }

    /// Whether scores have a factor of their own.
    pub fn multiplies(self) -> bool {
        !is_plain(&self.output_multiplier)
    }
}

/// Faults of switches whose factors go by the width of the model, where that model takes over a narrower one's rates.
pub fn switch_faults(mup: Option<MupConfig>, switches: &[(&str, bool)], at: &mut TableFaults) {
    let set = switches.iter().filter(|(_, set)| *set && mup.is_some());
    for (key, _) in set {
        let rule = format!(
            "{key} = true is a factor that goes by the width of the model, which mup keeps out; leave one of them out"
        );
        at.fault(&[key, "mup"], rule);
    }
}

/// The learning rate of a parameter of a model that is `width` times as wide, relative to that of the narrower model.
pub fn rate(role: Role, width: f64) -> f64 {
    match (role.kind, role.place) {
        // Its inputs are as many, however wide the model is.
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
