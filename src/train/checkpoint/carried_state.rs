//! The state that a model carries from step to step, as safetensors: `blocks.<number>.<own, cross or
//! feed_forward>.<vector>`, and `….segment` with `….open` for hidden states of earlier segments and how many of them
//! each row may see.

use super::{Checkpoint, damaged};
use crate::collective::Ranks;
use crate::device;
use crate::error::{Error, Result};
use crate::kernel;
use crate::model::CarriedWidths;
use crate::nn::earlier::EarlierStates;
use crate::nn::state::LayerState;
use crate::stack::state::{BlockState, ModelState};
use burn::tensor::{Device, Tensor, TensorData};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use std::path::Path;

/// File name of the carried state in a checkpoint.
pub(super) const FILE: &str = "state.safetensors";
/// Name of the hidden states of earlier segments.
const SEGMENT: &str = "segment";
/// Name of the number of hidden states that each row may see.
const OPEN: &str = "open";

/// Name of the layer that mixes positions.
const OWN: &str = "own";
/// Name of cross-attention.
const CROSS: &str = "cross";
/// Name of the feed-forward layer.
const FEED_FORWARD: &str = "feed_forward";

/// A tensor's name, shape and bytes.
type Entry = (String, Vec<usize>, Vec<u8>);

/// Writes a state. Any number format is written as 32-bit floats, which represent it exactly.
pub(super) fn save(state: &ModelState, path: &Path) -> Result<()> {
    std::fs::write(path, bytes(state)?).map_err(Error::io("write", path))
}

/// Gathers the state of the rows of all ranks; `own` is the state of this rank's rows.
///
/// # Errors
/// If another rank has failed, or has the state of another model.
pub fn gather(own: &ModelState, ranks: &Ranks) -> Result<ModelState> {
    let name = Path::new(FILE);
    let all = ranks.all_gather(&bytes(own)?)?;
    let all = all
        .iter()
        .map(|bytes| read(own, bytes, name, &device::host()));
    let all = ModelState::concat(all.collect::<Result<_>>()?);
    all.ok_or_else(|| Error::run("there is no rank"))
}

/// Serializes a state as safetensors.
fn bytes(state: &ModelState) -> Result<Vec<u8>> {
    let entries = entries(state);
    let failed =
        |e: safetensors::SafeTensorError| Error::run(format!("cannot serialize {FILE}: {e}"));
    let views = entries
        .iter()
        .map(|(name, shape, bytes)| {
            let view = TensorView::new(Dtype::F32, shape.clone(), bytes)?;
            Ok((name, view))
        })
        .collect::<std::result::Result<Vec<_>, _>>()
        .map_err(failed)?;
    safetensors::serialize(views, None).map_err(failed)
}

/// Lists the tensors of a state.
fn entries(state: &ModelState) -> Vec<Entry> {
    let blocks = state.layers.iter().enumerate();
    let layers = blocks.flat_map(|(number, block)| {
        let parts = [
            (OWN, &block.own),
            (CROSS, &block.cross),
            (FEED_FORWARD, &block.feed_forward),
        ];
        parts.map(|(part, layer)| (format!("blocks.{number}.{part}"), layer))
    });
    let each = layers.flat_map(|(prefix, layer)| match layer {
        LayerState::None | LayerState::Kept(_) => Vec::new(),
        LayerState::Segment(EarlierStates {
            states,
            current_text_lengths: open,
        }) => {
            let states = states.iter();
            let each = states.flat_map(|states| {
                let counts = open.iter().map(|open| *open as f32).collect();
                [
                    entry(format!("{prefix}.{SEGMENT}"), states),
                    numbers(format!("{prefix}.{OPEN}"), vec![open.len()], counts),
                ]
            });
            each.collect()
        }
        LayerState::Recurrent(vectors) => {
            let vectors = vectors.iter().enumerate();
            let vectors = vectors.map(|(vector, x)| entry(format!("{prefix}.{vector}"), x));
            vectors.collect()
        }
    });
    each.collect()
}

fn entry<const D: usize>(name: String, x: &Tensor<D>) -> Entry {
    let values = kernel::read(x.clone()).iter::<f32>().collect();
    numbers(name, x.dims().to_vec(), values)
}

fn numbers(name: String, shape: Vec<usize>, values: Vec<f32>) -> Entry {
    let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    (name, shape, bytes)
}

impl Checkpoint {
    /// Loads the state that the model passed on to the next step; `empty` gives the structure, `rows` and `widths` the shapes.
    ///
    /// # Errors
    /// If there is no such state, or it is another model's.
    pub fn load_carried(
        &self,
        empty: &ModelState,
        rows: usize,
        widths: &CarriedWidths,
        device: &Device,
    ) -> Result<ModelState> {
        if !self.manifest.files.contains_key(FILE) {
            let what = "it has no carried state; the run did not set train.carry_state when it was written";
            return Err(damaged(&self.folder, what));
        }
        let state = load(empty, &self.folder.join(FILE), device)?;
        match shape_fault(&state, rows, widths) {
            None => Ok(state),
            Some(what) => Err(damaged(&self.folder, &what)),
        }
    }
}

/// Returns why a state does not have `rows` rows with vectors of these widths, if so.
fn shape_fault(state: &ModelState, rows: usize, widths: &CarriedWidths) -> Option<String> {
    let none = [Vec::new(), Vec::new()];
    for (number, block) in state.layers.iter().enumerate() {
        let [mixer, feed_forward] = widths.blocks.get(number).unwrap_or(&none);
        let parts = [
            (OWN, &block.own, mixer),
            (CROSS, &block.cross, &none[0]),
            (FEED_FORWARD, &block.feed_forward, feed_forward),
        ];
        for (part, layer, widths_of_part) in parts {
            let wrong = match layer {
                LayerState::None | LayerState::Kept(_) => None,
                LayerState::Segment(earlier) => earlier.states.as_ref().and_then(|states| {
                    let [found, _, width] = states.dims();
                    let fits = [found, width] == [rows, widths.d_model];
                    (!fits).then(|| (SEGMENT.to_string(), [found, width], widths.d_model))
                }),
                LayerState::Recurrent(vectors) => {
                    let found = vectors.iter().map(Tensor::dims).enumerate();
                    let width = |vector| widths_of_part.get(vector).copied().unwrap_or_default();
                    let mut found = found.map(|(vector, dims)| (vector, dims, width(vector)));
                    let other = found.find(|(_, dims, width)| *dims != [rows, *width]);
                    other.map(|(vector, dims, width)| (vector.to_string(), dims, width))
                }
            };
            if let Some((name, dims, width)) = wrong {
                return Some(format!(
                    "its state `blocks.{number}.{part}.{name}` has the shape {dims:?}, but the run has {rows} rows of width {width}"
                ));
            }
            if let LayerState::Recurrent(vectors) = layer
                && !(vectors.is_empty() || vectors.len() == widths_of_part.len())
            {
                let vector = vectors.len();
                return Some(format!("its state lacks `blocks.{number}.{part}.{vector}`"));
            }
        }
    }
    None
}

/// Reads a state with the structure of `empty`.
fn load(empty: &ModelState, path: &Path, device: &Device) -> Result<ModelState> {
    let bytes = std::fs::read(path).map_err(Error::io("read", path))?;
    read(empty, &bytes, path, device)
}

/// Reads a state from its bytes; `path` is for messages.
fn read(empty: &ModelState, bytes: &[u8], path: &Path, device: &Device) -> Result<ModelState> {
    let file = SafeTensors::deserialize(bytes)
        .map_err(|e| Error::run(format!("{} is not a safetensors file: {e}", path.display())))?;
    let reader = Reader {
        file: &file,
        device,
    };
    let layers = empty
        .layers
        .iter()
        .enumerate()
        .map(|(number, block)| BlockState {
            own: reader.layer(&format!("blocks.{number}.{OWN}"), &block.own),
            cross: reader.layer(&format!("blocks.{number}.{CROSS}"), &block.cross),
            feed_forward: reader.layer(
                &format!("blocks.{number}.{FEED_FORWARD}"),
                &block.feed_forward,
            ),
        });
    let state = ModelState::new(layers.collect());
    let taken: Vec<String> = entries(&state).into_iter().map(|(name, ..)| name).collect();
    let other = file
        .names()
        .into_iter()
        .find(|name| !taken.iter().any(|own| own == name));
    match other {
        None => Ok(state),
        Some(other) => Err(Error::run(format!(
            "{} contains `{other}`, which is not a state of this model; it was written by another model",
            path.display()
        ))),
    }
}

struct Reader<'a> {
    file: &'a SafeTensors<'a>,
    device: &'a Device,
}

impl Reader<'_> {
    fn layer(&self, prefix: &str, empty: &LayerState) -> LayerState {
        match empty {
            LayerState::None | LayerState::Kept(_) => empty.clone(),
            LayerState::Segment(_) => {
                LayerState::Segment(self.earlier_segments(prefix).unwrap_or_default())
            }
            LayerState::Recurrent(_) => {
                let vectors = (0..).map_while(|vector| self.tensor(&format!("{prefix}.{vector}")));
                LayerState::Recurrent(vectors.collect())
            }
        }
    }

    /// Reads the hidden states of earlier segments, if there are any with valid visible counts for each row.
    fn earlier_segments(&self, prefix: &str) -> Option<EarlierStates> {
        let states: Tensor<3> = self.tensor(&format!("{prefix}.{SEGMENT}"))?;
        let (shape, counts) = self.values::<1>(&format!("{prefix}.{OPEN}"))?;
        let [rows, positions, _] = states.dims();
        let fits = |count: &f32| (0.0..=positions as f32).contains(count) && count.fract() == 0.0;
        let whole = shape == [rows] && counts.iter().all(fits);
        whole.then(|| EarlierStates {
            states: Some(states),
            current_text_lengths: counts.into_iter().map(|count| count as usize).collect(),
        })
    }

    /// Reads a tensor by name, if there is one with `D` dimensions.
    fn tensor<const D: usize>(&self, name: &str) -> Option<Tensor<D>> {
        let (shape, values) = self.values::<D>(name)?;
        Some(Tensor::from_data(
            TensorData::new(values, shape),
            self.device,
        ))
    }

    /// Reads the shape and values of a tensor with `D` dimensions.
    fn values<const D: usize>(&self, name: &str) -> Option<(Vec<usize>, Vec<f32>)> {
        let found = self.file.tensor(name).ok()?;
        let fits = found.dtype() == Dtype::F32 && found.shape().len() == D;
        let values: Vec<f32> = found
            .data()
            .as_chunks::<4>()
            .0
            .iter()
            .map(|bytes| f32::from_le_bytes(*bytes))
            .collect();
        fits.then(|| (found.shape().to_vec(), values))
    }
}
