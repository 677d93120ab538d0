//! `[train]`: how long, how much at a time, and what happens on the way.

use super::metrics::higher_is_better;
use super::ranks;
use crate::data::loader::{BatchSize, Order};
use crate::one_table::{is_true, is_usual};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// The knobs of a training run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TrainConfig {
    /// Optimizer steps.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "is_usual")]
    pub steps: u64,
    /// Passes over the training data instead, 2.5 for two and a half. A run writes down the steps that they make.
    #[schemars(extend("exclusiveMinimum" = 0), range(max = 1_000_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epochs: Option<f64>,
    /// Items of an optimizer step; of an evaluation batch, when steps are measured in tokens.
    #[schemars(range(min = 1, max = 1 << 24))]
    pub batch_size: usize,
    /// Tokens of an optimizer step instead, when examples differ in length: as many examples as hold so many
    /// when all are filled up to the longest; of pairs, on the longer side. Source: Vaswani et al. 2017, section 5.1.
    #[schemars(range(min = 1, max = 1 << 24))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_tokens: Option<usize>,
    /// Items that are in memory at once; gradients are accumulated. `batch_size` when absent.
    #[schemars(range(min = 1, max = 1 << 24))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub micro_batch_size: Option<usize>,
    /// Whether row b of a step continues where row b of the step before ended, with the state that the model kept of it:
    /// the rows of a batch read as many contiguous shares of the text. For models that keep a state.
    /// Source: Dai et al. 2019, section 3.2.
    #[serde(skip_serializing_if = "is_usual")]
    pub carry_state: bool,
    /// Whether the blocks of a transformer, in stages or not, keep their input alone and compute all else anew on the way back: the same
    /// weights in less memory, for another forward pass of the blocks. Their last digits differ with a mask decoder,
    /// XLNet's two streams, learned biases by distance beside own projections of global tokens, LoRA, losses of intermediate layers, `head_diversity` in parallel blocks, gates
    /// by head in cross-attention, shared experts without norms, skips scaled by Admin, and RWKV-7 whose blocks share parameters. Source: Chen et al. 2016,
    /// section 4.
    #[serde(skip_serializing_if = "is_usual")]
    pub recompute: bool,
    /// Whether a GPU records its launches of a step once and replays them, with the host's work for the first four steps alone:
    /// the same weights. For models whose steps are of one shape, on a GPU. Source: CUDA graphs.
    #[serde(skip_serializing_if = "is_usual")]
    pub replay: bool,
    /// Whether the processes of a run divide the optimizer's moments among them; the same weights. One process keeps all.
    /// Source: Rajbhandari et al. 2020, section 5.1.
    #[serde(skip_serializing_if = "is_usual")]
    pub shard_optimizer: bool,
    /// Largest global norm of the gradient; 0 switches clipping off. Source: Pascanu et al. 2013, section 3.2.
    #[schemars(range(min = 0))]
    pub clip_norm: f64,
    /// Steps between evaluations on the validation split; at the end only when absent.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eval_every: Option<u64>,
    /// Items of an evaluation batch; those of a micro-batch when absent. Where state is carried, the shares of the split that
    /// are read at once.
    #[schemars(range(min = 1, max = 1 << 24))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eval_batch_size: Option<usize>,
    /// Batches of an evaluation on the way, drawn from the split at random and the same for every run and seed (where
    /// state is carried: the first ones); the whole split when absent. The last evaluation is always whole; the best is
    /// chosen by the loss of this part throughout.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eval_batches: Option<usize>,
    /// The metric that the best evaluation is chosen by, and that `patience` waits for; the loss when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best_by: Option<String>,
    /// Steps between checkpoints; at evaluations when absent.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_every: Option<u64>,
    /// Checkpoints kept beside the best one.
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
    /// Evaluations without improvement after which the run ends; never when absent or 0. Source: Prechelt 1998.
    #[schemars(range(min = 0))]
    #[serde(
        deserialize_with = "off_at_zero",
        skip_serializing_if = "Option::is_none"
    )]
    pub patience: Option<u64>,
    /// The reaction to a loss that is not a number, or spikes.
    pub on_divergence: OnDivergence,
    /// A loss above this many times its running mean is a spike, from step 21 on; none when absent or 0. The mean is 0.98 of the
    /// mean before and 0.02 of the loss of each step that is taken, and begins with the first loss.
    #[schemars(range(min = 0))]
    #[serde(
        deserialize_with = "off_at_zero",
        skip_serializing_if = "Option::is_none"
    )]
    pub spike_factor: Option<f64>,
    /// Where to compute: flex, ndarray, wgpu[:i], vulkan[:i], cuda[:i].
    pub device: String,
    /// Number format of weights, activations and products. Source: Micikevicius et al. 2018.
    pub dtype: Dtype,
    /// Whether NVIDIA's tensor cores multiply 32-bit numbers as TF32, of 11 significant bits; true when absent. Without it linear maps,
    /// attention, tables of distances and the loss of a vocabulary multiply all 32 bits, as other devices always do.
    #[serde(skip_serializing_if = "is_true")]
    pub tf32: bool,
    /// Text to continue at every evaluation, written to samples.jsonl.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<SampleConfig>,
}

/// A number where 0 stands for none, so that a file may switch off what the file that it extends switches on.
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

/// The reaction to a loss that is not a number, or spikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnDivergence {
    /// The run ends with the step, the samples of its batch and a checkpoint of the state before it, when its
    /// weights are still numbers.
    Stop,
    /// The step is left out and logged; the run ends after 20 of them in a row.
    Skip,
}

/// Number format of weights, activations and products. Losses, gradients' norms and the moments of AdamW, Adam and Muon are in
/// 32 bits whichever it is; no loss is scaled. `bf16` and `f16` keep no copy of the weights in 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Dtype {
    /// 32-bit floats. GPUs of NVIDIA multiply them as TF32 where that is the fastest kernel: 11 significant bits of an operand.
    F32,
    /// 32-bit floats whose products are of bfloat16: the operands of linear maps, of attention and of the vocabulary's scores.
    MixedBf16,
    /// bfloat16: the range of 32-bit floats with 8 significant bits.
    Bf16,
    /// 16-bit floats: 11 significant bits, nothing above 65,504; gradients below 6e-8 are lost.
    F16,
}

impl Dtype {
    /// The value of the key.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::MixedBf16 => "mixed_bf16",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
        }
    }
}

/// The text that is generated at evaluations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SampleConfig {
    /// The text to continue.
    pub prompt: String,
    /// Tokens to generate.
    #[schemars(range(min = 1, max = 1 << 24))]
    pub tokens: usize,
    /// Divides the logits; 0 takes the likeliest token.
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
    /// Items that are in memory at once.
    pub fn micro_batch_size(&self) -> usize {
        let whole = match self.batch_tokens {
            Some(tokens) => tokens,
            None => self.batch_size,
        };
        self.micro_batch_size.unwrap_or(whole)
    }

    /// Whether a step may be left out for its loss, so that the host reads the numbers of each.
    pub fn decides_on_host(&self) -> bool {
        self.on_divergence == OnDivergence::Skip || self.spike_factor.is_some()
    }

    /// Steps from one evaluation to the next; those of the run where none is on the way.
    pub fn round(&self) -> u64 {
        self.eval_every
            .unwrap_or(self.steps)
            .clamp(1, self.steps.max(1))
    }

    /// The metric of an evaluation from the value that evaluations are compared by: turned round where higher is better.
    pub fn best_value(&self, compared: f64) -> f64 {
        match self.best_by.as_deref().is_some_and(higher_is_better) {
            true => -compared,
            false => compared,
        }
    }

    /// How large a step is.
    pub fn size(&self) -> BatchSize {
        match self.batch_tokens {
            Some(tokens) => BatchSize::Tokens(tokens),
            None => BatchSize::Items(self.batch_size),
        }
    }

    /// The order in which a run of this seed takes its examples.
    pub fn order(&self, seed: u64) -> Order {
        match self.carry_state {
            true => Order::lanes(self.batch_size),
            false => Order::new(seed, self.size()),
        }
    }

    /// Items of an evaluation batch.
    pub fn eval_batch_size(&self) -> usize {
        let micro = self.micro_batch_size.unwrap_or(self.batch_size);
        self.eval_batch_size.unwrap_or(micro)
    }

    /// The groups of equal size into which an evaluation that carries its state divides its lanes: the most that ranks
    /// could share, as they share a step.
    pub fn eval_groups(&self) -> usize {
        let step = ranks::micro_batches(self).unwrap_or(1);
        ranks::most(step, self.eval_batch_size())
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
