//! RWKV's weighted average from plain tensor operations, one position after the other, for devices without kernels
//! and as the reference for the kernels.

use burn::tensor::activation::sigmoid;
use burn::tensor::{DType, Tensor};

use super::{EMPTY_EXPONENT, STATE_VECTORS, Wkv};
use crate::kernel::composed::steps::{StepChange, Steps};
use crate::kernel::recurrent::Sequences;

/// Same as the public function, but always returns the state; computes in 32 bits for inputs of any dtype.
pub fn wkv(wkv: Wkv, sequences: &Sequences) -> (Tensor<3>, Tensor<2>) {
    let ([batch, seq, _], dtype) = (wkv.k.dims(), wkv.k.dtype());
    let wkv = wkv.cast(DType::F32);
    let [decay, first] = [&wkv.decay, &wkv.bonus].map(|x| x.clone().unsqueeze_dim::<2>(0));
    let mut state = wkv.initial_state().chunk(STATE_VECTORS, 1);
    let mut outputs = Vec::with_capacity(seq);
    for at in 0..seq {
        let steps = Steps::at(sequences, [batch, seq], at);
        let begun: Vec<Tensor<2>> = state
            .into_iter()
            .map(|x| steps.reset_beginning(x))
            .collect();
        let [a, b] = [0, 1].map(|part| begun[part].clone());
        let p = begun[2].clone();
        let p = p.mask_fill(b.clone().equal_elem(0.0), EMPTY_EXPONENT);
        let of = |x: &Tensor<3>| x.clone().narrow(1, at, 1).squeeze_dim::<2>(1);
        let (k, v) = (of(&wkv.k), of(&wkv.v));
        let now = Weights::new(p.clone(), k.clone() + first.clone());
        let above = a.clone() * now.old.clone() + v.clone() * now.new.clone();
        let below = b.clone() * now.old + now.new;
        let y = sigmoid(of(&wkv.r)) * above / below;
        outputs.push(steps.zero_ended(y).unsqueeze_dim::<3>(1));
        let later = Weights::new(p + decay.clone(), k);
        let next = [
            a * later.old.clone() + v * later.new.clone(),
            b * later.old + later.new,
            later.largest,
        ];
        let pairs = begun.into_iter().zip(next);
        let held = pairs.map(|(before, after)| steps.hold_ended(StepChange { before, after }));
        state = held.collect();
    }
    (Tensor::cat(outputs, 1).cast(dtype), Tensor::cat(state, 1))
}

/// Two exponentials relative to the larger exponent, which gets no gradient since the quotient of the sums does not
/// depend on it.
struct Weights {
    largest: Tensor<2>,
    old: Tensor<2>,
    new: Tensor<2>,
}

impl Weights {
    fn new(old: Tensor<2>, new: Tensor<2>) -> Self {
        let largest = old.clone().max_pair(new.clone()).detach();
        Self {
            old: (old - largest.clone()).exp(),
            new: (new - largest.clone()).exp(),
            largest,
        }
    }
}
