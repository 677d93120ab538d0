//! Sizes of the layers' contributions to their residual streams, measured on an untrained network: the profiling pass of Admin
//! ([`crate::stack::residual_scale::admin`]).
//!
//! Sums are accumulated on the host in 64 bits and in a fixed order, so that they do not depend on the number of threads.

use crate::kernel;
use burn::module::ParamId;
use burn::tensor::Tensor;

/// Running count, sum and sum of squares, from which a variance is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Moments {
    /// Adds all elements of a tensor.
    fn add(&mut self, x: &Tensor<3>) {
        let data = kernel::read(kernel::to_f32(kernel::untracked(x.clone())));
        for value in data.iter::<f32>().map(f64::from) {
            self.sum += value;
            self.squares += value * value;
        }
        self.count += data.num_elements() as f64;
    }

    /// Returns the variance of all elements so far; NaN before the first one.
    pub fn variance(&self) -> f64 {
        let mean = self.sum / self.count;
        self.squares / self.count - mean * mean
    }
}

/// The measurements of one residual connection.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectionMoments {
    /// The scale parameter of the connection's skip path.
    pub skip: ParamId,
    /// Moments of the stream that enters the stack; measured at the stack's first connection only, empty in all others.
    pub stream: Moments,
    /// Moments of the output of the connection's layer.
    pub result: Moments,
}

/// The residual connections of each stack of a network, in the order of the computation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResidualMoments {
    stacks: Vec<(String, Vec<ConnectionMoments>)>,
}

impl ResidualMoments {
    /// Returns the connections of each stack, stack by stack.
    pub fn stacks(&self) -> impl Iterator<Item = &[ConnectionMoments]> {
        self.stacks.iter().map(|(_, branches)| branches.as_slice())
    }

    /// Adds the `stream` that a connection of the block at `place` reads and the `result` of its layer. Connections are
    /// identified by their skips: a second pass over the same stack adds to the measurements of the first.
    pub(super) fn note(
        &mut self,
        place: &str,
        skip: ParamId,
        stream: &Tensor<3>,
        result: &Tensor<3>,
    ) {
        let has =
            |branches: &[ConnectionMoments]| branches.iter().any(|branch| branch.skip == skip);
        let known = self.stacks.iter().position(|(_, all)| has(all));
        let stack = place.rsplit_once("blocks.").map_or("", |(stack, _)| stack);
        let at = known.or_else(|| self.stacks.iter().position(|(name, _)| name == stack));
        let at = at.unwrap_or_else(|| {
            self.stacks.push((stack.to_owned(), Vec::new()));
            self.stacks.len() - 1
        });
        let branches = &mut self.stacks[at].1;
        let number = branches.iter().position(|branch| branch.skip == skip);
        let number = number.unwrap_or_else(|| {
            branches.push(ConnectionMoments {
                skip,
                stream: Moments::default(),
                result: Moments::default(),
            });
            branches.len() - 1
        });
        if number == 0 {
            branches[0].stream.add(stream);
        }
        branches[number].result.add(result);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, TensorData};

    fn tensor(values: [f32; 4]) -> Tensor<3> {
        Tensor::from_data(TensorData::new(values.to_vec(), [1, 2, 2]), &Device::flex())
    }

    #[test]
    fn stacks_are_apart_and_passes_add_up() {
        let [x, y] = [tensor([1.0, 1.0, 3.0, 3.0]), tensor([0.0, 0.0, 4.0, 4.0])];
        let [a, b, c] = [1, 2, 3].map(ParamId::from);
        let mut branches = ResidualMoments::default();
        branches.note("encoder.blocks.0", a, &x, &y);
        branches.note("encoder.blocks.1", b, &y, &x);
        branches.note("decoder.blocks.0", c, &y, &y);
        branches.note("second.encoder.blocks.1", b, &y, &y);
        let found: Vec<Vec<_>> = branches
            .stacks()
            .map(|stack| {
                stack
                    .iter()
                    .map(|b| (b.skip, b.result.variance()))
                    .collect()
            })
            .collect();
        // x and y together: mean 2; the squared deviations are 1, 1, 1, 1, 4, 4, 4, 4 (for `b`).
        assert_eq!(found, [vec![(a, 4.0), (b, 2.5)], vec![(c, 4.0)]]);
        let streams: Vec<f64> = branches.stacks().map(|s| s[0].stream.variance()).collect();
        assert_eq!(streams, [1.0, 4.0]);
    }
}
