//! The generator and the discriminator with their training objective.

use super::sampling::{ReplacedTexts, draws, sample_tokens};
use super::{MLM_LOSS, REPLACED, RTD_ACCURACY, RTD_LOSS, ReplacedTokenConfig};
use crate::data::NOT_SCORED;
use crate::data::batch::{Batch, TextBatch};
use crate::evaluate::classification::Confusion;
use crate::evaluate::predictions::Predictions;
use crate::kernel;
use crate::model::encoder::{Encoder, EncoderConfig, EncoderInput};
use crate::model::generator::{Generator, TableSharing};
use crate::model::{BuildContext, GlobalTokens, PooledText};
use crate::nn::feed_forward::Activation;
use crate::nn::init::{Init, MatrixRole};
use crate::nn::linear::Linear;
use crate::nn::pass::Pass;
use crate::stack::state::ModelState;
use crate::task::masked_lm::{self, MLM_ACCURACY};
use crate::task::scored::Count;
use crate::task::{Divisor, Networks, Scored, Sum, Task, host};
use burn::module::Module;
use burn::tensor::{Device, FloatDType, Tensor};

/// Discriminator head, with one logit for each token: dense layer, nonlinearity, product with one vector (Clark et al.
/// 2020, released code).
#[derive(Module, Debug)]
pub struct DiscriminatorHead {
    /// Dense layer, `[d_model, d_model]`.
    pub dense: Linear,
    /// Output layer, `[1, d_model]`.
    pub product: Linear,
    #[module(skip)]
    activation: Activation,
}

impl DiscriminatorHead {
    fn new(config: &EncoderConfig, init: &Init) -> Self {
        let d = config.stack.d_output();
        Self {
            dense: Linear::new(d, d, true, MatrixRole::Inner, init),
            product: Linear::new(d, 1, true, MatrixRole::Head, init),
            activation: config.head_activation,
        }
    }

    /// Maps hidden states `[rows, cols, d_model]` to logits `[rows, cols]`, above 0 for tokens that are predicted to be
    /// replaced.
    fn forward(&self, hidden: Tensor<3>) -> Tensor<2> {
        let [rows, cols, _] = hidden.dims();
        let x = kernel::activate(self.dense.forward(hidden), self.activation.into());
        self.product.forward(x).reshape([rows, cols])
    }
}

/// An encoder that detects replaced tokens, and the generator that replaces them.
#[derive(Module, Debug)]
pub struct ReplacedToken {
    /// The discriminator. If its embedding table is disentangled from the generator's, `embedding` is Δ.
    pub model: Encoder,
    /// Head with one logit for each token.
    pub head: DiscriminatorHead,
    /// The network that replaces tokens; `None` in a model that is only used, not trained.
    pub generator: Option<Generator>,
    disentangled: bool,
    temperature: f64,
    weight: f64,
    seed: u64,
}

/// Results of a generator's pass.
struct GeneratorOutput {
    /// Sum of the cross-entropies at the scored positions, `[1]`.
    loss: Tensor<1>,
    /// Number of scored positions whose token has the highest logit.
    right: Count,
    replaced: ReplacedTexts,
}

/// Returns the sum of the binary cross-entropies of logits `[n]` against targets of 0, 1 or [`NOT_SCORED`]. It is
/// computed with two classes, the first of which has the logit 0.
pub(in crate::task) fn binary(scores: Tensor<1>, targets: &[i32]) -> Tensor<1> {
    let [n] = scores.dims();
    let device = scores.device();
    let scores = scores.reshape([n, 1]);
    let scores = Tensor::cat(vec![scores.zeros_like(), scores], 1);
    kernel::cross_entropy_sum(scores, host::vector(targets, &device), 0.0)
}

impl ReplacedToken {
    /// Builds the generator and the discriminator with their heads.
    pub fn new(model: &EncoderConfig, config: &ReplacedTokenConfig, inputs: &BuildContext) -> Self {
        let init = Init::of_heads(inputs.device, inputs.seed, model.stack.init_settings());
        let generator = config.generator();
        let pooled = super::TaskFacts::demand(config).pooled_text != PooledText::Unused;
        let mut network = model.with_pooler_if(pooled).init(inputs);
        let shape = generator.filter(|shape| shape.tables == TableSharing::Disentangled);
        if shape.is_some() {
            let zeros = init.zeros(inputs.shape.vocab_size, model.d_embedding());
            network.embedding.weight = zeros;
        }
        Self {
            model: network,
            head: DiscriminatorHead::new(model, &init.part("replaced")),
            generator: generator.map(|shape| shape.init(model, inputs)),
            disentangled: shape.is_some(),
            temperature: config.temperature,
            weight: config.weight,
            seed: inputs.seed,
        }
    }

    /// Returns the device of the parameters.
    pub fn device(&self) -> Device {
        self.model.embedding.weight.val().device()
    }

    /// Returns the discriminator's hidden states `[rows, cols, d_model]`.
    pub fn hidden(&self, input: EncoderInput, pass: &Pass) -> Tensor<3> {
        let generator = self.generator.as_ref().and_then(Generator::own_network);
        let Some(other) = generator.filter(|_| self.disentangled) else {
            return self.model.forward(input, pass);
        };
        let seen = input.masks_and_positions();
        let tokens = self
            .model
            .embedding
            .forward_with(&other.embedding, input.ids.clone());
        let x = self.model.embed_token_vectors(tokens, input, pass);
        self.model.run_blocks(x, &seen, pass)
    }

    /// Returns the discriminator's logits `[rows, cols]`, above 0 for tokens that are predicted to be replaced.
    pub fn scores(&self, input: EncoderInput, pass: &Pass) -> Tensor<2> {
        self.head.forward(self.hidden(input, pass))
    }

    /// Returns the generator's logits over the vocabulary `[n, vocab]` at some positions of masked texts, counted
    /// through all rows; `None` without a generator.
    pub fn generator_logits(
        &self,
        input: EncoderInput,
        positions: &[i32],
        pass: &Pass,
    ) -> Option<Tensor<2>> {
        let generator = self.generator.as_ref()?;
        let hidden = generator.forward(input, &self.model, pass);
        let picked = host::gather_at(hidden, positions, &self.device());
        Some(generator.logits(picked, &self.model))
    }

    /// Runs the generator on masked texts and samples replacements; `None` without a generator.
    fn run_generator(
        &self,
        texts: &TextBatch,
        device: &Device,
        pass: &Pass,
    ) -> Option<GeneratorOutput> {
        let (places, targets) = host::scored_targets(&texts.targets);
        let scores = self.generator_logits(
            masked_lm::input(texts, GlobalTokens::None, device),
            &places,
            pass,
        )?;
        let draws = draws(texts, pass);
        let samples = match draws.is_empty() {
            true => Vec::new(),
            false => sample_tokens(scores.clone(), self.temperature, &draws),
        };
        let right = host::count_hits(&kernel::untracked(scores.clone()), &targets);
        Some(GeneratorOutput {
            loss: kernel::cross_entropy_sum(scores, host::vector(&targets, device), 0.0),
            right,
            replaced: ReplacedTexts::new(texts, &samples),
        })
    }
}

/// Returns the targets of the discriminator at the tokens of a batch; padding is not scored.
fn discriminator_targets(texts: &TextBatch, replaced: &[i32]) -> Vec<i32> {
    let cols = texts.cols.max(1);
    let mut answers = replaced.to_vec();
    for (row, answers) in answers.chunks_mut(cols).enumerate() {
        let length = texts.lengths.as_ref().map_or(cols, |lengths| lengths[row]);
        answers[length.min(cols)..].fill(NOT_SCORED);
    }
    answers
}

/// Counts how often original and replaced tokens are predicted as original or replaced.
fn confusion(scores: &Tensor<1>, answers: &[i32]) -> Confusion {
    let mut confusion = Confusion::new(["original", "replaced"].map(String::from).to_vec());
    let scores = kernel::read(kernel::untracked(scores.clone()));
    for (score, answer) in scores.iter::<f32>().zip(answers) {
        if let Ok(answer) = usize::try_from(*answer) {
            confusion.add(answer, usize::from(score > 0.0));
        }
    }
    confusion
}

/// Returns the number of scored tokens that are predicted right.
fn count_right(scores: &Tensor<1>, answers: &[i32], batch: &Batch) -> Count {
    let told = kernel::untracked(scores.clone()).greater_elem(0.0).int();
    let answers = host::vector(answers, &told.device());
    let right = told.equal(answers).int().sum();
    Count {
        sum: right.cast(FloatDType::F32),
        of: batch.tokens as f64,
    }
}

impl Task for ReplacedToken {
    fn score(&self, batch: &Batch, pass: &Pass, _state: Option<&mut ModelState>) -> Scored {
        let (texts, device) = (host::texts(batch), self.device());
        let guessed = self.run_generator(texts, &device, pass);
        let (guessed, replaced) = match guessed {
            Some(guessed) => (Some((guessed.loss, guessed.right)), guessed.replaced),
            None => (None, ReplacedTexts::as_masked(texts)),
        };
        let answers = discriminator_targets(texts, &replaced.replaced);
        let texts = TextBatch {
            inputs: replaced.inputs,
            ..texts.clone()
        };
        let scores = self.scores(masked_lm::input(&texts, GlobalTokens::None, &device), pass);
        let [rows, cols] = scores.dims();
        let scores = scores.reshape([rows * cols]);
        let confusion = (!pass.is_training()).then(|| confusion(&scores, &answers));
        let told_right = count_right(&scores, &answers, batch);
        let told = binary(scores, &answers);
        let tokens = batch.tokens as f64;
        let count = |answer: i32| answers.iter().filter(|a| **a == answer).count() as f64;
        // Both means as one sum over tokens: the loss of masked tokens is scaled up by the ratio of all tokens to
        // masked ones in the step.
        let joint = told.clone() * self.weight;
        let fewer = batch.step_tokens as f64 / batch.step_scored.max(1) as f64;
        let joint = match &guessed {
            Some((loss, _)) => joint + loss.clone() * fewer,
            None => joint,
        };
        let mut scored = Scored::new(joint, batch.tokens as u64)
            .with_count(
                RTD_LOSS,
                Count {
                    sum: told,
                    of: tokens,
                },
            )
            .with_count(RTD_ACCURACY, told_right)
            .with_metric(REPLACED, Sum::new(count(1), tokens));
        scored.loss.over = Divisor::Tokens;
        scored.added.insert(RTD_LOSS.name);
        if !pass.is_training() && guessed.is_some() {
            // An evaluation needs means over the whole split, since its batches differ in their share of masked tokens.
            scored.joint = [(RTD_LOSS.name, self.weight), (MLM_LOSS.name, 1.0)].into();
        }
        if let Some((loss, right)) = guessed {
            let of = batch.scored as f64;
            scored = scored
                .with_count(MLM_LOSS, Count { sum: loss, of })
                .with_count(MLM_ACCURACY, right);
            scored.added.insert(MLM_LOSS.name);
        }
        scored.predictions = confusion.map(Predictions::Classes);
        scored
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn networks(&self) -> Networks<'_> {
        Networks {
            replaced_token: Some(self),
            infers: Some(self),
            ..Networks::default()
        }
    }
}
