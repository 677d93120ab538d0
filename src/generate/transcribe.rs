//! Texts of recordings: recordings are read in batches, and texts searched for with key-value caches, those of a recording's states
//! computed once. A text begins with the tokens that the tokenizer puts before a transcript (Whisper's
//! `<|startoftranscript|><|en|><|transcribe|><|notimestamps|>`), which cost nothing.

use super::Written;
use super::beam::{BeamConfig, NextScores, Rules, Sentence, search};
use super::decode::DecodeConfig;
use super::next::{Stopped, column, log_probs, numbers};
use crate::data::batch::{SpeechBatch, SpeechItem};
use crate::data::{Tokenizers, speech};
use crate::error::{Error, Result};
use crate::model::SpeechEncoderDecoder;
use crate::model::source::Source;
use crate::nn::pass::Pass;
use crate::nn::state::StateUse;
use crate::stack::ModelState;
use crate::stop::Stop;
use crate::task::{Objective, Transcription};
use crate::tokenizer::Tokenizer;

/// Writes texts of recordings with a model in evaluation mode.
pub struct Transcriber<'a> {
    task: &'a Transcription,
    tokenizer: &'a Tokenizer,
    /// What every text begins with: those that are read before the last one, and that.
    opening: (Vec<u32>, u32),
    rules: Rules,
    batch_size: usize,
    /// Tokens that the model reads of a text in training.
    context: usize,
    stop: Stop,
}

impl<'a> Transcriber<'a> {
    /// For a model that writes texts of up to `context` tokens of recordings; `None` for any other.
    ///
    /// # Errors
    /// A run without a tokenizer, or one without marks around a text.
    pub fn new(
        model: &'a Objective,
        tokenizers: &'a Tokenizers,
        config: &DecodeConfig,
        context: usize,
    ) -> Result<Option<Self>> {
        let Some(task) = model.networks().transcription else {
            return Ok(None);
        };
        let missing = || Error::usage("the run has no tokenizer: its tokens stand for no text");
        let tokenizer = tokenizers.text.as_ref().ok_or_else(missing)?;
        let edges = speech::marks(tokenizer)?;
        let marked = edges.around(&[]);
        let ids = |ids: &[i32]| -> Vec<u32> { ids.iter().map(|id| *id as u32).collect() };
        let (mut before, behind) = (ids(edges.before()), ids(&marked[edges.before().len()..]));
        let (Some(last), Some(end)) = (before.pop(), behind.last()) else {
            return Err(Error::usage(
                "the run's vocabulary has no marks around a text, between which a transcript is written",
            ));
        };
        Ok(Some(Self {
            task,
            tokenizer,
            opening: (before, last),
            rules: rules(tokenizer, *end),
            batch_size: config.batch_size.max(1),
            context,
            stop: Stop::default(),
        }))
    }

    /// The same, which ends with [`Error::Stopped`] when the flag is raised.
    #[must_use]
    pub fn until(self, stop: &Stop) -> Self {
        Self {
            stop: stop.clone(),
            ..self
        }
    }

    /// The same whose texts are of another language (`de`), or translations into English, where the tokens that they begin with say
    /// that.
    ///
    /// # Errors
    /// Tokens that the vocabulary lacks, texts that begin without them.
    pub fn asked(mut self, language: Option<&str>, translate: bool) -> Result<Self> {
        let wanted = [
            language.map(|language| {
                (
                    format!("<|{language}|>"),
                    is_language as fn(&str) -> bool,
                    "a language",
                )
            }),
            translate.then(|| {
                (
                    TRANSLATE.to_owned(),
                    is_job as fn(&str) -> bool,
                    "what is asked for",
                )
            }),
        ];
        for (name, stands, means) in wanted.into_iter().flatten() {
            let id = self
                .tokenizer
                .id(&name)
                .ok_or_else(|| Error::usage(format!("the run's vocabulary has no token {name}")))?;
            let (before, last) = &mut self.opening;
            let mut places = before.iter_mut().chain([last]);
            let named = |id: &u32| self.tokenizer.token(*id).is_some_and(|name| stands(&name));
            let place = places.find(|id| named(id)).ok_or_else(|| {
                Error::usage(format!(
                    "texts of the run begin with no token that says {means}, in whose place {name} could stand"
                ))
            })?;
            *place = id;
        }
        Ok(self)
    }

    /// Recordings that are read together.
    pub fn batch_size(&self) -> usize {
        self.batch_size
    }

    /// Tokens that the decoder reads of a text at most: in training all but the last of the context.
    fn limit(&self) -> usize {
        let trained = self.context.saturating_sub(1);
        let placed = self.task.model.max_len();
        placed.map_or(trained, |limit| limit.min(trained))
    }

    /// The best texts of each recording, in the order of the recordings.
    ///
    /// # Errors
    /// Marks that leave no place for a text, scores that are not numbers.
    pub fn write(
        &self,
        recordings: &[SpeechItem],
        config: &BeamConfig,
    ) -> Result<Vec<Vec<Written>>> {
        let (before, first) = (&self.opening.0, self.opening.1);
        let (limit, begun) = (self.limit(), before.len() + 1);
        if begun >= limit {
            return Err(Error::usage(format!(
                "a text begins with {begun} tokens of its marks; the model reads {limit}, one of the text among them"
            )));
        }
        let (max_len, limit) = config.longest(0, Some(limit - begun));
        let sentence = Sentence { first, max_len };
        let mut written = Vec::with_capacity(recordings.len());
        for some in recordings.chunks(self.batch_size) {
            self.stop.check()?;
            let mut model = Stopped {
                model: Box::new(Listening::new(self.task, some)),
                stop: &self.stop,
            };
            for token in before {
                model.next(&vec![*token; some.len()])?;
            }
            let found = search(&mut model, &vec![sentence; some.len()], &self.rules, config)?;
            let text = |tokens: &[u32]| self.tokenizer.decode_text(tokens);
            let texts = found
                .into_iter()
                .map(|found| Written::all(found, (max_len, limit), text));
            written.extend(texts);
        }
        Ok(written)
    }
}

/// A text ends with the mark behind it, and has no other special token and no time.
fn rules(tokenizer: &Tokenizer, end: u32) -> Rules {
    let vocabulary = 0..tokenizer.vocab_size() as u32;
    let never = |id: &u32| {
        *id != end
            && (tokenizer.is_special(*id)
                || tokenizer.token(*id).is_some_and(|name| is_time(&name)))
    };
    Rules {
        ends: vec![end],
        banned: vocabulary.filter(never).collect(),
    }
}

/// What Whisper's texts begin with that are translations.
const TRANSLATE: &str = "<|translate|>";

/// Whether a token names a language, as `<|en|>` of Whisper's does.
fn is_language(name: &str) -> bool {
    let inside = name.strip_prefix("<|").and_then(|n| n.strip_suffix("|>"));
    inside.is_some_and(|code| {
        (2..=3).contains(&code.len()) && code.chars().all(|c| c.is_ascii_lowercase())
    })
}

/// Whether a token says what is asked for.
fn is_job(name: &str) -> bool {
    [TRANSLATE, "<|transcribe|>"].contains(&name)
}

/// Whether a token says a time within the recording, as `<|12.34|>` of Whisper's does.
fn is_time(name: &str) -> bool {
    let inside = name.strip_prefix("<|").and_then(|n| n.strip_suffix("|>"));
    inside.is_some_and(|inside| {
        let digits = |c: char| c.is_ascii_digit() || c == '.';
        inside.contains('.') && inside.chars().all(digits)
    })
}

/// An encoder-decoder with the recordings it has read.
struct Listening<'a> {
    model: &'a SpeechEncoderDecoder,
    source: Source,
    state: ModelState,
}

impl<'a> Listening<'a> {
    fn new(task: &'a Transcription, recordings: &[SpeechItem]) -> Self {
        let features = task.features(&SpeechBatch::of(recordings, 0));
        Self {
            model: &task.model,
            source: task.model.encode(features, &Pass::evaluation()),
            state: task.model.empty_state(StateUse::Decoding),
        }
    }
}

impl NextScores for Listening<'_> {
    fn next(&mut self, tokens: &[u32]) -> Result<Vec<f32>> {
        let ids = column(tokens, &self.source.states.device());
        let (pass, state) = (Pass::evaluation(), Some(&mut self.state));
        let hidden = self.model.decode(ids, &self.source, state, &pass);
        Ok(log_probs(self.model.vocabulary_head().logits(hidden)))
    }

    fn select(&mut self, rows: &[usize]) -> Result<()> {
        self.source = self.source.select(rows);
        let numbers = numbers(rows, &self.source.states.device());
        self.state.select(&numbers);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{is_language, is_time};

    #[test]
    fn times_are_told_from_other_tokens() {
        assert!(["<|0.00|>", "<|30.00|>"].into_iter().all(is_time));
        assert!(["<|en|>", "<|yue|>"].into_iter().all(is_language));
        assert!(
            !["en", "<|5|>", "<|translate|>"]
                .into_iter()
                .any(is_language)
        );
        assert!(!["<|en|>", "0.5", "<||>", "<|5|>"].into_iter().any(is_time));
    }
}
