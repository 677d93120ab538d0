//! Recurrent cells from plain tensor operations, for devices without kernels and as the reference for the kernels.

use burn::tensor::Tensor;
use burn::tensor::activation::sigmoid;

use super::steps::{StepChange, Steps};
use crate::kernel::recurrent::{Cell, Recurrence, Sequences};

/// Computes all positions, one after the other; returns the outputs and the state after the last position.
pub fn recurrent(
    recurrence: Recurrence,
    cell: Cell,
    sequences: &Sequences,
) -> (Tensor<3>, Vec<Tensor<2>>) {
    let [batch, seq, width] = recurrence.inputs.dims();
    let weight = recurrence.weight.transpose();
    let bias = recurrence.hidden_bias.map(Tensor::unsqueeze::<2>);
    let mut state = recurrence.state;
    let mut outputs = Vec::with_capacity(seq);
    for at in 0..seq {
        let steps = Steps::at(sequences, [batch, seq], at);
        let begun = state.into_iter().map(|x| steps.reset_beginning(x));
        state = begun.collect();
        let inputs = recurrence.inputs.clone();
        let inputs = inputs.slice([0..batch, at..at + 1, 0..width]);
        let inputs = inputs.reshape([batch, width]);
        let hidden = state[0].clone().matmul(weight.clone());
        let next = step(cell, inputs, hidden, bias.clone(), &state);
        let pairs = state.into_iter().zip(next);
        let held = pairs.map(|(before, after)| steps.hold_ended(StepChange { before, after }));
        state = held.collect();
        outputs.push(state[0].clone().unsqueeze_dim::<3>(1));
    }
    (Tensor::cat(outputs, 1), state)
}

/// Returns the state after one step.
fn step(
    cell: Cell,
    inputs: Tensor<2>,
    hidden: Tensor<2>,
    bias: Option<Tensor<2>>,
    state: &[Tensor<2>],
) -> Vec<Tensor<2>> {
    let gates = cell.gates();
    let parts = |x: Tensor<2>| x.chunk(gates, 1);
    match cell {
        Cell::Elman => vec![(inputs + hidden).tanh()],
        Cell::Gru => {
            let (a, b) = (parts(inputs), parts(hidden));
            let r = sigmoid(a[0].clone() + b[0].clone());
            let z = sigmoid(a[1].clone() + b[1].clone());
            let inner = match bias {
                Some(bias) => b[2].clone() + bias,
                None => b[2].clone(),
            };
            let n = (a[2].clone() + r * inner).tanh();
            vec![n.clone() + z * (state[0].clone() - n)]
        }
        Cell::Lstm => {
            let a = parts(inputs + hidden);
            let [i, f, o] = [0, 1, 3].map(|gate| sigmoid(a[gate].clone()));
            let c = f * state[1].clone() + i * a[2].clone().tanh();
            vec![o * c.clone().tanh(), c]
        }
    }
}
