//! The connectionist temporal classification loss of one row, by the forward-backward algorithm (Graves et al. 2006,
//! section 4.1), in logarithms and double precision.
//!
//! ```text
//! l' = blank l₁ blank l₂ … blank        a(t, s): log-probability of all paths that read l'₁ … l'ₛ in the frames up to t
//! a(t, s) = log y(t, l'ₛ) + log(e^a(t−1,s) + e^a(t−1,s−1) [+ e^a(t−1,s−2) if l'ₛ is a label that differs from l'ₛ₋₂])
//! loss = −log(e^a(T,S) + e^a(T,S−1))    ∂loss/∂score(t, k) = y(t, k) − Σ_{s: l'ₛ = k} e^(a(t,s) + b(t,s) + loss)
//! ```
//!
//! where b(t, s) is the log-probability of all paths that read the rest after l'ₛ in the frames after t.

/// Frames of logits over a vocabulary, and the label sequence to be read from them.
pub struct Row<'a> {
    /// Logits `[frames, vocab]`; more frames, of padding, may follow those of the row.
    pub scores: &'a [f32],
    /// Number of classes: logits of a frame.
    pub vocab: usize,
    /// Number of frames of the row.
    pub frames: usize,
    /// Labels; none of them is the blank.
    pub labels: &'a [i32],
    /// The blank class, which stands for no label.
    pub blank: usize,
}

/// Log-probabilities of the paths to each state, frame after frame.
struct PathScores {
    states: usize,
    values: Vec<f64>,
}

impl Row<'_> {
    /// Returns the loss, infinite if the labels need more frames than there are. Writes its gradient by the logits
    /// into `gradient`, unless the loss is infinite. Frames of `gradient` past the row's end are not written.
    pub fn loss(&self, gradient: Option<&mut [f32]>) -> f64 {
        let normalisers: Vec<f64> = self.each_frame().map(normaliser).collect();
        let ways = self.forward(&normalisers);
        let total = ways.total();
        if let Some(gradient) = gradient.filter(|_| total.is_finite()) {
            self.backward(&normalisers, &ways, total, gradient);
        }
        -total
    }

    fn each_frame(&self) -> impl Iterator<Item = &[f32]> {
        self.scores.chunks(self.vocab).take(self.frames)
    }

    /// Returns the number of states: the labels with blanks around all of them.
    fn states(&self) -> usize {
        2 * self.labels.len() + 1
    }

    /// Returns the class of a state.
    fn class(&self, state: usize) -> usize {
        match state % 2 {
            0 => self.blank,
            _ => self.labels[state / 2] as usize,
        }
    }

    /// Returns whether a state's label may follow the previous label without a blank between them.
    fn skips(&self, state: usize) -> bool {
        state % 2 == 1 && state > 1 && self.labels[state / 2] != self.labels[state / 2 - 1]
    }

    /// Returns the log-probability of the class of a state in a frame.
    fn log_probability(&self, normalisers: &[f64], frame: usize, state: usize) -> f64 {
        let score = self.scores[frame * self.vocab + self.class(state)];
        f64::from(score) - normalisers[frame]
    }

    fn forward(&self, normalisers: &[f64]) -> PathScores {
        let states = self.states();
        let mut values = vec![f64::NEG_INFINITY; states * self.frames];
        for frame in 0..self.frames {
            let (before, now) = values.split_at_mut(frame * states);
            let before = before.get((frame.max(1) - 1) * states..).unwrap_or(&[]);
            for state in 0..states {
                let reached = match frame {
                    0 if state < 2 => 0.0,
                    0 => f64::NEG_INFINITY,
                    _ => {
                        let back = |steps: usize| match state >= steps {
                            true => before[state - steps],
                            false => f64::NEG_INFINITY,
                        };
                        let skipped = match self.skips(state) {
                            true => back(2),
                            false => f64::NEG_INFINITY,
                        };
                        log_sum([back(0), back(1), skipped])
                    }
                };
                now[state] = reached + self.log_probability(normalisers, frame, state);
            }
        }
        PathScores { states, values }
    }

    fn backward(&self, normalisers: &[f64], ways: &PathScores, total: f64, gradient: &mut [f32]) {
        let states = self.states();
        // Log-probabilities of the rest, with the class of the frame and without.
        let mut behind = vec![f64::NEG_INFINITY; states];
        let mut following = vec![f64::NEG_INFINITY; states];
        for frame in (0..self.frames).rev() {
            for (state, follows) in following.iter_mut().enumerate() {
                *follows = match frame + 1 == self.frames {
                    true if state + 2 >= states => 0.0,
                    true => f64::NEG_INFINITY,
                    false => {
                        let ahead = |steps: usize| match state + steps < states {
                            true => behind[state + steps],
                            false => f64::NEG_INFINITY,
                        };
                        let skipped = match state + 2 < states && self.skips(state + 2) {
                            true => ahead(2),
                            false => f64::NEG_INFINITY,
                        };
                        log_sum([ahead(0), ahead(1), skipped])
                    }
                };
            }
            let of_frame = frame * self.vocab..(frame + 1) * self.vocab;
            let slopes = &mut gradient[of_frame.clone()];
            for (slope, score) in slopes.iter_mut().zip(&self.scores[of_frame]) {
                *slope = (f64::from(*score) - normalisers[frame]).exp() as f32;
            }
            for state in 0..states {
                let through = ways.values[frame * states + state] + following[state] - total;
                slopes[self.class(state)] -= through.exp() as f32;
                behind[state] = following[state] + self.log_probability(normalisers, frame, state);
            }
        }
    }
}

impl PathScores {
    /// Returns the log-probability of all paths through all frames.
    fn total(&self) -> f64 {
        let last = self.values.rchunks(self.states).next().unwrap_or(&[]);
        let ends = |back: usize| last.len().checked_sub(back).map(|place| last[place]);
        let none = f64::NEG_INFINITY;
        log_sum([ends(1).unwrap_or(none), ends(2).unwrap_or(none), none])
    }
}

/// Returns log Σ e^logit of a frame.
fn normaliser(scores: &[f32]) -> f64 {
    let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let most = f64::from(most);
    let sum: f64 = scores.iter().map(|x| (f64::from(*x) - most).exp()).sum();
    most + sum.ln()
}

fn log_sum(all: [f64; 3]) -> f64 {
    let most = all.into_iter().fold(f64::NEG_INFINITY, f64::max);
    if most == f64::NEG_INFINITY {
        return most;
    }
    most + all.into_iter().map(|x| (x - most).exp()).sum::<f64>().ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row<'a>(scores: &'a [f32], vocab: usize, labels: &'a [i32]) -> Row<'a> {
        Row {
            scores,
            vocab,
            frames: scores.len() / vocab,
            labels,
            blank: 0,
        }
    }

    /// Enumerates every path through the frames, collapsed to labels.
    fn by_enumeration(row: &Row) -> f64 {
        let (vocab, frames) = (row.vocab, row.frames);
        let ways = vocab.pow(frames as u32);
        let mut sum = 0.0;
        for way in 0..ways {
            let path: Vec<usize> = (0..frames)
                .map(|t| way / vocab.pow(t as u32) % vocab)
                .collect();
            let mut read = path.clone();
            read.dedup();
            read.retain(|class| *class != row.blank);
            if read
                .iter()
                .map(|class| *class as i32)
                .eq(row.labels.iter().copied())
            {
                let each = path.iter().zip(row.scores.chunks(vocab));
                let log: f64 = each
                    .map(|(class, scores)| f64::from(scores[*class]) - normaliser(scores))
                    .sum();
                sum += log.exp();
            }
        }
        -sum.ln()
    }

    #[test]
    fn losses_and_gradients_are_those_of_all_ways_together() {
        let scores: Vec<f32> = (0..15).map(|n| (1.7 * n as f32).sin() * 2.0).collect();
        for labels in [&[1, 2][..], &[1, 1], &[2], &[], &[1, 2, 1], &[1, 1, 2]] {
            let given = row(&scores, 3, labels);
            let mut gradient = vec![0.0; 15];
            let loss = given.loss(Some(&mut gradient));
            let wanted = by_enumeration(&given);
            assert!((loss - wanted).abs() < 1e-6, "{labels:?}: {loss}, {wanted}");
            for place in 0..15 {
                let mut moved = [scores.clone(), scores.clone()];
                moved[0][place] += 1e-2;
                moved[1][place] -= 1e-2;
                let [up, down] = moved.map(|scores| row(&scores, 3, labels).loss(None));
                let slope = ((up - down) / 2e-2) as f32;
                assert!((slope - gradient[place]).abs() < 1e-3, "{labels:?} {place}");
            }
        }
    }

    #[test]
    fn labels_that_need_more_frames_have_an_infinite_loss() {
        let scores = [0.0; 6];
        // Two frames: labels 1 1 would need a blank between them.
        let mut gradient = [0.0; 6];
        assert_eq!(
            row(&scores, 3, &[1, 1]).loss(Some(&mut gradient)),
            f64::INFINITY
        );
        assert_eq!(gradient, [0.0; 6]);
        assert!(row(&scores, 3, &[1, 2]).loss(None).is_finite());
        assert_eq!(row(&[], 3, &[]).loss(None), f64::INFINITY);
    }
}
