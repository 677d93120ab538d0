//! The assignment of tokens to experts: their choice, and the capacity of experts.

use super::groups::ExpertGroups;
use burn::tensor::{Int, Tensor, TensorData};

/// Returns the softmax over the experts of every token, `[tokens, experts]`. Burn's own softmax computes differently with a graph
/// than without one and rounds differently: a recomputed block could choose other experts than the first time.
pub(super) fn token_softmax(scores: Tensor<2>) -> Tensor<2> {
    let highest = scores.clone().detach().max_dim(1);
    let exp = (scores - highest).exp();
    let sum = exp.clone().sum_dim(1);
    exp / sum
}

/// The choice of a token's experts.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExpertChoice {
    /// Number of experts.
    pub n_experts: usize,
    /// Number of experts that a token uses.
    pub top_k: usize,
    /// Groups of experts, if a token may not use all experts.
    pub groups: Option<ExpertGroups>,
}

impl ExpertChoice {
    /// Returns the likeliest experts of every token, the likeliest first; of two equally likely experts, the one with the lower
    /// number comes first.
    pub(super) fn of(self, likelihoods: &[f32]) -> Vec<usize> {
        let Self {
            n_experts, top_k, ..
        } = self;
        let mut chosen = Vec::with_capacity(likelihoods.len() / n_experts * top_k);
        for likely in likelihoods.chunks_exact(n_experts) {
            let mut experts: Vec<usize> = match self.groups {
                None => (0..n_experts).collect(),
                Some(groups) => experts_of_best_groups(likely, groups),
            };
            sort_by_likelihood(&mut experts, |expert| likely[expert]);
            chosen.extend_from_slice(&experts[..top_k]);
        }
        chosen
    }
}

/// Returns the experts of the groups that a token may use: the groups with the largest sums of their best likelihoods.
fn experts_of_best_groups(likely: &[f32], groups: ExpertGroups) -> Vec<usize> {
    let each = likely.len() / groups.number;
    let best = |group: usize| {
        let mut numbers = likely[group * each..][..each].to_vec();
        numbers.sort_by(|a, b| b.total_cmp(a));
        numbers.iter().take(groups.best).sum::<f32>()
    };
    let sums: Vec<f32> = (0..groups.number).map(best).collect();
    let mut numbers: Vec<usize> = (0..groups.number).collect();
    sort_by_likelihood(&mut numbers, |group| sums[group]);
    numbers.truncate(groups.top);
    numbers.sort_unstable();
    let experts = numbers.into_iter();
    experts
        .flat_map(|group| group * each..(group + 1) * each)
        .collect()
}

/// Sorts by descending likelihood; equal ones keep their order.
fn sort_by_likelihood(numbers: &mut [usize], likelihood: impl Fn(usize) -> f32) {
    numbers.sort_by(|a, b| likelihood(*b).total_cmp(&likelihood(*a)));
}

/// The tokens of a batch, row after row, padding included.
pub(super) struct TokenRows<'a> {
    rows: usize,
    cols: usize,
    lengths: Option<&'a [usize]>,
}

impl<'a> TokenRows<'a> {
    /// Describes rows of `cols` positions, of which the first `lengths` are tokens; all of them if there are no lengths.
    pub(super) fn new([rows, cols]: [usize; 2], lengths: Option<&'a [usize]>) -> Self {
        let lengths = lengths.filter(|lengths| lengths.iter().any(|length| *length < cols));
        Self {
            rows,
            cols,
            lengths,
        }
    }

    /// Returns the number of tokens of a row.
    fn length(&self, row: usize) -> usize {
        self.lengths
            .map_or(self.cols, |lengths| lengths[row].min(self.cols))
    }

    /// Returns the positions that are tokens, counted over all rows.
    fn positions(&self) -> impl Iterator<Item = usize> {
        (0..self.rows).flat_map(|row| row * self.cols..row * self.cols + self.length(row))
    }

    /// Selects the lines of tokens from a matrix with a line for every position.
    pub(super) fn of(&self, x: &Tensor<2>) -> Tensor<2> {
        if self.lengths.is_none() {
            return x.clone();
        }
        let positions: Vec<i32> = self.positions().map(|at| at as i32).collect();
        let count = positions.len();
        let positions = TensorData::new(positions, [count]);
        x.clone()
            .select(0, Tensor::<1, Int>::from_data(positions, &x.device()))
    }

    /// Returns how often each expert is chosen, divided by the number of tokens; `None` if there is no token.
    pub(super) fn shares(
        &self,
        chosen: &[usize],
        [n_experts, top_k]: [usize; 2],
    ) -> Option<Vec<f32>> {
        let (mut counts, mut tokens) = (vec![0_u32; n_experts], 0_u32);
        for position in self.positions() {
            tokens += 1;
            for expert in &chosen[position * top_k..][..top_k] {
                counts[*expert] += 1;
            }
        }
        let share = |count: &u32| (f64::from(*count) / f64::from(tokens)) as f32;
        (tokens > 0).then(|| counts.iter().map(share).collect())
    }

    /// Returns the expert of each choice; `None` if that expert is full, and at padding. Choices are served row by row, by
    /// position, then by rank, so the result depends neither on later positions nor on other rows.
    pub(super) fn assign(
        &self,
        chosen: &[usize],
        [n_experts, top_k]: [usize; 2],
        capacity_factor: Option<f64>,
    ) -> Vec<Option<usize>> {
        let mut taken = vec![None; chosen.len()];
        for row in 0..self.rows {
            let length = self.length(row);
            let mut room = vec![capacity(capacity_factor, length * top_k, n_experts); n_experts];
            let first = row * self.cols * top_k;
            let choices = first..first + length * top_k;
            for (taken, expert) in taken[choices.clone()].iter_mut().zip(&chosen[choices]) {
                if room[*expert] > 0 {
                    room[*expert] -= 1;
                    *taken = Some(*expert);
                }
            }
        }
        taken
    }
}

/// Returns how many choices of a row an expert accepts; unlimited without a factor.
fn capacity(factor: Option<f64>, choices: usize, n_experts: usize) -> usize {
    factor.map_or(usize::MAX, |factor| {
        (factor * choices as f64 / n_experts as f64).ceil() as usize
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likeliest_are_chosen_and_of_equals_the_first() {
        let choose = |likely: &[f32], n_experts, top_k| {
            let choice = ExpertChoice {
                n_experts,
                top_k,
                groups: None,
            };
            choice.of(likely)
        };
        let likely = [
            0.1, 0.4, 0.3, 0.2, 0.25, 0.25, 0.25, 0.25, 0.2, 0.2, 0.5, 0.1,
        ];
        assert_eq!(choose(&likely, 4, 2), [1, 2, 0, 1, 2, 0]);
        assert_eq!(choose(&likely, 4, 1), [1, 0, 2]);
        let broken = [f32::NAN, 0.5, 0.5];
        assert_eq!(choose(&broken, 3, 3), [0, 1, 2]);
    }

    #[test]
    fn experts_of_the_best_groups_alone_are_chosen() {
        let choose = |best| {
            let groups = ExpertGroups {
                number: 3,
                top: 2,
                best,
            };
            let choice = ExpertChoice {
                n_experts: 6,
                top_k: 3,
                groups: Some(groups),
            };
            choice.of(&[0.5, 0.5, 0.9, 0.0, 0.6, 0.6])
        };
        // The groups' sums are 1.0, 0.9 and 1.2: the best single expert is in the group that is left out.
        assert_eq!(choose(2), [4, 5, 0]);
        // By their best scores, 0.5, 0.9 and 0.6.
        assert_eq!(choose(1), [2, 4, 5]);
    }

    #[test]
    fn shares_leave_padding_out() {
        let chosen = [0, 1, 0, 1, 2, 2];
        let shares =
            |lengths: Option<&[usize]>| TokenRows::new([2, 3], lengths).shares(&chosen, [4, 1]);
        let third = 1.0 / 3.0;
        assert_eq!(shares(None), Some(vec![third, third, third, 0.0]));
        assert_eq!(
            shares(Some(&[2, 1])),
            Some(vec![third, 2.0 * third, 0.0, 0.0])
        );
        assert_eq!(shares(Some(&[0, 0])), None);
    }

    #[test]
    fn full_experts_pass_over_later_tokens_of_their_row() {
        let chosen = [0, 0, 0, 1, 0, 0, 1, 0];
        let tokens = TokenRows::new([2, 4], None);
        let all = tokens.assign(&chosen, [2, 1], None);
        assert!(all.iter().zip(&chosen).all(|(taken, e)| *taken == Some(*e)));
        // ⌈1.0·4/2⌉ = 2 choices of a row.
        let taken = tokens.assign(&chosen, [2, 1], Some(1.0));
        let (zero, one) = (Some(0), Some(1));
        assert_eq!(taken, [zero, zero, None, one, zero, zero, one, None]);
        // The capacity follows the row's tokens: ⌈1.0·2/2⌉ = 1.
        let taken = TokenRows::new([2, 4], Some(&[2, 4])).assign(&chosen, [2, 1], Some(1.0));
        assert_eq!(taken[..4], [zero, None, None, None]);
    }
}
