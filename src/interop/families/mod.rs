//! The architectures whose HF folders can be imported, one file each.

pub mod albert;
mod all;
pub mod bart;
pub mod beit;
pub mod bert;
pub mod big_bird;
pub mod bit;
pub mod bloom;
pub mod clip;
pub mod deberta;
pub mod deberta_v2;
pub(in crate::interop) mod declined;
pub(in crate::interop) mod decoder_heads;
mod deepseek;
pub mod deepseek_v2;
pub mod deepseek_v3;
pub mod deit;
pub mod diffllama;
pub mod dinov2;
pub mod dinov2_with_registers;
pub mod dinov3_vit;
mod disentangled;
pub mod distilbert;
pub mod electra;
pub mod falcon;
pub mod fnet;
pub mod gemma;
pub mod gemma2;
pub mod gemma3;
pub mod gpt2;
pub mod gpt_neo;
pub mod gpt_neox;
pub mod gpt_oss;
pub mod gptj;
pub mod hubert;
pub mod idefics;
pub(in crate::interop) mod image_heads;
mod layer_types;
pub mod led;
pub mod llama;
pub mod longformer;
pub mod m2m_100;
pub mod mamba;
pub mod mamba2;
pub mod marian;
pub mod mbart;
pub mod mistral;
pub mod mixtral;
pub mod modernbert;
pub mod mpt;
pub mod olmo;
pub mod olmo2;
pub mod olmoe;
pub mod openai_gpt;
pub mod opt;
pub mod pegasus;
pub mod phi;
pub mod phi3;
pub mod qwen2;
pub mod qwen3;
pub mod qwen3_next;
pub mod reformer;
pub mod resnet;
pub mod roberta;
pub mod roformer;
pub mod rwkv;
pub mod siglip;
pub mod smollm3;
pub mod stablelm;
mod stack_summary;
pub mod starcoder2;
pub mod swin;
pub mod swinv2;
pub mod t5;
mod t5_stack;
mod text_heads;
pub mod vit;
pub mod vit_mae;
pub mod wav2vec2;
mod wav2vec2_heads;
mod wav2vec2_names;
pub mod whisper;
mod windows;
pub mod xlm_roberta;
pub mod xlnet;

use super::hf_config::HfConfig;
use super::image_processor::ImageProcessor;
use super::rename::{Fused, Table};
use crate::data::Shape;
use crate::model::{DecoderConfig, EncoderConfig, EncoderDecoderConfig, ModelConfig};
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::multi_head::MultiHeadConfig;
use crate::nn::norm::{LayerNormConfig, NormConfig, RmsNormConfig};
use crate::stack::BlockConfig;
use crate::task::{CausalLmConfig, TaskConfig};
pub use all::{FAMILIES, REFUSED};
use declined::Declined;
use serde_json::{Value, json};

/// The contents of a config.json: a network, the task that it was trained for, and the shape of its inputs.
#[derive(Clone, Debug, PartialEq)]
pub struct HfShape {
    /// The network in our configs.
    pub model: ModelConfig,
    /// The objective, which determines the heads.
    pub task: TaskConfig,
    /// Vocabulary, context length, images, classes.
    pub shape: Shape,
}

impl HfShape {
    /// Applies the settings of an image processor, and their size if the network reads images of any size. If the network reads
    /// a different size, images are fitted to it in proportion, and the settings' size is returned.
    pub fn apply_processor(&mut self, processor: &ImageProcessor) -> Option<[usize; 2]> {
        if let (ModelConfig::Resnet(_), Some(image), Some([height, width])) =
            (&self.model, &mut self.shape.image, processor.size)
        {
            *image = [image[0], height, width];
        }
        processor.apply(&mut self.shape);
        let [_, height, width] = self.shape.image?;
        let other = processor.size.filter(|size| *size != [height, width])?;
        let fit = self.shape.fit;
        self.shape.fit = fit.map(|fit| fit.scaled_to(other, [height, width]));
        Some(other)
    }

    /// A decoder trained on next-token prediction.
    fn language_model(config: DecoderConfig, vocab_size: usize, context: usize) -> Self {
        Self {
            model: ModelConfig::Decoder(config),
            task: TaskConfig::CausalLm(CausalLmConfig::default()),
            shape: Shape::of_text(context, vocab_size),
        }
    }

    /// The network, if it is a decoder.
    fn decoder_if_any(&self) -> Option<&DecoderConfig> {
        match &self.model {
            ModelConfig::Decoder(config) => Some(config),
            _ => None,
        }
    }

    /// The network and its first block, if it is a decoder whose blocks are equal and have a mixer.
    fn mixing_decoder_if_any(&self) -> Option<(&DecoderConfig, BlockConfig<'_>)> {
        let config = self.decoder_if_any()?;
        let depth = config.depth();
        let mut blocks = config.stack.blocks(&depth);
        let first = blocks.next()?;
        let alike = first.mixer.is_some() && blocks.all(|block| block == first);
        alike.then_some((config, first))
    }

    /// The network, if it is an encoder.
    fn encoder_if_any(&self) -> Option<&EncoderConfig> {
        match &self.model {
            ModelConfig::Encoder(config) => Some(config),
            _ => None,
        }
    }

    /// The network of a family that only has decoders.
    fn decoder(&self) -> &DecoderConfig {
        match &self.model {
            ModelConfig::Decoder(config) => config,
            _ => unreachable!("the family reads decoders alone"),
        }
    }

    /// The network of a family that only has encoders.
    fn encoder(&self) -> &EncoderConfig {
        match &self.model {
            ModelConfig::Encoder(config) => config,
            _ => unreachable!("the family reads encoders alone"),
        }
    }

    /// The network of a family that only has encoder-decoders.
    fn encoder_decoder(&self) -> &EncoderDecoderConfig {
        match &self.model {
            ModelConfig::EncoderDecoder(config) => config,
            _ => unreachable!("the family reads encoder-decoders alone"),
        }
    }
}

/// One architecture of HF.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// The value of `model_type` in config.json.
    pub model_type: &'static str,
    /// A one-line description.
    pub summary: &'static str,
    /// Reads our configs from a config.json; unsupported options become faults of the argument.
    pub read: fn(&HfConfig) -> HfShape,
    /// Makes a config.json of this shape; `None` if the family has no such network or task. It need not check everything:
    /// the result is read back and compared.
    pub write: fn(&HfShape) -> Option<Value>,
    /// The table between HF's names and our paths of the parameters of a model of this shape, paths starting at its task.
    pub table: fn(&HfShape) -> Table,
    /// The differences for which `write` declines a model of the family's kind, for a message; `None` if it declines none, or
    /// gives no reason.
    pub declined: Option<fn(&HfShape) -> Declined>,
}

/// Endings of the names of a pooler in the weights of a body, which text embeddings do not use.
const POOLERS: [&str; 4] = [
    "pooler.dense.weight",
    "pooler.dense.bias",
    "pooler.weight",
    "pooler.bias",
];

impl Family {
    /// Reads our configs from a config.json, including heads of classes that several families share.
    pub fn shape(&self, hf: &HfConfig) -> HfShape {
        let mut of = (self.read)(hf);
        decoder_heads::apply_head(hf, self, &mut of);
        of
    }

    /// Makes a config.json of this shape; `None` if the family has no such network or task.
    pub fn config_json(&self, of: &HfShape) -> Option<Value> {
        let written = decoder_heads::write(self, of)?;
        match image_heads::is_body(&of.task) {
            true => image_heads::without_classifier(written),
            false => Some(written),
        }
    }

    /// The table between HF's names and our paths of the parameters of a model of this shape.
    pub fn rules(&self, of: &HfShape) -> Table {
        let mut table = decoder_heads::table(self, of);
        if text_heads::is_body(&of.task) {
            table.ignored.extend(POOLERS);
        }
        table
    }

    /// The table for an exported folder of this shape: names in the folder of a body lack the body's prefix.
    pub fn exported_names(&self, of: &HfShape) -> Table {
        let table = self.rules(of);
        match text_heads::is_body(&of.task) || image_heads::is_body(&of.task) {
            true => table.unprefixed(),
            false => table,
        }
    }
}

/// Adds the class names as `id2label` and `label2id`.
fn add_classes(config: &mut Value, classes: &[String]) {
    let entries = || classes.iter().enumerate();
    let names = entries().map(|(id, name)| (id.to_string(), json!(name)));
    let ids = entries().map(|(id, name)| (name.clone(), json!(id)));
    config["id2label"] = Value::Object(names.collect());
    config["label2id"] = Value::Object(ids.collect());
}

/// Our paths of the parts of a block.
struct BlockPaths {
    attention: String,
    /// The norm of attention, or of both layers if they are parallel.
    attention_norm: String,
    feed_forward: String,
    feed_forward_norm: String,
    parallel_norm: String,
}

/// The paths of block `layer`.
fn block(layer: usize) -> BlockPaths {
    let block = format!("stack.blocks.{layer}");
    BlockPaths {
        attention: format!("{block}.attention"),
        attention_norm: format!("{block}.attention_residual.norm"),
        feed_forward: format!("{block}.feed_forward"),
        feed_forward_norm: format!("{block}.feed_forward_residual.norm"),
        parallel_norm: format!("{block}.parallel_norm"),
    }
}

/// Layer norm with a bias.
fn layer_norm(eps: f64) -> NormConfig {
    NormConfig::Layer(LayerNormConfig {
        eps,
        ..LayerNormConfig::default()
    })
}

/// RMS norm.
fn rms_norm(eps: f64) -> NormConfig {
    NormConfig::rms_of(eps)
}

/// RMS norm with a scale of 1 + γ, learned around 0.
fn zero_centered(eps: f64) -> NormConfig {
    NormConfig::Rms(RmsNormConfig {
        eps,
        zero_centered: true,
        ..RmsNormConfig::default()
    })
}

/// The settings of multi-head attention, to change.
fn multi_head_mut(config: &mut DecoderConfig) -> &mut MultiHeadConfig {
    match &mut config.stack.attention {
        AttentionConfig::MultiHead(heads) => heads,
        _ => unreachable!("the family it builds on has multi-head attention"),
    }
}

/// The settings of multi-head attention.
fn multi_head(config: &DecoderConfig) -> MultiHeadConfig {
    config.stack.attention.heads()
}

/// A fused matrix with all queries, then all keys, then all values.
fn fused_in_thirds(config: &DecoderConfig) -> Fused {
    let attention = multi_head(config);
    Fused {
        groups: 1,
        query: attention.n_heads,
        key_value: attention.n_kv_heads(),
        d_head: attention.d_head(config.stack.d_model),
    }
}

/// A fused matrix with, for each key-value head, its query heads, its key and its value.
fn fused_by_group(config: &DecoderConfig) -> Fused {
    let attention = multi_head(config);
    let groups = attention.n_kv_heads();
    Fused {
        groups,
        query: attention.n_heads / groups.max(1),
        key_value: 1,
        d_head: attention.d_head(config.stack.d_model),
    }
}
