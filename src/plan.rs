//! The cost of a model before it is trained: parameters by part, FLOPs by item, memory by part.
//!
//! Nothing is allocated: a model's parameters are drawn when they are first used. What a forward pass multiplies is said by
//! the layers, networks and tasks themselves (`products`): two FLOPs for each multiplication of a product, without a
//! discount for the causal mask (Chowdhery et al. 2022, PaLM, appendix B), and none for what is looked up or computed
//! element by element. A training step costs three forward passes: gradients of inputs and of weights are two products
//! for each of the forward pass.

mod count;
mod flops;
mod kept;
pub mod ranks;

use crate::data::Shape;
use crate::error::Result;
use crate::model::{ItemOf, ModelConfig, ModelInputs};
use crate::task::TaskConfig;
use crate::train::lora::LoraConfig;
use crate::train::optim::Moments;
use crate::train::parameters::name_parameters;
use burn::module::{Module, ParamGroup};
use burn::tensor::Device;
pub use count::Largest;
use count::{AUXILIARY, Count, GENERATOR, PIXEL_DECODER, PROJECTION_HEAD};
use flops::flops;
pub use flops::{FORWARDS, forward_flops, written};
use std::collections::BTreeMap;

/// The model that is planned, and how it will be trained.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The network.
    pub model: &'a ModelConfig,
    /// The task, whose heads are then counted; the network alone when absent.
    pub task: Option<&'a TaskConfig>,
    /// Vocabulary, longest input, image size.
    pub shape: &'a Shape,
    /// Items that are in memory at once.
    pub micro_batch_size: usize,
    /// The values that the optimizer keeps, in 32-bit floats.
    pub moments: Moments,
    /// The pattern of the matrices that the optimizer orthogonalises, where it updates them otherwise than the rest.
    pub matrices: Option<&'a str>,
    /// The longest dimension that the optimizer has a preconditioner of, where it has some.
    pub max_precond_dim: Option<usize>,
    /// Whether averaged weights are kept.
    pub ema: bool,
    /// Bytes of a weight, gradient or activation.
    pub value_bytes: usize,
    /// The adapters that are trained in place of the weights.
    pub lora: Option<&'a LoraConfig>,
    /// Patterns of parameters that are frozen.
    pub freeze: &'a [String],
    /// Whether blocks keep their input alone and compute all else anew.
    pub recompute: bool,
}

impl<'a> Question<'a> {
    /// A network by itself, one item at a time, in float32 under an optimizer that keeps two values of each parameter.
    pub fn of(model: &'a ModelConfig, shape: &'a Shape) -> Self {
        Self {
            model,
            task: None,
            shape,
            micro_batch_size: 1,
            moments: Moments {
                matrices: 2,
                others: 2,
            },
            matrices: None,
            max_precond_dim: None,
            ema: false,
            value_bytes: 4,
            lora: None,
            freeze: &[],
            recompute: false,
        }
    }
}

/// The cost of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelCost {
    /// Parameters in all.
    pub params: usize,
    /// Those that stay when the model is used: fewer than all where training has heads of its own.
    pub kept: usize,
    /// Parameters that learn: fewer than all with adapters, or where some are frozen.
    pub trained: usize,
    /// Parameters that a token uses: fewer than all where a router chooses some of many experts.
    pub active: usize,
    /// Parameters by part.
    pub parts: BTreeMap<&'static str, usize>,
    /// FLOPs of a training step for each item.
    pub flops_per_item: f64,
    /// The unit of an item: `token`, `image` or `recording`.
    pub item: &'static str,
    /// Bytes by part; activations are an estimate.
    pub memory_bytes: BTreeMap<&'static str, u64>,
    /// Bytes of the values of a checkpoint: weights, their average, the optimizer's moments of what learns.
    pub checkpoint_bytes: u64,
    /// The largest parameters that learn.
    pub largest: Largest,
}

impl ModelCost {
    /// Bytes in all.
    pub fn memory(&self) -> u64 {
        let parts = self.memory_bytes.values();
        parts.fold(0, |sum, part| sum.saturating_add(*part))
    }
}

/// Plans a model on `device`, which is not used.
///
/// # Errors
/// A model that cannot learn the task.
pub fn plan(question: &Question, device: &Device) -> Result<ModelCost> {
    let inputs = ModelInputs {
        shape: question.shape,
        seed: 0,
        device,
    };
    let mut count = Count::default();
    // One that is no regular expression is refused where optimizers are built.
    let pattern = question.matrices;
    count.matrices = pattern.and_then(|pattern| ParamGroup::from_regex(pattern).ok());
    let frozen = question.freeze.iter();
    count.frozen = frozen
        .filter_map(|pattern| ParamGroup::from_regex(pattern.as_str()).ok())
        .collect();
    count.max_precond_dim = question.max_precond_dim.unwrap_or(0);
    match (question.task, question.lora) {
        (Some(task), Some(lora)) => {
            let objective = name_parameters(task.init(question.model, &inputs, false)?);
            count.in_full = Some(lora);
            lora.attached(objective, 0)?.visit(&mut count);
        }
        (Some(task), None) => task.init(question.model, &inputs, false)?.visit(&mut count),
        (None, _) => question.model.visit(&inputs, &mut count),
    }
    let beside = question
        .task
        .and_then(|task| task.facts().beside(question.model));
    let parts = count.parts.values();
    let params = parts.fold(0, |sum: usize, part| sum.saturating_add(*part));
    let weights = params as u128 * question.value_bytes as u128;
    let Moments { matrices, others } = question.moments;
    let (trained, inner) = (count.trained, count.orthogonal as u128);
    let moments = inner * matrices as u128 + (trained as u128 - inner) * others as u128;
    let moments = moments + count.preconditioners as u128;
    let mut memory_bytes = BTreeMap::from([
        ("parameters", bytes(weights)),
        (
            "gradients",
            bytes(trained as u128 * question.value_bytes as u128),
        ),
        ("optimizer", bytes(4 * moments)),
        ("activations", bytes(activations(question, beside.as_ref()))),
    ]);
    if question.ema {
        memory_bytes.insert("average", bytes(weights));
    }
    let averages = u128::from(question.ema);
    Ok(ModelCost {
        params,
        kept: [AUXILIARY, GENERATOR, PIXEL_DECODER, PROJECTION_HEAD]
            .into_iter()
            .fold(params, |kept, part| {
                kept - count.parts.get(part).copied().unwrap_or(0)
            }),
        trained,
        active: params
            .saturating_sub(question.model.unused())
            .saturating_sub(beside.map_or(0, |beside| beside.unused())),
        flops_per_item: flops(question),
        checkpoint_bytes: bytes(weights * (1 + averages) + 4 * moments),
        largest: count.largest,
        parts: count.parts,
        item: match question.model.item() {
            ItemOf::Token | ItemOf::Pair => "token",
            ItemOf::Image => "image",
            ItemOf::Recording => "recording",
        },
        memory_bytes,
    })
}

/// Bytes that a step keeps of its networks.
fn activations(question: &Question, beside: Option<&ModelConfig>) -> u128 {
    let networks = question.model.networks().into_iter();
    let own = networks.map(|model| kept::activations(&Question { model, ..*question }));
    let own = own.fold(0, u128::saturating_add);
    let other = beside.map_or(0, |model| kept::beside(question, model));
    let values = question.micro_batch_size as u128 * question.value_bytes as u128;
    let facts = question.model.facts();
    let between = facts.kept_between(question.shape, question.recompute);
    let once = facts.kept_once(question.shape, question.recompute);
    own.saturating_add(other)
        .saturating_add(between.saturating_mul(values))
        .saturating_add(once.saturating_mul(question.value_bytes as u128))
}

/// Sizes beyond every memory are all alike.
fn bytes(bytes: u128) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{DecoderConfig, EncoderDecoderConfig};
    use crate::task::{SpanCorruptionConfig, TranslationConfig};
    use crate::train::optim::muon::MATRICES;

    static TRANSLATION: TaskConfig = TaskConfig::Translation(TranslationConfig {
        label_smoothing: 0.0,
        bidirectional_source: false,
        global_tokens: None,
    });

    static SPANS: TaskConfig = TaskConfig::SpanCorruption(SpanCorruptionConfig {
        share: 0.15,
        mean_span: 3.0,
        bidirectional_source: false,
    });

    fn planned(config: DecoderConfig, context: usize, change: impl Fn(&mut Question)) -> ModelCost {
        planned_model(&ModelConfig::Decoder(config), context, change)
    }

    fn planned_model(
        model: &ModelConfig,
        context: usize,
        change: impl Fn(&mut Question),
    ) -> ModelCost {
        let shape = Shape::of_text(context, 100);
        let mut question = Question {
            micro_batch_size: 2,
            ..Question::of(model, &shape)
        };
        change(&mut question);
        plan(&question, &Device::default()).unwrap()
    }

    #[test]
    fn memory_counts_what_is_kept() {
        let adam = planned(DecoderConfig::default(), 64, |_| {});
        let weights = 4 * adam.params as u64;
        assert_eq!(adam.memory_bytes["optimizer"], 2 * weights);
        assert!(!adam.memory_bytes.contains_key("average"));
        let half = planned(DecoderConfig::default(), 64, |q| {
            (q.ema, q.value_bytes) = (true, 2);
        });
        assert_eq!(half.memory_bytes["average"], weights / 2);
        assert_eq!(half.memory_bytes["parameters"], weights / 2);
        assert_eq!(half.memory_bytes["optimizer"], 2 * weights);
        let muon = planned(DecoderConfig::default(), 64, |q| {
            (q.moments.matrices, q.matrices) = (1, Some(MATRICES));
        });
        let blocks = 4 * (12 * 128 * 128 * 4) as u64;
        assert_eq!(muon.memory_bytes["optimizer"], 2 * weights - blocks);
    }

    #[test]
    fn a_decoder_reads_both_sides_of_a_pair() {
        let pairs = planned(DecoderConfig::default(), 64, |q| {
            q.task = Some(&TRANSLATION);
        });
        let one = planned(DecoderConfig::default(), 128, |_| {});
        assert_eq!(pairs.params, one.params);
        // Half of the row is scored against the 100 tokens of the vocabulary.
        let unscored = 6.0 * (100 * 128 / 2) as f64;
        assert_eq!(one.flops_per_item - pairs.flops_per_item, unscored);
    }

    /// Of the products of both stacks a token takes half: it goes through one of them.
    #[test]
    fn an_encoder_decoder_reads_one_side_in_each_stack() {
        let model = ModelConfig::EncoderDecoder(EncoderDecoderConfig::default());
        let pairs = |context| planned_model(&model, context, |q| q.task = Some(&TRANSLATION));
        let (short, long) = (pairs(64), pairs(128));
        // Four layers that read, four that write, four that look from one to the other.
        let products = 12.0 * (12 * 128 * 64) as f64;
        assert_eq!(long.flops_per_item - short.flops_per_item, products / 2.0);
        let sides = |task| written(task, 64);
        assert_eq!((sides(None), sides(Some(&TRANSLATION))), (None, Some(64)));
    }

    /// Of 70 tokens 10 are written, with 3 sentinels and an end mark.
    #[test]
    fn a_target_may_be_shorter_than_its_source() {
        let config = EncoderDecoderConfig::default();
        let model = ModelConfig::EncoderDecoder(config.clone());
        let spans = planned_model(&model, 64, |q| q.task = Some(&SPANS));
        assert_eq!(written(Some(&SPANS), 64), Some(14));
        let products = config.pair_products(100, [64, 14]) as f64;
        assert_eq!(spans.flops_per_item, 6.0 * products / 78.0);
        let decoder = DecoderConfig::default();
        let row = decoder.row_products(100, 78, 14) as f64;
        let spans = planned(decoder, 64, |q| q.task = Some(&SPANS));
        assert_eq!(spans.flops_per_item, 6.0 * row / 78.0);
    }

    #[test]
    fn absurd_sizes_do_not_wrap() {
        let mut config = DecoderConfig::default();
        (config.n_layers, config.stack.d_model) = (Some(2), 1 << 24);
        let vast = planned(config, 1 << 40, |q| q.micro_batch_size = 1 << 40);
        assert_eq!(
            [vast.memory_bytes["activations"], vast.memory()],
            [u64::MAX; 2]
        );
        assert!(vast.params > 1 << 50 && vast.flops_per_item > 1e15);
    }
}
