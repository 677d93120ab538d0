//! Generated questions with answers: lines of `question=answer`, of which only the answer is scored.
//!
//! A problem belongs to training or is held out according to a hash of the problem itself, so that training
//! never shows a held-out one, whatever its seed, order or length. Validation and test sets are fixed: the
//! same for every seed. The line break ends the answer and is scored with it.

use std::sync::Arc;

use super::held_out::{HeldOut, PASS};
use crate::data::{Data, Item, NOT_SCORED, Shape, Source, Split, TextItem, Tokenizers};
use crate::error::{Error, Result};
use crate::rng::{Purpose, Stream};
use crate::tokenizer::Tokenizer;

/// Separates the random draws of problems from those of other generators.
const SITE: u64 = 0;
/// Character that ends every answer.
pub const END: char = '\n';

/// A question and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Text up to where the answer begins.
    pub question: String,
    /// Text of the answer, without the line break.
    pub answer: String,
    /// Identity of the problem: problems that are the same in substance share it.
    pub key: u64,
}

/// A family of problems.
pub trait Problems: Clone + Send + Sync + 'static {
    /// Returns all characters of questions and answers, except the line break.
    fn alphabet(&self) -> String;

    /// Returns the number of characters of the longest problem, without the line break.
    fn longest(&self) -> usize;

    /// Draws one problem.
    fn draw(&self, stream: &mut Stream) -> Problem;

    /// Returns all faults of its keys.
    fn faults(&self) -> Vec<String>;

    /// Returns a question that a person may ask.
    fn question(&self) -> String;

    /// Returns the sizes of the held-out sets.
    fn held_out(&self) -> HeldOut;
}

/// Returns the input length of the longest problem: its characters and the line break, minus the last target.
pub fn context(problems: &impl Problems) -> usize {
    problems.longest()
}

/// Returns the tokenizer of a family's characters, in which the line break ends a text.
///
/// # Errors
/// None that a family causes.
pub(super) fn tokenizer(problems: &impl Problems) -> Result<Tokenizer> {
    let alphabet = problems.alphabet() + &END.to_string();
    Tokenizer::of_characters(&alphabet, Some(END))
}

pub(in crate::data) fn prepare<P: Problems>(problems: &P, seed: u64) -> Result<Data> {
    let tokenizer = tokenizer(problems)?;
    let sizes = problems.held_out();
    let held_out = |split| -> Result<Option<Arc<dyn Source>>> {
        if !sizes.has(split) {
            return Ok(None);
        }
        let set = fixed(problems, split)?;
        Ok(Some(Arc::new(Fixed {
            set,
            split,
            tokenizer: tokenizer.clone(),
            context: context(problems),
        })))
    };
    let valid = held_out(Split::Valid)?;
    let test = held_out(Split::Test)?;
    let train = Drawn {
        problems: problems.clone(),
        tokenizer: tokenizer.clone(),
        seed,
    };
    train.get(0, 0)?;
    let shape = Shape::of_text(context(problems), tokenizer.vocab_size());
    Ok(Data {
        valid,
        test,
        tokenizers: Tokenizers::single(tokenizer),
        ..Data::new(Arc::new(train), shape)
    })
}

/// Returns the held-out set: different problems of this split, in the order in which a fixed stream draws
/// them.
///
/// # Errors
/// If there is no such problem.
pub(super) fn fixed<P: Problems>(problems: &P, split: Split) -> Result<Vec<Problem>> {
    let draw = |stream: &mut Stream| problems.draw(stream);
    let question = |problem: &Problem| problem.question.clone();
    let sizes = problems.held_out();
    let set = sizes.fixed((split, SITE), draw, |problem| problem.key, question);
    match set.is_empty() {
        true => Err(too_few(split)),
        false => Ok(set),
    }
}

/// Returns the first training problem that a stream draws.
///
/// # Errors
/// If hardly any problem belongs to training.
pub(super) fn first_training_problem<P: Problems>(
    problems: &P,
    stream: &mut Stream,
) -> Result<Problem> {
    let draw = |stream: &mut Stream| problems.draw(stream);
    let found = problems
        .held_out()
        .first_of_training(stream, draw, |problem| problem.key);
    found.ok_or_else(|| too_few(Split::Train))
}

fn too_few(split: Split) -> Error {
    Error::usage(format!(
        "[data] there are too few different problems to hold some out for the {} split; make them longer, or set \
         {}_items = 0",
        split.name(),
        split.name()
    ))
}

/// Builds an example of `context` tokens from a problem.
fn item(problem: &Problem, tokenizer: &Tokenizer, context: usize) -> Result<Item> {
    let text = format!("{}{}{END}", problem.question, problem.answer);
    let ids: Vec<i32> = tokenizer
        .encode(&text)?
        .into_iter()
        .map(|id| id as i32)
        .collect();
    let asked = problem.question.chars().count();
    let mut targets = ids[1..].to_vec();
    targets[..asked - 1].fill(NOT_SCORED);
    targets.resize(context, NOT_SCORED);
    let end = ids[ids.len() - 1];
    let mut inputs = ids;
    inputs.pop();
    inputs.resize(context, end);
    Ok(Item::Text(TextItem {
        inputs,
        targets,
        ..TextItem::default()
    }))
}

/// A source of training problems, drawn without end.
struct Drawn<P> {
    problems: P,
    tokenizer: Tokenizer,
    seed: u64,
}

impl<P: Problems> Source for Drawn<P> {
    fn len(&self) -> usize {
        PASS
    }

    fn get(&self, sample: u64, _draw: u64) -> Result<Item> {
        let purpose = Split::ALL.len() as u64;
        let mut stream = Stream::new(self.seed, Purpose::Synthetic, (sample, purpose, SITE));
        let problem = first_training_problem(&self.problems, &mut stream)?;
        item(&problem, &self.tokenizer, context(&self.problems))
    }

    fn is_endless(&self) -> bool {
        true
    }
}

/// A source of held-out problems.
struct Fixed {
    set: Vec<Problem>,
    split: Split,
    tokenizer: Tokenizer,
    context: usize,
}

impl Source for Fixed {
    fn len(&self) -> usize {
        self.set.len()
    }

    fn get(&self, sample: u64, _draw: u64) -> Result<Item> {
        item(&self.set[sample as usize], &self.tokenizer, self.context)
    }

    fn split(&self) -> Split {
        self.split
    }
}
