//! `kind = "right_and_wrong"`: the sums of `arithmetic`, each with its right answer as the better text and
//! one with a changed digit as the worse text: `12+34=046` and `12+34=048`.
//!
//! The right answer follows from the problem, so that endless pairs need no judge. A run that learned
//! `arithmetic` can be the start of one that learns from these pairs: both use the same characters and hold
//! out the same problems.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::arithmetic::ArithmeticConfig;
use super::held_out::{FIXED_SEED, PASS};
use super::problems::{self, END, Problem, Problems};
use crate::data::conversations::encoded::Encoded;
use crate::data::preferences::{EncodedPair, Rows};
use crate::data::{
    Data, DataSet, ExampleForm, Item, Request, Shape, Source, Split, Tokenizers, View,
};
use crate::error::Result;
use crate::rng::{Purpose, Stream};
use crate::tokenizer::Tokenizer;

/// `kind = "right_and_wrong"`. The keys are those of `arithmetic`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RightAndWrongConfig {
    /// Digits of each operand, zeros in front.
    pub digits: u32,
    /// Operations to draw from: `+`, `-`, `*`.
    pub operations: Vec<String>,
    /// Whether the answer is written from its last digit to its first.
    pub reversed: bool,
    /// Share of all problems that training never sees, for each held-out set.
    pub held_out: f64,
    /// Maximum number of validation problems.
    pub valid_items: usize,
    /// Maximum number of test problems; 0 for no test split.
    pub test_items: usize,
}

impl Default for RightAndWrongConfig {
    fn default() -> Self {
        let usual = ArithmeticConfig::default();
        Self {
            digits: usual.digits,
            operations: usual.operations,
            reversed: usual.reversed,
            held_out: usual.held_out,
            valid_items: usual.valid_items,
            test_items: usual.test_items,
        }
    }
}

/// Separates the draws of wrong digits from those of other generators.
const SITE: u64 = 11;

impl RightAndWrongConfig {
    /// Returns the configuration of the sums.
    fn sums(&self) -> ArithmeticConfig {
        ArithmeticConfig {
            digits: self.digits,
            operations: self.operations.clone(),
            reversed: self.reversed,
            held_out: self.held_out,
            valid_items: self.valid_items,
            test_items: self.test_items,
        }
    }

    /// Builds a held-out set; `None` for 0 items.
    fn fixed(
        &self,
        split: Split,
        items: usize,
        tokenizer: &Tokenizer,
        alone: bool,
    ) -> Result<Option<Arc<dyn Source>>> {
        if items == 0 {
            return Ok(None);
        }
        let set = problems::fixed(&self.sums(), split)?;
        let all = set.iter().zip(0..).map(|(problem, number)| {
            let at = (number, split as u64, SITE);
            let mut stream = Stream::new(FIXED_SEED, Purpose::Synthetic, at);
            encode_pair(problem, tokenizer, alone, &mut stream)
        });
        let all = all.collect::<Result<_>>()?;
        Ok(Some(Arc::new(Rows { all, split, alone })))
    }
}

/// Encodes a problem with its right answer and a wrong one. A text that is encoded separately ends with the
/// last digit, otherwise with the line break.
fn encode_pair(
    problem: &Problem,
    tokenizer: &Tokenizer,
    alone: bool,
    stream: &mut Stream,
) -> Result<EncodedPair> {
    let asked = problem.question.chars().count();
    let answered = |answer: &str| -> Result<Encoded> {
        let mut text = format!("{}{answer}", problem.question);
        if !alone {
            text.push(END);
        }
        let ids = tokenizer.encode(&text)?;
        let ids: Vec<i32> = ids.into_iter().map(|id| id as i32).collect();
        let answer = asked..ids.len();
        Ok(Encoded {
            answers: Vec::from_iter([answer]),
            ids,
        })
    };
    Ok(EncodedPair {
        better: answered(&problem.answer)?,
        worse: answered(&with_wrong_digit(&problem.answer, stream))?,
        margin: 0.0,
    })
}

/// Returns an answer with one digit changed.
fn with_wrong_digit(answer: &str, stream: &mut Stream) -> String {
    let mut symbols = answer.as_bytes().to_vec();
    let places = symbols.iter().enumerate();
    let digits = places.filter(|(_, symbol)| symbol.is_ascii_digit());
    let digits: Vec<usize> = digits.map(|(place, _)| place).collect();
    let place = digits[stream.below(digits.len() as u64) as usize];
    let further = 1 + stream.below(9) as u8;
    symbols[place] = b'0' + (symbols[place] - b'0' + further) % 10;
    String::from_utf8_lossy(&symbols).into_owned()
}

/// A source of training pairs, drawn without end.
struct Drawn {
    sums: ArithmeticConfig,
    tokenizer: Tokenizer,
    seed: u64,
    alone: bool,
}

impl Source for Drawn {
    fn len(&self) -> usize {
        PASS
    }

    fn get(&self, sample: u64, _draw: u64) -> Result<Item> {
        let at = (sample, Split::ALL.len() as u64, SITE);
        let mut stream = Stream::new(self.seed, Purpose::Synthetic, at);
        let problem = problems::first_training_problem(&self.sums, &mut stream)?;
        let both = encode_pair(&problem, &self.tokenizer, self.alone, &mut stream)?;
        Ok(Item::Text(match self.alone {
            true => both.separate_item(),
            false => both.item(),
        }))
    }

    fn is_endless(&self) -> bool {
        true
    }
}

impl DataSet for RightAndWrongConfig {
    fn faults(&self) -> Vec<String> {
        Problems::faults(&self.sums())
    }

    fn example_form(&self) -> ExampleForm {
        ExampleForm::Preferences
    }

    /// All sums have the same length.
    fn has_lengths(&self) -> bool {
        false
    }

    fn context(&self) -> usize {
        problems::context(&self.sums())
    }

    fn hides_documents(&self) -> bool {
        true
    }

    fn has(&self, split: Split) -> bool {
        DataSet::has(&self.sums(), split)
    }

    fn can_be_encoded_separately(&self) -> bool {
        true
    }

    fn has_answers(&self) -> bool {
        true
    }

    fn prompt(&self) -> Option<String> {
        Some(self.sums().question())
    }

    fn prepare(&self, request: &Request) -> Result<Data> {
        let sums = self.sums();
        let tokenizer = problems::tokenizer(&sums)?;
        let alone = *request.view == View::EncodedSeparately;
        let valid = self.fixed(Split::Valid, self.valid_items, &tokenizer, alone)?;
        let test = self.fixed(Split::Test, self.test_items, &tokenizer, alone)?;
        let shape = Shape::of_text(self.context(), tokenizer.vocab_size());
        let train = Drawn {
            sums,
            tokenizer: tokenizer.clone(),
            seed: request.seed,
            alone,
        };
        train.get(0, 0)?;
        Ok(Data {
            valid,
            test,
            tokenizers: Tokenizers::single(tokenizer),
            ..Data::new(Arc::new(train), shape)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_digit_is_another_one() {
        for number in 0..50 {
            let mut stream = Stream::new(1, Purpose::Synthetic, (number, 0, 0));
            let wrong = with_wrong_digit("-0719", &mut stream);
            let differ = wrong.chars().zip("-0719".chars()).filter(|(a, b)| a != b);
            assert_eq!(differ.count(), 1, "{wrong}");
            assert!(wrong.starts_with('-') && wrong.len() == 5, "{wrong}");
        }
    }

    fn prepared(view: &View) -> Data {
        let request = Request {
            tokenizer: None,
            saved_tokenizers: &Tokenizers::default(),
            run_shape: None,
            places: &crate::data::SearchPath::new(None),
            seed: 3,
            view,
            compares_answers: false,
            retrieval: None,
        };
        RightAndWrongConfig::default().prepare(&request).unwrap()
    }

    #[test]
    fn texts_that_are_read_alone_end_with_their_last_digit() {
        let context = RightAndWrongConfig::default().context();
        let [side_by_side, alone] =
            [View::Plain, View::EncodedSeparately].map(|view| prepared(&view));
        let text = |source: &dyn Source| source.get(7, 0).unwrap().text().unwrap();
        for (together, apart) in [
            (side_by_side.train, alone.train),
            (side_by_side.valid.unwrap(), alone.valid.unwrap()),
        ] {
            let (together, apart) = (text(&*together), text(&*apart));
            assert_eq!(together.inputs, apart.inputs);
            let first = [vec![0; context], vec![1; context]].concat();
            assert_eq!(apart.segments, Some(first));
            assert!(apart.documents.is_none() && apart.number == Some(0.0));
        }
    }

    #[test]
    fn both_answers_stand_behind_the_same_question() {
        let config = RightAndWrongConfig::default();
        let data = prepared(&View::Plain);
        let valid = data.valid.unwrap();
        for item in [data.train.get(7, 0), valid.get(7, 0)] {
            let item = item.unwrap().text().unwrap();
            assert_eq!(item.inputs.len(), 2 * config.context());
            let (better, worse) = item.targets.split_at(config.context());
            let differ = better.iter().zip(worse).filter(|(a, b)| a != b);
            assert_eq!(differ.count(), 1);
            assert_eq!(better.iter().filter(|t| **t >= 0).count(), 4);
            let documents = item.documents.unwrap();
            assert_eq!(documents[config.context() - 1..][..2], [1, 2]);
        }
        assert_eq!(data.train.get(7, 0).unwrap(), data.train.get(7, 5).unwrap());
    }
}
