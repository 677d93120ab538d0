//! A vision transformer that reads only some of an image's patches (He et al. 2022, MAE, section 3): positions are added to all
//! patches, then masked patches are removed, and the blocks see the rest and the class token.

use super::{Vision, VisionConfig};
use crate::faults::TableFaults;
use crate::kernel::{self, replay};
use crate::nn::attention::multi_head;
use crate::nn::pass::Pass;
use crate::nn::position::ActsOn;
use crate::rng::Purpose;
use burn::tensor::{Device, Int, Tensor, TensorData};

/// The patches that a task masks: `task.mask_ratio` and `task.norm_pixels`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PatchMasking {
    /// Fraction of an image's patches that is masked.
    pub mask_ratio: f64,
    /// Whether a patch's pixels are divided by their standard deviation, which a single pixel does not have.
    pub normalised: bool,
}

impl PatchMasking {
    /// Number of an image's patches that stay visible: n·(1 − share), rounded down.
    pub fn visible(self, patches: usize) -> usize {
        (patches as f64 * (1.0 - self.mask_ratio)) as usize
    }

    /// Whether an image of this many patches has both visible and masked ones.
    pub fn has_both(self, patches: usize) -> bool {
        (1..patches).contains(&self.visible(patches))
    }
}

/// The visible and masked patches of a batch of images, the same number in each image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Masks {
    /// Number of patches of an image.
    patches: usize,
    /// The visible patches of each image, by number in row-major order.
    visible: Vec<Vec<usize>>,
    /// The masked patches of each image.
    hidden: Vec<Vec<usize>>,
}

impl Masks {
    /// Builds masks from one number per patch, `[rows, patches]`: the `visible` patches with the lowest numbers of an
    /// image stay visible; among equal numbers, the first ones.
    pub fn from_noise(noise: &[f32], patches: usize, visible: usize) -> Self {
        let mut masks = Self {
            patches,
            visible: Vec::new(),
            hidden: Vec::new(),
        };
        for row in noise.chunks(patches.max(1)) {
            let mut order: Vec<usize> = (0..row.len()).collect();
            order.sort_by(|a, b| row[*a].total_cmp(&row[*b]));
            let mut hidden = order.split_off(visible.min(order.len()));
            order.sort_unstable();
            hidden.sort_unstable();
            masks.visible.push(order);
            masks.hidden.push(hidden);
        }
        masks
    }

    /// Draws the masks of `rows` images from each row's random stream of the pass. They are a function of (seed, step, row of the
    /// step's batch), and in an evaluation of (seed, example).
    pub fn draw(rows: usize, patches: usize, visible: usize, pass: &Pass) -> Self {
        let noise = (0..rows).flat_map(|row| {
            let mut stream = pass.stream(Purpose::Sampled, row);
            let draws = (0..patches).map(|_| stream.uniform());
            draws.collect::<Vec<f32>>()
        });
        let noise: Vec<f32> = noise.collect();
        Self::from_noise(&noise, patches, visible)
    }

    /// Number of visible patches of each image.
    pub fn visible(&self) -> usize {
        self.visible.first().map_or(0, Vec::len)
    }

    /// Returns the masked patches of each image.
    pub fn masked(&self) -> &[Vec<usize>] {
        &self.hidden
    }

    /// Row indices into `[rows·(tokens + patches), d]` of what the blocks see: the `tokens` before the patches and the visible
    /// patches of each image, `[rows, tokens + visible]`.
    fn block_input_rows(&self, tokens: usize, device: &Device) -> Tensor<2, Int> {
        let each = tokens + self.patches;
        let rows = self.visible.iter().enumerate().map(|(row, visible)| {
            let patches = visible.iter().map(|patch| tokens + patch);
            let places = (0..tokens).chain(patches);
            let places = places.map(|place| (row * each + place) as i32);
            places.collect::<Vec<i32>>()
        });
        index_matrix(rows.collect(), device)
    }

    /// Row index into `[rows·(tokens + visible), d]` for each token and patch of an image, `[rows, tokens + patches]`; masked
    /// patches get the index after the last row.
    pub(in crate::model) fn restore_rows(&self, tokens: usize, device: &Device) -> Tensor<2, Int> {
        let seen = self.visible() + tokens;
        let behind = (self.visible.len() * seen) as i32;
        let rows = self.visible.iter().enumerate().map(|(row, visible)| {
            let mut places: Vec<i32> = vec![behind; tokens + self.patches];
            let patches = visible.iter().map(|patch| tokens + patch);
            for (number, place) in (0..tokens).chain(patches).enumerate() {
                places[place] = (row * seen + number) as i32;
            }
            places
        });
        index_matrix(rows.collect(), device)
    }

    /// Row indices into `[rows·patches, d]` of masked patches, `[rows, hidden]`.
    pub fn masked_rows(&self, device: &Device) -> Tensor<2, Int> {
        let rows = self.hidden.iter().enumerate().map(|(row, hidden)| {
            let places = hidden.iter().map(|patch| row * self.patches + patch);
            places.map(|place| place as i32).collect::<Vec<i32>>()
        });
        index_matrix(rows.collect(), device)
    }
}

/// Puts lists of equal length into a matrix on the device.
fn index_matrix(rows: Vec<Vec<i32>>, device: &Device) -> Tensor<2, Int> {
    let shape = [rows.len(), rows.first().map_or(0, Vec::len)];
    replay::integers(TensorData::new(rows.concat(), shape), device)
}

impl VisionConfig {
    /// Checks a network that has to read patches without their neighbours.
    pub fn masking_faults(
        &self,
        hidden: PatchMasking,
        image: Option<[usize; 3]>,
        at: &mut TableFaults,
    ) {
        let mut fault = |keys: &[&str], rule: String| at.fault(keys, rule);
        if self.stem.patch_size().is_none() {
            let rule = "kind = \"resnet\" sees hidden patches through its convolutions; [task] kind = \"masked_image\" needs stem \
                        = { kind = \"patches\" }";
            fault(&["model.stem.kind", "task.kind"], rule.into());
        }
        if let Some(pooling) = self.pooling.learned_name() {
            let rule = format!(
                "pooling = \"{pooling}\" has no effect on [task] kind = \"masked_image\", which does not pool; set \"class\" or \
                 \"mean\"; a run that starts from this one may pool differently"
            );
            fault(&["pooling", "task.kind"], rule);
        }
        if self.n_registers > 0 {
            let rule = "n_registers is not supported by [task] kind = \"masked_image\", whose decoder has no positions for \
                        registers; remove it: a run that starts from this one may add them";
            fault(&["n_registers", "task.kind"], rule.into());
        }
        if self.distillation_token {
            let rule = "distillation_token = true needs a teacher, which [task] kind = \"masked_image\" does not have; remove it";
            fault(&["distillation_token", "task.kind"], rule.into());
        }
        let position = self.stack.position.facts();
        if position.acts_on() != ActsOn::Embeddings {
            let rule = format!(
                "kind = \"{}\" acts in the blocks, which see only visible patches in [task] kind = \"masked_image\"; use one that \
                 is added before the blocks: \"sinusoidal_2d\", \"learned\", \"learned_2d\", \"axial\", \"sinusoidal\" or \
                 \"none\"",
                position.kind().kind
            );
            fault(&["model.position.kind", "task.kind"], rule);
        }
        self.masked_layer_faults(&mut fault);
        self.patch_count_faults(hidden, image, &mut fault);
    }

    /// Checks for blocks that depend on the positions of patches.
    fn masked_layer_faults(&self, fault: &mut impl FnMut(&[&str], String)) {
        for (number, block) in self.stack.distinct_blocks(self.depth()).enumerate() {
            let table = match self.layers.is_empty() {
                true => "model".to_owned(),
                false => format!("model.layers.{number}"),
            };
            let attention = block.attention;
            let other = attention.filter(|a| a.kind() != multi_head::KIND.kind);
            if let Some(other) = other {
                let rule = format!(
                    "kind = \"{}\" is not supported by [task] kind = \"masked_image\", whose blocks see only visible patches; use \
                     \"multi_head\"",
                    other.kind()
                );
                let key = format!("{table}.attention.kind");
                fault(&[key.as_str(), "task.kind"], rule);
            }
            // A mixer that reads from left to right is refused elsewhere, for all bidirectional stacks.
            if let Some(mixer) = block.mixer.filter(|mixer| mixer.is_bidirectional()) {
                let rule = format!(
                    "mixer = {{ kind = \"{}\" }} depends on the order of patches, but blocks see only visible patches in [task] \
                     kind = \"masked_image\"; use attention = {{ kind = \"multi_head\" }}",
                    mixer.kind()
                );
                let key = format!("{table}.mixer");
                fault(&[key.as_str(), "task.kind"], rule);
            }
            if let Some(position) = block.position {
                let rule = format!(
                    "position = {{ kind = \"{}\" }} acts in the blocks, which see only visible patches in [task] kind = \
                     \"masked_image\"; remove it",
                    position.facts().kind().kind
                );
                let key = format!("{table}.position");
                fault(&[key.as_str(), "task.kind"], rule);
            }
        }
    }

    /// Checks the number of patches and of their pixels.
    fn patch_count_faults(
        &self,
        hidden: PatchMasking,
        image: Option<[usize; 3]>,
        fault: &mut impl FnMut(&[&str], String),
    ) {
        let (Some(size), Some([channels, height, width])) = (self.stem.patch_size(), image) else {
            return;
        };
        if self.stem.image_size_fault(height, width).is_some() {
            return;
        }
        let [rows, cols] = self.stem.grid(height, width);
        let patches = rows * cols;
        let sound = hidden.mask_ratio > 0.0 && hidden.mask_ratio < 1.0;
        if sound && !hidden.has_both(patches) {
            let which = match hidden.visible(patches) {
                0 => "no visible patch",
                _ => "no hidden patch",
            };
            let rule = format!(
                "mask_ratio = {:?} leaves {which} of {patches} patches of {size} pixels a side; change it, or set a smaller size \
                 in [model.stem]",
                hidden.mask_ratio
            );
            fault(&["task.mask_ratio", "model.stem.size"], rule);
        }
        if hidden.normalised && channels * size * size < 2 {
            let rule = "norm_pixels = true divides by the standard deviation of a patch's pixels, but a patch has only one; \
                        remove it, or set a larger size in [model.stem]";
            fault(&["task.norm_pixels", "model.stem.size"], rule.into());
        }
    }

    /// Multiplications of a forward pass over an image's visible patches; all patches are embedded before some are removed.
    pub fn visible_products(&self, image: [usize; 3], hidden: PatchMasking) -> f64 {
        let [channels, height, width] = image;
        let [rows, cols] = self.stem.grid(height, width);
        let patches = rows * cols;
        let tokens = self.positions(height, width) - patches;
        let stem = self.stem.products(channels, self.stack.d_model) * patches as f64;
        let positions = tokens + hidden.visible(patches);
        stem + self.stack.products(&self.depth(), positions, 0) as f64
    }
}

impl Vision {
    /// Computes hidden states, after the last norm, of the tokens before the patches and of the visible patches:
    /// `[batch, channels, height, width]` → `[batch, tokens + visible, d_model]`.
    pub fn forward_visible(&self, pixels: Tensor<4>, masks: &Masks, pass: &Pass) -> Tensor<3> {
        let x = self.placed(pixels, pass);
        let [batch, positions, d_model] = x.dims();
        let staying = masks.block_input_rows(positions - masks.patches, &x.device());
        let x = kernel::embedding(x.reshape([batch * positions, d_model]), staying);
        self.run_blocks(x, pass)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_numbers_stay_visible() {
        let noise = [0.5, 0.1, 0.9, 0.1, 0.2, 0.3, 0.1, 0.0];
        let masks = Masks::from_noise(&noise, 4, 2);
        assert_eq!(masks.visible, [vec![1, 3], vec![2, 3]]);
        assert_eq!(masks.hidden, [vec![0, 2], vec![0, 1]]);
    }

    #[test]
    fn rows_are_found_with_a_token_before_the_patches() {
        let masks = Masks::from_noise(&[0.5, 0.1, 0.9, 0.2, 0.3, 0.1], 3, 2);
        let device = Device::default();
        let rows = |x: Tensor<2, Int>| kernel::read(x).iter::<i32>().collect::<Vec<i32>>();
        assert_eq!(rows(masks.block_input_rows(1, &device)), [0, 1, 2, 4, 5, 7]);
        assert_eq!(
            rows(masks.restore_rows(1, &device)),
            [0, 1, 2, 6, 3, 4, 6, 5]
        );
        assert_eq!(rows(masks.masked_rows(&device)), [2, 4]);
    }

    #[test]
    fn as_many_patches_are_hidden_as_the_share_says() {
        let hidden = |share| PatchMasking {
            mask_ratio: share,
            normalised: false,
        };
        assert_eq!(hidden(0.75).visible(196), 49);
        assert_eq!(hidden(0.75).visible(49), 12);
        assert!(!hidden(0.75).has_both(3) && hidden(0.5).has_both(2) && !hidden(0.001).has_both(1));
    }
}
