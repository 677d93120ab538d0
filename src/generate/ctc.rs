//! Transcripts of recordings from the character scores of every frame (CTC): the likeliest character of each frame,
//! with repeats and blanks removed (Graves et al. 2006, section 3.2, best path decoding).

use super::GeneratedText;
use super::decode::DecodeConfig;
use crate::data::Tokenizers;
use crate::data::batch::{SpeechBatch, SpeechItem};
use crate::error::{Error, Result};
use crate::kernel;
use crate::model::speech_encoder::Frames;
use crate::nn::pass::Pass;
use crate::stop::StopFlag;
use crate::task::{Ctc, Objective};
use crate::tokenizer::Tokenizer;

/// Spells transcripts with a model in evaluation mode.
pub struct CtcTranscriber<'a> {
    task: &'a Ctc,
    tokenizer: &'a Tokenizer,
    batch_size: usize,
    stop: StopFlag,
}

impl<'a> CtcTranscriber<'a> {
    /// Builds the speller for a CTC model; `None` for any other model.
    ///
    /// # Errors
    /// If the run has no tokenizer.
    pub fn new(
        model: &'a Objective,
        tokenizers: &'a Tokenizers,
        config: &DecodeConfig,
    ) -> Result<Option<Self>> {
        let Some(task) = model.networks().ctc else {
            return Ok(None);
        };
        let missing = || Error::usage("the run has no tokenizer to convert tokens to text");
        Ok(Some(Self {
            task,
            tokenizer: tokenizers.text.as_ref().ok_or_else(missing)?,
            batch_size: config.batch_size.max(1),
            stop: StopFlag::default(),
        }))
    }

    /// Makes the speller return [`Error::Stopped`] when the flag is raised.
    #[must_use]
    pub fn with_stop(self, stop: &StopFlag) -> Self {
        Self {
            stop: stop.clone(),
            ..self
        }
    }

    /// Returns the number of recordings that are read together.
    pub fn batch_size(&self) -> usize {
        self.batch_size
    }

    /// Spells the text of each recording, in the order of the recordings, with the log-probability of its best path.
    ///
    /// # Errors
    /// If scores are not finite.
    pub fn write(&self, recordings: &[SpeechItem]) -> Result<Vec<Vec<GeneratedText>>> {
        let mut written = Vec::with_capacity(recordings.len());
        for some in recordings.chunks(self.batch_size) {
            self.stop.check()?;
            let speech = SpeechBatch::of(some, 0);
            let Frames { states, lengths } = self.task.frames(&speech, &Pass::evaluation());
            let scores = self.task.model.scores(states);
            let [_, frames, vocab] = scores.dims();
            let scores = kernel::read(kernel::untracked(scores));
            let scores: Vec<f32> = scores.iter::<f32>().collect();
            for (row, own) in scores.chunks((frames * vocab).max(1)).zip(lengths) {
                let (ids, log_prob) = best_path(row, vocab, own, self.task.blank())?;
                written.push(vec![GeneratedText {
                    text: self.tokenizer.decode_text(&ids),
                    log_prob,
                    score: log_prob,
                    limit: None,
                }]);
            }
        }
        Ok(written)
    }
}

/// Returns the collapsed classes of the best path through the first `frames` frames, and its log-probability.
fn best_path(scores: &[f32], vocab: usize, frames: usize, blank: usize) -> Result<(Vec<u32>, f64)> {
    let (mut ids, mut log_prob, mut last) = (Vec::new(), 0.0, blank);
    for frame in scores.chunks(vocab).take(frames) {
        let by = |a: &(usize, &f32), b: &(usize, &f32)| a.1.total_cmp(b.1).then(b.0.cmp(&a.0));
        let best = frame.iter().enumerate().max_by(by);
        let Some((best, most)) = best.filter(|_| frame.iter().all(|x| x.is_finite())) else {
            return Err(Error::run(
                "the scores of a recording are not finite; the run has diverged",
            ));
        };
        let most = f64::from(*most);
        let sum: f64 = frame.iter().map(|x| (f64::from(*x) - most).exp()).sum();
        log_prob -= sum.ln();
        if best != last && best != blank {
            ids.push(best as u32);
        }
        last = best;
    }
    Ok((ids, log_prob))
}

#[cfg(test)]
mod tests {
    use super::best_path;

    #[test]
    fn repeats_and_blanks_are_dropped() {
        let way = [0, 1, 1, 0, 1, 2, 2, 0, 0, 2];
        let scores: Vec<f32> = way
            .iter()
            .flat_map(|best| (0..3).map(move |class| f32::from(u8::from(class == *best)) * 9.0))
            .collect();
        let (ids, log_prob) = best_path(&scores, 3, 10, 0).unwrap();
        assert_eq!(ids, [1, 1, 2, 2]);
        let each = -(1.0 + 2.0 * (-9.0f64).exp()).ln();
        assert!((log_prob - 10.0 * each).abs() < 1e-9);
        // Padding at the end of a row is not read.
        assert_eq!(best_path(&scores, 3, 3, 0).unwrap().0, [1]);
        assert!(best_path(&[f32::NAN, 0.0, 0.0], 3, 1, 0).is_err());
    }
}
