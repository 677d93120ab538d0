//! The network and its head with the training objective.

use super::sampled::{Layout, Sampled};
use super::{ACCURACY, CODE_PERPLEXITY, ContrastiveSpeechConfig, DIVERSITY, FEATURE_PENALTY};
use crate::data::batch::{Batch, SpeechBatch};
use crate::error::{Error, Result};
use crate::kernel;
use crate::model::contrastive_head::{CodeNoise, Codes, ContrastiveHead};
use crate::model::speech_encoder::masks::NO_MASKS;
use crate::model::speech_encoder::{Frames, own_frames};
use crate::model::{BuildContext, SpeechEncoder, SpeechEncoderConfig};
use crate::nn::pass::Pass;
use crate::nn::probe::ProbeSample;
use crate::stack::state::ModelState;
use crate::task::scored::Count;
use crate::task::{Divisor, Networks, Scored, Task, Term, host};
use burn::module::Module;
use burn::tensor::{Device, Tensor, activation};

/// Added to probabilities before their logarithm (released code).
const LEAST: f64 = 1e-7;

/// An encoder of samples, and the head that chooses and compares codes.
#[derive(Module, Debug)]
pub struct ContrastiveSpeech {
    /// The network.
    pub model: SpeechEncoder,
    /// Codebooks and comparison; dropped when the network is used.
    pub contrastive_head: ContrastiveHead,
    #[module(skip)]
    config: ContrastiveSpeechConfig,
    seed: u64,
}

/// The loss of a micro-batch and its measures.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Sum of the losses of masked frames, `[1]`.
    pub loss: Tensor<1>,
    /// Effective number of entries by their probabilities, over all codebooks, `[1]`.
    pub perplexity: Tensor<1>,
    /// Effective number of chosen entries, over all codebooks, `[1]`, not tracked.
    pub chosen: Tensor<1>,
    /// Number of masked frames that are recognised, `[1]`, not tracked.
    pub right: Tensor<1>,
    /// Mean square of the features, `[1]`; `None` if the loss does not read it.
    pub penalty: Option<Tensor<1>>,
    /// Number of masked frames that are compared.
    pub masked: usize,
}

impl ContrastiveSpeech {
    /// Builds the network with its head.
    ///
    /// # Errors
    /// If the data has no recordings, or the model masks no frames.
    pub fn new(
        model: &SpeechEncoderConfig,
        config: &ContrastiveSpeechConfig,
        inputs: &BuildContext,
    ) -> Result<Self> {
        let network = model.init(inputs).ok_or_else(|| {
            Error::usage("[task] contrastive_speech needs recordings; the data has none")
        })?;
        if network.mask_vector.is_none() {
            return Err(Error::usage(format!("[model.masks] {}", NO_MASKS)));
        }
        let head = config.head(model);
        Ok(Self {
            model: network.without_head(),
            contrastive_head: head.init(model.stack.init_settings(), inputs),
            config: config.clone(),
            seed: inputs.seed,
        })
    }

    /// Returns the device of the parameters.
    pub fn device(&self) -> Device {
        self.model.device()
    }

    /// Computes the hidden states of whole recordings.
    pub fn frames(&self, speech: &SpeechBatch, pass: &Pass) -> Frames {
        let samples = host::samples(speech, &self.device());
        self.model.forward(samples, &speech.lengths, pass)
    }

    /// Computes features before their norm, `[rows, frames, channels]`.
    fn features(&self, speech: &SpeechBatch) -> Tensor<3> {
        let samples = host::samples(speech, &self.device());
        self.model.features.forward(samples, &speech.lengths)
    }

    /// Computes the loss of recordings in training step `step`, counted from 0; `None` in evaluations.
    fn compare_drawn(&self, speech: &SpeechBatch, step: Option<u64>, pass: &Pass) -> Comparison {
        let features = self.features(speech);
        let lengths = self.model.features.frames(&speech.lengths);
        let masks = self.model.draw_masks(&features, &lengths, pass);
        let sampled = Sampled::draw(masks, &self.config, pass);
        let temperature = step.map(|step| self.config.gumbel.temperature(step));
        self.compare(features, lengths, &sampled, temperature, pass)
    }

    /// Computes the loss of recordings with given choices and temperature of codes.
    pub fn compare_sampled(
        &self,
        speech: &SpeechBatch,
        sampled: &Sampled,
        temperature: Option<f64>,
        pass: &Pass,
    ) -> Comparison {
        let lengths = self.model.features.frames(&speech.lengths);
        self.compare(self.features(speech), lengths, sampled, temperature, pass)
    }

    fn compare(
        &self,
        features: Tensor<3>,
        lengths: Vec<usize>,
        sampled: &Sampled,
        temperature: Option<f64>,
        pass: &Pass,
    ) -> Comparison {
        let features = scale_gradient(features, self.config.feature_gradient);
        let penalty = (self.config.feature_penalty > 0.0)
            .then(|| mean_square(kernel::to_f32(features.clone()), &lengths));
        let features = self.model.normalise(features);
        let read = pass.dropout(features.clone(), "features", self.config.dropout_features);
        let Frames { states, .. } =
            self.model
                .encode(features, lengths, Some(&sampled.masks), pass);
        let layout = Layout::new(sampled, states.dims()[1], self.config.negatives);
        let device = states.device();
        let noise = temperature.zip(sampled.noise.as_ref());
        let entries = self.config.codebooks * self.config.entries;
        let noise = noise.map(|(temperature, noise)| CodeNoise {
            values: layout.noise(noise, entries, &device),
            temperature,
        });
        let codes = self
            .contrastive_head
            .quantise(layout.gather(read, &device), noise);
        let states = self
            .contrastive_head
            .states
            .forward(layout.gather(states, &device));
        self.compare_codes(codes, states, &layout, penalty, &device)
    }

    /// Compares hidden states with codes, both `[rows, masked frames, d_compared]`.
    fn compare_codes(
        &self,
        codes: Codes,
        states: Tensor<3>,
        layout: &Layout,
        penalty: Option<Tensor<1>>,
        device: &Device,
    ) -> Comparison {
        let Codes {
            compared,
            chosen,
            shares,
        } = codes;
        let weights = layout.weights(device);
        let [states, compared] =
            [states, compared].map(|x| kernel::l2_normalise(kernel::to_f32(x)));
        let cosines = states.matmul(compared.swap_dims(1, 2));
        let cosines = cosines / self.config.temperature;
        let compared = layout.compared(device);
        let logits = cosines.gather(2, compared.clone());
        // Other codes with the same entries are no negatives.
        let same = chosen.clone().matmul(chosen.clone().swap_dims(1, 2));
        let same = same.gather(2, compared.inner()) * layout.negative_columns(device);
        let same = same.greater_elem(self.config.codebooks as f64 - 0.5);
        let logits = logits.mask_fill(same, f32::NEG_INFINITY);
        let best = kernel::untracked(logits.clone()).argmax(2);
        let plain = kernel::untracked(weights.clone());
        let right = best.equal_elem(0).float().cast(plain.dtype()) * plain.clone();
        let told = activation::log_softmax(logits, 2).narrow(2, 0, 1);
        let masked = layout.masked;
        let [rows, frames, entries] = chosen.dims();
        let [books, each] = [self.config.codebooks, self.config.entries];
        let used = (chosen * plain)
            .reshape([rows * frames, entries])
            .sum_dim(0);
        let shares = shares * weights.clone().reshape([1, rows * frames, 1]);
        let total = masked.max(1) as f64;
        Comparison {
            loss: (told * weights).sum().neg(),
            perplexity: perplexity(shares.sum_dim(1).reshape([books, each]) / total),
            chosen: perplexity(used.reshape([books, each]) / total),
            right: right.sum(),
            penalty,
            masked,
        }
    }
}

/// Σ_g exp(−Σ_v p_gv log p_gv) of probabilities `[codebooks, entries]`.
fn perplexity(shares: Tensor<2>) -> Tensor<1> {
    let logarithms = (shares.clone() + LEAST).log();
    (shares * logarithms).sum_dim(1).neg().exp().sum()
}

/// Returns the same values, whose gradients are multiplied by a factor.
fn scale_gradient(x: Tensor<3>, factor: f64) -> Tensor<3> {
    match factor == 1.0 {
        true => x,
        false => x.clone().detach() * (1.0 - factor) + x * factor,
    }
}

/// Returns the mean square of features `[rows, frames, channels]` over the frames of recordings, without padding.
fn mean_square(x: Tensor<3>, lengths: &[usize]) -> Tensor<1> {
    let [_, frames, channels] = x.dims();
    let own = own_frames(lengths, frames, &x.device());
    let count: usize = lengths.iter().map(|length| length.min(&frames)).sum();
    (x.clone() * x * own).sum() / (count * channels).max(1) as f64
}

impl Task for ContrastiveSpeech {
    fn score(&self, batch: &Batch, pass: &Pass, _state: Option<&mut ModelState>) -> Scored {
        let speech = &host::spoken(batch).speech;
        let step = pass.is_training().then_some(batch.step);
        let found = self.compare_drawn(speech, step, pass);
        let rows = batch.rows as f64;
        let (masked, entries) = (
            found.masked as f64,
            (self.config.codebooks * self.config.entries) as f64,
        );
        let loss = found.loss * (rows / masked.max(1.0));
        let diversity = Term {
            coefficient: self.config.diversity_weight,
            ..Term::new(
                (found.perplexity.neg() / entries + 1.0) * rows,
                Divisor::Rows,
            )
        };
        let chosen = Count {
            sum: found.chosen * rows,
            of: rows,
        };
        let right = Count {
            sum: found.right,
            of: masked,
        };
        let mut scored = Scored::of(Term::new(loss, Divisor::Rows), batch.rows as u64)
            .with_added(DIVERSITY, diversity)
            .with_count(CODE_PERPLEXITY, chosen)
            .with_count(ACCURACY, right);
        if let Some(penalty) = found.penalty {
            let penalty = Term {
                coefficient: self.config.feature_penalty,
                ..Term::new(penalty * rows, Divisor::Rows)
            };
            scored = scored.with_added(FEATURE_PENALTY, penalty);
        }
        scored.added.extend([CODE_PERPLEXITY.name, ACCURACY.name]);
        scored.no_perplexity = true;
        scored
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn sample(&self, batch: &Batch) -> ProbeSample {
        let lengths = &host::spoken(batch).speech.lengths;
        host::longest_row(self.model.features.frames(lengths).into_iter())
    }

    fn networks(&self) -> Networks<'_> {
        Networks {
            infers: Some(self),
            ..Networks::default()
        }
    }
}
