//! The network and its decoder with the training objective.

use super::MaskedImageConfig;
use crate::data::batch::{Batch, ImageBatch};
use crate::error::{Error, Result};
use crate::faults::{self, Faults};
use crate::kernel::{self, replay};
use crate::model::pixel_decoder::PixelDecoder;
use crate::model::vision::Masks;
use crate::model::{BuildContext, Vision, VisionConfig};
use crate::nn::pass::Pass;
use crate::stack::state::ModelState;
use crate::task::image_classification::pixels;
use crate::task::{Networks, Scored, Task, host};
use burn::module::Module;
use burn::tensor::{Device, FloatDType, Tensor, TensorData};

/// Added to the variance of a patch (He et al. 2022, released code).
const EPS: f64 = 1e-6;

/// A vision transformer that reads visible patches, and the decoder that predicts the pixels of the masked ones.
#[derive(Module, Debug)]
pub struct MaskedImage {
    /// The network.
    pub model: Vision,
    /// Decoder from the network's hidden states to pixels; dropped when the network is used.
    pub pixel_decoder: PixelDecoder,
    /// Number of patches of an image.
    patches: usize,
    /// Number of visible patches of an image.
    visible: usize,
    /// Side of a patch in pixels.
    size: usize,
    norm_pixels: bool,
    seed: u64,
}

impl MaskedImage {
    /// Builds the network and the decoder.
    ///
    /// # Errors
    /// If the data has no images, if the model cannot read patches without their neighbours, or if images cannot be cut
    /// into its patches or would have no visible or no masked patch.
    pub fn new(
        model: &VisionConfig,
        config: &MaskedImageConfig,
        inputs: &BuildContext,
    ) -> Result<Self> {
        let image = inputs.shape.image.ok_or_else(|| {
            Error::usage("[task] masked_image needs images; the data has no images")
        })?;
        let [_, height, width] = image;
        if let Some((table, misfit)) = model.misfit(height, width) {
            return Err(Error::usage(format!("[model.{table}] {misfit}")));
        }
        let mut found = Faults::default();
        model.masking_faults(config.hidden(), Some(image), &mut found.of("model"));
        if let Some((keys, rule)) = found.found.first() {
            let key = keys.first().and_then(|key| key.rsplit_once('.'));
            let table = key.map_or("model", |(table, _)| table);
            return Err(Error::usage(faults::prefix_with_table(table, rule)));
        }
        let decoder = config.decoder().init(model, image, inputs);
        let (Some(pixel_decoder), Some(size)) = (decoder, model.stem.patch_size()) else {
            unreachable!("a stem without patches is refused above")
        };
        let [rows, cols] = model.stem.grid(height, width);
        Ok(Self {
            model: model.init(image, inputs),
            pixel_decoder,
            patches: rows * cols,
            visible: config.hidden().visible(rows * cols),
            size,
            norm_pixels: config.norm_pixels,
            seed: inputs.seed,
        })
    }

    /// Returns the device of the parameters.
    pub fn device(&self) -> Device {
        self.pixel_decoder.head.weight.val().device()
    }

    /// Draws the masks of a pass over `rows` images.
    pub fn masks(&self, rows: usize, pass: &Pass) -> Masks {
        Masks::draw(rows, self.patches, self.visible, pass)
    }

    /// Returns the masks by given noise, one number for each patch, `[rows, patches]`: the patches with the lowest
    /// numbers stay visible.
    pub fn masks_of(&self, noise: &[f32]) -> Masks {
        Masks::from_noise(noise, self.patches, self.visible)
    }

    /// Returns the hidden states of all patches before the projection to pixels, `[rows, patches, decoder_d_model]`.
    fn states(&self, images: &ImageBatch, masks: &Masks, pass: &Pass) -> Tensor<3> {
        let pixels = pixels(images, &self.device());
        let seen = self.model.forward_visible(pixels, masks, pass);
        self.pixel_decoder.forward(seen, masks, pass)
    }

    /// Returns predicted pixels of all patches, visible ones included, `[rows, patches, size·size·channels]`, by row,
    /// column and channel within a patch.
    pub fn predicted_pixels(&self, images: &ImageBatch, masks: &Masks, pass: &Pass) -> Tensor<3> {
        self.pixel_decoder.pixels(self.states(images, masks, pass))
    }

    /// Returns the sum over images of the mean squared error over the pixels of their masked patches, `[1]`.
    pub fn loss(&self, images: &ImageBatch, masks: &Masks, pass: &Pass) -> Tensor<1> {
        let states = self.states(images, masks, pass);
        let [rows, patches, d_model] = states.dims();
        let device = states.device();
        let states = states.reshape([rows * patches, d_model]);
        let hidden = kernel::embedding(states, masks.masked_rows(&device));
        let told = self.pixel_decoder.pixels(hidden).cast(FloatDType::F32);
        let [_, hidden, values] = told.dims();
        let wanted = targets(images, self.size, masks, self.norm_pixels);
        let wanted = TensorData::new(wanted, [rows, hidden, values]);
        let wanted: Tensor<3> = replay::floats(wanted, &device);
        let off = told - wanted.cast(FloatDType::F32);
        (off.clone() * off).sum() / (hidden * values) as f64
    }
}

/// Returns pixels of the masked patches, by image, patch, row, column and channel. If `normalised`, each patch has its
/// mean subtracted and is divided by its deviation.
fn targets(images: &ImageBatch, size: usize, masks: &Masks, normalised: bool) -> Vec<f32> {
    let [channels, height, width] = images.shape;
    let each = channels * height * width;
    let cols = (width / size.max(1)).max(1);
    let mut all = Vec::new();
    for (image, hidden) in images.pixels.chunks(each.max(1)).zip(masks.masked()) {
        for patch in hidden {
            let (top, left) = (patch / cols * size, patch % cols * size);
            let begin = all.len();
            for (row, column) in (0..size).flat_map(|r| (0..size).map(move |c| (r, c))) {
                let place = (top + row) * width + left + column;
                all.extend((0..channels).map(|channel| image[channel * height * width + place]));
            }
            if normalised {
                normalise(&mut all[begin..]);
            }
        }
    }
    all
}

/// Replaces values by (y − mean) / √(variance + ε), with the unbiased variance.
fn normalise(values: &mut [f32]) {
    let n = values.len() as f64;
    let mean = values.iter().map(|y| f64::from(*y)).sum::<f64>() / n;
    let squares = values.iter().map(|y| (f64::from(*y) - mean).powi(2));
    let variance = squares.sum::<f64>() / (n - 1.0);
    let deviation = (variance + EPS).sqrt();
    for y in values {
        *y = ((f64::from(*y) - mean) / deviation) as f32;
    }
}

impl Task for MaskedImage {
    fn score(&self, batch: &Batch, pass: &Pass, _state: Option<&mut ModelState>) -> Scored {
        let images = host::images(batch);
        let masks = self.masks(images.labels.len(), pass);
        let mut scored = Scored::new(self.loss(images, &masks, pass), batch.rows as u64);
        scored.no_perplexity = true;
        scored
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn networks(&self) -> Networks<'_> {
        Networks {
            reads: Some(self),
            ..Networks::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_hidden_patches_by_row_column_and_channel() {
        let images = ImageBatch {
            pixels: (0..16).map(|n| n as f32).collect(),
            shape: [2, 2, 4],
            labels: vec![0],
            mixed: None,
            views: None,
        };
        let masks = Masks::from_noise(&[0.1, 0.9], 2, 1);
        let plain = targets(&images, 2, &masks, false);
        assert_eq!(plain, [2.0, 10.0, 3.0, 11.0, 6.0, 14.0, 7.0, 15.0]);
        let normal = targets(&images, 2, &masks, true);
        let (sum, squares) = normal
            .iter()
            .fold((0.0, 0.0), |(s, q), y| (s + y, q + y * y));
        assert!(sum.abs() < 1e-5 && (squares / 7.0f32 - 1.0).abs() < 1e-5);
    }
}
