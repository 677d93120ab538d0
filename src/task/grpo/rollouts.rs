//! Prompts of a batch, and the completions that a policy samples for them.
//!
//! A prompt is a row up to its last answer, which is the last run of scored tokens. It is read once for all of its
//! completions. Completion g of row r draws from its own random stream, a function of (seed, step, row of the step's
//! batch, g), so that neither micro-batches nor a resume change a draw.

use crate::data::batch::TextBatch;
use crate::model::LanguageModel;
use crate::model::generation::TextGenerator;
use crate::model::sampling::Sampling;
use crate::nn::pass::Pass;
use crate::rng::{Purpose, Stream};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// A prompt, and the data's answer to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt {
    /// The tokens before the answer.
    pub tokens: Vec<u32>,
    /// Tokens of the answer, with its end token if the row holds it.
    pub answer: Vec<u32>,
}

/// The tokens that were generated after a prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// Generated tokens, the end token included.
    pub tokens: Vec<u32>,
    /// Whether the completion has an end token.
    pub ended: bool,
}

/// Settings of the generation.
#[derive(Clone, Debug)]
pub struct GenerationSettings<'a> {
    /// Number of completions of each prompt.
    pub count: usize,
    /// Maximum number of tokens of a completion.
    pub max_tokens: usize,
    /// Maximum number of tokens that the network reads.
    pub context: usize,
    /// How a token is sampled.
    pub sampling: Sampling,
    /// Tokens that end a completion.
    pub ends: &'a [u32],
}

/// Extracts the prompts of a batch, row by row; `None` if a row has no answer.
pub fn prompts(texts: &TextBatch, rows: usize) -> Option<Vec<Prompt>> {
    let cols = texts.cols.max(1);
    let each = texts.inputs.chunks(cols).zip(texts.targets.chunks(cols));
    let all: Option<Vec<Prompt>> = each.map(|(ids, targets)| prompt(ids, targets)).collect();
    all.filter(|all| all.len() == rows && rows > 0)
}

fn prompt(ids: &[i32], targets: &[i32]) -> Option<Prompt> {
    let last = targets.iter().rposition(|target| *target >= 0)?;
    let before = targets[..last].iter().rposition(|target| *target < 0);
    let first = before.map_or(0, |before| before + 1);
    let tokens = |ids: &[i32]| ids.iter().map(|id| *id as u32).collect();
    Some(Prompt {
        tokens: tokens(&ids[..=first]),
        answer: tokens(&targets[first..=last]),
    })
}

/// Returns the random streams of all completions of `rows` rows, in order.
pub fn streams(rows: usize, count: usize, pass: &Pass) -> Vec<Stream> {
    pass.with_derived_rows(count, || {
        let all = 0..rows * count;
        all.map(|row| pass.stream(Purpose::Sampled, row)).collect()
    })
}

/// Generates the completions of all prompts; completions of the same prompt are consecutive. Greedy decoding needs no
/// streams.
pub fn generate_completions(
    network: &dyn LanguageModel,
    prompts: &[Prompt],
    writing: &GenerationSettings,
    mut streams: Vec<Stream>,
) -> Vec<Completion> {
    let mut all = vec![Completion::default(); prompts.len() * writing.count];
    let mut lengths: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (number, prompt) in prompts.iter().enumerate() {
        lengths.entry(prompt.tokens.len()).or_default().push(number);
    }
    for (length, numbers) in lengths {
        let own: Vec<&[u32]> = numbers
            .iter()
            .map(|number| prompts[*number].tokens.as_slice())
            .collect();
        let Ok(mut generator) = TextGenerator::new(network, writing.context, &own) else {
            unreachable!("prompts of one length, which have a token each")
        };
        let copies = (0..own.len()).flat_map(|row| vec![row; writing.count]);
        generator.select(&copies.collect::<Vec<usize>>());
        let room = (writing.context + 1).saturating_sub(length).max(1);
        let most = writing.max_tokens.min(room);
        generator.reserve(most);
        let each = numbers.iter();
        let mut rows: Vec<usize> = each
            .flat_map(|number| number * writing.count..(number + 1) * writing.count)
            .collect();
        for drawn in 1..=most {
            let (mut left, mut tokens) = (Vec::new(), Vec::new());
            let uniforms = rows.iter().map(|row| {
                let stream = streams.get_mut(*row);
                stream.map_or(0.0, Stream::uniform)
            });
            let uniforms: Vec<f32> = uniforms.collect();
            for (place, token) in next_tokens(&generator, &writing.sampling, &uniforms) {
                let row = &rows[place];
                all[*row].tokens.push(token);
                match writing.ends.contains(&token) {
                    true => all[*row].ended = true,
                    false => {
                        left.push(place);
                        tokens.push(token);
                    }
                }
            }
            if left.is_empty() || drawn == most {
                break;
            }
            if left.len() < rows.len() {
                generator.select(&left);
                rows = left.iter().map(|place| rows[*place]).collect();
            }
            generator.push(&tokens);
        }
    }
    all
}

/// Returns the next token of each row, chosen by numbers that are already drawn.
fn next_tokens(
    generator: &TextGenerator,
    sampling: &Sampling,
    uniforms: &[f32],
) -> impl Iterator<Item = (usize, u32)> {
    let texts: Vec<(&[f32], &[u32])> = (0..uniforms.len())
        .map(|row| (generator.logits(row), generator.tokens(row)))
        .collect();
    let each = texts.into_par_iter().zip(uniforms);
    let draw = |((scores, before), uniform): ((&[f32], &[u32]), &f32)| {
        sampling.draw_unsorted(scores, before, *uniform)
    };
    let drawn: Vec<u32> = each.map(draw).collect();
    drawn.into_iter().enumerate()
}

/// The tokens of completions, and their positions in the texts that a network reads.
#[derive(Clone, Debug, PartialEq)]
pub struct CompletionTokens {
    /// Prompts with their completions, row by row, without each completion's last token, which is never read.
    pub texts: TextBatch,
    /// Positions whose outputs predict the tokens, counted through all rows.
    pub positions: Vec<i32>,
    /// The predicted tokens.
    pub targets: Vec<i32>,
    /// Index of each token's completion.
    pub of: Vec<usize>,
}

impl CompletionTokens {
    /// Collects the tokens of all completions, `count` of each prompt, in texts that are padded to the longest one or
    /// to `width`.
    pub fn of(prompts: &[Prompt], completions: &[Completion], count: usize, width: usize) -> Self {
        let text = |(number, completion): (usize, &Completion)| -> Vec<i32> {
            let prompt = &prompts[number / count].tokens;
            let read = completion.tokens.len().saturating_sub(1);
            let all = prompt.iter().chain(&completion.tokens[..read]);
            all.map(|token| *token as i32).collect()
        };
        let rows: Vec<Vec<i32>> = completions.iter().enumerate().map(text).collect();
        let texts = TextBatch::padded(&rows, width);
        let (mut places, mut targets, mut of) = (Vec::new(), Vec::new(), Vec::new());
        for (number, completion) in completions.iter().enumerate() {
            let first = number * texts.cols + prompts[number / count].tokens.len() - 1;
            for (place, token) in completion.tokens.iter().enumerate() {
                places.push((first + place) as i32);
                targets.push(*token as i32);
                of.push(number);
            }
        }
        Self {
            texts,
            positions: places,
            targets,
            of,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO: i32 = crate::data::NOT_SCORED;

    #[test]
    fn a_prompt_ends_where_the_last_answer_begins() {
        let texts = TextBatch {
            inputs: vec![4, 5, 6, 7, 8, 0, 4, 9, 7, 7, 8, 3],
            targets: vec![NO, NO, 7, 8, 1, NO, NO, 7, NO, 8, 3, NO],
            cols: 6,
            ..TextBatch::default()
        };
        let found = prompts(&texts, 2).unwrap();
        assert_eq!(found[0].tokens, [4, 5, 6]);
        assert_eq!(found[0].answer, [7, 8, 1]);
        assert_eq!(found[1].tokens, [4, 9, 7, 7]);
        assert_eq!(found[1].answer, [8, 3]);
        let without = TextBatch {
            targets: vec![NO; 12],
            ..texts
        };
        assert!(prompts(&without, 2).is_none());
    }

    #[test]
    fn tokens_stand_behind_their_prompts() {
        let prompt = |tokens: &[u32]| Prompt {
            tokens: tokens.to_vec(),
            answer: vec![1],
        };
        let completion = |tokens: &[u32]| Completion {
            tokens: tokens.to_vec(),
            ended: false,
        };
        let prompts = [prompt(&[5, 6]), prompt(&[7])];
        let all = [&[8u32, 1][..], &[1], &[9], &[9, 9, 1]].map(completion);
        let tokens = CompletionTokens::of(&prompts, &all, 2, 0);
        assert_eq!(tokens.texts.cols, 3);
        assert_eq!(tokens.texts.inputs, [5, 6, 8, 5, 6, 0, 7, 0, 0, 7, 9, 9]);
        assert_eq!(tokens.texts.lengths, Some(vec![3, 2, 1, 3]));
        assert_eq!(tokens.positions, [1, 2, 4, 6, 9, 10, 11]);
        assert_eq!(tokens.targets, [8, 1, 1, 9, 9, 9, 1]);
        assert_eq!(tokens.of, [0, 0, 1, 2, 3, 3, 3]);
    }
}
