//! The delta rule of [`crate::kernel::delta_rule`]. Its corrections w are what a state space by heads writes, with keys and queries of
//! length 1 for b and c and β for steps, so that all but the corrections is the state space's ([`super::ssd`]). What of them
//! does not hang on states is made for all chunks at once (`solve.rs`), and a walk from chunk to chunk has the rest (`walk.rs`).
//!
//! On the way back a correction is a result, too: of a query k, less the value, over the earlier positions alone. Its gradients
//! are those of such a state space once more, at which −y arrives.

mod backward;
mod forward;
mod solve;
mod units;
mod walk;

use burn::backend::TensorMetadata;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;

use super::launch::{contiguous, cubes, empty_like};
use super::ssd::{Form, Gates, Problem as Space};
use crate::kernel::delta_rule::extension::{
    DeltaRuleBackwardOps, DeltaRuleInputs, DeltaRuleOps, DeltaRuleSaved, DeltaRuleSettings,
};
use crate::kernel::extension::Maybe;
use crate::kernel::ssd::Sizes;
use crate::kernel::ssd::extension::SsdInputs;

pub use super::ssd::takes;

/// Everything that both passes read.
struct Problem {
    /// Queries, keys and values.
    mixed: CubeTensor,
    /// The state space of corrections, keys and queries.
    space: Space,
}

impl Problem {
    /// Of these inputs; `inner` are corrections, keys and queries, if they are made already.
    fn new(
        inputs: DeltaRuleInputs<CubeTensor>,
        inner: Option<CubeTensor>,
        settings: &DeltaRuleSettings,
    ) -> Self {
        let [mixed, beta, decay] = [inputs.mixed, inputs.beta, inputs.decay].map(contiguous);
        let [_, _, heads] = beta.shape().dims();
        let DeltaRuleSettings { groups, n, .. } = *settings;
        let sizes = Sizes::of(mixed.shape().dims(), heads, [groups, n]);
        let units = inner.is_none();
        let inputs = SsdInputs {
            mixed: inner.unwrap_or_else(|| empty_like(&mixed)),
            raw: beta,
            skip: decay.clone(),
            decay,
        };
        let space = Space::new(sizes, inputs, &settings.sequences, Gates::Given);
        let own = Self { mixed, space };
        if units {
            own.write_units();
        }
        own
    }

    fn form(&self) -> Form {
        self.space.form()
    }

    /// Numbers of a position before its values.
    fn before_values(&self) -> usize {
        2 * self.space.sizes.groups * self.space.sizes.n
    }

    /// What a query is shorter than 1: the factor of scores.
    fn shorter(&self) -> f32 {
        (self.space.sizes.n as f32).sqrt().recip()
    }

    /// Queries and keys of all positions.
    fn vectors(&self) -> usize {
        let Sizes {
            batch, seq, groups, ..
        } = self.space.sizes;
        batch * seq * 2 * groups
    }

    fn write_units(&self) {
        let work = self.vectors();
        let (count, dim, units) = cubes(&self.mixed, work, self.space.sizes.n);
        units::units_of::launch(
            &self.mixed.client,
            count,
            dim,
            self.mixed.clone().into_buffer_arg(),
            self.space.inputs.mixed.clone().into_buffer_arg(),
            work as u32,
            self.shorter(),
            units,
            self.form(),
        );
    }

    /// The gradients of queries and keys from those of the units, into those of queries, keys and values.
    fn write_of_units(&self, of_inner: &CubeTensor, of_mixed: &CubeTensor) {
        let work = self.vectors();
        let (count, dim, units) = cubes(&self.mixed, work, self.space.sizes.n);
        units::of_units::launch(
            &self.mixed.client,
            count,
            dim,
            self.mixed.clone().into_buffer_arg(),
            self.space.inputs.mixed.clone().into_buffer_arg(),
            of_inner.clone().into_buffer_arg(),
            self.space.codes.numbers.clone().into_buffer_arg(),
            of_mixed.clone().into_buffer_arg(),
            work as u32,
            self.shorter(),
            units,
            self.form(),
        );
    }
}

impl DeltaRuleOps for CubeBackend {
    fn delta_rule(
        mixed: CubeTensor,
        beta: CubeTensor,
        decay: CubeTensor,
        state: Maybe<Self>,
        settings: DeltaRuleSettings,
    ) -> CubeTensor {
        let inputs = DeltaRuleInputs { mixed, beta, decay };
        let problem = Problem::new(inputs, None, &settings);
        forward::forward(&problem, state, settings.last).0
    }
}

impl DeltaRuleBackwardOps for CubeBackend {
    fn delta_rule_saving(
        inputs: DeltaRuleInputs<CubeTensor>,
        state: Maybe<Self>,
        settings: &DeltaRuleSettings,
    ) -> DeltaRuleSaved<Self> {
        let problem = Problem::new(inputs, None, settings);
        let carried = matches!(state, Maybe::Some(_));
        let (out, states) = forward::forward(&problem, state, settings.last);
        let SsdInputs {
            mixed: inner,
            raw: beta,
            decay,
            ..
        } = problem.space.inputs;
        DeltaRuleSaved {
            inputs: DeltaRuleInputs {
                mixed: problem.mixed,
                beta,
                decay,
            },
            out,
            states,
            carried,
            corrections: Some(inner),
        }
    }

    fn delta_rule_backward(
        saved: DeltaRuleSaved<Self>,
        grad: CubeTensor,
        settings: &DeltaRuleSettings,
    ) -> DeltaRuleInputs<CubeTensor> {
        let problem = Problem::new(saved.inputs, saved.corrections, settings);
        backward::backward(&problem, saved.states, contiguous(grad))
    }
}
