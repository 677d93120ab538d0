//! ELECTRA (Clark et al. 2020): BERT whose embeddings may be narrower than its blocks. The discriminator has a dense layer
//! and one score per token, the generator a masked LM head as wide as its embeddings, the classifier a dense layer with
//! GELU.

use super::{Family, HfShape, bert, text_heads};
use crate::data::Shape;
use crate::interop::HfConfig;
use crate::interop::rename::{Orientation, Table};
use crate::model::ModelConfig;
use crate::nn::feed_forward::Activation;
use crate::nn::position::PositionConfig;
use crate::nn::position::learned::LearnedConfig;
use crate::task::TaskConfig;
use crate::task::replaced_token::{GeneratorConfig, ReplacedTokenConfig};
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "electra",
    summary: "ELECTRA: discriminator, generator or classifier, with narrow embeddings",
    read,
    write,
    table,
    declined: None,
};

fn read(hf: &HfConfig) -> HfShape {
    hf.only("position_embedding_type", "absolute");
    // Keys of multiple choice, and of the script that trained the two networks.
    for key in ["summary_last_dropout", "generator_size"] {
        hf.get(key);
    }
    let context = hf.count(&["max_position_embeddings"], 512);
    let mut config = bert::sized(hf, [12, 256, 4, 1024]);
    let d_model = config.stack.d_model;
    // The class has no projection if the widths are equal.
    config.d_embedding = Some(hf.count(&["embedding_size"], 128)).filter(|e| *e != d_model);
    config.stack.position = PositionConfig::Learned(LearnedConfig {
        max_len: Some(context),
        ..LearnedConfig::default()
    });
    let of_texts = Shape::of_text(context, hf.count(&["vocab_size"], 30522));
    if hf.architecture() == Some("ElectraForPreTraining") {
        // The folder of a discriminator contains no generator.
        return HfShape {
            model: ModelConfig::Encoder(config),
            task: TaskConfig::ReplacedToken(ReplacedTokenConfig {
                generator: GeneratorConfig::none(),
                ..ReplacedTokenConfig::default()
            }),
            shape: of_texts,
        };
    }
    let mut shape = bert::shape(hf, "Electra", config, of_texts);
    if text_heads::is_sequence_task(&shape.task) {
        bert::set_pooler(&mut shape.model, Activation::Gelu);
    }
    if let (TaskConfig::MaskedLm(_), ModelConfig::Encoder(config)) = (&shape.task, &mut shape.model)
    {
        // The generator's head always has GELU.
        config.head_activation = Activation::Gelu;
    }
    shape
}

fn write(of: &HfShape) -> Option<Value> {
    let mut written = bert::write_as(of, "Electra")?;
    written["embedding_size"] = json!(of.encoder().d_embedding());
    Some(written)
}

fn table(of: &HfShape) -> Table {
    let config = of.encoder();
    let mut table = Table::new("electra.");
    bert::add_body(&mut table, "electra", config);
    let projection = "electra.embeddings_project";
    table.linear(projection, "model.projection", Orientation::OutIn);
    let whole = ["classifier.dense", "classifier.out_proj"];
    if text_heads::add(&mut table, &of.task, whole) {
        return table;
    }
    match &of.task {
        TaskConfig::ReplacedToken(_) => {
            let predictions = "discriminator_predictions";
            table.linears(predictions, "head", DISCRIMINATOR);
        }
        _ => {
            let predictions = "generator_predictions";
            let dense = format!("{predictions}.dense");
            table.linear(&dense, "head.transform", Orientation::OutIn);
            table.norm(&format!("{predictions}.LayerNorm"), "head.norm");
            bert::add_product(&mut table, "generator_lm_head", config.tie_embeddings);
            if config.tie_embeddings {
                table.ignored.push("generator_lm_head.weight");
            }
        }
    }
    table
}

const DISCRIMINATOR: &[(&str, &str)] = &[("dense", "dense"), ("dense_prediction", "product")];
