//! `kind = "preferences"`: a prompt with a better and a worse continuation, for a decoder that learns to
//! prefer the better one, or a reward model that learns to give it the larger reward.
//!
//! `prompt`, `chosen` and `rejected` are texts, or lists of messages that the chat template writes, as in
//! TRL. A text ends with the tokenizer's end-of-text token. Without a prompt field, the prompt is the common
//! beginning of both continuations: the first messages of two conversations, or the first characters of two
//! texts.
//!
//! An example is one row with the better text followed by the worse one, hidden from each other as documents
//! 1 and 2. Each begins with the prompt, and only the continuation is scored. Each is cut to `context` tokens
//! at its end. A pair that has nothing left to score is left out, as in TRL with `truncation_mode =
//! "keep_start"`.
//!
//! A reward model reads each text separately and as a whole: a text with the special tokens that the
//! tokenizer puts around it, up to the end of text; a conversation as its template writes it. A pair with a
//! text of more than `context` tokens is left out, as in TRL's `RewardTrainer`.
//!
//! `{"prompt": "1+1=", "chosen": "2", "rejected": "3"}` is such a line.

mod encoded;
mod read;
mod reward_input;

use super::conversations::templates::{self, TemplateKeys};
use super::data_set::{masking_unsupported, speech_unsupported};
use super::files::discovery;
use super::parts::{Parted, parted};
use super::{
    Data, DataSet, ExampleForm, Paths, PerSplit, Request, Shape, Source, Split, Tokenizers, View,
    split,
};
use crate::error::{Error, Result};
use crate::tokenizer::{ChatTemplate, TokenFraming, Tokenizer};
pub(super) use encoded::{EncodedPair, Rows};
use encoded::{Encoder, render_all};
use read::{LocatedPair, Reader};
pub use reward_input::RewardInput;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// `kind = "preferences"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PreferencesConfig {
    /// A table, a folder or a pattern, or a list of them: JSONL, TSV and CSV, plain or packed; Parquet and Arrow.
    pub path: Paths,
    /// Validation pairs.
    pub valid_path: Option<Paths>,
    /// Test pairs.
    pub test_path: Option<Paths>,
    /// Share of the pairs of `path` to validate on, drawn at random but always the same. Default 0.1 without
    /// `valid_path`.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub valid_fraction: Option<f64>,
    /// Share of the pairs of `path` to test on.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub test_fraction: Option<f64>,
    /// Pairs to train on, drawn at random and the same for every seed. Default: all.
    pub train_items: Option<usize>,
    /// Field that holds the prompt: a text, or a list of messages. Default: `prompt` if it exists, else the
    /// common beginning of both continuations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Field that holds the better continuation, or the whole better conversation.
    pub chosen: String,
    /// Field that holds the worse continuation, or the whole worse conversation.
    pub rejected: String,
    /// Field that holds the margin by which the better continuation is better, a number by which the loss of
    /// `task.kind = "reward"` asks the rewards to differ.
    /// Source: Touvron et al., arXiv:2307.09288, section 3.2.2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub margin: Option<String>,
    /// Names of the columns of TSV and CSV files without a header line.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
    /// Date given to a template that asks for today's, such as `2024-07-26`; without it such a template gets
    /// none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// A file with the chat template of messages, in Jinja. Default: the template that came with the tokenizer, else ChatML.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<PathBuf>,
    /// Maximum length in tokens of each of the two texts of a row, including the prompt.
    pub context: usize,
}

impl Default for PreferencesConfig {
    fn default() -> Self {
        Self {
            path: Paths::default(),
            valid_path: None,
            test_path: None,
            valid_fraction: None,
            test_fraction: None,
            train_items: None,
            prompt: None,
            chosen: "chosen".into(),
            rejected: "rejected".into(),
            margin: None,
            columns: Vec::new(),
            date: None,
            template: None,
            context: 512,
        }
    }
}

/// The minimum context.
const MIN_CONTEXT: usize = 8;

parted!(PreferencesConfig);

impl PreferencesConfig {
    /// Returns the same configuration with every path replaced by `place(path)`.
    #[must_use]
    pub fn with_paths(&self, place: impl Fn(&Path) -> PathBuf) -> Self {
        Self {
            template: self.template.as_deref().map(&place),
            ..self.placed(place)
        }
    }

    /// Returns the tokenizer, and the template if any row has messages.
    fn tokens(
        &self,
        filed: &PerSplit<Vec<LocatedPair>>,
        request: &Request,
    ) -> Result<(Tokenizer, Option<ChatTemplate>)> {
        let mut all = Split::ALL.into_iter().flat_map(|split| filed.get(split));
        if all.any(|one| one.pair.has_messages()) {
            let of = ("preferences", request);
            let texts = |template: &ChatTemplate| render_all(&filed.train, Some(template));
            let given = TemplateKeys {
                template: self.template.as_deref(),
                date: self.date.as_deref(),
            };
            let (tokenizer, template) = templates::tokenizer_and_template(given, of, texts)?;
            return Ok((tokenizer, Some(template)));
        }
        if self.template.is_some() {
            return Err(Error::usage(
                "[data] template has no effect: the rows contain texts, but a chat template formats messages; remove it",
            ));
        }
        let tokenizer = match (&request.saved_tokenizers.text, request.tokenizer) {
            (Some(saved), _) => saved.clone(),
            (None, Some(tokenizer)) => {
                let framed =
                    (*request.view == View::EncodedSeparately).then(|| tokenizer.with_frame(false));
                let tokenizer = framed.as_ref().unwrap_or(tokenizer);
                let found = tokenizer.with_path(|path| request.places.resolve(path))?;
                let texts = render_all(&filed.train, None)?;
                let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                Tokenizer::build(&found, &texts)?
            }
            (None, None) => {
                return Err(Error::usage(
                    "[data] kind = \"preferences\" needs a [tokenizer]",
                ));
            }
        };
        Ok((tokenizer, None))
    }

    /// Returns the source of a split, and the message about pairs that are left out.
    fn source(
        &self,
        split: Split,
        filed: &[LocatedPair],
        encoder: &Encoder,
        alone: bool,
    ) -> Result<(Rows, Option<String>)> {
        let all = encoder.encode_all(filed)?;
        let (name, context) = (split.name(), self.context);
        if all.is_empty() {
            let lacks = match alone {
                true => "two texts of at most",
                false => "a scored token in both texts within",
            };
            return Err(Error::usage(format!(
                "[data] no pair of the {name} split has {lacks} context = {context} tokens; raise context"
            )));
        }
        let left_out = filed.len() - all.len();
        let note = (left_out > 0).then(|| match alone {
            true => format!(
                "{left_out} pair(s) of the {name} split are left out: a text is longer than context = {context} tokens, or both texts are the same"
            ),
            false => format!(
                "{left_out} pair(s) of the {name} split are left out: within context = {context} tokens, a text has no scored token, or both texts \
                 are the same"
            ),
        });
        Ok((Rows { all, split, alone }, note))
    }
}

impl DataSet for PreferencesConfig {
    fn faults(&self) -> Vec<String> {
        let mut faults = self.parts().faults("a table of preferences");
        if self.chosen == self.rejected {
            faults.push(format!(
                "[data] chosen and rejected both name the field `{}`; chosen must name the better text, rejected the worse one",
                self.chosen
            ));
        }
        if self.context < MIN_CONTEXT {
            faults.push(format!(
                "[data] context = {} is too short; the minimum is {MIN_CONTEXT}",
                self.context
            ));
        }
        faults
    }

    fn prompt(&self) -> Option<String> {
        Some("TEXT".into())
    }

    fn example_form(&self) -> ExampleForm {
        ExampleForm::Preferences
    }

    fn context(&self) -> usize {
        self.context
    }

    fn hides_documents(&self) -> bool {
        true
    }

    fn can_be_encoded_separately(&self) -> bool {
        true
    }

    fn view_faults(&self, view: &View) -> Vec<String> {
        match (view, &self.margin) {
            (View::Masked(_) | View::Corrupted(_), _) => masking_unsupported(),
            (View::Plain, Some(_)) => vec![
                "[data] margin has no effect: only the loss of [task] kind = \"reward\" uses it; remove it".into(),
            ],
            (View::Ctc, _) => speech_unsupported(),
            (View::Plain, None) | (View::EncodedSeparately, _) => Vec::new(),
        }
    }

    fn framing(&self, view: &View) -> TokenFraming {
        match view {
            View::EncodedSeparately => TokenFraming::FileLayout,
            View::Plain | View::Masked(_) | View::Corrupted(_) | View::Ctc => {
                TokenFraming::NoTokens
            }
        }
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

    fn prepare(&self, request: &Request) -> Result<Data> {
        let reader = Reader(self);
        let read = |_: Split, path: &Path| reader.read(path);
        let mut filed = self.parts().read(request, ["pairs", "pair"], read)?;
        let (tokenizer, template) = self.tokens(&filed, request)?;
        if let Some(wanted) = self.train_items {
            split::limit(&mut filed.train, wanted, "pairs")?;
        }
        let alone = *request.view == View::EncodedSeparately;
        let encoder = Encoder::new(&tokenizer, template.as_ref(), self.context, alone)?;
        let (train, note) = self.source(Split::Train, &filed.train, &encoder, alone)?;
        let mut notes = Vec::from_iter(note);
        let mut tokens = PerSplit {
            train: train.tokens(),
            ..PerSplit::default()
        };
        let mut held_out = PerSplit::<Option<Arc<dyn Source>>>::default();
        for split in [Split::Valid, Split::Test] {
            if filed.get(split).is_empty() {
                continue;
            }
            let (rows, note) = self.source(split, filed.get(split), &encoder, alone)?;
            notes.extend(note);
            *tokens.get_mut(split) = rows.tokens();
            *held_out.get_mut(split) = Some(Arc::new(rows));
        }
        let shape = Shape {
            templated: template.is_some(),
            ..Shape::of_text(self.context, tokenizer.vocab_size())
        };
        Ok(Data {
            valid: held_out.valid,
            test: held_out.test,
            tokens,
            notes,
            tokenizers: Tokenizers {
                chat: template,
                ..Tokenizers::single(tokenizer)
            },
            ..Data::new(Arc::new(train), shape)
        })
    }
}
