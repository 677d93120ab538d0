//! Converts between the factors of an HF module and those of our weights, of which an HF matrix may hold several.

use crate::interop::rename::Rule;
use crate::interop::rule::Form;
use crate::interop::weights::Array;

/// The LoRA factors A `[r, d_in]` and B `[d_out, r]`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Factors {
    pub a: Array,
    pub b: Array,
}

impl Factors {
    /// The rank: the number of rows of A and of columns of B.
    pub(super) fn rank(&self) -> usize {
        self.a.shape.first().copied().unwrap_or(0)
    }

    /// Multiplies B by `factor` and pads both factors with zeros to this rank, which must not be smaller.
    pub(super) fn padded_to_rank(mut self, rank: usize, factor: f32) -> Self {
        let (own, d_in) = (self.rank(), self.a.shape[1]);
        self.a.values.resize(rank * d_in, 0.0);
        self.a.shape[0] = rank;
        let rows = self.b.values.chunks(own.max(1));
        let zeros = rank - own;
        self.b.values = rows
            .flat_map(|row| {
                let row = row.iter().map(|x| x * factor);
                row.chain(std::iter::repeat_n(0.0, zeros))
            })
            .collect();
        self.b.shape[1] = rank;
        self
    }
}

/// Whether `peft` can put an adapter on the module of a rule: a matrix of its own, holding one or several of ours.
pub(super) fn is_matrix(rule: &Rule) -> bool {
    rule.theirs.len() == 1
        && rule.theirs[0].ends_with(".weight")
        && matches!(
            rule.form,
            Form::Same | Form::Transposed | Form::Fused(..) | Form::Stacked { .. }
        )
}

/// Whether HF stores the module's matrix as `[in, out]`.
pub(super) fn is_transposed(rule: &Rule) -> bool {
    use crate::interop::rename::Orientation;
    matches!(
        rule.form,
        Form::Transposed | Form::Fused(_, Orientation::InOut)
    )
}

/// Joins the factors of our weights, some of which may have none, into those of the module; `rows` are the output sizes
/// of each.
pub(super) fn joined(rule: &Rule, parts: &[Option<Factors>], rows: &[usize]) -> Option<Factors> {
    if rule.rows(0).is_none() {
        return parts.first().cloned().flatten();
    }
    let found = || parts.iter().flatten();
    let rank: usize = found().map(Factors::rank).sum();
    let d_in = found().next()?.a.shape[1];
    let outputs: usize = rows.iter().sum();
    let a = found().flat_map(|part| &part.a.values).copied().collect();
    let mut b = vec![0.0; outputs * rank];
    let mut column = 0;
    for (part, factors) in parts.iter().enumerate() {
        let Some(factors) = factors else { continue };
        let own = factors.rank();
        let from = factors.b.values.chunks(own.max(1));
        let places = rule.rows(part).unwrap_or_default();
        for (row, values) in places.into_iter().zip(from) {
            b[row * rank + column..][..own].copy_from_slice(values);
        }
        column += own;
    }
    Some(Factors {
        a: Array {
            shape: vec![rank, d_in],
            values: a,
        },
        b: Array {
            shape: vec![outputs, rank],
            values: b,
        },
    })
}

/// Splits the factors of the module into those of each of our weights.
pub(super) fn split(rule: &Rule, module: &Factors) -> Vec<Factors> {
    if rule.rows(0).is_none() {
        return vec![module.clone()];
    }
    let rank = module.rank();
    let part = |part: usize| {
        let rows = rule.rows(part).unwrap_or_default();
        let values = rows
            .iter()
            .flat_map(|row| &module.b.values[row * rank..(row + 1) * rank]);
        Factors {
            a: module.a.clone(),
            b: Array {
                shape: vec![rows.len(), rank],
                values: values.copied().collect(),
            },
        }
    };
    (0..rule.ours.len()).map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interop::rename::{Fused, Orientation, Table};

    /// Two groups of (2 query heads, 1 key, 1 value) of width 1: queries are rows 0, 1, 4, 5, values are rows 3 and 7.
    #[test]
    fn parts_of_a_fused_matrix_keep_their_products() {
        let mut table = Table::new("");
        let fused = Fused {
            groups: 2,
            query: 2,
            key_value: 1,
            d_head: 1,
        };
        table.fused("qkv", "attention", Orientation::OutIn, fused);
        let rule = &table.rules[0];
        let factors = |a: [f32; 2], b: &[f32]| Factors {
            a: Array {
                shape: vec![1, 2],
                values: a.to_vec(),
            },
            b: Array {
                shape: vec![b.len(), 1],
                values: b.to_vec(),
            },
        };
        let query = factors([1.0, 2.0], &[1.0, 2.0, 3.0, 4.0]);
        let value = factors([3.0, 4.0], &[5.0, 6.0]);
        let parts = [Some(query), None, Some(value)];
        let whole = joined(rule, &parts, &[4, 2, 2]).unwrap();
        assert_eq!(whole.a.values, [1.0, 2.0, 3.0, 4.0]);
        let rows = [
            [1., 0.],
            [2., 0.],
            [0., 0.],
            [0., 5.],
            [3., 0.],
            [4., 0.],
            [0., 0.],
            [0., 6.],
        ];
        assert_eq!(whole.b.values, rows.concat());
        let split = split(rule, &whole);
        assert_eq!(split[0].b.values, [1., 0., 2., 0., 3., 0., 4., 0.]);
        assert_eq!(split[1].b.values, [0.; 4]);
        assert_eq!(split[2].b.values, [0., 5., 0., 6.]);
        let wide = factors([1.0, 2.0], &[1.0, 2.0]).padded_to_rank(2, 3.0);
        assert_eq!(wide.a.values, [1.0, 2.0, 0.0, 0.0]);
        assert_eq!(wide.b.values, [3.0, 0.0, 6.0, 0.0]);
    }

    /// Two rows of one matrix, then one row of another.
    #[test]
    fn parts_of_a_stacked_matrix_keep_their_products() {
        let mut table = Table::new("");
        table.stacked("in_proj", [("input", 2), ("step", 1)]);
        let rule = &table.rules[0];
        assert!(is_matrix(rule));
        let factors = |a: [f32; 2], b: &[f32]| Factors {
            a: Array {
                shape: vec![1, 2],
                values: a.to_vec(),
            },
            b: Array {
                shape: vec![b.len(), 1],
                values: b.to_vec(),
            },
        };
        let parts = [
            factors([1.0, 2.0], &[3.0, 4.0]),
            factors([5.0, 6.0], &[7.0]),
        ];
        let whole = joined(rule, &parts.clone().map(Some), &[2, 1]).unwrap();
        assert_eq!(whole.a.values, [1.0, 2.0, 5.0, 6.0]);
        assert_eq!(whole.b.values, [3.0, 0.0, 4.0, 0.0, 0.0, 7.0]);
        let module = factors([1.0, 2.0], &[3.0, 4.0, 7.0]);
        let apart = split(rule, &module);
        assert_eq!(apart[0], parts[0]);
        assert_eq!(apart[1], factors([1.0, 2.0], &[7.0]));
    }
}
