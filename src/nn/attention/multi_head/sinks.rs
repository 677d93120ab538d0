//! Sinks: a score for each head that all its queries have beside those of keys and that has no value, so that a head may look at nothing.
//! The operation is [`crate::kernel`]'s.

use crate::faults::TableFaults;
use crate::nn::init::Init;
use burn::module::Param;
use burn::tensor::{Device, Tensor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The score beside those of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sinks {
    /// None: the weights of a query sum to 1.
    #[default]
    None,
    /// 0 in all heads (Miller 2023, "Attention is off by one").
    Zero,
    /// A number for each head that is learned, 0 at first (OpenAI 2025, gpt-oss model card, section 2.2).
    Learned,
}

impl Sinks {
    /// A fault where a kind of attention has no place for them.
    pub(in crate::nn::attention) fn out_of_place(self, kind: &str, at: &mut TableFaults) {
        if self != Self::None {
            let rule = format!(
                "kind = \"{kind}\" has no place for sinks here; leave sinks out, or use multi_head or sliding_window without global"
            );
            at.fault(&["sinks", "kind"], rule);
        }
    }

    /// The parameter of so many heads.
    pub(super) fn init(self, heads: usize, init: &Init) -> Option<Param<Tensor<1>>> {
        (self == Self::Learned).then(|| init.of("sinks").vector(heads, 0.0))
    }

    /// The scores of heads, `[heads]`.
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
