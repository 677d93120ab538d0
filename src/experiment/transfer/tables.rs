//! Resizes position tables that cannot be copied unchanged because their lengths differ.

use crate::device;
use crate::model::ModelConfig;
use crate::nn::position::resample::{interpolate, repeat, resample_grid};
use crate::nn::position::{ActsOn, PositionConfig, RowsOf};
use crate::train::transfer::LengthChange;
use burn::tensor::{Tensor, TensorData};

/// A network, and the shape `[channels, height, width]` of the images that it reads, if it reads images.
#[derive(Clone, Copy)]
pub(super) struct ImageReader<'a> {
    pub model: &'a ModelConfig,
    pub image: Option<[usize; 3]>,
}

/// The positions of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PatchLayout {
    /// Number of rows and columns of patches.
    sides: [usize; 2],
    /// Whether a class token comes first.
    class_token: bool,
    /// Number of tokens before the patches: the class token and the distillation token.
    tokens: usize,
}

impl<'a> ImageReader<'a> {
    fn position(self) -> Option<&'a PositionConfig> {
        self.model.transformer().map(|model| &model.stack.position)
    }

    /// Whether the position scheme of the image network also gives positions to the tokens before the patches.
    fn has_prefix_positions(self) -> bool {
        let parts = self.model.parts();
        let network = parts.map_or(self.model, |[(_, of_images), _]| of_images);
        network.transformer().is_some_and(|model| {
            let facts = model.stack.position.facts();
            facts.text_counterpart().is_none() && !matches!(facts.acts_on(), ActsOn::Heads(_))
        })
    }

    fn patch_layout(self) -> Option<PatchLayout> {
        let grid = self.model.grid(self.image)?;
        let more = usize::from(self.model.has_distillation_token());
        Some(PatchLayout {
            sides: [grid.rows, grid.cols],
            class_token: grid.class_token,
            tokens: usize::from(grid.class_token) + more,
        })
    }
}

/// Whether the positions of patches differ: both networks read images, and their patch grids differ or, if tokens before the
/// patches count as positions, those differ.
pub(super) fn patches_differ(readers: [ImageReader; 2]) -> bool {
    let [Some(theirs), Some(ours)] = readers.map(ImageReader::patch_layout) else {
        return false;
    };
    let counted = readers.into_iter().all(ImageReader::has_prefix_positions);
    theirs.sides != ours.sides || counted && theirs != ours
}

/// Resizes a position table of the first network for the second one, by interpolating or repeating rows: in two dimensions for
/// image patches, in one for text. A position parameter without such rows is copied if its shape fits. `None` if the table
/// cannot be resized. `antialias` applies to bicubic interpolation.
pub(super) fn resample_table(
    [theirs, ours]: [ImageReader; 2],
    (path, data): (&str, &TensorData),
    shape: &[usize],
    (how, antialias): (LengthChange, bool),
) -> Option<TensorData> {
    let (&[from, width], &[to, d]) = (&data.shape().to_vec()[..], shape) else {
        return None;
    };
    let in_stages = |reader: ImageReader| {
        let depths = reader.model.stack_depths();
        depths.is_some_and(|depths| !depths.stages.is_empty())
    };
    if in_stages(theirs) && in_stages(ours) {
        let of_distances = width == d && path.ends_with("position.table");
        return match how {
            LengthChange::Resample if of_distances => windows(data, d, [from, to], antialias),
            LengthChange::Resample | LengthChange::Repeat => None,
        };
    }
    let [facts, own] = [theirs, ours].map(|reader| reader.position().map(PositionConfig::facts));
    let (facts, own) = (facts?, own?);
    if width != d
        || from == 0
        || facts.kind() != own.kind()
        || facts.reserved_rows() != own.reserved_rows()
    {
        return None;
    }
    let Some(rows) = own.rows_of(path.rsplit('.').next().unwrap_or(path)) else {
        return (from == to).then(|| data.clone());
    };
    let table: Vec<f32> = data.iter::<f32>().collect();
    let both = (theirs.patch_layout(), ours.patch_layout());
    let values = match (how, rows, both) {
        (LengthChange::Repeat, RowsOf::Positions, _) => {
            repeat(&table, [from, to], d, own.reserved_rows())?
        }
        (LengthChange::Resample, RowsOf::Positions, (Some(theirs), Some(ours))) => {
            let lengths = ([from, to], own.reserved_rows());
            positions(&table, d, [theirs, ours], lengths, antialias)?
        }
        (LengthChange::Resample, RowsOf::Positions, _) => {
            interpolate(&table, [from, to], d, own.reserved_rows())?
        }
        (LengthChange::Resample, RowsOf::GridRows, (Some(theirs), Some(ours)))
            if [theirs.sides[0], ours.sides[0]] == [from, to] =>
        {
            grid(&table, d, [[from, 1], [to, 1]], antialias)
        }
        (LengthChange::Resample, RowsOf::GridColumns, (Some(theirs), Some(ours)))
            if [theirs.sides[1], ours.sides[1]] == [from, to] =>
        {
            grid(&table, d, [[from, 1], [to, 1]], antialias)
        }
        (LengthChange::Resample, RowsOf::GridDistances(of_class), (Some(theirs), Some(ours))) => {
            let lengths = ([from, to], of_class);
            distances(&table, d, [theirs, ours], lengths, antialias)?
        }
        (_, RowsOf::GridRows | RowsOf::GridColumns | RowsOf::GridDistances(_), _) => return None,
    };
    Some(TensorData::new(values, [to, d]).convert_dtype(data.dtype()))
}

/// Resizes a table with one row per position. Tokens before the patches keep their rows; a second such token that the other
/// network lacks starts as a copy of the class token's row.
fn positions(
    table: &[f32],
    d: usize,
    [theirs, ours]: [PatchLayout; 2],
    (lengths, reserved): ([usize; 2], usize),
    antialias: bool,
) -> Option<Vec<f32>> {
    let before = |laid: PatchLayout| reserved + laid.tokens;
    let length = |laid: PatchLayout| before(laid) + laid.sides[0] * laid.sides[1];
    if lengths != [length(theirs), length(ours)] || theirs.tokens == 0 && ours.tokens > 0 {
        return None;
    }
    let (kept, patches) = table.split_at(before(theirs) * d);
    let row = |row: usize| {
        let row = row.min(before(theirs) - 1);
        kept[row * d..][..d].iter().copied()
    };
    let kept = (0..before(ours)).flat_map(row);
    let patches = grid(patches, d, [theirs.sides, ours.sides], antialias);
    Some(kept.chain(patches).collect())
}

/// Resizes a table with one row per distance between patches, followed by the rows of the class token.
fn distances(
    table: &[f32],
    d: usize,
    [theirs, ours]: [PatchLayout; 2],
    (lengths, of_class): ([usize; 2], usize),
    antialias: bool,
) -> Option<Vec<f32>> {
    let spans = |laid: PatchLayout| laid.sides.map(|side| (2 * side).saturating_sub(1));
    let more = |laid: PatchLayout| usize::from(laid.class_token) * of_class;
    let length = |laid: PatchLayout| spans(laid)[0] * spans(laid)[1] + more(laid);
    if lengths != [length(theirs), length(ours)] || more(ours) > more(theirs) {
        return None;
    }
    let (patches, of_token) = table.split_at((length(theirs) - more(theirs)) * d);
    let mut values = grid(patches, d, [spans(theirs), spans(ours)], antialias);
    values.extend(&of_token[..more(ours) * d]);
    Some(values)
}

/// Resizes a table with one row per distance within a window to another window size (Liu et al. 2021, released code).
fn windows(
    table: &TensorData,
    d: usize,
    [from, to]: [usize; 2],
    antialias: bool,
) -> Option<TensorData> {
    // There are 2·side − 1 distances along rows and along columns.
    let span = |rows: usize| {
        let span = rows.isqrt();
        (span * span == rows && span % 2 == 1).then_some([span; 2])
    };
    let values: Vec<f32> = table.iter::<f32>().collect();
    let values = grid(&values, d, [span(from)?, span(to)?], antialias);
    Some(TensorData::new(values, [to, d]).convert_dtype(table.dtype()))
}

/// Resamples the rows `[rows·columns, d]` of a grid to a grid of another size.
fn grid(table: &[f32], d: usize, [from, to]: [[usize; 2]; 2], antialias: bool) -> Vec<f32> {
    let data = TensorData::new(table.to_vec(), [from[0] * from[1], d]);
    let table = Tensor::<2>::from_data(data, &device::host());
    let table = resample_grid(table, from, to, false, antialias);
    table.into_data().iter::<f32>().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn network(changes: &Value) -> ModelConfig {
        let mut model = json!({ "kind": "vision", "n_layers": 1, "d_model": 4, "stem": { "kind": "patches", "size": 2 } });
        for (key, value) in changes.as_object().into_iter().flatten() {
            model[key] = value.clone();
        }
        serde_json::from_value(model).unwrap()
    }

    /// Resizes the table `0, 1, 2, …` of shape `[from, 1]` from a network for images of one size to a network for those of
    /// another.
    fn moved_to(
        [theirs, ours]: [(&Value, [usize; 3]); 2],
        path: &str,
        [from, to]: [usize; 2],
    ) -> Option<Vec<f32>> {
        let (their_model, our_model) = (network(theirs.0), network(ours.0));
        let readers =
            [(&their_model, theirs.1), (&our_model, ours.1)].map(|(model, image)| ImageReader {
                model,
                image: Some(image),
            });
        let values: Vec<f32> = (0..from).map(|row| row as f32).collect();
        let data = TensorData::new(values, [from, 1]);
        let how = (LengthChange::Resample, false);
        let found = resample_table(readers, (path, &data), &[to, 1], how)?;
        assert_eq!(found.shape().to_vec(), [to, 1]);
        Some(found.iter::<f32>().collect())
    }

    const SMALL: [usize; 3] = [1, 4, 8];
    const TALL: [usize; 3] = [1, 8, 8];

    #[test]
    fn sides_of_a_grid_are_resampled_by_themselves() {
        let config = json!({ "position": { "kind": "learned_2d" } });
        let both = [(&config, SMALL), (&config, TALL)];
        let rows = moved_to(both, "position.rows", [2, 4]).unwrap();
        assert!(rows.windows(2).all(|pair| pair[0] < pair[1]), "{rows:?}");
        assert!((rows[0] + rows[3] - 1.0).abs() < 1e-6, "{rows:?}");
        let columns = moved_to(both, "position.columns", [4, 4]).unwrap();
        assert_eq!(columns, [0.0, 1.0, 2.0, 3.0]);
        assert_eq!(
            moved_to(both, "position.class_token", [1, 1]).unwrap(),
            [0.0]
        );
        // The number of rows is not that of the grids.
        assert_eq!(moved_to(both, "position.rows", [3, 4]), None);
    }

    #[test]
    fn distances_between_patches_are_resampled() {
        let config = json!({ "position": { "kind": "relative_bias_2d" } });
        let both = [(&config, SMALL), (&config, TALL)];
        // 3 · 7 distances and three of the class token, then 7 · 7 and the same three.
        let table = moved_to(both, "position.table", [24, 52]).unwrap();
        assert_eq!(table[49..], [21.0, 22.0, 23.0]);
        // The distance of a patch to itself.
        assert!((table[24] - 10.0).abs() < 1e-5, "{table:?}");
        let mean = json!({ "position": { "kind": "relative_bias_2d" }, "pooling": "mean" });
        let fewer = moved_to(
            [(&config, SMALL), (&mean, SMALL)],
            "position.table",
            [24, 21],
        );
        assert_eq!(
            fewer.unwrap(),
            (0..21).map(|n| n as f32).collect::<Vec<_>>()
        );
        let more = moved_to(
            [(&mean, SMALL), (&config, SMALL)],
            "position.table",
            [21, 24],
        );
        assert_eq!(more, None);
    }

    #[test]
    fn distances_in_windows_are_resampled() {
        let network = |window: usize| -> ModelConfig {
            serde_json::from_value(json!({ "kind": "swin", "window": window })).unwrap()
        };
        let (theirs, ours) = (network(2), network(3));
        let readers = [&theirs, &ours].map(|model| ImageReader {
            model,
            image: Some(TALL),
        });
        let values: Vec<f32> = (0..9).map(|row| row as f32).collect();
        let data = TensorData::new(values, [9, 1]);
        let made = |path: &str, rows: usize, how: LengthChange| {
            resample_table(readers, (path, &data), &[rows, 1], (how, false))
        };
        let path = "stages.0.blocks.1.position.table";
        let found = made(path, 25, LengthChange::Resample).unwrap();
        let table: Vec<f32> = found.iter::<f32>().collect();
        // The distance of a position to itself.
        assert!((table[12] - 4.0).abs() < 1e-5, "{table:?}");
        assert!(table[0] < table[4] && table[0] < table[20], "{table:?}");
        assert!(made(path, 24, LengthChange::Resample).is_none());
        assert!(made(path, 25, LengthChange::Repeat).is_none());
        let other = "stages.0.blocks.1.feed_forward.up.weight";
        assert!(made(other, 25, LengthChange::Resample).is_none());
    }

    #[test]
    fn other_patches_and_further_tokens_have_the_other_network_s_grid() {
        let plain = json!({ "position": { "kind": "learned" } });
        let taught = json!({ "position": { "kind": "learned" }, "distillation_token": true });
        let further = [(&plain, SMALL), (&taught, SMALL)];
        let table = moved_to(further, "position.table", [9, 10]).unwrap();
        assert_eq!(table, [0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        let fewer = [(&taught, SMALL), (&plain, SMALL)];
        let table = moved_to(fewer, "position.table", [10, 9]).unwrap();
        assert_eq!(table, [0.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
        let large =
            json!({ "position": { "kind": "learned" }, "stem": { "kind": "patches", "size": 4 } });
        let both = [(&plain, SMALL), (&large, SMALL)];
        assert_eq!(moved_to(both, "position.table", [9, 3]).unwrap()[0], 0.0);
        let [theirs, ours] = [network(&plain), network(&large)];
        let at = |model| ImageReader {
            model,
            image: Some(SMALL),
        };
        assert!(
            patches_differ([at(&theirs), at(&ours)]) && !patches_differ([at(&theirs), at(&theirs)])
        );
        let mean = json!({ "position": { "kind": "learned" }, "pooling": "mean" });
        let both = json!({ "position": { "kind": "learned" }, "pooling": "class_and_mean" });
        let [mean, both, taught] = [&mean, &both, &taught].map(network);
        for behind_others in [&mean, &taught] {
            assert!(patches_differ([at(&theirs), at(behind_others)]));
        }
        assert!(!patches_differ([at(&theirs), at(&both)]));
        // In a scheme by rows and columns, a token before the patches has no position.
        let grid = json!({ "position": { "kind": "learned_2d" } });
        let mean = json!({ "position": { "kind": "learned_2d" }, "pooling": "mean" });
        assert!(!patches_differ([at(&network(&grid)), at(&network(&mean))]));
    }
}
