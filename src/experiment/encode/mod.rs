//! `encode`: computes embeddings of texts or images from the hidden states of a run.

mod checks;
mod file;

use super::open::OpenedRun;
use crate::data::batch::Item;
use crate::error::{Error, Result};
use crate::nn::pass::Pass;
use crate::nn::record::{RecordSelection, RecordedValues};
use crate::task::InferenceTask;
use crate::task::infer::{
    IMAGE_EMBEDS, InferenceOutputs, InputArrays, SENTENCE_EMBEDDING, TEXT_EMBEDS, arrays,
};
use crate::task::whole_text::Pooling;
use burn::tensor::TensorData;
use std::mem::discriminant;
use std::ops::Range;

pub use checks::require;
use checks::require_texts;
pub use file::{Format, VectorsFile, number};

/// How the hidden states of an input are reduced to its embedding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// The hidden state of the class token, which begins every input.
    Class,
    /// The mean over all tokens, or over all patches.
    Mean,
    /// The element-wise maximum over all tokens or patches.
    Max,
    /// The hidden state of the last token.
    Last,
    /// All hidden states, one vector per position.
    None,
    /// The embedding that the run was trained to produce.
    Trained,
}

/// Options of the embeddings.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Index of the hidden states: 0 for the embeddings, then one after each block. When absent, the output of the final norm,
    /// which in text models equals the last index.
    pub layer: Option<usize>,
    /// How hidden states are reduced to an embedding.
    pub pool: Pool,
    /// Whether vectors are normalised to length 1.
    pub normalize: bool,
    /// Inputs per forward pass.
    pub batch_size: usize,
}

/// The embedding of an input: one vector, or one for each of its positions.
#[derive(Clone, Debug, PartialEq)]
pub struct Vectors {
    /// Width of a vector.
    pub width: usize,
    /// The vectors, concatenated.
    pub values: Vec<f32>,
}

/// Returns the default pooling of a run: the embedding that it was trained to produce, the class token for images, otherwise
/// the mean.
pub fn default_pooling(opened: &OpenedRun, layer: Option<usize>) -> Pool {
    if opened.model.networks().image_text.is_some() {
        return Pool::Trained;
    }
    if let Some(embedder) = opened.model.networks().embedder {
        return match (layer, embedder.pooling()) {
            (None, _) => Pool::Trained,
            (Some(_), Pooling::First) => Pool::Class,
            (Some(_), Pooling::Mean) => Pool::Mean,
            (Some(_), Pooling::Max) => Pool::Max,
            (Some(_), Pooling::Last) => Pool::Last,
        };
    }
    match has_class_token(opened) {
        true => Pool::Class,
        false => Pool::Mean,
    }
}

/// Whether the embeddings of a run have length 1 by default.
pub fn normalizes(opened: &OpenedRun) -> bool {
    let networks = opened.model.networks();
    let embedder = networks.embedder;
    networks.image_text.is_some() || embedder.is_some_and(|embedder| embedder.normalizes())
}

/// Number of tokens before the patches of an image.
fn tokens_before_patches(opened: &OpenedRun) -> usize {
    let image = opened.shape.image;
    let patches = image.and_then(|[_, h, w]| opened.experiment.model.patches(h, w));
    patches.map_or(0, |(_, first)| first)
}

/// Whether the first of these is a class token.
fn has_class_token(opened: &OpenedRun) -> bool {
    let image = opened.shape.image;
    let patches = image.and_then(|[_, h, w]| opened.experiment.model.patches(h, w));
    patches.is_some_and(|(grid, _)| grid.class_token)
}

/// Returns the number of positions of an input: for a pair those of its source, for an image its patches and the tokens before
/// them, or the positions of the feature map.
pub fn positions(opened: &OpenedRun, item: &Item) -> usize {
    let model = &opened.experiment.model;
    match item {
        Item::Text(text) => text.inputs.len(),
        Item::Pair(pair) => pair.source.len(),
        Item::Image(image) => {
            let [_, height, width] = image.shape;
            let patches = model.patches(height, width);
            patches.map_or(0, |(grid, first)| grid.rows * grid.cols + first)
        }
        Item::Captioned(both) => both.caption.len(),
        Item::Spoken(both) => match model.sample_encoder() {
            Some(encoder) => encoder.features.frames(both.speech.features.len()),
            None => both.transcript.len(),
        },
    }
}

/// Computes the embedding of each input and passes it to `each`, in order.
///
/// # Errors
/// If the run has no such layer; the errors of `each`.
pub fn encode(
    opened: &OpenedRun,
    items: &[Item],
    request: &Request,
    each: &mut dyn FnMut(usize, Vectors) -> Result<()>,
) -> Result<()> {
    let networks = opened.model.networks();
    require_texts(&networks)?;
    let Some(network) = networks.reads.or(networks.infers) else {
        return Err(Error::usage(format!(
            "a run of {} has no inputs that can be encoded",
            opened.experiment.task.kind()
        )));
    };
    let size = request.batch_size.max(1);
    // All inputs of a pass are images, or all are texts.
    let alike = |a: &Item, b: &Item| discriminant(a) == discriminant(b);
    let mut number = 0;
    for batch in items.chunk_by(alike).flat_map(|some| some.chunks(size)) {
        let states = match request.pool {
            Pool::Trained => States::trained_embeddings(network, batch),
            _ => States::of(network, batch, request.layer)?,
        };
        for (row, item) in batch.iter().enumerate() {
            let places = match item {
                // Feature maps of early layers have more positions than the last one.
                Item::Image(_) => 0..states.positions,
                Item::Text(_) | Item::Pair(_) | Item::Captioned(_) | Item::Spoken(_) => {
                    0..positions(opened, item)
                }
            };
            let vectors = states.pooled(row, places, tokens_before_patches(opened), request);
            each(number + row, vectors)?;
        }
        number += batch.len();
    }
    Ok(())
}

/// Hidden states of some inputs, `[rows, positions, width]`.
struct States {
    positions: usize,
    width: usize,
    values: Vec<f32>,
}

impl States {
    /// The embeddings that a run was trained to produce, one for each input.
    fn trained_embeddings(network: &dyn InferenceTask, batch: &[Item]) -> Self {
        let inferred = network.infer(&InputArrays::of(batch), &Pass::evaluation());
        let found = arrays(inferred, RecordedValues::default(), false);
        let trained = [SENTENCE_EMBEDDING, IMAGE_EMBEDS, TEXT_EMBEDS];
        let own = found
            .iter()
            .find(|(name, _)| trained.contains(&name.as_str()));
        let (values, width) = own.map_or_else(Default::default, |(_, data)| {
            let width = data.shape().last().copied();
            (data.iter().collect(), width.unwrap_or(0))
        });
        Self {
            positions: 1,
            width,
            values,
        }
    }

    fn of(network: &dyn InferenceTask, batch: &[Item], layer: Option<usize>) -> Result<Self> {
        let pass = Pass::evaluation().with_record(RecordSelection {
            hidden_states: layer.is_some(),
            ..RecordSelection::default()
        });
        network.run_for_records(&InputArrays::of(batch), &pass);
        let recorded = pass.take_recorded();
        let found = arrays(
            InferenceOutputs::default(),
            recorded,
            network.last_hidden_is_normed(),
        );
        let name = match layer {
            None => "last_hidden_state".to_string(),
            Some(layer) => format!("hidden_states.{layer}"),
        };
        let named = |wanted: &str| found.iter().find(|(name, _)| name == wanted);
        let own = named(&format!("encoder_{name}")).or_else(|| named(&name));
        let Some((_, data)) = own else {
            let layers = found.iter().filter_map(|(name, _)| {
                let name = name.strip_prefix("encoder_").unwrap_or(name);
                name.strip_prefix("hidden_states.")?.parse::<usize>().ok()
            });
            return Err(Error::usage(match (layer, layers.max()) {
                (Some(layer), Some(last)) => format!(
                    "--layer {layer}: the run has the layers 0 to {last}; layer 0 is the embeddings"
                ),
                _ => "the network of the run has no hidden states to encode with".into(),
            }));
        };
        Ok(Self::from_tensor(data))
    }

    /// Arranges states as rows of positions; flattens feature maps `[rows, width, map_height, map_width]` into positions.
    fn from_tensor(data: &TensorData) -> Self {
        let values: Vec<f32> = data.iter().collect();
        match data.shape()[..] {
            [rows, width, high, wide] => {
                let positions = high * wide;
                let at = |n: usize| {
                    let (row, rest) = (n / (positions * width), n % (positions * width));
                    let (place, channel) = (rest / width, rest % width);
                    values[(row * width + channel) * positions + place]
                };
                Self {
                    positions,
                    width,
                    values: (0..rows * positions * width).map(at).collect(),
                }
            }
            [_, positions, width] => Self {
                positions,
                width,
                values,
            },
            _ => unreachable!("hidden states have three dimensions, feature maps four"),
        }
    }

    fn at(&self, row: usize, position: usize) -> &[f32] {
        &self.values[(row * self.positions + position) * self.width..][..self.width]
    }

    fn mean(&self, row: usize, places: Range<usize>) -> Vec<f32> {
        let mut mean = vec![0.0; self.width];
        for place in places.clone() {
            let state = self.at(row, place).iter();
            mean.iter_mut()
                .zip(state)
                .for_each(|(sum, x)| *sum += f64::from(*x));
        }
        let count = places.len().max(1) as f64;
        mean.iter().map(|sum| (sum / count) as f32).collect()
    }

    fn largest(&self, row: usize, places: Range<usize>) -> Vec<f32> {
        let mut largest = self.at(row, places.start).to_vec();
        for place in places.skip(1) {
            let state = self.at(row, place).iter();
            largest
                .iter_mut()
                .zip(state)
                .for_each(|(most, x)| *most = most.max(*x));
        }
        largest
    }

    /// Pools a row whose positions are `places`, the first `before` of which are not patches.
    fn pooled(
        &self,
        row: usize,
        places: Range<usize>,
        before: usize,
        request: &Request,
    ) -> Vectors {
        let last = places.end.saturating_sub(1);
        let mut values = match request.pool {
            Pool::Class | Pool::Trained => self.at(row, 0).to_vec(),
            Pool::Last => self.at(row, last).to_vec(),
            Pool::None => places.flat_map(|at| self.at(row, at)).copied().collect(),
            Pool::Mean => self.mean(row, before.min(last)..places.end),
            Pool::Max => self.largest(row, before.min(last)..places.end),
        };
        if request.normalize {
            values.chunks_mut(self.width.max(1)).for_each(normalize);
        }
        Vectors {
            width: self.width,
            values,
        }
    }
}

fn normalize(vector: &mut [f32]) {
    let squares: f64 = vector.iter().map(|x| f64::from(*x).powi(2)).sum();
    let length = squares.sqrt().max(f64::MIN_POSITIVE);
    vector
        .iter_mut()
        .for_each(|x| *x = (f64::from(*x) / length) as f32);
}
