//! The generalised delta rule from plain tensor operations, one position after the other, for devices without kernels
//! and as the reference for the kernel.

use burn::tensor::{DType, Tensor};

use super::GeneralizedDelta;
use crate::kernel::composed::steps::{StepChange, Steps};
use crate::kernel::recurrent::Sequences;

/// Same as the public function, but always returns the state; computes in 32 bits for inputs of any dtype.
pub fn generalized_delta(rule: GeneralizedDelta, sequences: &Sequences) -> (Tensor<3>, Tensor<2>) {
    let ([batch, seq, channels], dtype) = (rule.r.dims(), rule.r.dtype());
    let (n, heads) = (rule.d_head, channels / rule.d_head);
    let rule = rule.cast(DType::F32);
    let w = rule.decay.clone().exp();
    // Key elements along dimension 2, value elements along dimension 3.
    let mut state: Tensor<4> = rule.initial_state().reshape([batch, heads, n, n]);
    let mut outputs = Vec::with_capacity(seq);
    for at in 0..seq {
        let steps = Steps::at(sequences, [batch, seq], at);
        state = steps.reset_beginning(state);
        let of = |x: &Tensor<3>, shape: [usize; 4]| -> Tensor<4> {
            x.clone().narrow(1, at, 1).reshape(shape)
        };
        let column = |x: &Tensor<3>| of(x, [batch, heads, n, 1]);
        let found = (state.clone() * column(&rule.a)).sum_dim(2);
        let added = column(&rule.k) * of(&rule.v, [batch, heads, 1, n]);
        let next = state.clone() * column(&w) + column(&rule.b) * found + added;
        let y = (next.clone() * column(&rule.r)).sum_dim(2);
        outputs.push(steps.zero_ended::<3>(y.reshape([batch, 1, channels])));
        state = steps.hold_ended(StepChange {
            before: state,
            after: next,
        });
    }
    let state = state.reshape([batch, n * channels]);
    (Tensor::cat(outputs, 1).cast(dtype), state)
}
