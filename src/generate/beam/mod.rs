//! Beam search: an approximate search for the likeliest texts that a model can write for each of several sources, which
//! keeps `beam` hypotheses.
//!
//! At each step every hypothesis of a source is extended by every token, and the 2 · `beam` likeliest extensions (more
//! if several tokens end a text) are considered: the finished ones among the first `beam` are set aside, and the first
//! `beam` unfinished ones continue. So a finished text takes no place from the others, and `beam` hypotheses continue
//! at every step (Hugging Face's search with `early_stopping = "never"`, and fairseq's). Finished hypotheses are
//! compared by the sum of their log-probabilities over a [`LengthPenalty`]. A text that has reached its limit is ended
//! there, and the end mark is scored like any other token, as in fairseq; [`AtLimit`] has Hugging Face's variants. A
//! source is done when no unfinished hypothesis can get a better score than the `n_best` finished ones, whatever
//! follows: log-probabilities are never positive, so a current sum s ends with a score of at most s over the largest
//! divisor. This does not change the result (Huang et al. 2017, "When to finish?", for a fixed bound on the length);
//! [`DoneWhen`] has variants that may. With `beam = 1` the search is greedy: one candidate is considered, and the text
//! is finished when it is the end mark.
//!
//! Sources are searched side by side, independently of each other, and leave the batch when they are done. Ties between
//! scores are broken by the rank of the extended hypothesis, then by the smaller token id.

mod config;
mod length_penalty;

use crate::error::{Error, Result};
use crate::model::sampling::repeating_tokens;
use std::collections::BTreeSet;

pub use config::{AtLimit, BeamConfig, DoneWhen, LengthLimit, TokenRules};
pub use length_penalty::{AverageConfig, GnmtConfig, LengthPenalty, NoPenaltyConfig};

/// A model that reads several rows at once, token by token, and scores the next tokens.
pub trait NextScores {
    /// Reads one token for each row and returns the log-probabilities of the next tokens, `[rows, vocab_size]`, row by
    /// row. The first call reads one row for each source.
    ///
    /// # Errors
    /// Errors of the model.
    fn next(&mut self, tokens: &[u32]) -> Result<Vec<f32>>;

    /// Replaces the current rows by these, in this order; a row may be taken several times, or not at all.
    ///
    /// # Errors
    /// Errors of the model.
    fn select(&mut self, rows: &[usize]) -> Result<()>;
}

/// Beginning and length limit of the search for a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchStart {
    /// Tokens that the text follows: a prompt, or the special tokens that begin a target. The model has read all but the last
    /// one, with which the search begins.
    pub prompt: Vec<u32>,
    /// Maximum tokens of its text, not counting the end mark.
    pub max_len: usize,
}

/// A text found by the search.
#[derive(Clone, Debug, PartialEq)]
pub struct Hypothesis {
    /// Tokens of the text, without the first one that was read and without the end mark, if it has one.
    pub tokens: Vec<u32>,
    /// Log-probability of the tokens and the end mark.
    pub log_prob: f64,
    /// `log_prob` divided by the length penalty.
    pub score: f64,
}

/// An unfinished hypothesis: a row of the model.
struct Row {
    sentence: usize,
    tokens: Vec<u32>,
    log_prob: f64,
}

/// A row extended by a token.
#[derive(Clone, Copy)]
struct Candidate {
    row: usize,
    token: u32,
    log_prob: f64,
}

/// Tolerance by which a log-probability may exceed 0 through rounding.
const ROUNDING: f32 = 1e-2;

/// Returns the best texts of each source, the best first; `n_best` of them unless the model yields fewer.
///
/// # Errors
/// Errors of the model; scores that are not log-probabilities, or allow no token.
pub fn search(
    model: &mut dyn NextScores,
    sentences: &[SearchStart],
    rules: &TokenRules,
    config: &BeamConfig,
) -> Result<Vec<Vec<Hypothesis>>> {
    let mut found: Vec<Vec<Hypothesis>> = vec![Vec::new(); sentences.len()];
    let mut rows: Vec<Row> = (0..sentences.len())
        .map(|sentence| Row {
            sentence,
            tokens: Vec::new(),
            log_prob: 0.0,
        })
        .collect();
    let given = usize::from(config.first.is_some());
    while !rows.is_empty() {
        let last: Vec<u32> = rows
            .iter()
            .map(|row| row.tokens.last().or(sentences[row.sentence].prompt.last()))
            .map(|last| last.copied().unwrap_or_default())
            .collect();
        let scores = model.next(&last)?;
        let vocab_size = scores.len() / rows.len();
        config.require_vocabulary(vocab_size)?;
        assert_eq!(scores.len(), vocab_size * rows.len(), "scores of each row");
        let step = StepScores {
            scores: &scores,
            vocab_size,
            // All rows have the same length; a token that every text begins with is not chosen.
            allowed: rules.allowed(vocab_size, config, rows[0].tokens.len() == given),
            ends: &rules.ends,
            sentences,
            config,
        };
        let (next, parents) = step.advance(&rows, &mut found)?;
        let unchanged = parents.iter().copied().eq(0..rows.len());
        if !unchanged && !next.is_empty() {
            model.select(&parents)?;
        }
        rows = next;
    }
    for texts in &mut found {
        texts.truncate(config.n_best.max(1));
    }
    Ok(found)
}

/// The scores of a step, with the rules that apply to it.
struct StepScores<'a> {
    scores: &'a [f32],
    vocab_size: usize,
    allowed: Vec<bool>,
    ends: &'a [u32],
    sentences: &'a [SearchStart],
    config: &'a BeamConfig,
}

impl StepScores<'_> {
    /// Whether a token ends a text.
    fn is_end(&self, token: u32) -> bool {
        self.ends.contains(&token)
    }

    /// Returns the rows that continue, each with the number of the row that it extends; finished hypotheses are added
    /// to `found`.
    fn advance(
        &self,
        rows: &[Row],
        found: &mut [Vec<Hypothesis>],
    ) -> Result<(Vec<Row>, Vec<usize>)> {
        let (mut next, mut parents) = (Vec::new(), Vec::new());
        let mut from = 0;
        for group in rows.chunk_by(|a, b| a.sentence == b.sentence) {
            let sentence = group[0].sentence;
            let (len, max_len) = (group[0].tokens.len(), self.sentences[sentence].max_len);
            let best = self.best(group, from, max_len)?;
            let beam = self.config.beam.max(1);
            let is_over = |c: &&Candidate| self.is_end(c.token) || len >= max_len;
            // The candidates after the first `beam` continue in place of texts that end.
            for candidate in best.iter().take(beam).filter(is_over) {
                let mut tokens = group[candidate.row].tokens.clone();
                tokens.extend(Some(candidate.token).filter(|token| !self.is_end(*token)));
                self.config.insert_finished(
                    &mut found[sentence],
                    tokens,
                    len + 1,
                    candidate.log_prob,
                );
            }
            let going_on = best.iter().filter(|c| !is_over(c)).take(beam);
            let open: Vec<Candidate> = going_on.copied().collect();
            let goes_on = self
                .config
                .may_improve(&found[sentence], &open, len + 1, max_len);
            for candidate in open.into_iter().filter(|_| goes_on) {
                let mut tokens = group[candidate.row].tokens.clone();
                tokens.push(candidate.token);
                parents.push(from + candidate.row);
                next.push(Row {
                    sentence,
                    tokens,
                    log_prob: candidate.log_prob,
                });
            }
            from += group.len();
        }
        Ok((next, parents))
    }

    /// Returns the likeliest extensions of a source's rows, the first of which is row `from` of the model; the best
    /// first, ties in order of rows and tokens.
    fn best(&self, group: &[Row], from: usize, max_len: usize) -> Result<Vec<Candidate>> {
        let len = group[0].tokens.len();
        let count = match self.config.beam.max(1) {
            1 => 1,
            // At most this many tokens of a row end its text, so that `beam` others continue.
            beam => (1 + self.ends.len().max(1)) * beam,
        };
        let mut best: Vec<Candidate> = Vec::with_capacity(count + 1);
        let mut offer = |candidate: Candidate| {
            let full = best.len() == count;
            if full && best[count - 1].log_prob >= candidate.log_prob {
                return;
            }
            let place = best.partition_point(|b| b.log_prob >= candidate.log_prob);
            best.insert(place, candidate);
            best.truncate(count);
        };
        for (row, hypothesis) in group.iter().enumerate() {
            let scores = &self.scores[(from + row) * self.vocab_size..][..self.vocab_size];
            if scores.iter().any(|s| s.is_nan() || *s > ROUNDING) {
                return Err(Error::run(format!(
                    "the model's scores after {len} token(s) of a text are not log-probabilities: one is not a number, or above 0"
                )));
            }
            let follow = |token: u32, score: f32| Candidate {
                row,
                token,
                log_prob: hypothesis.log_prob + f64::from(score.min(0.0)),
            };
            let at_limit = (len >= max_len).then_some(self.config.at_limit);
            let mark = self.ends.first().copied();
            let forced = match (self.config.first.filter(|_| len == 0), at_limit) {
                (Some(first), _) => Some((first, 0.0)),
                (None, Some(AtLimit::End)) => mark.map(|end| (end, scores[end as usize])),
                (None, Some(AtLimit::FreeEnd)) => mark.map(|end| (end, 0.0)),
                (None, Some(AtLimit::Any) | None) => None,
            };
            if let Some((token, score)) = forced {
                offer(follow(token, score));
                continue;
            }
            let may_follow = |(token, score): &(u32, f32)| {
                let may_end = len >= self.config.min_len || !self.is_end(*token);
                *score > f32::NEG_INFINITY && self.allowed[*token as usize] && may_end
            };
            let each = (0..).zip(scores.iter().copied()).filter(may_follow);
            let repeating = self.repeating(hypothesis);
            let is_new = |(token, _): &(u32, f32)| !repeating.contains(token);
            let bans = !repeating.is_empty() && each.clone().any(|next| is_new(&next));
            for next in each.filter(|next| !bans || is_new(next)) {
                offer(follow(next.0, next.1));
            }
        }
        if best.is_empty() {
            return Err(Error::run(format!(
                "no allowed token has a probability above 0 after {len} token(s) of a text"
            )));
        }
        Ok(best)
    }

    /// Returns the tokens that would repeat an n-gram of a hypothesis or its prompt.
    fn repeating(&self, hypothesis: &Row) -> BTreeSet<u32> {
        let size = self.config.no_repeat_ngram_size;
        if size == 0 {
            return BTreeSet::new();
        }
        let prompt = self.sentences[hypothesis.sentence].prompt.as_slice();
        let text = [prompt, &hypothesis.tokens].concat();
        repeating_tokens(&text, size).into_iter().collect()
    }
}

impl BeamConfig {
    /// Inserts a finished hypothesis of `len` tokens, including its end mark, among the best that were found; of equal
    /// ones the earlier stay first.
    fn insert_finished(
        &self,
        found: &mut Vec<Hypothesis>,
        tokens: Vec<u32>,
        len: usize,
        log_prob: f64,
    ) {
        let score = log_prob / self.length_penalty.divisor(len);
        let place = found.partition_point(|f| f.score >= score);
        found.insert(
            place,
            Hypothesis {
                tokens,
                log_prob,
                score,
            },
        );
        found.truncate(self.max_finished());
    }

    /// Whether one of the open candidates, of `len` tokens each and at most `max_len`, can end better than what was found.
    fn may_improve(
        &self,
        found: &[Hypothesis],
        open: &[Candidate],
        len: usize,
        max_len: usize,
    ) -> bool {
        let Some(likeliest) = open.first() else {
            return false;
        };
        let Some(worst) = found.last().filter(|_| found.len() >= self.max_finished()) else {
            return true;
        };
        let divisor = match self.done_when {
            DoneWhen::Settled => self.length_penalty.largest(len + 1, max_len + 1),
            DoneWhen::Unlikely => self.length_penalty.divisor(len),
            DoneWhen::Full => return false,
        };
        likeliest.log_prob / divisor > worst.score
    }

    /// Number of finished hypotheses that are kept while others continue.
    fn max_finished(&self) -> usize {
        let beam = match self.done_when {
            DoneWhen::Settled => 1,
            DoneWhen::Unlikely | DoneWhen::Full => self.beam,
        };
        beam.max(self.n_best).max(1)
    }
}
