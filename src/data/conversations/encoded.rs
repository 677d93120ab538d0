//! Conversations as tokens, of which only those of answers are scored.

use super::templates::with_location;
use super::{ConversationsConfig, LocatedConversation};
use crate::data::{NOT_SCORED, PerSplit, Split, TextItem};
use crate::error::{Error, Result};
use crate::tokenizer::chat::{Answers, RenderedConversation};
use crate::tokenizer::offsets::Offsets;
use crate::tokenizer::{ChatTemplate, Tokenizer};
use rayon::prelude::*;
use std::ops::Range;

/// A conversation as tokens, or another text of which a part is an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::data) struct Encoded {
    /// Token ids of the whole text.
    pub(in crate::data) ids: Vec<i32>,
    /// Token ranges of the answers.
    pub(in crate::data) answers: Vec<Range<usize>>,
}

impl Encoded {
    /// Returns the number of tokens that a model reads: all but the last, since each needs a target.
    pub(in crate::data) fn len(&self) -> usize {
        self.ids.len().saturating_sub(1)
    }

    /// Whether any token of an answer is scored; a target needs a token before it.
    pub(in crate::data) fn is_scored(&self) -> bool {
        self.answers.iter().any(|answer| answer.end > 1)
    }

    /// Returns the inputs and their targets as an example.
    pub(in crate::data) fn item(&self) -> TextItem {
        TextItem {
            inputs: self.ids[..self.len()].to_vec(),
            targets: self.targets(),
            ..TextItem::default()
        }
    }

    /// Returns the token after each input, or [`NOT_SCORED`] if it is not part of an answer.
    pub(in crate::data) fn targets(&self) -> Vec<i32> {
        let mut targets = vec![NOT_SCORED; self.len()];
        for token in self.answers.iter().cloned().flatten() {
            if let Some(before) = token.checked_sub(1) {
                targets[before] = self.ids[token];
            }
        }
        targets
    }

    /// Returns the same text cut to at most `most` tokens.
    pub(in crate::data) fn cut(mut self, most: usize) -> Self {
        self.ids.truncate(most);
        for answer in &mut self.answers {
            answer.end = answer.end.min(most);
        }
        self.answers.retain(|answer| answer.start < answer.end);
        self
    }
}

/// Turns conversations into tokens.
pub(super) struct Encoder<'a> {
    tokenizer: &'a Tokenizer,
    offsets: Offsets,
    template: &'a ChatTemplate,
    answers: Answers,
    context: usize,
    /// Whether conversations longer than the context are left out instead of cut.
    drop_too_long: bool,
}

impl<'a> Encoder<'a> {
    /// Builds the encoder of a run.
    ///
    /// # Errors
    /// None, if the tokenizer was built or loaded.
    pub(super) fn new(
        tokenizer: &'a Tokenizer,
        template: &'a ChatTemplate,
        config: &ConversationsConfig,
        whole: bool,
    ) -> Result<Self> {
        Ok(Self {
            tokenizer,
            offsets: tokenizer.offsets()?,
            template,
            answers: config.answers,
            context: config.context,
            drop_too_long: whole,
        })
    }

    /// Encodes conversations, cut to the context; or only those that fit into it, if they are read whole.
    /// Conversations without a scored answer token are left out.
    ///
    /// # Errors
    /// At the first conversation that the template refuses or the tokenizer cannot encode; the message has
    /// its line.
    pub(super) fn encode_all(&self, filed: &[LocatedConversation]) -> Result<Vec<Encoded>> {
        let most = self.context + 1;
        let encode = |one: &LocatedConversation| -> Result<Option<Encoded>> {
            let written =
                with_location(one, |c| self.template.render_with_answers(c, self.answers))?;
            let encoded = encode_rendered(&written, &self.offsets, self.tokenizer)
                .map_err(|e| Error::run(format!("{}:{}: {e}", one.path.display(), one.line)))?;
            let fits = !self.drop_too_long || encoded.ids.len() <= most;
            let cut = fits.then(|| encoded.cut(most));
            Ok(cut.filter(Encoded::is_scored))
        };
        let all: Vec<Result<Option<Encoded>>> = filed.par_iter().map(encode).collect();
        all.into_iter().filter_map(Result::transpose).collect()
    }

    /// Describes what conversations that are left out for their length lack.
    pub(super) fn length_reason(&self) -> String {
        let lacks = match self.drop_too_long {
            true => "no complete answer",
            false => "no token of an answer",
        };
        format!("{lacks} within context = {}", self.context)
    }

    /// Returns the average bytes of text per scored token.
    pub(super) fn bytes_per_scored_token(&self, all: &[Encoded]) -> Option<f64> {
        let (mut bytes, mut tokens) = (0, 0);
        for target in all.iter().flat_map(Encoded::targets).filter(|t| *t >= 0) {
            bytes += self.tokenizer.bytes_of(target as u32);
            tokens += 1;
        }
        (tokens > 0).then(|| bytes as f64 / f64::from(tokens))
    }
}

/// Encodes a text that a template has written. An answer ends with the last special token in it: templates
/// may write a line break after it, which the model need not produce.
///
/// # Errors
/// If the tokenizer cannot encode the text.
pub(in crate::data) fn encode_rendered(
    written: &RenderedConversation,
    offsets: &Offsets,
    tokenizer: &Tokenizer,
) -> Result<Encoded> {
    let (ids, places) = offsets.encode(&written.text)?;
    let specials = tokenizer.specials();
    let answers = written.answers.iter();
    let found = answers.filter_map(|answer| tokens_in_bytes(&places, answer));
    let answers = found.map(|tokens| {
        let special = |id: &u32| specials.binary_search(id).is_ok();
        let own = &ids[tokens.clone()];
        // Only white space may follow the last special token, since a special token may also be part of the
        // answer itself.
        let last = own.iter().rposition(special);
        let last = last.filter(|at| tokenizer.decode(&own[at + 1..]).trim().is_empty());
        tokens.start..last.map_or(tokens.end, |at| tokens.start + at + 1)
    });
    let answers = answers.collect();
    Ok(Encoded {
        ids: ids.into_iter().map(|id| id as i32).collect(),
        answers,
    })
}

/// Returns the tokens that cover a range of bytes of a text, fully or in part; `None` if no token does.
/// `places` holds the byte range of each token.
pub(in crate::data) fn tokens_in_bytes(
    places: &[[usize; 2]],
    bytes: &Range<usize>,
) -> Option<Range<usize>> {
    let within = |[from, to]: &[usize; 2]| *to > bytes.start && *from < bytes.end;
    let first = places.iter().position(within)?;
    let behind = places[first..].iter().position(|place| !within(place));
    Some(first..behind.map_or(places.len(), |count| first + count))
}

/// Returns messages about conversations that are left out because they have `why`.
pub(super) fn notes(left_out: &PerSplit<usize>, why: &str) -> Vec<String> {
    let each = Split::ALL
        .into_iter()
        .map(|split| (split, *left_out.get(split)));
    each.filter(|(_, count)| *count > 0)
        .map(|(split, count)| {
            format!(
                "{count} conversation(s) of the {} split are left out: they have {why}",
                split.name()
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::chat::{ASSISTANT, CHATML_MARKS, Conversation};
    use std::path::Path;
    use std::sync::Arc;

    #[test]
    fn a_conversation_beyond_the_context_is_cut_or_left_out() {
        let template = ChatTemplate::chatml();
        let marks = CHATML_MARKS.map(String::from);
        let plain = Tokenizer::of_characters("usera int0123456789+?\n", None).unwrap();
        let tokenizer = plain.with_tokens(marks.into_iter()).unwrap();
        let filed = ["2", "22222"].map(|answer| {
            let mut conversation = Conversation::default();
            conversation.push("user", "1+1?");
            conversation.push(ASSISTANT, answer);
            LocatedConversation {
                path: Arc::from(Path::new("rows.jsonl")),
                line: 1,
                conversation,
            }
        });
        let config = ConversationsConfig {
            context: 27,
            ..ConversationsConfig::default()
        };
        let all = |whole: bool| {
            let encoder = Encoder::new(&tokenizer, &template, &config, whole).unwrap();
            encoder.encode_all(&filed).unwrap()
        };
        let lengths: Vec<usize> = all(false).iter().map(|one| one.ids.len()).collect();
        assert_eq!(lengths, [26, 28]);
        assert_eq!(all(true), all(false)[..1]);
        let [mut misspelt, _] = filed;
        misspelt.line = 7;
        misspelt.conversation.push("asistant", "2");
        let encoder = Encoder::new(&tokenizer, &template, &config, true).unwrap();
        let told = encoder.encode_all(&[misspelt]).unwrap_err().to_string();
        assert!(
            told.starts_with("rows.jsonl:7: the role `asistant` is not known"),
            "{told}"
        );
        assert!(told.ends_with("did you mean `assistant`?"), "{told}");
    }
}
