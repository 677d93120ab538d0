//! Masked autoencoders (He et al. 2022): a ViT that reads the visible patches, and its decoder. Positions of both are fixed
//! sinusoids, which files hold as tensors; a file with other values is refused.

use super::vit;
use super::{Family, HfShape};
use crate::data::Shape;
use crate::interop::HfConfig;
use crate::interop::rename::Table;
use crate::model::ModelConfig;
use crate::nn::position::PositionConfig;
use crate::nn::position::sinusoidal_2d::{self, Sinusoidal2dConfig};
use crate::task::{MaskedImageConfig, TaskConfig};
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "vit_mae",
    summary: "ViT-MAE: ViT over visible patches, with a decoder for the pixels of masked patches",
    read,
    write,
    table,
    declined: None,
};

const CLASS: &str = "ViTMAEForPreTraining";

/// Longest wavelength of the positions, divided by 2π.
const BASE: f64 = 10_000.0;

fn read(hf: &HfConfig) -> HfShape {
    if let Some(class) = hf.architecture().filter(|class| *class != CLASS) {
        hf.fault(format!(
            "`architectures` = [\"{class}\"] cannot be imported; {CLASS} can, and a run that starts from it drops its decoder"
        ));
    }
    let (mut config, image) = vit::network(hf);
    let [_, height, width] = image;
    if height != width {
        hf.fault(format!(
            "`image_size` = {height} by {width} must be square: {CLASS} has positions for square images only"
        ));
    }
    for key in ["hidden_dropout_prob", "attention_probs_dropout_prob"] {
        if hf.real(key, 0.0) != 0.0 {
            hf.fault(format!(
                "`{key}` also applies to the decoder, where dropout is not supported here: set it to 0"
            ));
        }
    }
    config.stack.position = PositionConfig::Sinusoidal2d(Sinusoidal2dConfig { base: BASE });
    HfShape {
        model: ModelConfig::Vision(config),
        task: TaskConfig::MaskedImage(MaskedImageConfig {
            mask_ratio: hf.real("mask_ratio", 0.75),
            decoder_layers: hf.count(&["decoder_num_hidden_layers"], 8),
            decoder_d_model: hf.count(&["decoder_hidden_size"], 512),
            decoder_n_heads: hf.count(&["decoder_num_attention_heads"], 16),
            decoder_d_ff: hf.count(&["decoder_intermediate_size"], 2048),
            norm_pixels: hf.flag("norm_pix_loss", false),
        }),
        shape: Shape {
            image: Some(image),
            ..Shape::default()
        },
    }
}

fn write(of: &HfShape) -> Option<Value> {
    let TaskConfig::MaskedImage(task) = &of.task else {
        return None;
    };
    let mut written = vit::write_as(of, CLASS)?;
    let keys = [
        ("mask_ratio", json!(task.mask_ratio)),
        ("norm_pix_loss", json!(task.norm_pixels)),
        ("decoder_num_hidden_layers", json!(task.decoder_layers)),
        ("decoder_hidden_size", json!(task.decoder_d_model)),
        ("decoder_num_attention_heads", json!(task.decoder_n_heads)),
        ("decoder_intermediate_size", json!(task.decoder_d_ff)),
    ];
    for (key, value) in keys {
        written[key] = value;
    }
    Some(written)
}

/// ViT's table, and the decoder, whose blocks have the same names as ViT's.
fn table(of: &HfShape) -> Table {
    let mut table = vit::table(of);
    // Remove the classifier and the learned position table, which the model does not have.
    let own = |path: &String| !path.starts_with("head.") && !path.starts_with("model.position.");
    table.rules.retain(|rule| rule.ours.iter().all(own));
    let (ModelConfig::Vision(config), TaskConfig::MaskedImage(task)) = (&of.model, &of.task) else {
        unreachable!("the family reads masked autoencoders alone")
    };
    let [_, height, width] = of.shape.image.unwrap_or_default();
    let grid = config.grid(height, width);
    let tables = [
        ("vit.embeddings.position_embeddings", config.stack.d_model),
        ("decoder.decoder_pos_embed", task.decoder_d_model),
    ];
    for (name, d) in tables {
        let shape = vec![1, grid.positions(), d];
        table.constant(name.into(), shape, true, move || {
            sinusoidal_2d::table(grid, d, BASE)
        });
    }
    let mut decoder = Table::new("");
    decoder.linears(
        "decoder",
        "pixel_decoder",
        &[("decoder_embed", "projection"), ("decoder_pred", "head")],
    );
    let token = vec![1, 1, task.decoder_d_model];
    decoder.reshaped("decoder.mask_token", "pixel_decoder.mask_token", token);
    decoder.norm("decoder.decoder_norm", "pixel_decoder.stack.final_norm");
    for layer in 0..task.decoder_layers {
        vit::block(
            &mut decoder,
            &format!("decoder.decoder_layers.{layer}"),
            &format!("pixel_decoder.stack.blocks.{layer}"),
        );
    }
    decoder.aliases(&vit::BLOCK_OF_VERSION_5);
    table.rules.extend(decoder.rules);
    table
}
