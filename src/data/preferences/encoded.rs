//! Pairs as tokens, of which those behind the prompt are scored.

use super::read::{Filed, Pair};
use crate::data::conversations::encoded::{Encoded, encoded, of_bytes};
use crate::data::conversations::packed::side_by_side;
use crate::data::{Item, Source, Split, TextItem};
use crate::error::{Error, Result};
use crate::tokenizer::chat::Written;
use crate::tokenizer::offsets::Offsets;
use crate::tokenizer::{ChatTemplate, Tokenizer};
use rayon::prelude::*;
use serde_json::Value;

/// A better and a worse text as tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::data) struct Both {
    /// The text that is preferred.
    pub(in crate::data) better: Encoded,
    /// The other one.
    pub(in crate::data) worse: Encoded,
}

impl Both {
    /// Both side by side: documents 1 and 2 of a row.
    pub(in crate::data) fn item(&self) -> TextItem {
        side_by_side([&self.better, &self.worse].into_iter())
    }

    /// Tokens that are read of the longer one.
    fn len(&self) -> usize {
        self.better.len().max(self.worse.len())
    }

    /// The same with so many tokens of each at most; `None` where that leaves a text nothing to score, or both the same.
    fn cut(self, most: usize) -> Option<Self> {
        let cut = Self {
            better: self.better.cut(most),
            worse: self.worse.cut(most),
        };
        let scored = cut.better.is_scored() && cut.worse.is_scored();
        (scored && cut.better.ids != cut.worse.ids).then_some(cut)
    }
}

/// A pair a row.
pub(in crate::data) struct Rows {
    pub(in crate::data) all: Vec<Both>,
    pub(in crate::data) split: Split,
}

impl Rows {
    /// Tokens of all texts.
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
        Ok(Item::Text(self.all[sample as usize].item()))
    }

    fn size(&self, sample: u64) -> usize {
        self.all[sample as usize].len()
    }

    fn split(&self) -> Split {
        self.split
    }
}

/// Makes tokens of pairs.
pub(super) struct Encoder<'a> {
    tokenizer: &'a Tokenizer,
    offsets: Offsets,
    template: Option<&'a ChatTemplate>,
    context: usize,
}

impl<'a> Encoder<'a> {
    /// That of a run; the template of messages, where there are some.
    ///
    /// # Errors
    /// None of a tokenizer that was built or loaded.
    pub(super) fn new(
        tokenizer: &'a Tokenizer,
        template: Option<&'a ChatTemplate>,
        context: usize,
    ) -> Result<Self> {
        Ok(Self {
            tokenizer,
            offsets: tokenizer.offsets()?,
            template,
            context,
        })
    }

    /// Pairs as tokens, cut to the context; those of which that leaves nothing to learn are left out.
    ///
    /// # Errors
    /// The first pair that the template refuses, the tokenizer cannot encode, or of which one has an empty continuation.
    pub(super) fn all(&self, filed: &[Filed]) -> Result<Vec<Both>> {
        let encode = |one: &Filed| -> Result<Option<Both>> {
            let both = self.both(&one.pair).map_err(|why| placed(one, &why))?;
            for (text, which) in [(&both.better, "better"), (&both.worse, "worse")] {
                if !text.is_scored() {
                    let why = format!(
                        "the {which} text has no token behind the prompt; leave the row out"
                    );
                    return Err(placed(one, &why));
                }
            }
            // The last token is a target alone.
            Ok(both.cut(self.context + 1))
        };
        let all: Vec<Result<Option<Both>>> = filed.par_iter().map(encode).collect();
        all.into_iter().filter_map(Result::transpose).collect()
    }

    /// Both texts of a pair; an error is a clause.
    fn both(&self, pair: &Pair) -> std::result::Result<Both, String> {
        let [better, worse] = match pair {
            Pair::Texts {
                prompt,
                better,
                worse,
            } => [better, worse].map(|text| self.text(prompt, text)),
            Pair::Messages {
                prompt,
                better,
                worse,
                tools,
            } => [better, worse].map(|said| self.chat(prompt, said, tools.as_ref())),
        };
        Ok(Both {
            better: better?,
            worse: worse?,
        })
    }

    /// A text behind a prompt, up to the end of text where the tokenizer has one.
    fn text(&self, prompt: &str, text: &str) -> std::result::Result<Encoded, String> {
        let whole = format!("{prompt}{text}");
        let (ids, places) = self.offsets.encode(&whole).map_err(|e| e.to_string())?;
        let found = of_bytes(&places, &(prompt.len()..whole.len()));
        let first = found.map_or(ids.len(), |tokens| tokens.start);
        let mut ids: Vec<i32> = ids.into_iter().map(|id| id as i32).collect();
        let end = self.tokenizer.end_of_text().map(|end| end as i32);
        if let Some(end) = end.filter(|end| ids.last() != Some(end)) {
            ids.push(end);
        }
        let answer = first..ids.len();
        Ok(Encoded {
            answers: Vec::from_iter((!answer.is_empty()).then_some(answer)),
            ids,
        })
    }

    /// Messages behind those of a prompt.
    fn chat(
        &self,
        prompt: &[Value],
        said: &[Value],
        tools: Option<&Value>,
    ) -> std::result::Result<Encoded, String> {
        let written = continued(self.template, prompt, said, tools)?;
        encoded(&written, &self.offsets, self.tokenizer).map_err(|e| e.to_string())
    }
}

/// What a template writes of a prompt and a continuation, which is the answer.
fn continued(
    template: Option<&ChatTemplate>,
    prompt: &[Value],
    said: &[Value],
    tools: Option<&Value>,
) -> std::result::Result<Written, String> {
    let template = template.ok_or("there is no chat template to write messages with")?;
    template.continued(prompt, said, tools)
}

/// The texts of pairs, better and worse ones, as they are written: what a tokenizer learns from.
///
/// # Errors
/// The first pair that the template refuses, with its line.
pub(super) fn written(filed: &[Filed], template: Option<&ChatTemplate>) -> Result<Vec<String>> {
    let write = |one: &Filed| -> Result<Vec<String>> {
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
                texts.map_err(|why| placed(one, &why))
            }
        }
    };
    let all: Vec<Result<Vec<String>>> = filed.par_iter().map(write).collect();
    Ok(all.into_iter().collect::<Result<Vec<_>>>()?.concat())
}

/// An error of a pair, with its line.
fn placed(one: &Filed, why: &str) -> Error {
    Error::run(format!("{}:{}: {why}", one.path.display(), one.line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_continuation_is_scored_up_to_the_end_of_text() {
        let tokenizer = Tokenizer::of_characters("0123456789+=\n", Some('\n')).unwrap();
        let encoder = Encoder::new(&tokenizer, None, 8).unwrap();
        let pair = Pair::Texts {
            prompt: "1+1=".into(),
            better: "2".into(),
            worse: "30\n".into(),
        };
        let item = encoder.both(&pair).unwrap().item();
        assert_eq!(item.inputs, [1, 10, 1, 11, 2, 1, 10, 1, 11, 3, 0]);
        let skip = crate::data::NOT_SCORED;
        assert_eq!(
            item.targets,
            [skip, skip, skip, 2, 12, skip, skip, skip, 3, 0, 12]
        );
        assert_eq!(item.documents, Some(vec![1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2]));
    }

    #[test]
    fn pairs_are_cut_at_their_ends_and_left_out_where_nothing_differs() {
        let text = |ids: &[i32]| {
            let answer = 2..ids.len();
            Encoded {
                ids: ids.to_vec(),
                answers: Vec::from_iter([answer]),
            }
        };
        let both = || Both {
            better: text(&[1, 2, 3, 4, 5]),
            worse: text(&[1, 2, 3, 6]),
        };
        let cut = both().cut(4).unwrap();
        assert_eq!(cut.better.ids, [1, 2, 3, 4]);
        assert_eq!(both().cut(3), None, "both are 1, 2, 3");
        assert_eq!(both().cut(2), None, "both are the prompt");
    }

    #[test]
    fn messages_are_scored_up_to_their_last_mark() {
        let template = ChatTemplate::chatml();
        let marks = crate::tokenizer::chat::CHATML_MARKS.map(String::from);
        let plain = Tokenizer::of_characters("usera int0123456789+?\n", None).unwrap();
        let tokenizer = plain.with_tokens(marks.into_iter()).unwrap();
        let encoder = Encoder::new(&tokenizer, Some(&template), 64).unwrap();
        let message = |role: &str, content: &str| json!({ "role": role, "content": content });
        let pair = Pair::Messages {
            prompt: vec![message("user", "1+1?")],
            better: vec![message("assistant", "2")],
            worse: vec![message("assistant", "12")],
            tools: None,
        };
        let both = encoder.both(&pair).unwrap();
        let said = |text: &Encoded| {
            let ids: Vec<u32> = text.answers[0]
                .clone()
                .map(|at| text.ids[at] as u32)
                .collect();
            tokenizer.decode(&ids)
        };
        assert_eq!(said(&both.better), "2<|im_end|>");
        assert_eq!(said(&both.worse), "12<|im_end|>");
    }
}
