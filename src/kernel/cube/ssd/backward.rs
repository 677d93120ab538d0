//! The backward pass: the gradient of states from chunk to chunk, then those of a chunk's positions.

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

/// What a backward pass reads about outputs and the tensors they were computed from.
pub struct Reading {
    /// Gradient of the outputs.
    pub grad: CubeTensor,
    /// The states before each chunk.
    pub states: CubeTensor,
    /// Gradient of the states after each chunk. If absent, the outputs are those of corrections: they use b in place
    /// of c, and earlier positions only.
    pub later: Option<CubeTensor>,
    /// Products of the positions of each chunk, c·b or b·b.
    pub scores: CubeTensor,
}

/// Returns the gradients of all inputs; `states` are those before each chunk.
pub fn backward(problem: &Problem, states: CubeTensor, grad: CubeTensor) -> SsdInputs<CubeTensor> {
    let Sizes { heads, .. } = problem.sizes;
    let grad = contiguous(grad);
    let [later, passed] = problem.ends(Some(&grad));
    let none = empty(&grad, [1]);
    problem.carry(&later, &passed, None, &none, Direction::backward());
    let of_mixed = empty_like(&problem.inputs.mixed);
    let reading = Reading {
        grad,
        states,
        later: Some(later),
        scores: problem.scores(false),
    };
    let (of_raw, of_parameters) = problem.gradients(reading, &of_mixed);
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
    /// Writes the gradients of x, b and c. Returns the gradients of the steps, and each chunk's gradients of decay
    /// and skip. If steps and decays are given per position, the gradients of decays follow those of steps,
    /// `[batch, seq, 2, heads]`. For corrections, the gradient is added to that of b.
    pub fn gradients(&self, reading: Reading, of_mixed: &CubeTensor) -> (CubeTensor, CubeTensor) {
        let Sizes {
            batch, seq, heads, ..
        } = self.sizes;
        let (inputs, form, chunks) = (&self.inputs, self.form(), self.all_chunks());
        let Reading {
            grad,
            states,
            later,
            scores,
        } = reading;
        let side = SIDE as usize;
        let of_keys = later.is_none();
        let of_raw = match form.is_given() {
            true => empty(&grad, [batch * seq, 2 * heads]),
            false => empty_like(&inputs.raw),
        };
        let of_pairs = empty(&grad, [chunks * heads, side, side]);
        let of_parameters = empty(&grad, [chunks, 2 * heads]);
        let (count, dim, extent) = self.squares(chunks * heads);
        of_channels::launch(
            &grad.client,
            count,
            dim,
            inputs.mixed.clone().into_buffer_arg(),
            inputs.raw.clone().into_buffer_arg(),
            inputs.decay.clone().into_buffer_arg(),
            inputs.skip.clone().into_buffer_arg(),
            self.codes.numbers.clone().into_buffer_arg(),
            grad.clone().into_buffer_arg(),
            states.clone().into_buffer_arg(),
            later.as_ref().unwrap_or(&states).clone().into_buffer_arg(),
            scores.into_buffer_arg(),
            of_mixed.clone().into_buffer_arg(),
            of_raw.clone().into_buffer_arg(),
            of_pairs.clone().into_buffer_arg(),
            of_parameters.clone().into_buffer_arg(),
            extent,
            form,
            of_keys,
        );
        if let Some(later) = &later {
            let tensors = [&inputs.mixed, later, &of_pairs, of_mixed];
            self.directions(tensors, form.mixed(), [false; 2]);
        }
        let tensors = [&grad, &states, &of_pairs, of_mixed];
        self.directions(tensors, form.channels(), [true, of_keys]);
        (of_raw, of_parameters)
    }

    /// Writes the gradient of b, or with `of_c` of c, into `of_mixed`, given values of `width` elements per position,
    /// states and pairs.
    fn directions(&self, tensors: [&CubeTensor; 4], width: u32, [of_c, of_keys]: [bool; 2]) {
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
            of_keys,
        );
    }
}
