//! What a model costs before it is trained: parameters by part, FLOPs by item, memory by part.
//!
//! Nothing is allocated: a model's parameters are drawn when they are first used. A training step costs
//! 6 FLOPs for each weight that multiplies an item (two for the forward product, four for the backward ones)
//! and 12·layers·heads·d_head·context for the attention products, without a discount for the causal mask
//! (Chowdhery et al. 2022, PaLM, appendix B).

use crate::model::{DecoderConfig, ModelConfig, ModelInputs};
use crate::nn::attention::AttentionConfig;
use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Tensor};
use std::collections::BTreeMap;

/// What is planned.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The network.
    pub model: &'a ModelConfig,
    /// Tokens of the vocabulary.
    pub vocab_size: usize,
    /// Length of an input.
    pub context: usize,
    /// Items that are in memory at once.
    pub micro_batch_size: usize,
    /// Values that the optimizer keeps for each parameter (Adam: 2).
    pub optimizer_values: usize,
}

/// The cost of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Parameters in all.
    pub params: usize,
    /// Parameters by part.
    pub parts: BTreeMap<&'static str, usize>,
    /// FLOPs of a training step for each token.
    pub flops_per_item: f64,
    /// Bytes by part, in 32-bit floats; activations are an estimate.
    pub memory_bytes: BTreeMap<&'static str, u64>,
}

impl Plan {
    /// Bytes in all.
    pub fn memory(&self) -> u64 {
        self.memory_bytes.values().sum()
    }
}

/// Plans a model on `device`, which is not used.
pub fn plan(question: &Question, device: &Device) -> Plan {
    let inputs = ModelInputs {
        vocab_size: question.vocab_size,
        context: question.context,
        seed: 0,
        device,
    };
    let ModelConfig::Decoder(config) = question.model;
    let model = config.init(&inputs);
    let mut count = Count::default();
    model.visit(&mut count);
    let params: usize = count.parts.values().sum();
    let head = if config.tie_embeddings {
        question.vocab_size * config.d_model
    } else {
        0
    };
    let AttentionConfig::MultiHead(attention) = &config.attention;
    let width = attention.n_heads * attention.d_head(config.d_model);
    let products = (config.n_layers * width * question.context) as f64;
    let bytes = |values: usize| 4 * values as u64;
    let memory_bytes = BTreeMap::from([
        ("parameters", bytes(params)),
        ("gradients", bytes(params)),
        ("optimizer", bytes(params * question.optimizer_values)),
        ("activations", bytes(activations(config, question))),
    ]);
    Plan {
        params,
        parts: count.parts,
        flops_per_item: 6.0 * (count.matrices + head) as f64 + 12.0 * products,
        memory_bytes,
    }
}

/// Values kept for the backward pass: in each layer the inputs of its products and of its norms; at the end
/// the logits and their gradient.
fn activations(config: &DecoderConfig, question: &Question) -> usize {
    let tokens = question.micro_batch_size * question.context;
    let AttentionConfig::MultiHead(attention) = &config.attention;
    let d_head = attention.d_head(config.d_model);
    let heads = 2 * attention.n_heads + 2 * attention.n_kv_heads();
    let inner = 2 * config.feed_forward.d_ff(config.d_model);
    let layer = 6 * config.d_model + heads * d_head + inner;
    tokens * (config.n_layers * layer + 2 * config.d_model + 2 * question.vocab_size)
}

/// Parameters by part, and those in matrices that multiply every item.
#[derive(Default)]
struct Count {
    path: Vec<String>,
    parts: BTreeMap<&'static str, usize>,
    matrices: usize,
}

impl Count {
    fn part(&self) -> &'static str {
        let has = |name: &str| self.path.iter().any(|p| p == name);
        if has("position") {
            "position"
        } else if self.path.iter().any(|p| p.contains("norm")) {
            "norm"
        } else if has("embedding") {
            "embedding"
        } else if has("attention") {
            "attention"
        } else if has("feed_forward") {
            "feed_forward"
        } else {
            "head"
        }
    }
}

impl ModuleVisitor for Count {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let values = param.lazy_shape().num_elements();
        let part = self.part();
        *self.parts.entry(part).or_default() += values;
        let looked_up = part == "embedding" || part == "position";
        if D == 2 && !looked_up {
            self.matrices += values;
        }
    }

    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }
}
