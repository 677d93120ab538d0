//! The positional bias on attention scores.

use burn::tensor::Tensor;

use super::Span;

/// A bias added to the scores after scale and soft cap.
#[derive(Clone, Debug, Default)]
pub enum ScoreBias {
    /// No bias.
    #[default]
    None,
    /// A number for each query head and distance, `[H, Q + K − 1]`: entry `j + Q − 1 − i` is added to the score of
    /// query i and key j ([`Span::distances`]).
    ByDistance(Tensor<2>),
    /// A number for each score, `[1 or B, H, Q, K]`: for biases that depend on the queries and keys themselves.
    Dense(Tensor<4>),
}

impl ScoreBias {
    /// Returns the bias without the first `dropped` keys.
    pub fn without_first(&self, dropped: usize) -> Self {
        match self {
            _ if dropped == 0 => self.clone(),
            Self::None => Self::None,
            // Distances are indexed from the first key, so dropping keys drops leading entries.
            Self::ByDistance(bias) => {
                let kept = bias.dims()[1] - dropped;
                Self::ByDistance(bias.clone().narrow(1, dropped, kept))
            }
            Self::Dense(bias) => {
                let kept = bias.dims()[3] - dropped;
                Self::Dense(bias.clone().narrow(3, dropped, kept))
            }
        }
    }

    /// Returns the same values as a separate node of the graph, which sums the gradients of all uses of this copy
    /// before they are added to those of other uses.
    #[must_use]
    pub fn as_separate_node(self) -> Self {
        match self {
            Self::ByDistance(bias) if bias.is_tracked() => Self::ByDistance(bias * 1.0),
            Self::Dense(bias) if bias.is_tracked() => Self::Dense(bias * 1.0),
            other => other,
        }
    }

    /// Returns the sum of this bias and a number for each query head and distance, `[H, Q + K − 1]`.
    #[must_use]
    pub fn plus(self, bias: Tensor<2>, span: Span) -> Self {
        match self {
            Self::None => Self::ByDistance(bias),
            Self::ByDistance(own) => Self::ByDistance(own + bias),
            Self::Dense(own) => match Self::ByDistance(bias).dense(span) {
                Some(bias) => Self::Dense(own + bias),
                None => Self::Dense(own),
            },
        }
    }

    /// Returns the bias without its autodiff graph.
    pub fn untracked(&self) -> Self {
        match self {
            Self::None => Self::None,
            Self::ByDistance(bias) => Self::ByDistance(super::untracked(bias.clone())),
            Self::Dense(bias) => Self::Dense(super::untracked(bias.clone())),
        }
    }

    /// Returns the bias with one number for every score, `[1 or B, H, Q, K]`; `None` if there is none.
    pub(super) fn dense(&self, span: Span) -> Option<Tensor<4>> {
        match self {
            Self::None => None,
            Self::ByDistance(bias) => {
                let [heads, distances] = bias.dims();
                let rows = bias.clone().reshape([1, heads, 1, distances]);
                let rows = rows.expand([1, heads, span.queries, distances]);
                Some(diagonals_to_pairs(rows, span))
            }
            Self::Dense(bias) => Some(bias.clone()),
        }
    }
}

/// Converts numbers by query and distance `[B, H, Q, Q + K − 1]` to numbers by query and key `[B, H, Q, K]`: the
/// relative shift of Dai et al. 2019 (Transformer-XL, appendix B).
pub fn diagonals_to_pairs(x: Tensor<4>, span: Span) -> Tensor<4> {
    let Span { queries, keys, .. } = span;
    let [batch, heads, _, distances] = x.dims();
    assert_eq!(distances, span.distances(), "a number for each distance");
    if queries < 2 {
        return x;
    }
    // Read with rows one element shorter, starting at element Q − 1, each row begins one element earlier than the previous one.
    let all = x.reshape([batch, heads, queries * distances]);
    let rows = all.narrow(2, queries - 1, queries * (distances - 1));
    let rows = rows.reshape([batch, heads, queries, distances - 1]);
    rows.narrow(3, 0, keys)
}

/// Converts numbers by query and key `[B, H, Q, K]` to numbers by query and distance `[B, H, Q, Q + K − 1]`, with
/// zeros for distances without a key: the inverse of [`diagonals_to_pairs`].
pub fn pairs_to_diagonals(x: Tensor<4>, span: Span) -> Tensor<4> {
    let Span { queries, keys, .. } = span;
    let [batch, heads, _, _] = x.dims();
    let zeros = |dims: [usize; 4]| Tensor::<4>::zeros(dims, &x.device());
    // Read with rows one element longer, each row begins one element later than the previous one.
    let before = zeros([batch, heads, queries, queries]);
    let rows = Tensor::cat(vec![before, x.clone()], 3);
    let width = queries + keys;
    let rows = rows.reshape([batch, heads, 1, queries * width]);
    let rows = Tensor::cat(vec![rows, zeros([batch, heads, 1, queries])], 3);
    let rows = rows.reshape([batch, heads, queries, width + 1]);
    rows.narrow(3, 1, span.distances())
}
