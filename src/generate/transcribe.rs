//! Transcripts of recordings: recordings are read in batches, and texts are found by beam search with key-value caches,
//! where those of a recording's states are computed once. A text begins with the tokens that the tokenizer puts before
//! a transcript (Whisper's `<|startoftranscript|><|en|><|transcribe|><|notimestamps|>`), which have log-probability 0.

use super::GeneratedText;
use super::beam::{BeamConfig, NextScores, SearchStart, TokenRules, search};
use super::decode::DecodeConfig;
use super::next::{Interruptible, column, log_probs, numbers};
use crate::data::batch::{SpeechBatch, SpeechItem};
use crate::data::{Tokenizers, speech};
use crate::error::{Error, Result};
use crate::model::SpeechEncoderDecoder;
use crate::model::source::Source;
use crate::nn::pass::Pass;
use crate::nn::state::StateUse;
use crate::stack::ModelState;
use crate::stop::StopFlag;
use crate::task::{Objective, Transcription};
use crate::tokenizer::Tokenizer;

/// Writes transcripts of recordings with a model in evaluation mode.
pub struct Transcriber<'a> {
    task: &'a Transcription,
    tokenizer: &'a Tokenizer,
    /// Tokens that every text begins with: those that are read first, and the last one.
    opening: (Vec<u32>, u32),
    rules: TokenRules,
    batch_size: usize,
    /// Number of tokens of a text that the model reads in training.
    context: usize,
    stop: StopFlag,
}

impl<'a> Transcriber<'a> {
    /// Builds the transcriber for a model that writes transcripts of up to `context` tokens; `None` for any other model.
    ///
    /// # Errors
    /// If the run has no tokenizer, or one without marks around a text.
    pub fn new(
        model: &'a Objective,
        tokenizers: &'a Tokenizers,
        config: &DecodeConfig,
        context: usize,
    ) -> Result<Option<Self>> {
        let Some(task) = model.networks().transcription else {
            return Ok(None);
        };
        let missing = || Error::usage("the run has no tokenizer to convert tokens to text");
        let tokenizer = tokenizers.text.as_ref().ok_or_else(missing)?;
        let edges = speech::marks(tokenizer)?;
        let marked = edges.around(&[]);
        let ids = |ids: &[i32]| -> Vec<u32> { ids.iter().map(|id| *id as u32).collect() };
        let (mut before, behind) = (ids(edges.before()), ids(&marked[edges.before().len()..]));
        let (Some(last), Some(end)) = (before.pop(), behind.last()) else {
            return Err(Error::usage(
                "the run's vocabulary has no special tokens for the beginning and the end of a transcript",
            ));
        };
        Ok(Some(Self {
            task,
            tokenizer,
            opening: (before, last),
            rules: rules(tokenizer, *end),
            batch_size: config.batch_size.max(1),
            context,
            stop: StopFlag::default(),
        }))
    }

    /// Makes the transcriber return [`Error::Stopped`] when the flag is raised.
    #[must_use]
    pub fn with_stop(self, stop: &StopFlag) -> Self {
        Self {
            stop: stop.clone(),
            ..self
        }
    }

    /// Sets another language of the texts (`de`), or translation into English, if the tokens that texts begin with
    /// express these.
    ///
    /// # Errors
    /// If the vocabulary lacks a token, or texts do not begin with such a token.
    pub fn with_flags(mut self, language: Option<&str>, translate: bool) -> Result<Self> {
        let wanted = [
            language.map(|language| {
                (
                    format!("<|{language}|>"),
                    is_language as fn(&str) -> bool,
                    "language",
                )
            }),
            translate.then(|| (TRANSLATE.to_owned(), is_task as fn(&str) -> bool, "task")),
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
                    "texts of the run do not begin with a {means} token that {name} could replace"
                ))
            })?;
            *place = id;
        }
        Ok(self)
    }

    /// Returns the number of recordings that are read together.
    pub fn batch_size(&self) -> usize {
        self.batch_size
    }

    /// Returns the maximum number of tokens of a text that the decoder reads: in training all but the last of the context.
    fn limit(&self) -> usize {
        let trained = self.context.saturating_sub(1);
        let placed = self.task.model.max_len();
        placed.map_or(trained, |limit| limit.min(trained))
    }

    /// Finds the best texts of each recording, in the order of the recordings.
    ///
    /// # Errors
    /// If the marks leave no room for a text, or scores are not finite.
    pub fn write(
        &self,
        recordings: &[SpeechItem],
        config: &BeamConfig,
    ) -> Result<Vec<Vec<GeneratedText>>> {
        let before = &self.opening.0;
        let (limit, begun) = (self.limit(), before.len() + 1);
        if begun >= limit {
            return Err(Error::usage(format!(
                "a text begins with {begun} special tokens, but the model reads {limit} tokens, including at least one of the text"
            )));
        }
        let (max_len, limit) = config.limited_len(0, Some(limit - begun));
        let start = SearchStart {
            prompt: [before.as_slice(), &[self.opening.1]].concat(),
            max_len,
        };
        let mut written = Vec::with_capacity(recordings.len());
        for some in recordings.chunks(self.batch_size) {
            self.stop.check()?;
            let mut model = Interruptible {
                model: Box::new(SpeechDecoderState::new(self.task, some)),
                stop: &self.stop,
            };
            for token in before {
                model.next(&vec![*token; some.len()])?;
            }
            let found = search(
                &mut model,
                &vec![start.clone(); some.len()],
                &self.rules,
                config,
            )?;
            let text = |tokens: &[u32]| self.tokenizer.decode_text(tokens);
            let texts = found
                .into_iter()
                .map(|found| GeneratedText::all(found, (max_len, limit), text));
            written.extend(texts);
        }
        Ok(written)
    }
}

/// Returns the rules of the search: a text ends with the end mark and contains no other special token and no timestamp.
fn rules(tokenizer: &Tokenizer, end: u32) -> TokenRules {
    let vocabulary = 0..tokenizer.vocab_size() as u32;
    let never = |id: &u32| {
        *id != end
            && (tokenizer.is_special(*id)
                || tokenizer.token(*id).is_some_and(|name| is_timestamp(&name)))
    };
    TokenRules {
        ends: vec![end],
        banned: vocabulary.filter(never).collect(),
    }
}

/// Whisper's task token for translations.
const TRANSLATE: &str = "<|translate|>";

/// Whether a token names a language, like Whisper's `<|en|>`.
fn is_language(name: &str) -> bool {
    let inside = name.strip_prefix("<|").and_then(|n| n.strip_suffix("|>"));
    inside.is_some_and(|code| {
        (2..=3).contains(&code.len()) && code.chars().all(|c| c.is_ascii_lowercase())
    })
}

/// Whether a token names the task.
fn is_task(name: &str) -> bool {
    [TRANSLATE, "<|transcribe|>"].contains(&name)
}

/// Whether a token is a timestamp, like Whisper's `<|12.34|>`.
fn is_timestamp(name: &str) -> bool {
    let inside = name.strip_prefix("<|").and_then(|n| n.strip_suffix("|>"));
    inside.is_some_and(|inside| {
        let digits = |c: char| c.is_ascii_digit() || c == '.';
        inside.contains('.') && inside.chars().all(digits)
    })
}

/// An encoder-decoder with the recordings it has read.
struct SpeechDecoderState<'a> {
    model: &'a SpeechEncoderDecoder,
    source: Source,
    state: ModelState,
}

impl<'a> SpeechDecoderState<'a> {
    fn new(task: &'a Transcription, recordings: &[SpeechItem]) -> Self {
        let features = task.features(&SpeechBatch::of(recordings, 0));
        Self {
            model: &task.model,
            source: task.model.encode(features, &Pass::evaluation()),
            state: task.model.empty_state(StateUse::Decoding),
        }
    }
}

impl NextScores for SpeechDecoderState<'_> {
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
    use super::{is_language, is_timestamp};

    #[test]
    fn times_are_told_from_other_tokens() {
        assert!(["<|0.00|>", "<|30.00|>"].into_iter().all(is_timestamp));
        assert!(["<|en|>", "<|yue|>"].into_iter().all(is_language));
        assert!(
            !["en", "<|5|>", "<|translate|>"]
                .into_iter()
                .any(is_language)
        );
        assert!(
            !["<|en|>", "0.5", "<||>", "<|5|>"]
                .into_iter()
                .any(is_timestamp)
        );
    }
}
