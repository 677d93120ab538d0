//! The judge, which computes the rewards of completions: it decodes them with the run's tokenizer and, if another run
//! assigns the rewards, evaluates that run's network. Like a reference, it is attached after construction.

use super::rewards::{CompletionReward, is_exact};
use super::rollouts::{Completion, Prompt};
use crate::data::batch::TextBatch;
use crate::data::{DataConfig, RewardInput, Shape, TextItem, Tokenizers};
use crate::kernel;
use crate::nn::pass::Pass;
use crate::task::{AnyTask, Frozen, Task};
use crate::tokenizer::Tokenizer;

/// A run of a reward model.
#[derive(Clone, Debug)]
pub struct RewardRun {
    task: Frozen<AnyTask>,
    data: DataConfig,
    shape: Shape,
    tokenizers: Tokenizers,
    /// Reward of a text that is too long for the reward model.
    too_long: f32,
    /// The token with which a chat template ends an answer, and the tokens that the template writes after it.
    closing: Vec<u32>,
}

impl RewardRun {
    /// Builds a reward run with its data; `too_long` is the reward of a text that it cannot read.
    pub fn new(
        task: AnyTask,
        data: DataConfig,
        shape: Shape,
        tokenizers: Tokenizers,
        too_long: Option<f64>,
    ) -> Self {
        Self {
            task: Frozen::new(task),
            data,
            shape,
            tokenizers,
            too_long: too_long.unwrap_or_default() as f32,
            closing: Vec::new(),
        }
    }

    /// Returns the run for conversations whose template ends each answer with these tokens.
    #[must_use]
    pub fn with_closing(self, closing: Vec<u32>) -> Self {
        Self { closing, ..self }
    }

    /// Returns the tokens that a template writes after the one that ended a completion.
    fn closing_after(&self, completion: &Completion) -> &[u32] {
        match self.closing.split_first() {
            Some((end, behind)) if completion.ended && completion.tokens.last() == Some(end) => {
                behind
            }
            Some(_) | None => &[],
        }
    }

    /// Returns a prompt and its completion as an input of the reward model. In a conversation, the template has already
    /// formatted the prompt, and the completion continues it; other texts are encoded as in the run's training. `None`
    /// if the text cannot be read.
    fn read(&self, judge: &Judge, prompt: &[u32], completion: &Completion) -> Option<TextItem> {
        if self.data.template(&self.shape, &self.tokenizers).is_some() {
            let ids = prompt.iter().chain(&completion.tokens);
            let ids = ids.chain(self.closing_after(completion));
            let inputs: Vec<i32> = ids.map(|id| *id as i32).collect();
            return (inputs.len() <= self.data.context()).then(|| TextItem {
                inputs,
                ..TextItem::default()
            });
        }
        let (prompt, answer) = (judge.tokenizer.decode(prompt), judge.text(completion));
        let said = RewardInput::Answer {
            prompt: &prompt,
            answer: &answer,
        };
        let read = self
            .data
            .encode_answer(&said, &self.shape, &self.tokenizers);
        read.ok()
    }

    /// Returns the rewards of texts, computed in batches of `rows` texts; texts that cannot be read get `too_long`.
    fn rewards(&self, texts: Vec<Option<TextItem>>, rows: usize) -> Vec<f32> {
        let Some(model) = self.task.networks().reward else {
            return vec![self.too_long; texts.len()];
        };
        let mut rewards = vec![self.too_long; texts.len()];
        let all = texts.into_iter().enumerate();
        let read: Vec<(usize, Vec<i32>)> = all
            .filter_map(|(number, text)| Some((number, text?.inputs)))
            .collect();
        for some in read.chunks(rows.max(1)) {
            let ids: Vec<Vec<i32>> = some.iter().map(|(_, ids)| ids.clone()).collect();
            let batch = TextBatch::padded(&ids, 0);
            let found = kernel::read(model.rewards(&batch, &Pass::evaluation()));
            for ((number, _), reward) in some.iter().zip(found.iter::<f32>()) {
                rewards[*number] = reward;
            }
        }
        rewards
    }
}

/// Computes the rewards of completions.
#[derive(Clone, Debug)]
pub struct Judge {
    tokenizer: Tokenizer,
    ends: Vec<u32>,
    run: Option<RewardRun>,
}

impl Judge {
    /// Builds a judge that decodes with this tokenizer; `ends` are the tokens that end a completion.
    pub fn new(tokenizer: Tokenizer, ends: Vec<u32>, run: Option<RewardRun>) -> Self {
        Self {
            tokenizer,
            ends,
            run,
        }
    }

    /// Returns the tokens that end a completion.
    pub(super) fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// Applies a function to the network of the reward run, if there is one.
    #[must_use]
    pub(super) fn each(self, of: impl FnOnce(Frozen<AnyTask>) -> Frozen<AnyTask>) -> Self {
        let run = self.run.map(|run| RewardRun {
            task: of(run.task),
            ..run
        });
        Self { run, ..self }
    }

    fn text(&self, completion: &Completion) -> String {
        self.without_end(&completion.tokens)
    }

    /// Decodes tokens without the token that ends them.
    fn without_end(&self, tokens: &[u32]) -> String {
        let ended = tokens.last().is_some_and(|last| self.ends.contains(last));
        let inside = tokens.len() - usize::from(ended);
        self.tokenizer.decode(&tokens[..inside])
    }

    /// Returns the rewards of completions, of which there are `count` for each prompt.
    pub(super) fn rewards(
        &self,
        reward: &CompletionReward,
        prompts: &[Prompt],
        completions: &[Completion],
        count: usize,
    ) -> Vec<f32> {
        let of_prompt = |number: usize| &prompts[number / count];
        let all = completions.iter().enumerate();
        if let Some(run) = &self.run {
            let texts = all.map(|(number, one)| run.read(self, &of_prompt(number).tokens, one));
            return run.rewards(texts.collect(), prompts.len());
        }
        let right: Vec<String> = prompts
            .iter()
            .map(|prompt| self.without_end(&prompt.answer))
            .collect();
        let of = |(number, one): (usize, &Completion)| {
            let told = reward.text_reward(&self.text(one), one.ended, &right[number / count]);
            told.unwrap_or_default()
        };
        all.map(of).collect()
    }

    /// Counts the completions that equal the data's answers; there is one completion for each prompt.
    pub(super) fn count_exact(&self, prompts: &[Prompt], completions: &[Completion]) -> usize {
        let all = prompts.iter().zip(completions);
        let exact = all.filter(|(prompt, one)| {
            is_exact(
                &self.text(one),
                one.ended,
                &self.without_end(&prompt.answer),
            )
        });
        exact.count()
    }
}
