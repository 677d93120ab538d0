//! The forward pass.

use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;

use super::Problem;
use super::solve::solved;
use super::walk::walked;
use crate::kernel::cube::chunks::Direction;
use crate::kernel::cube::launch::{contiguous, empty};
use crate::kernel::cube::square::SIDE;
use crate::kernel::extension::Maybe;
use crate::kernel::ssd::Sizes;

/// Returns the output, followed by the last states if they are requested, and the states before each chunk. The
/// corrections are written to their places beside keys and queries.
pub fn forward(
    problem: &Problem,
    state: Maybe<CubeBackend>,
    last: bool,
) -> (CubeTensor, CubeTensor) {
    let Sizes { batch, seq, n, .. } = problem.space.sizes;
    let channels = problem.space.sizes.channels();
    let rows = batch * seq + if last { batch * n } else { 0 };
    let out = empty(&problem.mixed, [rows, channels]);
    if rows * channels == 0 {
        return (out.clone(), out);
    }
    let of_keys = problem.space.scores(true);
    let unread = empty(&out, [1]);
    let solved = problem.solve(&problem.mixed, [&of_keys, &unread], false);
    let states = empty(&out, [problem.space.all_chunks(), n, channels]);
    let state = state.into_option().map(contiguous);
    let how = Direction::forward(state.is_some(), last);
    let first = state.unwrap_or_else(|| unread.clone());
    let to = [&states, &empty(&out, [1]), &out];
    problem.walk(&solved, [&first, &unread], to, how);
    problem.space.outputs(&states, &out);
    (out, states)
}

impl Problem {
    /// Returns the part that does not depend on states, and the maps applied to the states. Forward these give the
    /// corrections, and `values` holds queries, keys and values. With `back` they give the gradients of values, and
    /// `values` is the output gradient. `of_keys` are the products k·k of each chunk; `of_queries`, used with `back`,
    /// are the products k·q.
    pub fn solve(
        &self,
        values: &CubeTensor,
        [of_keys, of_queries]: [&CubeTensor; 2],
        back: bool,
    ) -> [CubeTensor; 2] {
        let (space, form) = (&self.space, self.form());
        let Sizes {
            batch,
            seq,
            heads,
            n,
            ..
        } = space.sizes;
        let work = space.all_chunks() * heads;
        let given = empty(values, [batch * seq, space.sizes.channels()]);
        let maps = empty(values, [work, SIDE as usize, n]);
        let (count, dim, extent) = space.squares(work);
        let (width, behind) = match back {
            true => (form.channels(), 0),
            false => (form.mixed(), self.before_values() as u32),
        };
        solved::launch(
            &values.client,
            count,
            dim,
            space.inputs.mixed.clone().into_buffer_arg(),
            space.inputs.raw.clone().into_buffer_arg(),
            space.inputs.decay.clone().into_buffer_arg(),
            space.codes.numbers.clone().into_buffer_arg(),
            values.clone().into_buffer_arg(),
            of_keys.clone().into_buffer_arg(),
            of_queries.clone().into_buffer_arg(),
            given.clone().into_buffer_arg(),
            maps.clone().into_buffer_arg(),
            extent,
            width,
            behind,
            form,
            back,
        );
        [given, maps]
    }

    /// Scans along all rows, given a first state and each chunk's share of the state gradients, and writes states,
    /// changes and outputs.
    pub fn walk(
        &self,
        [given, maps]: &[CubeTensor; 2],
        [first, ends]: [&CubeTensor; 2],
        [states, changes, out]: [&CubeTensor; 3],
        how: Direction,
    ) {
        let (space, form) = (&self.space, self.form());
        let Sizes {
            batch, seq, heads, ..
        } = space.sizes;
        let (count, dim, extent) = space.squares(batch * heads * form.tiles() as usize);
        walked::launch(
            &given.client,
            count,
            dim,
            given.clone().into_buffer_arg(),
            maps.clone().into_buffer_arg(),
            space.inputs.raw.clone().into_buffer_arg(),
            space.inputs.decay.clone().into_buffer_arg(),
            space.codes.numbers.clone().into_buffer_arg(),
            first.clone().into_buffer_arg(),
            ends.clone().into_buffer_arg(),
            space.inputs.mixed.clone().into_buffer_arg(),
            states.clone().into_buffer_arg(),
            changes.clone().into_buffer_arg(),
            out.clone().into_buffer_arg(),
            extent,
            (batch * seq * space.sizes.channels()) as u32,
            form,
            how,
        );
    }
}
