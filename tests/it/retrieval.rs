//! Retrieval-enhanced language models (Borgeaud et al. 2022, RETRO): the network against oracles, visibility, the database's
//! search, and runs that retrieve.

mod data;
mod faults;
mod goldens;
mod network;
mod runs;

use burn::tensor::{Device, Int, Tensor, TensorData};
use formwork::data::Shape;
use formwork::model::decoder::{Decoder, DecoderConfig, DecoderInput};
use formwork::model::{BuildContext, LanguageModel};
use formwork::nn::neighbours::Neighbours;
use formwork::nn::pass::Pass;
use formwork::nn::state::StateUse;
use formwork::train::parameters::{materialize, name_parameters};

fn built(config: &DecoderConfig, [context, vocab]: [usize; 2], device: &Device) -> Decoder {
    materialize(name_parameters(config.init(&BuildContext {
        shape: &Shape::of_text(context, vocab),
        seed: 5,
        device,
    })))
}

fn input(
    ids: &[i32],
    rows: usize,
    neighbours: Option<Neighbours>,
    device: &Device,
) -> DecoderInput {
    let ids = TensorData::new(ids.to_vec(), [rows, ids.len() / rows]);
    DecoderInput {
        neighbours,
        ..DecoderInput::new(Tensor::<2, Int>::from_data(ids, device))
    }
}

/// Logits `[rows, seq, vocab]` of a pass in evaluation mode.
fn logits(model: &Decoder, input: DecoderInput) -> Tensor<3> {
    model.logits(model.forward(input, None, &Pass::evaluation()))
}

/// Selects the neighbours of a range of chunks in each row, which has `chunks` of them.
fn part(all: &Neighbours, chunks: usize, range: std::ops::Range<usize>) -> Neighbours {
    let mut part = Neighbours::empty(all.chunk, all.count);
    let (of_chunk, of_ids) = (all.count, all.count * all.width);
    let rows = all.lengths.len() / (chunks * of_chunk);
    for row in 0..rows {
        for chunk in range.clone() {
            let at = row * chunks + chunk;
            part.lengths
                .extend(&all.lengths[at * of_chunk..(at + 1) * of_chunk]);
            part.ids.extend(&all.ids[at * of_ids..(at + 1) * of_ids]);
        }
    }
    part
}

/// Returns the logits of the same texts read `step` tokens at a time, with a cache.
fn cached(model: &Decoder, ids: &[i32], rows: usize, all: &Neighbours, step: usize) -> Tensor<3> {
    let device = Device::flex();
    let seq = ids.len() / rows;
    let (m, chunks) = (all.chunk, seq / all.chunk);
    let mut state = model.empty_state(StateUse::Decoding);
    let mut parts = Vec::new();
    for start in (0..seq).step_by(step) {
        let end = (start + step).min(seq);
        let of_row = |row: &[i32]| row[start..end].to_vec();
        let tokens: Vec<i32> = ids.chunks(seq).flat_map(of_row).collect();
        let found = part(all, chunks, start / m..end / m);
        let input = input(&tokens, rows, Some(found), &device);
        let hidden = model.forward(input, Some(&mut state), &Pass::evaluation());
        parts.push(model.logits(hidden));
    }
    assert_eq!(state.seen, seq);
    Tensor::cat(parts, 1)
}
