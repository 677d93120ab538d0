//! The delta rule of [`crate::kernel::delta_rule`]. Its corrections w are the values that a state space by heads
//! writes, with unit-length keys and queries for b and c, and β for steps. So everything except the corrections is
//! computed by the state space ([`super::ssd`]). The part of the corrections that does not depend on states is
//! computed for all chunks at once (`solve.rs`); a scan from chunk to chunk computes the rest (`walk.rs`).
//!
//! In the backward pass a correction is an output as well: that of a query k, minus the value, over the earlier
//! positions only. Its gradients are those of one more such state space, whose output gradient is −y.

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

pub use super::ssd::supports;

/// The inputs of both passes.
struct Problem {
    /// Queries, keys and values of all positions.
    mixed: CubeTensor,
    /// The state space over corrections, keys and queries.
    space: Space,
}

impl Problem {
    /// Prepares the inputs; `inner` holds corrections, keys and queries if they are already computed.
    fn new(
        inputs: DeltaRuleInputs<CubeTensor>,
        inner: Option<CubeTensor>,
        settings: &DeltaRuleSettings,
    ) -> Self {
        let [mixed, beta, decay] = [inputs.mixed, inputs.beta, inputs.decay].map(contiguous);
        let [_, _, heads] = beta.shape().dims();
        let DeltaRuleSettings { groups, n, .. } = *settings;
        let sizes = Sizes::from_input(mixed.shape().dims(), heads, [groups, n]);
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

    /// Returns the number of elements of a position before its values.
    fn before_values(&self) -> usize {
        2 * self.space.sizes.groups * self.space.sizes.n
    }

    /// Returns the length of queries relative to 1: the scale factor of scores.
    fn shorter(&self) -> f32 {
        (self.space.sizes.n as f32).sqrt().recip()
    }

    /// Returns the number of queries and keys of all positions.
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

    /// Writes the gradients of queries and keys, given those of the unit vectors, into the gradients of queries, keys
    /// and values.
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
