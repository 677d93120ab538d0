//! The division of moments among ranks.
//!
//! Parameters that cannot be split are assigned first: the largest first, each to the rank with the least so far. The
//! values of all other parameters form a row, in the order of the model, and each rank takes a stretch of the row,
//! sized so that all ranks keep the same number of moments; a rank that already has more than that takes none.

use crate::train::optim::StateSize;
use burn::module::ParamId;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Range;

/// A parameter to divide among ranks.
#[derive(Clone, Copy, Debug)]
pub(super) struct DividedParameter {
    pub id: ParamId,
    pub elements: usize,
    pub kept: StateSize,
}

impl DividedParameter {
    /// Returns the load of a rank that has all of it. If no state is kept for its values (plain gradient descent), the
    /// work is divided instead.
    fn load(&self) -> usize {
        match self.kept.elementwise {
            true => self.kept.values.max(self.elements),
            false => self.kept.values,
        }
    }
}

/// Returns the values of each parameter that each rank updates, indexed by rank; without gaps, and in the order of ranks.
pub(super) fn divide(
    all: &[DividedParameter],
    ranks: usize,
) -> HashMap<ParamId, Vec<Range<usize>>> {
    let (row, mut whole): (Vec<&DividedParameter>, Vec<&DividedParameter>) =
        all.iter().partition(|parameter| parameter.kept.elementwise);
    // A stable sort: parameters of equal size stay in the order of the model.
    whole.sort_by_key(|parameter| Reverse(parameter.load()));
    let (mut loads, mut found) = (vec![0; ranks], HashMap::new());
    for parameter in whole {
        let least = loads.iter().enumerate().min_by_key(|(_, load)| **load);
        let owner = least.map_or(0, |(rank, _)| rank);
        loads[owner] += parameter.load();
        found.insert(parameter.id, owned_whole(parameter.elements, owner, ranks));
    }
    let ends = split_points(&loads, row.iter().map(|parameter| parameter.load()).sum());
    let mut begin = 0;
    for parameter in row {
        let each = parameter.load() / parameter.elements.max(1);
        let mut from = 0;
        let stretches = ends.iter().map(|end| {
            let to = end.saturating_sub(begin) / each.max(1);
            let stretch = from..to.min(parameter.elements);
            from = stretch.end;
            stretch
        });
        found.insert(parameter.id, stretches.collect());
        begin += parameter.load();
    }
    found
}

/// Returns the stretches of a parameter that belongs to one rank.
pub(super) fn owned_whole(elements: usize, owner: usize, ranks: usize) -> Vec<Range<usize>> {
    let each = (0..ranks).map(|rank| match rank == owner {
        true => 0..elements,
        false => elements * usize::from(rank > owner)..elements * usize::from(rank > owner),
    });
    each.collect()
}

/// Returns where each rank's stretch ends in a row of `row` moments, if the ranks already have `loads`.
fn split_points(loads: &[usize], row: usize) -> Vec<usize> {
    let mut rising = loads.to_vec();
    rising.sort_unstable();
    // The level to which the row fills up the least loaded ranks.
    let mut lower = 0;
    let level = rising.iter().enumerate().find_map(|(number, load)| {
        lower += load;
        let level = (row + lower).div_ceil(number + 1);
        let next = rising.get(number + 1);
        next.is_none_or(|next| level <= *next).then_some(level)
    });
    let level = level.unwrap_or(row);
    let mut end = 0;
    let each = loads.iter().map(|load| {
        end = row.min(end + level.saturating_sub(*load));
        end
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameter(elements: usize, values: usize, elementwise: bool) -> DividedParameter {
        DividedParameter {
            id: ParamId::new(),
            elements,
            kept: StateSize {
                values,
                elementwise,
            },
        }
    }

    /// Returns the largest share of a rank, as a multiple of an equal share. Also checks that the stretches together
    /// cover all values once.
    fn largest(all: &[DividedParameter], ranks: usize) -> f64 {
        let found = divide(all, ranks);
        let mut loads = vec![0; ranks];
        for parameter in all {
            let (mut next, mut owners) = (0, 0);
            for (load, stretch) in loads.iter_mut().zip(&found[&parameter.id]) {
                assert_eq!(stretch.start, next, "{parameter:?}");
                next = stretch.end;
                owners += usize::from(!stretch.is_empty());
                *load += parameter.kept.values * stretch.len() / parameter.elements;
            }
            assert_eq!(next, parameter.elements);
            assert!(parameter.kept.elementwise || owners == 1);
        }
        let total: usize = all.iter().map(|parameter| parameter.kept.values).sum();
        let most = loads.iter().max().copied().unwrap_or(0);
        most as f64 * ranks as f64 / total as f64
    }

    /// GPT-2's parameters (124M): the token embedding table is 31 % of them.
    fn gpt_2(kept: impl Fn(usize, bool) -> (usize, bool)) -> Vec<DividedParameter> {
        let block = [768 * 2304, 768 * 768, 768 * 3072, 3072 * 768];
        let vectors = [2304, 768, 3072, 768, 768, 768, 768, 768];
        let outside = [50257 * 768, 1024 * 768, 768, 768];
        let inside = block.iter().chain(&vectors).map(|n| (*n, *n > 4000));
        let outside = outside.iter().map(|n| (*n, false));
        let all = outside.chain(std::iter::repeat_n(inside, 12).flatten());
        all.map(|(elements, matrix)| {
            let (values, elementwise) = kept(elements, matrix);
            parameter(elements, values, elementwise)
        })
        .collect()
    }

    #[test]
    fn shares_are_even_where_values_move_by_themselves() {
        let adam = gpt_2(|n, _| (2 * n, true));
        let muon = gpt_2(|n, matrix| if matrix { (n, false) } else { (2 * n, true) });
        for ranks in [1, 2, 4, 8, 64, 1024] {
            assert!((largest(&adam, ranks) - 1.0).abs() < 1e-4, "{ranks}");
        }
        for ranks in [1, 2, 4, 8] {
            assert!(largest(&muon, ranks) < 1.01, "{ranks}");
        }
        // Fewer values than ranks.
        let few = [parameter(3, 6, true)];
        assert!((largest(&few, 8) - 8.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn a_parameter_that_stays_whole_bounds_them() {
        let lamb = gpt_2(|n, _| (2 * n, false));
        assert!(largest(&lamb, 2) < 1.01);
        assert!((largest(&lamb, 4) - 1.24).abs() < 0.01);
    }

    /// Parameters without optimizer state are divided by their values.
    #[test]
    fn plain_descent_divides_the_work() {
        let all = [parameter(100, 0, true), parameter(20, 0, true)];
        let found = divide(&all, 4);
        assert_eq!(found[&all[0].id], [0..30, 30..60, 60..90, 90..100]);
        assert_eq!(found[&all[1].id], [0..0, 0..0, 0..0, 0..20]);
    }

    #[test]
    fn a_row_fills_up_the_ranks_that_have_less() {
        assert_eq!(split_points(&[0, 0], 10), [5, 10]);
        assert_eq!(split_points(&[6, 0], 10), [2, 10]);
        assert_eq!(split_points(&[60, 0, 0], 10), [0, 5, 10]);
        assert_eq!(split_points(&[1, 2, 3, 100], 7), [4, 7, 7, 7]);
        assert_eq!(split_points(&[5, 5], 0), [0, 0]);
        assert_eq!(owned_whole(7, 1, 3), [0..0, 0..7, 7..7]);
    }
}
