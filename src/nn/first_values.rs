//! The value residual (Zhou et al. 2024, arXiv:2410.17897), as RWKV-7 has it: the first layer of a stack that has values for it keeps
//! them here, and later layers mix them into their own.
//!
//! They live as long as one pass through one stack, whose blocks see them through their contexts. A block that is computed once more on
//! the way back is given those that it had the first time.

use burn::tensor::Tensor;
use std::cell::RefCell;

/// The values of the first layer, as one pass through a stack finds them.
#[derive(Debug, Default)]
pub struct FirstValues {
    given: Option<Tensor<3>>,
    made: RefCell<Option<Tensor<3>>>,
}

impl FirstValues {
    /// Those of an earlier block, when there are some.
    pub fn of(given: Option<Tensor<3>>) -> Self {
        Self {
            given,
            made: RefCell::default(),
        }
    }

    /// The values `[batch, seq, d_model]`, once a layer has made them.
    pub fn get(&self) -> Option<Tensor<3>> {
        self.given.clone().or_else(|| self.made())
    }

    /// Keeps the values of a layer `[batch, seq, d_model]` for later ones, where no earlier one has made some.
    pub fn put(&self, values: &Tensor<3>) {
        let mut made = self.made.borrow_mut();
        if self.given.is_none() && made.is_none() {
            *made = Some(values.clone());
        }
    }

    /// Those that were made here, and not given.
    pub fn made(&self) -> Option<Tensor<3>> {
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
        assert!(fresh.get().is_none() && fresh.made().is_none());
        fresh.put(&values(1.0));
        fresh.put(&values(2.0));
        assert_eq!(number(fresh.get()), Some(1.0));
        assert_eq!(number(fresh.made()), Some(1.0));
        let given = FirstValues::of(fresh.get());
        given.put(&values(3.0));
        assert_eq!(number(given.get()), Some(1.0));
        assert!(given.made().is_none());
    }
}
