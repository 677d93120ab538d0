//! The cost of a model before training: parameters by part, FLOPs per item, memory by part.
//!
//! Nothing is allocated: a model's parameters are drawn at their first use. Layers, networks and tasks report the multiplications
//! of a forward pass themselves (`products`). Each counts as two FLOPs, without a discount for the causal mask (Chowdhery et al.
//! 2022, PaLM, appendix B); lookups and element-wise operations are not counted. A training step costs three forward passes: the
//! gradients of inputs and of weights take two products for each product of the forward pass.

mod activations;
mod count;
mod flops;
pub mod ranks;

use crate::data::Shape;
use crate::error::Result;
use crate::model::{BuildContext, ModelConfig, ThroughputUnit};
use crate::task::TaskConfig;
use crate::train::lora::LoraConfig;
use crate::train::optim::Moments;
use crate::train::parameters::name_parameters;
use burn::module::{Module, ParamGroup};
use burn::tensor::Device;
pub use count::Largest;
use count::{AUXILIARY, Count, GENERATOR, PIXEL_DECODER, PROJECTION_HEAD};
use flops::flops;
pub use flops::{FORWARDS, forward_flops, generated_length};
use std::collections::BTreeMap;

/// The model to plan, and how it will be trained.
#[derive(Clone, Copy, Debug)]
pub struct PlanRequest<'a> {
    /// The network.
    pub model: &'a ModelConfig,
    /// The task, whose heads are counted too; only the network is planned when absent.
    pub task: Option<&'a TaskConfig>,
    /// Vocabulary size, longest input, image size.
    pub shape: &'a Shape,
    /// Number of items that are in memory at once.
    pub micro_batch_size: usize,
    /// Number of float32 values that the optimizer keeps for each parameter.
    pub moments: Moments,
    /// The pattern of the matrices that the optimizer orthogonalises, if it updates these differently from the rest.
    pub matrices: Option<&'a str>,
    /// The maximum length of a dimension for which the optimizer keeps a preconditioner, if it keeps some.
    pub max_precond_dim: Option<usize>,
    /// Whether averaged weights are kept (EMA).
    pub ema: bool,
    /// Bytes per weight, gradient or activation.
    pub value_bytes: usize,
    /// The adapters that are trained instead of the weights.
    pub lora: Option<&'a LoraConfig>,
    /// Patterns of parameters that are frozen.
    pub freeze: &'a [String],
    /// Whether blocks keep only their input and recompute the rest.
    pub recompute: bool,
}

impl<'a> PlanRequest<'a> {
    /// Asks for a network by itself, one item at a time, in float32, with an optimizer that keeps two values for each parameter.
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
    /// Number of all parameters.
    pub params: usize,
    /// Number of parameters that remain when the model is used, without heads that only training has.
    pub kept: usize,
    /// Number of trainable parameters: fewer than all with adapters, or if some are frozen.
    pub trained: usize,
    /// Number of parameters that a single token uses: fewer than all if a router chooses among experts.
    pub active: usize,
    /// Number of parameters in each part.
    pub parts: BTreeMap<&'static str, usize>,
    /// FLOPs of a training step per item.
    pub flops_per_item: f64,
    /// The unit of an item: `token`, `image` or `recording`.
    pub item: &'static str,
    /// Bytes of memory of each part; activations are an estimate.
    pub memory_bytes: BTreeMap<&'static str, u64>,
    /// Bytes of a checkpoint's values: weights, their average, and the optimizer's moments of trainable parameters.
    pub checkpoint_bytes: u64,
    /// Sizes of the largest trainable parameters.
    pub largest: Largest,
}

impl ModelCost {
    /// Bytes of memory in total.
    pub fn memory(&self) -> u64 {
        let parts = self.memory_bytes.values();
        parts.fold(0, |sum, part| sum.saturating_add(*part))
    }
}

/// Plans a model; `device` is not used.
///
/// # Errors
/// If the model cannot learn the task.
pub fn plan(question: &PlanRequest, device: &Device) -> Result<ModelCost> {
    let inputs = BuildContext {
        shape: question.shape,
        seed: 0,
        device,
    };
    let mut count = Count::default();
    // A pattern that is no regular expression is refused where optimizers are built.
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
            count.lora = Some(lora);
            lora.attach(objective, 0)?.visit(&mut count);
        }
        (Some(task), None) => task.init(question.model, &inputs, false)?.visit(&mut count),
        (None, _) => question.model.visit(&inputs, &mut count),
    }
    let beside = question
        .task
        .and_then(|task| task.facts().companion_model(question.model));
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
            .saturating_sub(question.model.inactive_parameters())
            .saturating_sub(beside.map_or(0, |beside| beside.inactive_parameters())),
        flops_per_item: flops(question),
        checkpoint_bytes: bytes(weights * (1 + averages) + 4 * moments),
        largest: count.largest,
        parts: count.parts,
        item: match question.model.throughput_unit() {
            ThroughputUnit::Token | ThroughputUnit::Pair => "token",
            ThroughputUnit::Image => "image",
            ThroughputUnit::Recording => "recording",
        },
        memory_bytes,
    })
}

/// Bytes of activations that a training step keeps for all networks.
fn activations(question: &PlanRequest, beside: Option<&ModelConfig>) -> u128 {
    let networks = question.model.networks().into_iter();
    let own = networks.map(|model| activations::activations(&PlanRequest { model, ..*question }));
    let own = own.fold(0, u128::saturating_add);
    let other = beside.map_or(0, |model| {
        activations::companion_activations(question, model)
    });
    let values = question.micro_batch_size as u128 * question.value_bytes as u128;
    let facts = question.model.facts();
    let between = facts.activations_between(question.shape, question.recompute);
    let once = facts.activations_per_pass(question.shape, question.recompute);
    own.saturating_add(other)
        .saturating_add(between.saturating_mul(values))
        .saturating_add(once.saturating_mul(question.value_bytes as u128))
}

/// Converts a number of bytes; sizes that exceed 64 bits become the maximum.
fn bytes(bytes: u128) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{DecoderConfig, EncoderDecoderConfig};
    use crate::task::{SpanCorruptionConfig, TranslationConfig};
    use crate::train::optim::muon::DEFAULT_MATRICES;

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

    fn planned(
        config: DecoderConfig,
        context: usize,
        change: impl Fn(&mut PlanRequest),
    ) -> ModelCost {
        planned_model(&ModelConfig::Decoder(config), context, change)
    }

    fn planned_model(
        model: &ModelConfig,
        context: usize,
        change: impl Fn(&mut PlanRequest),
    ) -> ModelCost {
        let shape = Shape::of_text(context, 100);
        let mut question = PlanRequest {
            micro_batch_size: 2,
            ..PlanRequest::of(model, &shape)
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
            (q.moments.matrices, q.matrices) = (1, Some(DEFAULT_MATRICES));
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
        // Logits of the 100 vocabulary entries are computed for half of the row only.
        let unscored = 6.0 * (100 * 128 / 2) as f64;
        assert_eq!(one.flops_per_item - pairs.flops_per_item, unscored);
    }

    /// A token costs half of the products of both stacks, because it goes through one of them.
    #[test]
    fn an_encoder_decoder_reads_one_side_in_each_stack() {
        let model = ModelConfig::EncoderDecoder(EncoderDecoderConfig::default());
        let pairs = |context| planned_model(&model, context, |q| q.task = Some(&TRANSLATION));
        let (short, long) = (pairs(64), pairs(128));
        // Four encoder layers, four decoder layers, four cross-attentions.
        let products = 12.0 * (12 * 128 * 64) as f64;
        assert_eq!(long.flops_per_item - short.flops_per_item, products / 2.0);
        let sides = |task| generated_length(task, 64);
        assert_eq!((sides(None), sides(Some(&TRANSLATION))), (None, Some(64)));
    }

    /// Of 70 tokens, 10 are target tokens, plus 3 sentinels and an end token.
    #[test]
    fn a_target_may_be_shorter_than_its_source() {
        let config = EncoderDecoderConfig::default();
        let model = ModelConfig::EncoderDecoder(config.clone());
        let spans = planned_model(&model, 64, |q| q.task = Some(&SPANS));
        assert_eq!(generated_length(Some(&SPANS), 64), Some(14));
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
