//! The sizes of what layers add to their streams, measured on an untrained network: Admin's profile
//! ([`crate::stack::residual_scale::admin`]).
//!
//! Numbers are added on the host in 64 bits and in one order, so that they are the same for any number of threads.

use crate::kernel;
use burn::module::ParamId;
use burn::tensor::Tensor;

/// The sums that a variance is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Moments {
    /// Adds all elements of a tensor.
    fn add(&mut self, x: &Tensor<3>) {
        let data = kernel::read(kernel::full(kernel::untracked(x.clone())));
        for value in data.iter::<f32>().map(f64::from) {
            self.sum += value;
            self.squares += value * value;
        }
        self.count += data.num_elements() as f64;
    }

    /// The variance of all elements so far; not a number before the first one.
    pub fn variance(&self) -> f64 {
        let mean = self.sum / self.count;
        self.squares / self.count - mean * mean
    }
}

/// A residual connection.
#[derive(Clone, Debug, PartialEq)]
pub struct Branch {
    /// The scale of its skip.
    pub skip: ParamId,
    /// Of the stream that its stack begins with; empty but in the first connection.
    pub stream: Moments,
    /// Of its layer's result.
    pub result: Moments,
}

/// The residual connections of each stack of a network, in the order of the computation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Branches {
    stacks: Vec<(String, Vec<Branch>)>,
}

impl Branches {
    /// The stacks.
    pub fn stacks(&self) -> impl Iterator<Item = &[Branch]> {
        self.stacks.iter().map(|(_, branches)| branches.as_slice())
    }

    /// Adds the `stream` that a connection of the block at `place` reads and its layer's `result`. Connections are known by their skips: a
    /// second pass over the same stack adds to the first.
    pub(super) fn note(
        &mut self,
        place: &str,
        skip: ParamId,
        stream: &Tensor<3>,
        result: &Tensor<3>,
    ) {
        let has = |branches: &[Branch]| branches.iter().any(|branch| branch.skip == skip);
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
            branches.push(Branch {
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
        let mut branches = Branches::default();
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
        // x and y together: mean 2, squares 1, 1, 1, 1, 4, 4, 4, 4 around it.
        assert_eq!(found, [vec![(a, 4.0), (b, 2.5)], vec![(c, 4.0)]]);
        let streams: Vec<f64> = branches.stacks().map(|s| s[0].stream.variance()).collect();
        assert_eq!(streams, [1.0, 4.0]);
    }
}
