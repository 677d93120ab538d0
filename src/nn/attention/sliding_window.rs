//! Sliding-window attention: a query at position i sees the keys at i ± m·dilation for 0 ≤ m < window, only before it in a causal
//! model and on both sides in a bidirectional one (Beltagy et al. 2020, Longformer, section 3.1; Child et al. 2019; Jiang et al.
//! 2023, Mistral 7B, section 2, whose way of counting `window` uses).
//!
//! Everything except the window is multi-head attention. Tiles outside the window are never computed, so time and memory grow
//! linearly with the length. In decoding a layer keeps only the keys that a later query may see. Cross-attention of an
//! encoder-decoder sees the whole source: positions of the source do not correspond to those of the target.
//!
//! With `global` it also sees the tokens that the task marks, and these see all ([`global_tokens`](super::global_tokens)).

use super::global_tokens::{Global, GlobalHeads};
use super::multi_head::{MultiHead, MultiHeadConfig};
use super::{Abilities, AttentionFacts, AttentionShape, Kind, ReadingDirection};
use crate::faults::{MAX_POSITIONS, TableFaults};
use crate::kernel::Window;
use crate::nn::init::Init;
use crate::nn::position::HeadEffect;
use crate::one_table::one_table;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "sliding_window",
    summary: "each position attends only to neighbours, with a dilation per head; time and memory linear in the length",
    source: "Beltagy et al. 2020, section 3.1; Jiang et al. 2023, section 2",
    example: "{ kind = \"sliding_window\", n_heads = 4, window = 256, dilation = [1, 1, 1, 2] }",
};

/// Assumed number of global tokens per text in cost estimates; the actual number is set by the task.
const ASSUMED_GLOBALS: usize = 1;

/// Settings of sliding-window attention: those of multi-head attention, the window and its dilation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", deny_unknown_fields, default)]
pub struct SlidingWindowConfig {
    /// The heads with their projections.
    #[serde(skip)]
    #[schemars(!skip, flatten)]
    pub heads: MultiHeadConfig,
    /// Keys that a query sees on one side, its own position included. Source: Beltagy et al. 2020, section 3.1.
    #[schemars(range(min = 1, max = crate::faults::MAX_POSITIONS))]
    pub window: usize,
    /// Distance between neighbouring keys of the window, for each head; 1 everywhere when absent.
    /// Source: Beltagy et al. 2020, section 3.1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dilation: Option<Vec<usize>>,
    /// Whether the tokens that the task marks see all others and are seen by all, with separate projections or the same ones; no
    /// token is global when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub global: Option<Global>,
}

impl Default for SlidingWindowConfig {
    fn default() -> Self {
        Self {
            heads: MultiHeadConfig::default(),
            window: 256,
            dilation: None,
            global: None,
        }
    }
}

one_table!(SlidingWindowConfig, heads: MultiHeadConfig, |_| &[]);

impl SlidingWindowConfig {
    /// Creates settings for these heads with a window of this many keys.
    pub fn with_window(heads: MultiHeadConfig, window: usize) -> Self {
        Self {
            heads,
            window,
            ..Self::default()
        }
    }

    /// Returns the window around a query; a causal model does not see the keys after it.
    fn window(&self) -> Window {
        Window {
            before: self.window.saturating_sub(1),
            after: self.window.saturating_sub(1),
            dilation: self.dilation.clone().unwrap_or_default().into(),
        }
    }

    /// Builds the attention layer for this shape over the window.
    pub fn init(&self, shape: &AttentionShape, init: &Init) -> MultiHead {
        let heads = MultiHead::new(&self.heads, shape, init).with_window(self.window());
        match self.global {
            None => heads,
            Some(Global::Shared) => heads.with_globals(None),
            Some(Global::Own) => {
                let own = GlobalHeads::new(&self.heads, shape, &init.part("global"));
                heads.with_globals(Some(own))
            }
        }
    }

    /// Returns the width of a position's keys and values in the separate projections of global tokens.
    fn global_kv_width(&self, d_model: usize) -> u128 {
        let width = self.heads.n_kv_heads() * self.heads.d_head(d_model);
        match self.global {
            Some(Global::Own) => 2 * width as u128,
            Some(Global::Shared) | None => 0,
        }
    }

    /// Checks the memory: earlier segments are seen only through the window.
    fn memory_faults(&self, at: &mut TableFaults) {
        if self.global.is_some() && self.heads.segments().is_some() {
            let rule = "global reads both ways, but memory contains segments that are read from left to right; remove one of them";
            at.fault(&["global", "memory", "memory_at_evaluation"], rule);
        }
        let reach = self.window().reach();
        let evaluation = self.heads.memory_at_evaluation.unwrap_or(0);
        for (key, memory) in [
            ("memory", self.heads.memory),
            ("memory_at_evaluation", evaluation),
        ] {
            if memory > reach {
                let rule = format!(
                    "{key} = {memory} has no effect beyond {reach}: the window covers that many positions before a query; lower \
                     it or widen the window"
                );
                at.fault(&[key, "window", "dilation"], rule);
            }
        }
        if self.heads.same_length {
            let rule =
                "same_length = true has no effect: a query sees the keys of its window; remove it";
            at.fault(&["same_length", "window"], rule);
        }
    }

    fn dilation_faults(&self, dilation: &[usize], at: &mut TableFaults) {
        if let Some(step) = dilation
            .iter()
            .find(|step| !(1..=MAX_POSITIONS).contains(*step))
        {
            let rule = format!("dilation = {step} of a head is not between 1 and {MAX_POSITIONS}");
            at.fault(&["dilation"], rule);
        }
        if dilation.len() != self.heads.n_heads {
            let (given, heads) = (dilation.len(), self.heads.n_heads);
            let rule =
                format!("dilation has {given} numbers; it needs one for each of n_heads = {heads}");
            at.fault(&["dilation", "n_heads"], rule);
        } else if self.window == 1 {
            let rule = "dilation has no effect: window = 1 contains only the position itself; remove dilation";
            at.fault(&["dilation", "window"], rule);
        } else if dilation.iter().all(|step| *step == 1) {
            let rule = "dilation has no effect: 1 is the default of all heads; remove it";
            at.fault(&["dilation"], rule);
        }
    }
}

impl AttentionFacts for SlidingWindowConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn heads(&self) -> MultiHeadConfig {
        self.heads.clone()
    }

    /// Picks dilations of the former heads at even intervals as the number of heads shrinks.
    fn set_heads(&mut self, heads: MultiHeadConfig) {
        let each = |all: &Vec<usize>| {
            let number = heads.n_heads;
            let heads = (0..number).map(|head| head * all.len() / number);
            heads.filter_map(|at| all.get(at).copied()).collect()
        };
        self.dilation = self.dilation.as_ref().map(each);
        self.heads = heads;
    }

    fn abilities(&self) -> Abilities {
        let all = Abilities {
            across: false,
            ..Abilities::ALL
        };
        match self.global {
            None => Abilities {
                sinks: true,
                positions: &[
                    HeadEffect::Rotation,
                    HeadEffect::FadingRotation,
                    HeadEffect::Bias,
                    HeadEffect::LayerBias,
                    HeadEffect::Vectors,
                ],
                ..all
            },
            Some(Global::Shared) => Abilities {
                reads: ReadingDirection::Bidirectional,
                prefix: false,
                ..all
            },
            // Vectors of distances are built for the projections of all tokens.
            Some(Global::Own) => Abilities {
                reads: ReadingDirection::Bidirectional,
                prefix: false,
                positions: &[HeadEffect::Rotation, HeadEffect::Bias],
                ..all
            },
        }
    }

    fn sees_globals(&self) -> bool {
        self.global.is_some()
    }

    fn keys(&self, tokens: usize, causal: bool) -> usize {
        let sides = if causal { 1 } else { 2 };
        let others = sides * self.window.saturating_sub(1);
        let all = tokens.saturating_add(self.heads.memory);
        let globals = usize::from(self.global.is_some()) * ASSUMED_GLOBALS;
        all.min(others.saturating_add(1).saturating_add(globals))
    }

    fn activations(&self, d_model: usize) -> u128 {
        self.heads.activations(d_model) + self.global_kv_width(d_model)
    }

    /// Global tokens with separate projections compute queries, see all keys, and weigh all values.
    fn products(&self, d_model: usize, pairs: [usize; 3]) -> u128 {
        let [_, sources, _] = pairs.map(|n| n as u128);
        let width = (self.heads.n_heads * self.heads.d_head(d_model)) as u128;
        let own = match self.global {
            Some(Global::Own) => ASSUMED_GLOBALS as u128 * width * (d_model as u128 + 2 * sources),
            Some(Global::Shared) | None => 0,
        };
        let projected = sources * d_model as u128 * self.global_kv_width(d_model);
        self.heads.products(d_model, pairs) + own + projected
    }

    fn faults(&self, d_model: Option<usize>, at: &mut TableFaults) -> Option<usize> {
        at.count("window", self.window, MAX_POSITIONS);
        if let Some(dilation) = &self.dilation {
            self.dilation_faults(dilation, at);
        }
        self.memory_faults(at);
        self.heads.faults(d_model, at)
    }
}
