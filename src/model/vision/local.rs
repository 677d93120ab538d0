//! A vision transformer that also reads smaller crops of images (local views; Caron et al. 2021, DINO, section 3.1). In each pass
//! a learned table of positions is interpolated to the smaller grid, as Hugging Face Transformers does with
//! `interpolate_pos_encoding`, and is trained through the interpolation.

use super::{Vision, VisionConfig};
use crate::faults::TableFaults;
use crate::nn::attention::multi_head;
use crate::nn::pass::Pass;
use crate::nn::position::Grid;
use burn::tensor::Tensor;

/// The local views that a task reads: `task.views`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalViews {
    /// Height and width of local views in pixels: `task.views.local_size`; `None` if there are none.
    pub side: Option<usize>,
    /// Number of views of the image's own size.
    pub full_size_count: usize,
    /// Number of local views of an image.
    pub local_count: usize,
}

impl VisionConfig {
    /// Checks a network that has to read views of images.
    pub fn local_faults(&self, views: LocalViews, image: Option<[usize; 3]>, at: &mut TableFaults) {
        if self.distillation_token {
            let rule = "distillation_token = true needs a teacher of classes, which [task] kind = \"self_distillation\" does not \
                        have; remove it";
            at.fault(&["distillation_token", "task.kind"], rule);
        }
        let Some(side) = views.side else {
            return;
        };
        match self.stem.patch_size() {
            None => {
                let rule = "kind = \"resnet\" produces feature maps of one size, but local views of [task] kind = \
                            \"self_distillation\" are smaller; use stem = { kind = \"patches\" }, or set task.views.local = 0";
                at.fault(&["model.stem.kind", "task.views.local"], rule);
            }
            Some(patch) => self.side_faults(side, patch, image, at),
        }
        self.grid_dependence_faults(at);
    }

    /// Checks the size of local views.
    fn side_faults(
        &self,
        side: usize,
        patch: usize,
        image: Option<[usize; 3]>,
        at: &mut TableFaults,
    ) {
        let keys = ["task.views.local_size", "model.stem.size"];
        if patch > 0 && !side.is_multiple_of(patch) {
            let near = (side / patch).max(1) * patch;
            let rule = format!(
                "local_size = {side} is not a multiple of the {patch} pixels of a patch's side ([model.stem] size); use {near}"
            );
            at.fault(&keys, rule);
        }
        let Some([_, height, width]) = image else {
            return;
        };
        if side > height.min(width) {
            let rule = format!(
                "local_size = {side} is more than the {} pixels of the images' shorter side, but local views must not be larger \
                 than images; half of that side is usual",
                height.min(width)
            );
            at.fault(&keys[..1], rule);
        }
    }

    /// Checks for positions and blocks that depend on one grid.
    fn grid_dependence_faults(&self, at: &mut TableFaults) {
        let position = self.stack.position.facts();
        if !position.reads_smaller_grids() {
            let rule = format!(
                "kind = \"{}\" supports only one grid with these settings, but local views of [task] kind = \"self_distillation\" \
                 have a smaller one; use \"learned\", whose table is resampled (without max_len and first), or \"none\"",
                position.kind().kind
            );
            at.fault(&["model.position.kind", "task.views.local"], rule);
        }
        for (number, block) in self.stack.distinct_blocks(self.depth()).enumerate() {
            let table = match self.layers.is_empty() {
                true => "model".to_owned(),
                false => format!("model.layers.{number}"),
            };
            let other = block.attention.map(|attention| attention.kind());
            let other = other.filter(|kind| *kind != multi_head::KIND.kind);
            let other = other.or_else(|| block.mixer.map(|mixer| mixer.kind()));
            if let Some(kind) = other {
                let rule = format!(
                    "kind = \"{kind}\" is not supported by [task] kind = \"self_distillation\", whose local views have fewer \
                     patches than images; use attention = {{ kind = \"multi_head\" }}, or set task.views.local = 0"
                );
                let key = match block.mixer {
                    Some(_) => format!("{table}.mixer"),
                    None => format!("{table}.attention.kind"),
                };
                at.fault(&[key.as_str(), "task.views.local"], rule);
            }
            if let Some(position) = block.position {
                let rule = format!(
                    "position = {{ kind = \"{}\" }} of a group of blocks supports only one grid, but local views have a smaller \
                     one; remove it",
                    position.facts().kind().kind
                );
                let key = format!("{table}.position");
                at.fault(&[key.as_str(), "task.views.local"], rule);
            }
        }
    }

    /// Multiplications of a forward pass over all views of an image.
    pub fn view_products(&self, image: [usize; 3], views: LocalViews) -> f64 {
        let whole = self.image_products(image) * views.full_size_count as f64;
        let local = views.side.map_or(0.0, |side| {
            self.image_products([image[0], side, side]) * views.local_count as f64
        });
        whole + local
    }
}

impl Vision {
    /// Computes hidden states, after the last norm, of smaller images `[batch, channels, height, width]`, whose patches form the
    /// grid `to`, with a network built for the grid `from`.
    pub fn forward_local(
        &self,
        pixels: Tensor<4>,
        [from, to]: [Grid; 2],
        pass: &Pass,
    ) -> Tensor<3> {
        let x = self.embed_patches(pixels, pass);
        let x = self.position.scheme().embed_smaller(x, from, to);
        self.run_blocks(self.add_registers(x), pass)
    }
}
