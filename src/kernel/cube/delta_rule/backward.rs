//! The backward pass: the gradients of values and of states from chunk to chunk, then those of queries, keys, β and
//! decays.

use burn::backend::ops::FloatTensorOps;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;

use super::Problem;
use crate::kernel::cube::chunks::Direction;
use crate::kernel::cube::launch::{empty, empty_like};
use crate::kernel::cube::ssd::Reading;
use crate::kernel::delta_rule::extension::DeltaRuleInputs;
use crate::kernel::ssd::Sizes;

/// Returns the gradients of all inputs; `states` are those before each chunk.
pub fn backward(
    problem: &Problem,
    states: CubeTensor,
    grad: CubeTensor,
) -> DeltaRuleInputs<CubeTensor> {
    let space = &problem.space;
    let Sizes {
        batch, seq, heads, ..
    } = space.sizes;
    let [of_queries, of_keys] = [false, true].map(|keys| space.scores(keys));
    let solved = problem.solve(&grad, [&of_keys, &of_queries], true);
    let [ends, _] = space.ends(Some(&grad));
    let later = empty_like(&ends);
    let changes = empty(&grad, [batch * seq, space.sizes.channels()]);
    let of_mixed = empty_like(&problem.mixed);
    let unread = empty(&grad, [1]);
    let to = [&later, &changes, &of_mixed];
    problem.walk(&solved, [&unread, &ends], to, Direction::backward());
    let of_inner = empty_like(&space.inputs.mixed);
    let results = Reading {
        grad,
        states: states.clone(),
        later: Some(later),
        scores: of_queries,
    };
    let corrections = Reading {
        grad: changes,
        states,
        later: None,
        scores: of_keys,
    };
    let of_gates = [results, corrections].map(|reading| space.gradients(reading, &of_inner).0);
    problem.write_of_units(&of_inner, &of_mixed);
    let [own, other] = of_gates;
    let of_gates = CubeBackend::float_add(own, other);
    let part = |number: usize| {
        let slices = [
            (0..batch * seq).into(),
            (number * heads..(number + 1) * heads).into(),
        ];
        let part = CubeBackend::float_slice(of_gates.clone(), &slices);
        CubeBackend::float_reshape(part, [batch, seq, heads].into())
    };
    DeltaRuleInputs {
        mixed: of_mixed,
        beta: part(0),
        decay: part(1),
    }
}
