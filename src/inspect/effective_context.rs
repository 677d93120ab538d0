//! The relative effective context length (RECL) of a group of models (Dai et al. 2019, section 4.3 and appendix C; after
//! the effective context length of Khandelwal et al. 2018).
//!
//! Let l_i(c, t) be the loss of model i on token t when it reads the c tokens before t. A group has one baseline,
//! b(c, t) = min_i l_i(c, t), and T is the share r of the tokens on which it is largest. The relative loss of a model is
//!
//!   f_i(c, c') = mean over T of min(b(c, t), l_i(c', t)),
//!
//! so that a longer context counts only if it beats the best short one of any model, and its relative gain is
//!
//!   g_i(c, c') = (exp f_i(c, c) − exp f_i(c, c')) / exp f_i(c, c).
//!
//! Starting at c = Δ, c becomes c + Δ as long as g_i(c, c + Δ) is at least a threshold (0.01). The c at which it stops
//! is the RECL: a further Δ tokens gain less than the threshold. A model that cannot read c tokens reads as many as it can.

use super::{Reader, Window};

/// Shares r of the hardest tokens that the paper compares.
pub const SHARES: [f64; 3] = [0.1, 0.5, 1.0];
/// Relative gain below which a longer context does not count.
pub const THRESHOLD: f64 = 0.01;

/// Losses of a group of models on the same tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct Losses {
    /// Context lengths: Δ, 2Δ, 3Δ …
    pub contexts: Vec<usize>,
    /// Losses in nats by model, by context, by token.
    pub values: Vec<Vec<Vec<f64>>>,
}

/// The effective context of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectiveContext {
    /// Relative effective context length in tokens.
    pub length: usize,
    /// Whether the longest context still gained, so that `length` is a lower bound.
    pub at_least: bool,
    /// Relative gain g(c, c + Δ) from each context to the next.
    pub gains: Vec<f64>,
}

/// Computes the losses of models on the last token of each window, at contexts of `step`, 2·`step` … tokens up to the
/// windows' length.
pub fn losses(readers: &[Reader], windows: &[Window], step: usize) -> Losses {
    let longest = windows.first().map_or(0, Window::len);
    let contexts: Vec<usize> = (1..=longest / step.max(1)).map(|n| n * step).collect();
    let of_model = |reader: &Reader| -> Vec<Vec<f64>> {
        let mut all: Vec<Vec<f64>> = Vec::new();
        let mut before = 0;
        for context in &contexts {
            let reads = reader.tokens_read(*context);
            // Beyond what the model can read, nothing changes.
            if let Some(last) = all.last().filter(|_| reads == before).cloned() {
                all.push(last);
                continue;
            }
            let each = reader.losses(windows, reads, 1).into_iter();
            all.push(each.map(|losses| losses[0]).collect());
            before = reads;
        }
        all
    };
    let values = readers.iter().map(of_model).collect();
    Losses { contexts, values }
}

impl Losses {
    /// Returns the mean loss of a model over all tokens, at each context.
    pub fn means(&self, model: usize) -> Vec<f64> {
        let mean = |losses: &Vec<f64>| losses.iter().sum::<f64>() / losses.len() as f64;
        self.values[model].iter().map(mean).collect()
    }

    /// Computes the effective context of a model in the group, on the share `r` of the hardest tokens.
    pub fn effective(&self, model: usize, r: f64, threshold: f64) -> EffectiveContext {
        let gains: Vec<f64> = (1..self.contexts.len())
            .map(|longer| self.gain(model, longer - 1, longer, r))
            .collect();
        let stops = gains.iter().position(|gain| *gain < threshold);
        let at = stops.unwrap_or(gains.len());
        EffectiveContext {
            length: self.contexts.get(at).copied().unwrap_or(0),
            at_least: stops.is_none(),
            gains,
        }
    }

    /// Returns g_i(c, c') for the indices of two contexts.
    fn gain(&self, model: usize, shorter: usize, longer: usize, r: f64) -> f64 {
        let tokens = self.values[model][shorter].len();
        let best = |t: usize| {
            let each = self.values.iter().map(|contexts| contexts[shorter][t]);
            each.fold(f64::INFINITY, f64::min)
        };
        let baseline: Vec<f64> = (0..tokens).map(best).collect();
        let mut hardest: Vec<usize> = (0..tokens).collect();
        hardest.sort_by(|a, b| baseline[*b].total_cmp(&baseline[*a]));
        hardest.truncate(((r * tokens as f64).ceil() as usize).clamp(1, tokens.max(1)));
        let relative = |context: usize| {
            let each = hardest.iter();
            let sum: f64 = each
                .map(|t| baseline[*t].min(self.values[model][context][*t]))
                .sum();
            (sum / hardest.len() as f64).exp()
        };
        let short = relative(shorter);
        (short - relative(longer)) / short
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two models on four tokens at three contexts, computed by hand.
    #[test]
    fn a_group_shares_its_baseline() {
        let losses = Losses {
            contexts: vec![8, 16, 24],
            values: vec![
                vec![
                    vec![1.0, 2.0, 3.0, 4.0],
                    vec![1.0, 1.0, 3.0, 3.0],
                    vec![1.0, 1.0, 3.0, 2.995],
                ],
                vec![
                    vec![2.0, 1.0, 4.0, 5.0],
                    vec![0.5, 1.5, 3.5, 4.5],
                    vec![0.5, 1.5, 3.5, 2.0],
                ],
            ],
        };
        // The baseline at 8 is 1, 1, 3, 4. At 16 the first model is better only on the last token, the second only on the first.
        let first = losses.effective(0, 1.0, THRESHOLD);
        let gain = |before: f64, after: f64| 1.0 - (after - before).exp();
        assert!((first.gains[0] - gain(9.0 / 4.0, 8.0 / 4.0)).abs() < 1e-12);
        let second = losses.effective(1, 1.0, THRESHOLD);
        assert!((second.gains[0] - gain(9.0 / 4.0, 8.5 / 4.0)).abs() < 1e-12);
        // At 16 the baseline is 0.5, 1, 3, 3: the further 0.005 of the first model are below the threshold.
        assert_eq!((first.length, first.at_least), (16, false));
        assert_eq!((second.length, second.at_least), (24, true));
        // The hardest token of four is the last one, on which the second model does not beat the first one's 4.
        let hardest = losses.effective(1, 0.1, THRESHOLD);
        assert_eq!((hardest.length, hardest.gains[0]), (8, 0.0));
        assert_eq!(losses.means(0), [2.5, 2.0, 1.99875]);
    }
}
