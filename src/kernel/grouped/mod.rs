//! Rows sorted by group, with each group multiplied by a separate matrix: the core of a mixture of experts.
//!
//! A token makes several choices, each of a group (an expert). [`gather`] copies a token's vector into rows of the
//! groups that it chose, [`grouped_linear`] multiplies the rows of each group by that group's matrix, and [`combine`]
//! sums a token's rows, each with its weight. Groups follow one another, with the rows of a group in the order of
//! tokens; sums are added in the order of choices. A choice may select no group: it then has no row and adds nothing.

pub mod composed;
#[cfg(feature = "flex")]
pub mod extension;
#[cfg(feature = "flex")]
mod tracked;

use std::ops::Range;
use std::sync::Arc;

#[cfg(feature = "flex")]
use burn::backend::Dispatch;
use burn::tensor::Tensor;

#[cfg(feature = "flex")]
use super::{extension::maybe, has_flex_kernels};
#[cfg(feature = "flex")]
use extension::GroupedOps;

/// The assignment of rows to tokens, choices and groups; cheap to clone.
#[derive(Clone, Debug)]
pub struct Groups(Arc<SortedRows>);

#[derive(Debug)]
struct SortedRows {
    choices: usize,
    /// Index of the choice that each row comes from, over all tokens: token·choices + choice.
    choice_of: Vec<usize>,
    /// Row of each choice.
    row_of: Vec<Option<usize>>,
    /// Start of each group, and the end of the last one.
    starts: Vec<usize>,
}

impl Groups {
    /// Sorts choices, given token after token with `choices` per token, into `groups` groups.
    pub fn new(chosen: &[Option<usize>], choices: usize, groups: usize) -> Self {
        assert!(choices > 0 && chosen.len().is_multiple_of(choices));
        let mut starts = vec![0; groups + 1];
        for group in chosen.iter().flatten() {
            starts[group + 1] += 1;
        }
        for group in 0..groups {
            starts[group + 1] += starts[group];
        }
        let mut next = starts.clone();
        let mut choice_of = vec![0; starts[groups]];
        let row = |(choice, group): (usize, &Option<usize>)| {
            let row = &mut next[(*group)?];
            choice_of[*row] = choice;
            *row += 1;
            Some(*row - 1)
        };
        let row_of = chosen.iter().enumerate().map(row).collect();
        Self(Arc::new(SortedRows {
            choices,
            choice_of,
            row_of,
            starts,
        }))
    }

    /// Returns the same rows with every choice as a separate token with one choice, for when each choice has its own
    /// vector.
    #[must_use]
    pub fn choices_as_tokens(&self) -> Self {
        let sorted = &self.0;
        Self(Arc::new(SortedRows {
            choices: 1,
            choice_of: sorted.choice_of.clone(),
            row_of: sorted.row_of.clone(),
            starts: sorted.starts.clone(),
        }))
    }

    /// Returns the number of tokens.
    pub fn tokens(&self) -> usize {
        self.0.row_of.len() / self.0.choices
    }

    /// Returns the number of choices of a token.
    pub fn choices(&self) -> usize {
        self.0.choices
    }

    /// Returns the number of groups, including those without rows.
    pub fn len(&self) -> usize {
        self.0.starts.len() - 1
    }

    /// Returns whether there are no groups.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.0.choice_of.len()
    }

    /// Returns the rows of a group.
    pub fn rows_of(&self, group: usize) -> Range<usize> {
        self.0.starts[group]..self.0.starts[group + 1]
    }

    /// Returns the token that a row comes from.
    pub fn token(&self, row: usize) -> usize {
        self.0.choice_of[row] / self.0.choices
    }

    /// Returns the index of the choice that each row comes from, token·choices + choice.
    pub fn choice_of_rows(&self) -> &[usize] {
        &self.0.choice_of
    }

    /// Returns the rows of a token's choices.
    pub fn rows_of_token(&self, token: usize) -> &[Option<usize>] {
        &self.0.row_of[token * self.0.choices..][..self.0.choices]
    }
}

/// Copies the vectors of tokens `[tokens, d]` to rows `[rows, d]`, sorted by group.
pub fn gather(x: Tensor<2>, groups: &Groups) -> Tensor<2> {
    assert_eq!(x.dims()[0], groups.tokens(), "one vector a token");
    #[cfg(feature = "flex")]
    if has_flex_kernels(&x) {
        let rows = Dispatch::gathered(x.into_dispatch(), groups.clone());
        return Tensor::from_dispatch(rows);
    }
    composed::gather(x, groups)
}

/// Computes `x·weightᵀ + bias` with each group's own parameters: x `[rows, d_in]`, weight `[groups, d_out, d_in]`,
/// bias `[groups, d_out]`, result `[rows, d_out]`. A group without rows gets a zero gradient.
pub fn grouped_linear(
    x: Tensor<2>,
    weight: Tensor<3>,
    bias: Option<Tensor<2>>,
    groups: &Groups,
) -> Tensor<2> {
    assert_eq!(x.dims()[0], groups.rows(), "as many rows as were sorted");
    assert_eq!(weight.dims()[0], groups.len(), "a matrix a group");
    #[cfg(feature = "flex")]
    if has_flex_kernels(&x) {
        let (x, weight) = (x.into_dispatch(), weight.into_dispatch());
        let out = Dispatch::grouped_affine(x, weight, maybe(bias), groups.clone());
        return Tensor::from_dispatch(out);
    }
    composed::grouped_linear(x, weight, bias, groups)
}

/// Sums each token's rows, each multiplied by its weight: y `[rows, d]`, weights `[tokens, choices]`, result
/// `[tokens, d]`. A token without rows gets zeros.
pub fn combine(y: Tensor<2>, weights: Tensor<2>, groups: &Groups) -> Tensor<2> {
    assert_eq!(y.dims()[0], groups.rows(), "as many rows as were sorted");
    assert_eq!(weights.dims(), [groups.tokens(), groups.choices()]);
    #[cfg(feature = "flex")]
    if has_flex_kernels(&y) {
        let weights = maybe(Some(weights));
        let sums = Dispatch::combined(y.into_dispatch(), weights, groups.clone());
        return Tensor::from_dispatch(sums);
    }
    composed::combine(y, weights, groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_by_group_and_in_the_order_of_tokens() {
        let chosen = [Some(2), Some(0), None, Some(2), Some(0), Some(2)];
        let groups = Groups::new(&chosen, 2, 4);
        assert_eq!((groups.tokens(), groups.rows(), groups.len()), (3, 5, 4));
        let ranges: Vec<_> = (0..4).map(|group| groups.rows_of(group)).collect();
        assert_eq!(ranges, [0..2, 2..2, 2..5, 5..5]);
        assert_eq!(groups.choice_of_rows(), [1, 4, 0, 3, 5]);
        let tokens: Vec<_> = (0..5).map(|row| groups.token(row)).collect();
        assert_eq!(tokens, [0, 2, 0, 1, 2]);
        assert_eq!(groups.rows_of_token(0), [Some(2), Some(0)]);
        assert_eq!(groups.rows_of_token(1), [None, Some(3)]);
        assert_eq!(groups.rows_of_token(2), [Some(1), Some(4)]);
        let of_choices = groups.choices_as_tokens();
        assert_eq!((of_choices.tokens(), of_choices.token(3)), (6, 3));
    }
}
