//! `[train]`: the length of a run, its batch sizes, and what happens during it.

use super::metrics::higher_is_better;
use super::ranks;
use crate::data::loader::{BatchSize, Order};
use crate::one_table::{is_true, is_usual};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// Settings of a training run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TrainConfig {
    /// Optimizer steps.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "is_usual")]
    pub steps: u64,
    /// Passes over the training data, instead of `steps`; 2.5 means two and a half. The run records the number of steps
    /// that they make.
    #[schemars(extend("exclusiveMinimum" = 0), range(max = 1_000_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epochs: Option<f64>,
    /// Items per optimizer step; items per evaluation batch if steps are measured in tokens.
    #[schemars(range(min = 1, max = 1 << 24))]
    pub batch_size: usize,
    /// Tokens per optimizer step, instead of `batch_size`, for examples of different lengths: a step takes as many
    /// examples as hold this many tokens when all are padded to the longest. Pairs count by their longer side. Source:
    /// Vaswani et al. 2017, section 5.1.
    #[schemars(range(min = 1, max = 1 << 24))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_tokens: Option<usize>,
    /// Items that are in memory at once; gradients are accumulated over micro-batches. `batch_size` when absent.
    #[schemars(range(min = 1, max = 1 << 24))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub micro_batch_size: Option<usize>,
    /// Whether row b of a step continues where row b of the previous step ended, with the state that the model kept for
    /// that row: the rows of a batch read equally many contiguous shares of the text. For models that keep a state.
    /// Source: Dai et al. 2019, section 3.2.
    #[serde(skip_serializing_if = "is_usual")]
    pub carry_state: bool,
    /// Whether transformer blocks (also in stages) keep only their input and recompute everything else in the backward
    /// pass: the same weights in less memory, at the cost of another forward pass of the blocks. The last digits differ
    /// with a mask decoder, XLNet's two streams, learned distance biases next to separate projections of global tokens,
    /// LoRA, losses of intermediate layers, `head_diversity` in parallel blocks, gates per head in cross-attention,
    /// shared experts without norms, skips scaled by Admin, and RWKV-7 whose blocks share parameters. Source: Chen et
    /// al. 2016, section 4.
    #[serde(skip_serializing_if = "is_usual")]
    pub recompute: bool,
    /// Whether a GPU records the kernel launches of a step once and replays them, so that the host works only in the
    /// first four steps: the same weights. For models whose steps all have the same shape, on a GPU. Source: CUDA graphs.
    #[serde(skip_serializing_if = "is_usual")]
    pub replay: bool,
    /// Whether the processes of a run shard the optimizer's moments; the weights are the same. A single process keeps
    /// all moments. Source: Rajbhandari et al. 2020, section 5.1.
    #[serde(skip_serializing_if = "is_usual")]
    pub shard_optimizer: bool,
    /// Largest global norm of the gradient; 0 switches clipping off. Source: Pascanu et al. 2013, section 3.2.
    #[schemars(range(min = 0))]
    pub clip_norm: f64,
    /// Steps between evaluations on the validation split; only at the end when absent.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eval_every: Option<u64>,
    /// Items per evaluation batch; the size of a micro-batch when absent. With `carry_state`, the number of shares of
    /// the split that are read at once.
    #[schemars(range(min = 1, max = 1 << 24))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eval_batch_size: Option<usize>,
    /// Batches per evaluation during training, drawn at random from the split and the same for every run and seed (with
    /// `carry_state`: the first ones); the whole split when absent. The last evaluation always reads the whole split;
    /// the best one is always chosen by the loss of this part.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eval_batches: Option<usize>,
    /// Metric that the best evaluation is chosen by and that `patience` watches; the loss when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best_by: Option<String>,
    /// Steps between checkpoints; at evaluations when absent.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_every: Option<u64>,
    /// Number of latest checkpoints kept besides the best one.
    #[schemars(range(min = 1, max = 1 << 24))]
    pub keep_last: usize,
    /// Steps between lines of the journal.
    #[schemars(range(min = 1))]
    pub log_every: u64,
    /// Decay of the moving average of the weights, which evaluations then use; none when absent or 0.
    /// Source: Polyak and Juditsky 1992.
    #[schemars(extend("minimum" = 0, "exclusiveMaximum" = 1))]
    #[serde(
        deserialize_with = "off_at_zero",
        skip_serializing_if = "Option::is_none"
    )]
    pub ema: Option<f64>,
    /// Number of evaluations without improvement after which the run ends; never when absent or 0. Source: Prechelt 1998.
    #[schemars(range(min = 0))]
    #[serde(
        deserialize_with = "off_at_zero",
        skip_serializing_if = "Option::is_none"
    )]
    pub patience: Option<u64>,
    /// Reaction to a loss that is not finite or spikes.
    pub on_divergence: OnDivergence,
    /// Factor over the running mean of the loss above which a loss is a spike, from step 21 on; none when absent or 0.
    /// The mean is 0.98 times the previous mean plus 0.02 times the loss of each step taken, and begins with the first loss.
    #[schemars(range(min = 0))]
    #[serde(
        deserialize_with = "off_at_zero",
        skip_serializing_if = "Option::is_none"
    )]
    pub spike_factor: Option<f64>,
    /// Device to compute on: flex, ndarray, `wgpu[:i]`, `vulkan[:i]`, `cuda[:i]`.
    pub device: String,
    /// Number format of weights, activations and matrix products. Source: Micikevicius et al. 2018.
    pub dtype: Dtype,
    /// Whether NVIDIA's tensor cores multiply 32-bit numbers as TF32, with 11 significant bits; true when absent. If
    /// false, linear maps, attention, distance tables and the loss over a vocabulary multiply all 32 bits, as other
    /// devices always do.
    #[serde(skip_serializing_if = "is_true")]
    pub tf32: bool,
    /// Text to generate at every evaluation, written to samples.jsonl.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<SampleConfig>,
}

/// Reads a number for which 0 means none, so that a file can switch off what the file it extends switches on.
fn off_at_zero<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default + PartialEq,
{
    let number = Option::<T>::deserialize(deserializer)?;
    Ok(number.filter(|number| *number != T::default()))
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            steps: 1000,
            epochs: None,
            batch_size: 32,
            batch_tokens: None,
            micro_batch_size: None,
            carry_state: false,
            recompute: false,
            replay: false,
            shard_optimizer: false,
            clip_norm: 1.0,
            eval_every: None,
            eval_batch_size: None,
            eval_batches: None,
            best_by: None,
            checkpoint_every: None,
            keep_last: 2,
            log_every: 10,
            ema: None,
            patience: None,
            on_divergence: OnDivergence::Stop,
            spike_factor: None,
            device: "flex".into(),
            dtype: Dtype::F32,
            tf32: true,
            sample: None,
        }
    }
}

/// Reaction to a loss that is not finite or spikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnDivergence {
    /// The run ends and reports the step and the samples of its batch; the state before it is saved in a checkpoint if
    /// its weights are still finite.
    Stop,
    /// The step is skipped and logged; the run ends after 20 skipped steps in a row.
    Skip,
}

/// Number format of weights, activations and matrix products. Losses, gradient norms and the moments of AdamW, Adam and
/// Muon are always 32-bit; the loss is never scaled. `bf16` and `f16` keep no 32-bit copy of the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Dtype {
    /// 32-bit floats. NVIDIA GPUs multiply them as TF32 if that is the fastest kernel: 11 significant bits per operand.
    F32,
    /// 32-bit floats with bfloat16 operands in linear maps, attention and the vocabulary logits.
    MixedBf16,
    /// bfloat16: the range of 32-bit floats with 8 significant bits.
    Bf16,
    /// 16-bit floats: 11 significant bits, no value above 65,504; gradients below 6e-8 are lost.
    F16,
}

impl Dtype {
    /// Returns the name of the format in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::MixedBf16 => "mixed_bf16",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
        }
    }
}

/// Text that is generated at evaluations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SampleConfig {
    /// The text to continue.
    pub prompt: String,
    /// Tokens to generate.
    #[schemars(range(min = 1, max = 1 << 24))]
    pub tokens: usize,
    /// Temperature, which divides the logits; 0 takes the likeliest token.
    #[schemars(range(min = 0))]
    pub temperature: f64,
}

impl Default for SampleConfig {
    fn default() -> Self {
        Self {
            prompt: "\n".into(),
            tokens: 100,
            temperature: 0.8,
        }
    }
}

impl TrainConfig {
    /// Returns the number of items that are in memory at once.
    pub fn micro_batch_size(&self) -> usize {
        let whole = match self.batch_tokens {
            Some(tokens) => tokens,
            None => self.batch_size,
        };
        self.micro_batch_size.unwrap_or(whole)
    }

    /// Returns whether a step may be skipped because of its loss, so that the host must read the numbers of each step.
    pub fn decides_on_host(&self) -> bool {
        self.on_divergence == OnDivergence::Skip || self.spike_factor.is_some()
    }

    /// Returns the number of steps from one evaluation to the next; all steps of the run if there is no evaluation during it.
    pub fn evaluation_interval(&self) -> u64 {
        self.eval_every
            .unwrap_or(self.steps)
            .clamp(1, self.steps.max(1))
    }

    /// Recovers the metric from the value that evaluations are compared by, whose sign is flipped if higher is better.
    pub fn best_value(&self, compared: f64) -> f64 {
        match self.best_by.as_deref().is_some_and(higher_is_better) {
            true => -compared,
            false => compared,
        }
    }

    /// Returns the size of a step.
    pub fn size(&self) -> BatchSize {
        match self.batch_tokens {
            Some(tokens) => BatchSize::Tokens(tokens),
            None => BatchSize::Items(self.batch_size),
        }
    }

    /// Returns the order in which a run with this seed takes its examples.
    pub fn order(&self, seed: u64) -> Order {
        match self.carry_state {
            true => Order::lanes(self.batch_size),
            false => Order::new(seed, self.size()),
        }
    }

    /// Returns the number of items per evaluation batch.
    pub fn eval_batch_size(&self) -> usize {
        let micro = self.micro_batch_size.unwrap_or(self.batch_size);
        self.eval_batch_size.unwrap_or(micro)
    }

    /// Returns the number of equal groups into which an evaluation with carried state divides its lanes: the largest
    /// number of ranks that could share both a step and the lanes.
    pub fn eval_groups(&self) -> usize {
        let step = ranks::micro_batches(self).unwrap_or(1);
        ranks::largest_common(step, self.eval_batch_size())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_switches_off() {
        let read = |keys| toml::from_str::<TrainConfig>(keys).unwrap();
        let on = read("ema = 0.9\npatience = 3\nspike_factor = 2");
        let on = (on.ema, on.patience, on.spike_factor);
        assert_eq!(on, (Some(0.9), Some(3), Some(2.0)));
        let off = read("ema = 0\npatience = 0\nspike_factor = 0");
        let off = (off.ema, off.patience, off.spike_factor);
        assert_eq!(off, (None, None, None));
    }
}
