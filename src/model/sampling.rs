//! Sampling of the next token from its logits.

mod ngrams;
mod ranked;

pub(crate) use ngrams::repeating_tokens;
use ranked::Ranked;

use crate::rng::{Purpose, Stream};

/// The rules for sampling a token, applied in the order of Hugging Face Transformers: repetition penalty, no repeated
/// n-grams, temperature, top-k, top-p, min-p.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// Divides the logits; 0 takes the most likely token.
    pub temperature: f64,
    /// Keeps the k most likely tokens.
    pub top_k: Option<usize>,
    /// Keeps the most likely tokens whose probabilities together reach this value (Holtzman et al. 2020).
    pub top_p: Option<f64>,
    /// Keeps the tokens whose probability is at least this fraction of the most likely token's (Nguyen et al., arXiv:2407.01082,
    /// section 3).
    pub min_p: Option<f64>,
    /// Divides positive logits of tokens already present, and multiplies negative ones (Keskar et al. 2019).
    pub repetition_penalty: f64,
    /// Size of the n-grams that a text, with its prompt, contains only once; 0 allows all. If every token would repeat one, all
    /// are allowed.
    pub no_repeat_ngram_size: usize,
    /// Seed of the draws: token n of row r draws from (seed, sampling, n, r).
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_k: None,
            top_p: None,
            min_p: None,
            repetition_penalty: 1.0,
            no_repeat_ngram_size: 0,
            seed: 0,
        }
    }
}

impl Sampling {
    /// Samples the token that follows `tokens` in row `row`, given the logits of all tokens. A token whose logit is NaN is
    /// never chosen; if all are, the result is token 0.
    pub fn draw(&self, logits: &[f32], tokens: &[u32], row: usize) -> u32 {
        self.draw_with(logits, tokens, || {
            let at = (tokens.len() as u64, row as u64, 0);
            Stream::new(self.seed, Purpose::Sampling, at).uniform()
        })
    }

    /// Samples like [`Self::draw`] with a given number in [0, 1); `uniform` is only called if a random number is needed.
    pub fn draw_with(&self, logits: &[f32], tokens: &[u32], uniform: impl FnOnce() -> f32) -> u32 {
        if self.temperature <= 0.0 && !self.depends_on_text() {
            return argmax(logits);
        }
        let scores = self.penalised_logits(logits, tokens);
        if self.temperature <= 0.0 || scores.is_empty() {
            return most_likely(&scores);
        }
        let mut ranked = Ranked::new(scores, self.temperature);
        let (count, total) = self.truncate(&mut ranked);
        let mut left = f64::from(uniform()) * total;
        for place in 0..count {
            let (id, weight) = ranked.at_rank(place);
            left -= weight;
            if left < 0.0 {
                return id;
            }
        }
        ranked.at_rank(count - 1).0
    }

    /// Samples like [`Self::draw_with`], but without sorting if no rule needs it: the given random number then selects among tokens
    /// in order of their ids. The probabilities are the same; the same number may select another token.
    pub fn draw_unsorted(&self, logits: &[f32], tokens: &[u32], uniform: f32) -> u32 {
        let cuts = self.top_k.is_some() || self.top_p.is_some() || self.min_p.is_some();
        let best = logits[argmax(logits) as usize];
        if cuts || self.temperature <= 0.0 || self.depends_on_text() || !best.is_finite() {
            return self.draw_with(logits, tokens, || uniform);
        }
        let weight = |score: &f32| match score.is_nan() {
            true => 0.0,
            false => ((f64::from(*score) - f64::from(best)) / self.temperature).exp(),
        };
        let weights: Vec<f64> = logits.iter().map(weight).collect();
        let mut left = f64::from(uniform) * weights.iter().sum::<f64>();
        let drawn = weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        let last = || weights.iter().rposition(|weight| *weight > 0.0);
        drawn.or_else(last).unwrap_or(0) as u32
    }

    /// Returns the tokens that the rules allow after `tokens`, most likely first, each with its weight, and the sum of the
    /// weights: a probability is a weight divided by the sum. At a temperature of 0 it returns all tokens with their logits, in
    /// order of their ids. The list is empty if all logits are NaN.
    pub fn candidates(&self, logits: &[f32], tokens: &[u32]) -> (Vec<(u32, f64)>, f64) {
        let scores = self.penalised_logits(logits, tokens);
        if self.temperature <= 0.0 || scores.is_empty() {
            return (scores, 0.0);
        }
        let mut ranked = Ranked::new(scores, self.temperature);
        let (count, total) = self.truncate(&mut ranked);
        (
            (0..count).map(|place| ranked.at_rank(place)).collect(),
            total,
        )
    }

    /// Whether the tokens already present change the logits.
    fn depends_on_text(&self) -> bool {
        self.repetition_penalty != 1.0 || self.no_repeat_ngram_size > 0
    }

    /// Applies the rules about tokens already present, and returns the logits that are left and not NaN, in order of the tokens.
    fn penalised_logits(&self, logits: &[f32], tokens: &[u32]) -> Vec<(u32, f64)> {
        let each = logits.iter().enumerate();
        let mut scores: Vec<(u32, f64)> = each
            .map(|(id, score)| (id as u32, f64::from(*score)))
            .collect();
        self.penalise(&mut scores, tokens);
        scores.retain(|(_, score)| !score.is_nan());
        let banned = distinct_tokens(&repeating_tokens(tokens, self.no_repeat_ngram_size));
        let is_left = |(id, _): &(u32, f64)| banned.binary_search(id).is_err();
        if !banned.is_empty() && scores.iter().any(is_left) {
            scores.retain(is_left);
        }
        scores
    }

    /// Returns how many of the most likely tokens may be drawn (at least one), and the sum of their weights.
    fn truncate(&self, ranked: &mut Ranked) -> (usize, f64) {
        let most = self
            .top_k
            .map_or(ranked.len(), |k| k.clamp(1, ranked.len()));
        let (mut count, mut total) = match most < ranked.len() {
            true => (most, (0..most).map(|place| ranked.at_rank(place).1).sum()),
            false => (most, ranked.total_weight()),
        };
        if let Some(p) = self.top_p {
            let mass = p * total;
            (count, total) = take_leading(ranked, count, |sum, _| sum < mass);
        }
        if let Some(p) = self.min_p {
            // The weight of the most likely token is 1.
            (count, total) = take_leading(ranked, count, |_, next| next >= p);
        }
        (count, total)
    }

    fn penalise(&self, scores: &mut [(u32, f64)], tokens: &[u32]) {
        if self.repetition_penalty == 1.0 {
            return;
        }
        for id in distinct_tokens(tokens) {
            if let Some((_, score)) = scores.get_mut(id as usize) {
                *score = penalised(*score, self.repetition_penalty);
            }
        }
    }
}

/// Returns the tokens of a text, each once.
pub(crate) fn distinct_tokens(tokens: &[u32]) -> Vec<u32> {
    let mut present = tokens.to_vec();
    present.sort_unstable();
    present.dedup();
    present
}

/// The penalised logit of a token that is already present (Keskar et al. 2019, section 4.1).
pub(crate) fn penalised(score: f64, penalty: f64) -> f64 {
    if score > 0.0 {
        score / penalty
    } else {
        score * penalty
    }
}

/// Returns the first token with the highest logit. It keeps sixteen running maxima, which the compiler holds in one register,
/// because it runs for every row of every step.
fn argmax(logits: &[f32]) -> u32 {
    let larger = |best: f32, score: f32| if score > best { score } else { best };
    let mut best = [f32::NEG_INFINITY; 16];
    let (lines, rest) = logits.as_chunks::<16>();
    for line in lines {
        for (best, score) in best.iter_mut().zip(line) {
            *best = larger(*best, *score);
        }
    }
    let all = best.iter().chain(rest);
    let best = all.fold(f32::NEG_INFINITY, |best, score| larger(best, *score));
    let first = logits.iter().position(|score| *score == best);
    first.unwrap_or(0) as u32
}

/// Returns the first of some tokens with the highest logit.
fn most_likely(scores: &[(u32, f64)]) -> u32 {
    scores
        .iter()
        .fold(
            (0, f64::NEG_INFINITY),
            |best, s| if s.1 > best.1 { *s } else { best },
        )
        .0
}

/// Returns how many of the first `count` weights are taken (at least one), and their sum: `takes` decides from the sum so far and
/// the next weight.
fn take_leading(
    ranked: &mut Ranked,
    count: usize,
    takes: impl Fn(f64, f64) -> bool,
) -> (usize, f64) {
    let mut sum = 0.0;
    for place in 0..count {
        let (_, weight) = ranked.at_rank(place);
        if place > 0 && !takes(sum, weight) {
            return (place, sum);
        }
        sum += weight;
    }
    (count, sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_temperature_is_greedy_and_ties_take_the_first() {
        let greedy = Sampling {
            temperature: 0.0,
            ..Sampling::default()
        };
        assert_eq!(greedy.draw(&[0.0, 2.0, 2.0], &[], 0), 1);
        assert_eq!(greedy.draw(&[f32::NAN, 1.0], &[], 0), 1);
        let mut many = vec![-3.0; 50];
        for (place, score, best) in [
            (49, 1.0, 49),
            (33, 2.0, 33),
            (17, 2.0, 17),
            (16, f32::NAN, 17),
        ] {
            many[place] = score;
            assert_eq!(greedy.draw(&many, &[], 0), best);
        }
    }

    #[test]
    fn a_score_that_is_no_number_is_never_chosen() {
        let mut logits = vec![f32::NAN; 100];
        logits[40] = 1.0;
        logits[60] = f32::NEG_INFINITY;
        for temperature in [0.0, 0.8] {
            let sampling = Sampling {
                temperature,
                ..Sampling::default()
            };
            for n in 0..20 {
                assert_eq!(sampling.draw(&logits, &vec![0; n], 0), 40);
            }
            assert_eq!(sampling.draw(&[0.0, f32::INFINITY, 1.0], &[], 0), 1);
            assert_eq!(sampling.draw(&[f32::NAN; 3], &[], 0), 0);
        }
    }

    #[test]
    fn top_k_and_top_p_cut_the_tail() {
        let logits = [0.0, 1.0, 2.0, 3.0];
        let count = |s: &Sampling| {
            let mut seen = [0; 4];
            for n in 0..2000 {
                seen[s.draw(&logits, &vec![0; n], 0) as usize] += 1;
            }
            seen
        };
        let k = count(&Sampling {
            top_k: Some(2),
            ..Sampling::default()
        });
        assert_eq!((k[0], k[1]), (0, 0));
        // p(3) = .644, p(2) = .237: together .881, so .85 keeps two.
        let p = count(&Sampling {
            top_p: Some(0.85),
            ..Sampling::default()
        });
        assert_eq!((p[0], p[1]), (0, 0));
        assert!((p[3] as f64 / 2000.0 - 0.731).abs() < 0.04, "{p:?}");
    }

    #[test]
    fn an_unsorted_draw_has_the_same_probabilities() {
        let logits = [0.5, f32::NAN, 2.0, f32::NEG_INFINITY, 1.0];
        let sampling = Sampling {
            temperature: 0.7,
            ..Sampling::default()
        };
        let count = |draw: &dyn Fn(f32) -> u32| {
            let mut seen = [0i32; 5];
            for n in 0..1000u16 {
                seen[draw(f32::from(n) / 1000.0) as usize] += 1;
            }
            seen
        };
        let sorted = count(&|uniform| sampling.draw_with(&logits, &[], || uniform));
        let unsorted = count(&|uniform| sampling.draw_unsorted(&logits, &[], uniform));
        assert_eq!((unsorted[1], unsorted[3]), (0, 0));
        for (a, b) in sorted.iter().zip(unsorted) {
            assert!((a - b).abs() <= 2, "{sorted:?}, {unsorted:?}");
        }
        assert_eq!(sampling.draw_unsorted(&[f32::NAN; 3], &[], 0.5), 0);
        assert_eq!(sampling.draw_unsorted(&[0.0, f32::INFINITY], &[], 0.5), 1);
        let first = Sampling {
            top_k: Some(1),
            ..sampling
        };
        assert_eq!(first.draw_unsorted(&logits, &[], 0.99), 2);
    }

    #[test]
    fn repetition_is_penalised_on_both_sides_of_zero() {
        let s = Sampling {
            temperature: 0.0,
            repetition_penalty: 2.0,
            ..Sampling::default()
        };
        assert_eq!(s.draw(&[3.0, 2.0], &[0], 0), 1);
        assert_eq!(s.draw(&[-1.0, -1.5], &[0], 0), 1);
    }

    #[test]
    fn a_text_repeats_an_ngram_only_if_every_token_would() {
        let s = Sampling {
            temperature: 0.0,
            no_repeat_ngram_size: 1,
            ..Sampling::default()
        };
        assert_eq!(s.draw(&[3.0, 2.0, 1.0], &[0, 1], 0), 2);
        assert_eq!(s.draw(&[3.0, 2.0, 1.0], &[0, 1, 2], 0), 0);
    }
}
