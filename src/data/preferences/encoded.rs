//! Pairs as tokens: either side by side in a row, where the continuations of the prompt are scored, or each
//! text encoded separately as a whole.

use super::read::{LocatedPair, Pair};
use crate::data::conversations::encoded::{Encoded, encode_rendered, tokens_in_bytes};
use crate::data::conversations::packed::pack_row;
use crate::data::{Item, Source, Split, TextItem};
use crate::error::{Error, Result};
use crate::tokenizer::chat::RenderedConversation;
use crate::tokenizer::offsets::Offsets;
use crate::tokenizer::{ChatTemplate, SpecialTokenLayout, Tokenizer};
use rayon::prelude::*;
use serde_json::Value;

/// A better and a worse text as tokens.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::data) struct EncodedPair {
    /// The preferred text.
    pub(in crate::data) better: Encoded,
    /// The other one.
    pub(in crate::data) worse: Encoded,
    /// Margin by which the better text is better, if the data states it; otherwise 0.
    pub(in crate::data) margin: f32,
}

impl EncodedPair {
    /// Returns both texts side by side, as documents 1 and 2 of a row.
    pub(in crate::data) fn item(&self) -> TextItem {
        pack_row([&self.better, &self.worse].into_iter())
    }

    /// Returns both texts in one row as segments 0 and 1, which are encoded separately; the row's number is
    /// the margin.
    pub(in crate::data) fn separate_item(&self) -> TextItem {
        let [better, worse] = [&self.better.ids, &self.worse.ids];
        TextItem {
            inputs: [&better[..], worse].concat(),
            segments: Some([vec![0; better.len()], vec![1; worse.len()]].concat()),
            number: Some(self.margin),
            ..TextItem::default()
        }
    }

    /// Returns the number of tokens that are read of the longer text.
    fn len(&self) -> usize {
        self.better.len().max(self.worse.len())
    }

    /// Cuts both texts to at most `most` tokens; `None` if a text then has nothing to score, or both are
    /// equal.
    fn cut(self, most: usize) -> Option<Self> {
        let cut = Self {
            better: self.better.cut(most),
            worse: self.worse.cut(most),
            margin: self.margin,
        };
        let scored = cut.better.is_scored() && cut.worse.is_scored();
        (scored && cut.better.ids != cut.worse.ids).then_some(cut)
    }

    /// Keeps the pair if both texts have at most `most` tokens and differ; they are not cut, since a text
    /// without its end is another text.
    fn if_fits(self, most: usize) -> Option<Self> {
        let longest = self.better.ids.len().max(self.worse.ids.len());
        (longest <= most && self.better.ids != self.worse.ids).then_some(self)
    }
}

/// A source with one pair per row.
pub(in crate::data) struct Rows {
    pub(in crate::data) all: Vec<EncodedPair>,
    pub(in crate::data) split: Split,
    /// Whether each text is encoded separately.
    pub(in crate::data) alone: bool,
}

impl Rows {
    /// Returns the number of tokens in all texts.
    pub(super) fn tokens(&self) -> u64 {
        let each = self.all.iter();
        each.map(|both| (both.better.ids.len() + both.worse.ids.len()) as u64)
            .sum()
    }
}

impl Source for Rows {
    fn len(&self) -> usize {
        self.all.len()
    }

    fn get(&self, sample: u64, _draw: u64) -> Result<Item> {
        let both = &self.all[sample as usize];
        Ok(Item::Text(match self.alone {
            true => both.separate_item(),
            false => both.item(),
        }))
    }

    fn size(&self, sample: u64) -> usize {
        self.all[sample as usize].len() + usize::from(self.alone)
    }

    fn split(&self) -> Split {
        self.split
    }
}

/// Turns pairs into tokens.
pub(super) struct Encoder<'a> {
    tokenizer: &'a Tokenizer,
    offsets: Offsets,
    template: Option<&'a ChatTemplate>,
    context: usize,
    reading: PairReading,
}

/// How the texts of a pair are read.
pub(super) enum PairReading {
    /// Side by side, by a decoder that continues the prompt.
    Continued,
    /// Each separately, with the special tokens around a text.
    Separate(Option<SpecialTokenLayout>),
}

impl<'a> Encoder<'a> {
    /// Builds the encoder of a run; `template` writes messages, if there are any.
    ///
    /// # Errors
    /// None, if the tokenizer was built or loaded.
    pub(super) fn new(
        tokenizer: &'a Tokenizer,
        template: Option<&'a ChatTemplate>,
        context: usize,
        alone: bool,
    ) -> Result<Self> {
        let reading = match alone {
            true => PairReading::Separate(tokenizer.special_token_layout()),
            false => PairReading::Continued,
        };
        Ok(Self {
            tokenizer,
            offsets: tokenizer.offsets()?,
            template,
            context,
            reading,
        })
    }

    /// Encodes pairs, cut to the context; or, if each text is encoded separately, only the pairs that fit
    /// into it. Pairs that leave nothing to learn are left out.
    ///
    /// # Errors
    /// At the first pair that the template refuses, the tokenizer cannot encode, or that has an empty
    /// continuation.
    pub(super) fn encode_all(&self, filed: &[LocatedPair]) -> Result<Vec<EncodedPair>> {
        let encode = |one: &LocatedPair| -> Result<Option<EncodedPair>> {
            let both = self.encode_pair(&one.pair, one.margin);
            let both = both.map_err(|why| with_location(one, &why))?;
            for (text, which) in [(&both.better, "better"), (&both.worse, "worse")] {
                if !text.is_scored() {
                    let why =
                        format!("the {which} text has no token after the prompt; remove the row");
                    return Err(with_location(one, &why));
                }
            }
            Ok(match self.reading {
                // The last token is only a target.
                PairReading::Continued => both.cut(self.context + 1),
                PairReading::Separate(_) => both.if_fits(self.context),
            })
        };
        let all: Vec<Result<Option<EncodedPair>>> = filed.par_iter().map(encode).collect();
        all.into_iter().filter_map(Result::transpose).collect()
    }

    /// Encodes both texts of a pair; an error is a clause.
    fn encode_pair(&self, pair: &Pair, margin: f32) -> std::result::Result<EncodedPair, String> {
        let [better, worse] = match pair {
            Pair::Texts {
                prompt,
                better,
                worse,
            } => [better, worse].map(|text| self.text(prompt, text, true)),
            Pair::Messages {
                prompt,
                better,
                worse,
                tools,
            } => [better, worse].map(|said| self.chat(prompt, said, tools.as_ref())),
        };
        Ok(EncodedPair {
            better: better?,
            worse: worse?,
            margin,
        })
    }

    /// Encodes a text after a prompt; if it `ends`, with the tokenizer's end-of-text token, if there is one.
    pub(super) fn text(
        &self,
        prompt: &str,
        text: &str,
        ends: bool,
    ) -> std::result::Result<Encoded, String> {
        let whole = format!("{prompt}{text}");
        let (ids, places) = self.offsets.encode(&whole).map_err(|e| e.to_string())?;
        let found = tokens_in_bytes(&places, &(prompt.len()..whole.len()));
        let mut first = found.map_or(ids.len(), |tokens| tokens.start);
        let mut ids: Vec<i32> = ids.into_iter().map(|id| id as i32).collect();
        if let PairReading::Separate(Some(edges)) = &self.reading {
            first += edges.before().len();
            ids = edges.around(&ids);
        }
        let end = self.tokenizer.end_of_text().map(|end| end as i32);
        if let Some(end) = end.filter(|end| ends && ids.last() != Some(end)) {
            ids.push(end);
        }
        let answer = first..ids.len();
        Ok(Encoded {
            answers: Vec::from_iter((!answer.is_empty()).then_some(answer)),
            ids,
        })
    }

    /// Encodes messages after those of a prompt.
    pub(super) fn chat(
        &self,
        prompt: &[Value],
        said: &[Value],
        tools: Option<&Value>,
    ) -> std::result::Result<Encoded, String> {
        let written = continued(self.template, prompt, said, tools)?;
        encode_rendered(&written, &self.offsets, self.tokenizer).map_err(|e| e.to_string())
    }
}

/// Writes a prompt and a continuation, which is the answer, with the template.
fn continued(
    template: Option<&ChatTemplate>,
    prompt: &[Value],
    said: &[Value],
    tools: Option<&Value>,
) -> std::result::Result<RenderedConversation, String> {
    let template = template.ok_or("there is no chat template for messages")?;
    template.render_continuation(prompt, said, tools)
}

/// Returns the better and worse texts as they are written; a tokenizer is trained on them.
///
/// # Errors
/// At the first pair that the template refuses; the message has its line.
pub(super) fn render_all(
    filed: &[LocatedPair],
    template: Option<&ChatTemplate>,
) -> Result<Vec<String>> {
    let write = |one: &LocatedPair| -> Result<Vec<String>> {
        match &one.pair {
            Pair::Texts {
                prompt,
                better,
                worse,
            } => Ok([better, worse].map(|text| format!("{prompt}{text}")).into()),
            Pair::Messages {
                prompt,
                better,
                worse,
                tools,
            } => {
                let texts = [better, worse].map(|said| {
                    let written = continued(template, prompt, said, tools.as_ref());
                    written.map(|written| written.text)
                });
                let texts: std::result::Result<Vec<String>, String> = texts.into_iter().collect();
                texts.map_err(|why| with_location(one, &why))
            }
        }
    };
    let all: Vec<Result<Vec<String>>> = filed.par_iter().map(write).collect();
    Ok(all.into_iter().collect::<Result<Vec<_>>>()?.concat())
}

/// Adds the file and line of a pair to an error.
fn with_location(one: &LocatedPair, why: &str) -> Error {
    Error::run(format!("{}:{}: {why}", one.path.display(), one.line))
}

#[cfg(test)]
mod tests;
