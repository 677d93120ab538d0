//! Attention sinks: an extra score for each head that competes with those of the keys and has no value, so that a head may attend
//! to nothing. The operation itself is part of [`crate::kernel`].

use crate::faults::TableFaults;
use crate::nn::init::Init;
use burn::module::Param;
use burn::tensor::{Device, Tensor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The extra score beside those of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sinks {
    /// No sink: the weights of a query sum to 1.
    #[default]
    None,
    /// A score of 0 in all heads (Miller 2023, "Attention is off by one").
    Zero,
    /// A learned score for each head, initially 0 (OpenAI 2025, gpt-oss model card, section 2.2).
    Learned,
}

impl Sinks {
    /// Reports a fault if sinks are set for a kind of attention that does not support them.
    pub(in crate::nn::attention) fn unsupported_fault(self, kind: &str, at: &mut TableFaults) {
        if self != Self::None {
            let rule = format!(
                "kind = \"{kind}\" does not support sinks here; remove sinks, or use multi_head or sliding_window without global"
            );
            at.fault(&["sinks", "kind"], rule);
        }
    }

    /// Builds the parameter for `heads` heads, if sinks are learned.
    pub(super) fn init(self, heads: usize, init: &Init) -> Option<Param<Tensor<1>>> {
        (self == Self::Learned).then(|| init.part("sinks").vector(heads, 0.0))
    }

    /// Returns the extra score of each head, `[heads]`.
    pub(super) fn scores(
        self,
        learned: Option<&Param<Tensor<1>>>,
        heads: usize,
        device: &Device,
    ) -> Option<Tensor<1>> {
        match self {
            Self::None => None,
            Self::Zero => Some(Tensor::zeros([heads], device)),
            Self::Learned => learned.map(Param::val),
        }
    }
}
