//! `kind = "conversations"`: messages of a user and an assistant, of which a decoder learns the assistant's.
//!
//! A chat template writes a conversation as one text ([`ChatTemplate`]): the template that came with the
//! run's tokenizer, or else ChatML. The tokens of answers are scored, up to the last special token that the
//! template writes after an answer; all other tokens are only read. A row is one conversation, cut to the
//! context; with `packed`, a training row holds several, hidden from each other. A message with `weight` 0 or
//! `train` false is not scored (`learnt`). With `turns`, any table becomes conversations: `content = "Is this
//! review good? {{ text }}"`.
//!
//! `{"messages": [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}]}` is such a
//! line.

pub(super) mod encoded;
pub(super) mod packed;
pub(super) mod read;
pub(super) mod templates;
pub(super) mod training_fields;

use super::files::{discovery, records};
use super::parts::{Parted, parted};
use super::{Data, DataSet, ExampleForm, Paths, PerSplit, Request, Shape, Source, Split, split};
use crate::error::{Error, Result};
use crate::tokenizer::ChatTemplate;
use crate::tokenizer::chat::{ASSISTANT, Answers, Conversation, Program};
use encoded::{Encoded, Encoder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use templates::TemplateKeys;

/// `kind = "conversations"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ConversationsConfig {
    /// A table, a folder or a pattern, or a list of them: JSONL, TSV and CSV, plain or packed; Parquet and Arrow.
    pub path: Paths,
    /// Validation conversations.
    pub valid_path: Option<Paths>,
    /// Test conversations.
    pub test_path: Option<Paths>,
    /// Share of the conversations of `path` to validate on, drawn at random but always the same. Default 0.1
    /// without `valid_path`.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub valid_fraction: Option<f64>,
    /// Share of the conversations of `path` to test on.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub test_fraction: Option<f64>,
    /// Conversations to train on, drawn at random and the same for every seed. Default: all.
    pub train_items: Option<usize>,
    /// The field that holds the messages: objects with `role` and `content`, or with `from` (`human`, `gpt`) and `value`.
    /// Default: `messages`, else `conversations`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<String>,
    /// Messages made from the other columns of a row, instead of a field of messages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<TurnConfig>,
    /// Names of the columns of TSV and CSV files without a header line.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
    /// A file with the chat template, in Jinja. Default: the template that came with the tokenizer, else ChatML.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<PathBuf>,
    /// Date given to a template that asks for today's, such as `2024-07-26`; without it such a template gets
    /// none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// Messages of the assistant to train on, apart from those whose `weight` is 0 or whose `train` is false.
    pub answers: Answers,
    /// Whether a training row holds as many whole conversations as fit, hidden from each other.
    pub packed: bool,
    /// Maximum number of tokens read per row; the token after them may still be scored.
    pub context: usize,
}

/// A message of `[[data.turns]]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TurnConfig {
    /// `system`, `user` or `assistant`, or another role that the chat template knows.
    pub role: String,
    /// Content of the message, in Jinja over the columns of the row: `{{ text }}` is the value of column
    /// `text`. A message that comes out empty is left out.
    pub content: String,
}

impl Default for ConversationsConfig {
    fn default() -> Self {
        Self {
            path: Paths::default(),
            valid_path: None,
            test_path: None,
            valid_fraction: None,
            test_fraction: None,
            train_items: None,
            messages: None,
            turns: Vec::new(),
            columns: Vec::new(),
            template: None,
            date: None,
            answers: Answers::All,
            packed: false,
            context: 512,
        }
    }
}

/// A conversation with the file and line it was read from.
struct LocatedConversation {
    path: Arc<Path>,
    line: u64,
    conversation: Conversation,
}

parted!(ConversationsConfig);

impl ConversationsConfig {
    /// Returns the same configuration with every path replaced by `place(path)`.
    #[must_use]
    pub fn with_paths(&self, place: impl Fn(&Path) -> PathBuf) -> Self {
        Self {
            template: self.template.as_deref().map(&place),
            ..self.placed(place)
        }
    }

    fn turn_faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.turns.is_empty() {
            return faults;
        }
        if self.messages.is_some() {
            faults.push(
                "[data] messages has no effect beside turns, which build the messages; remove one of them"
                    .into(),
            );
        }
        if self.turns.iter().all(|turn| turn.role != ASSISTANT) {
            faults.push(
                "[data] turns: no turn has role = \"assistant\", so there is nothing to train on"
                    .into(),
            );
        }
        for (number, turn) in self.turns.iter().enumerate() {
            if let Err(why) = Program::new(turn.content.as_str()) {
                faults.push(format!(
                    "[data] turns: content {} is not valid Jinja: {why}",
                    number + 1
                ));
            }
        }
        faults
    }

    /// Builds the source of each split and counts the conversations that are left out.
    fn sources(
        &self,
        filed: &PerSplit<Vec<LocatedConversation>>,
        encoder: &Encoder,
    ) -> Result<Sources> {
        let mut sources = Sources::default();
        for split in Split::ALL {
            let all = filed.get(split);
            if all.is_empty() {
                continue;
            }
            let encoded = encoder.encode_all(all)?;
            let none = |one: &&LocatedConversation| {
                training_fields::has_trained_message(&one.conversation, self.answers) == Some(false)
            };
            let not_learnt = all.iter().filter(none).count();
            *sources.without_trained_message.get_mut(split) = not_learnt;
            *sources.left_out.get_mut(split) = all.len().saturating_sub(encoded.len() + not_learnt);
            if encoded.is_empty() {
                return Err(training_fields::no_answers_error(all, self, split));
            }
            *sources.tokens.get_mut(split) = encoded.iter().map(|one| one.ids.len() as u64).sum();
            *sources.bytes_per_token.get_mut(split) = encoder.bytes_per_scored_token(&encoded);
            *sources.by_split.get_mut(split) = Some(match self.packed && split == Split::Train {
                true => packed::source(encoded, self.context),
                false => Arc::new(Rows {
                    all: encoded,
                    split,
                }),
            });
        }
        Ok(sources)
    }
}

/// The sources of the splits, with their counts.
#[derive(Default)]
struct Sources {
    by_split: PerSplit<Option<Arc<dyn Source>>>,
    left_out: PerSplit<usize>,
    without_trained_message: PerSplit<usize>,
    tokens: PerSplit<u64>,
    bytes_per_token: PerSplit<Option<f64>>,
}

/// A source with one conversation per row.
struct Rows {
    all: Vec<Encoded>,
    split: Split,
}

impl Source for Rows {
    fn len(&self) -> usize {
        self.all.len()
    }

    fn get(&self, sample: u64, _draw: u64) -> Result<super::Item> {
        Ok(super::Item::Text(self.all[sample as usize].item()))
    }

    fn size(&self, sample: u64) -> usize {
        self.all[sample as usize].len()
    }

    fn split(&self) -> Split {
        self.split
    }
}

impl DataSet for ConversationsConfig {
    fn faults(&self) -> Vec<String> {
        let mut faults = self.parts().faults("a table of conversations");
        faults.extend(self.turn_faults());
        let named = |path: &PathBuf| records::has_names(path);
        if !self.columns.is_empty() && self.path.0.first().is_some_and(named) {
            faults.push("[data] columns has no effect: the columns of JSON lines, Parquet and Arrow have names; remove it".into());
        }
        if let Some(Err(why)) = self
            .date
            .as_deref()
            .map(|date| ChatTemplate::chatml().with_date(date))
        {
            faults.push(format!("[data] date: {why}"));
        }
        if self.context < 8 {
            faults.push(format!(
                "[data] context = {} is too short; the minimum is 8",
                self.context
            ));
        }
        faults
    }

    fn example_form(&self) -> ExampleForm {
        ExampleForm::Text
    }

    fn has_lengths(&self) -> bool {
        !self.packed
    }

    fn context(&self) -> usize {
        self.context
    }

    fn hides_documents(&self) -> bool {
        self.packed
    }

    fn hides_documents_key(&self) -> Option<[&'static str; 3]> {
        Some(["packed", "true", "false"])
    }

    fn has(&self, split: Split) -> bool {
        self.parts().has(split)
    }

    fn examples_in(&self, folder: &Path, files: Vec<PathBuf>) -> Vec<PathBuf> {
        discovery::table_files(folder, files)
    }

    fn paths(&self) -> Vec<(&'static str, &Path)> {
        let template = self.template.as_deref().map(|path| ("template", path));
        self.parts().paths().into_iter().chain(template).collect()
    }

    fn needs_tokenizer(&self) -> bool {
        true
    }

    fn has_answers(&self) -> bool {
        true
    }

    fn prepare(&self, request: &Request) -> Result<Data> {
        let reader = read::Reader::new(self)?;
        let read = |_: Split, path: &Path| reader.read(path);
        let mut filed = self
            .parts()
            .read(request, ["conversations", "conversation"], read)?;
        let given = TemplateKeys {
            template: self.template.as_deref(),
            date: self.date.as_deref(),
        };
        let texts = |template: &ChatTemplate| templates::render_all(&filed.train, template);
        let (tokenizer, template) =
            templates::tokenizer_and_template(given, ("conversations", request), texts)?;
        let mut notes = templates::notes(&tokenizer, &template, request);
        if let Some(wanted) = self.train_items {
            split::limit(&mut filed.train, wanted, "conversations")?;
        }
        let encoder = Encoder::new(&tokenizer, &template, self, request.compares_answers)?;
        let sources = self.sources(&filed, &encoder)?;
        let cut = encoder.length_reason();
        notes.extend(encoded::notes(&sources.left_out, &cut));
        notes.extend(encoded::notes(
            &sources.without_trained_message,
            training_fields::NOTHING_TO_LEARN,
        ));
        notes.extend(training_fields::empty_message_note(&filed));
        let train = sources
            .by_split
            .train
            .ok_or_else(|| Error::usage("[data] there are no conversations to train on"))?;
        let shape = Shape::of_text(self.context, tokenizer.vocab_size());
        Ok(Data {
            valid: sources.by_split.valid,
            test: sources.by_split.test,
            bytes_per_token: sources.bytes_per_token,
            tokens: sources.tokens,
            notes,
            tokenizers: super::Tokenizers {
                chat: Some(template),
                ..super::Tokenizers::single(tokenizer)
            },
            ..Data::new(train, shape)
        })
    }
}
