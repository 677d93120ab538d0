//! The value residual (Zhou et al. 2024, arXiv:2410.17897), as in RWKV-7: the first layer of a stack that supports it stores its
//! values here, and later layers mix them into their own.
//!
//! The values live as long as one pass through one stack; its blocks reach them through their contexts. A block that is
//! recomputed in the backward pass is given the values of its first computation.

use burn::tensor::Tensor;
use std::cell::RefCell;

/// The first layer's values, shared by the layers during one pass through a stack.
#[derive(Debug, Default)]
pub struct FirstValues {
    inherited: Option<Tensor<3>>,
    made: RefCell<Option<Tensor<3>>>,
}

impl FirstValues {
    /// Starts with the values of an earlier block, if there are any.
    pub fn starting_with(given: Option<Tensor<3>>) -> Self {
        Self {
            inherited: given,
            made: RefCell::default(),
        }
    }

    /// Returns the values `[batch, seq, d_model]`, once a layer has stored them.
    pub fn get(&self) -> Option<Tensor<3>> {
        self.inherited.clone().or_else(|| self.stored())
    }

    /// Stores a layer's values `[batch, seq, d_model]` for later layers, unless an earlier layer has already done so.
    pub fn put(&self, values: &Tensor<3>) {
        let mut made = self.made.borrow_mut();
        if self.inherited.is_none() && made.is_none() {
            *made = Some(values.clone());
        }
    }

    /// Returns the values that were stored here, as opposed to given at the start.
    pub fn stored(&self) -> Option<Tensor<3>> {
        self.made.borrow().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    #[test]
    fn the_first_to_make_some_is_heard() {
        let device = Device::flex();
        let values = |x: f32| Tensor::<3>::full([1, 1, 1], x, &device);
        let number = |x: Option<Tensor<3>>| x.map(|x| x.into_scalar::<f32>());
        let fresh = FirstValues::default();
        assert!(fresh.get().is_none() && fresh.stored().is_none());
        fresh.put(&values(1.0));
        fresh.put(&values(2.0));
        assert_eq!(number(fresh.get()), Some(1.0));
        assert_eq!(number(fresh.stored()), Some(1.0));
        let given = FirstValues::starting_with(fresh.get());
        given.put(&values(3.0));
        assert_eq!(number(given.get()), Some(1.0));
        assert!(given.stored().is_none());
    }
}
