//! The way back: the gradient of states from chunk to chunk, then those of a chunk's positions.

use burn::backend::ops::FloatTensorOps;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;

use super::Problem;
use super::channels::of_channels;
use super::directions::of_directions;
use crate::kernel::cube::chunks::Direction;
use crate::kernel::cube::columns;
use crate::kernel::cube::launch::{contiguous, empty, empty_like};
use crate::kernel::cube::square::SIDE;
use crate::kernel::ssd::Sizes;
use crate::kernel::ssd::extension::SsdInputs;

/// The gradients of all inputs; `states` are those before each chunk.
pub fn backward(problem: &Problem, states: CubeTensor, grad: CubeTensor) -> SsdInputs<CubeTensor> {
    let Sizes { heads, .. } = problem.sizes;
    let (inputs, chunks, side) = (&problem.inputs, problem.all_chunks(), SIDE as usize);
    let grad = contiguous(grad);
    let [later, passed] = problem.ends(Some(&grad));
    let none = empty(&grad, [1]);
    problem.carry(&later, &passed, None, &none, Direction::backward());
    let [of_mixed, of_raw] = [&inputs.mixed, &inputs.raw].map(empty_like);
    let of_pairs = empty(&grad, [chunks * heads, side, side]);
    let of_parameters = empty(&grad, [chunks, 2 * heads]);
    let (count, dim, extent) = problem.squares(chunks * heads);
    of_channels::launch(
        &grad.client,
        count,
        dim,
        inputs.mixed.clone().into_buffer_arg(),
        inputs.raw.clone().into_buffer_arg(),
        inputs.decay.clone().into_buffer_arg(),
        inputs.skip.clone().into_buffer_arg(),
        problem.codes.numbers.clone().into_buffer_arg(),
        grad.clone().into_buffer_arg(),
        states.clone().into_buffer_arg(),
        later.clone().into_buffer_arg(),
        problem.scores().into_buffer_arg(),
        of_mixed.clone().into_buffer_arg(),
        of_raw.clone().into_buffer_arg(),
        of_pairs.clone().into_buffer_arg(),
        of_parameters.clone().into_buffer_arg(),
        extent,
        problem.form(),
    );
    let (mixed, channels) = (problem.form().mixed(), problem.form().channels());
    for (values, width, states, of_c) in [
        (&inputs.mixed, mixed, later, false),
        (&grad, channels, states, true),
    ] {
        problem.directions([values, &states, &of_pairs, &of_mixed], width, of_c);
    }
    let of_parameters = columns::sum(of_parameters);
    let part = |from: usize| {
        CubeBackend::float_slice(of_parameters.clone(), &[(from..from + heads).into()])
    };
    SsdInputs {
        mixed: of_mixed,
        raw: of_raw,
        decay: part(0),
        skip: part(heads),
    }
}

impl Problem {
    /// The gradient of b, or with `of_c` of c, into that of what holds them: from values of `width` numbers a position, states, and pairs.
    fn directions(&self, tensors: [&CubeTensor; 4], width: u32, of_c: bool) {
        let (inputs, form) = (&self.inputs, self.form());
        let work = self.all_chunks() * self.sizes.groups * form.slices() as usize;
        let (count, dim, extent) = self.squares(work);
        let [values, states, of_pairs, of_mixed] = tensors.map(Clone::clone);
        of_directions::launch(
            &inputs.mixed.client,
            count,
            dim,
            inputs.mixed.clone().into_buffer_arg(),
            inputs.raw.clone().into_buffer_arg(),
            inputs.decay.clone().into_buffer_arg(),
            self.codes.numbers.clone().into_buffer_arg(),
            values.into_buffer_arg(),
            states.into_buffer_arg(),
            of_pairs.into_buffer_arg(),
            of_mixed.into_buffer_arg(),
            extent,
            width,
            form,
            of_c,
        );
    }
}
