//! Chunked cross-attention: the tokens after a chunk attend to the neighbours retrieved for it (Borgeaud et al. 2022,
//! RETRO, section 2.4 and algorithm 1).
//!
//! Rows are cut into chunks C₁, C₂, … of m tokens. The last token of Cᵤ and the m − 1 tokens after it attend to E(Cᵤ), the
//! encoded neighbours of Cᵤ: neighbours are retrieved when a chunk is complete, so that no token sees what follows it. The first
//! m − 1 tokens of a row see none, and if a chunk has no neighbour, nothing is added to the stream.
//!
//! The neighbours of a chunk are encoded once per pass, conditioned on the stream that the first layer with cross-attention reads.
//! Decoding keeps the stream of the chunk that is still incomplete and the neighbours of the last complete one.

use super::block::Cross;
use crate::kernel::{KeyPattern, Pattern, Query};
use crate::nn::attention::Visibility;
use crate::nn::layer::{Layer, LayerContext};
use crate::nn::neighbours::Neighbours;
use crate::nn::pass::Pass;
use crate::nn::position::Rotation;
use burn::tensor::{Int, Tensor, TensorData};
use std::cell::{OnceCell, RefCell};
use std::fmt::Debug;
use std::ops::Range;

/// An encoder of retrieved neighbours.
pub trait ChunkEncoder: Debug {
    /// Returns states `[chunks, count · width, d_memory]` of the chunks' neighbours, given the stream of the chunks,
    /// `[chunks, chunk, d_model]`.
    fn encode(&self, hidden: Tensor<3>, neighbours: &Neighbours, pass: &Pass) -> Tensor<3>;
}

/// The state of each row's chunks between two calls in decoding.
#[derive(Clone, Debug, Default)]
pub struct ChunkState {
    /// The stream of the incomplete chunk, `[batch, tokens, d_model]`.
    incomplete: Option<Tensor<3>>,
    /// The encoded neighbours of the last complete chunk, `[batch, count · width, d_memory]`, and their lengths
    /// `[batch, count]`.
    last: Option<(Tensor<3>, Vec<usize>)>,
}

impl ChunkState {
    /// Selects rows: row i becomes that of `rows[i]`.
    pub fn select(&mut self, rows: &Tensor<1, Int>) {
        if let Some(open) = &mut self.incomplete {
            *open = open.clone().select(0, rows.clone());
        }
        if let Some((states, lengths)) = &mut self.last {
            let [batch, _, _] = states.dims();
            let count = lengths.len() / batch;
            *states = states.clone().select(0, rows.clone());
            let chosen = crate::kernel::read(rows.clone());
            let of_row = |row: i64| &lengths[row as usize * count..(row as usize + 1) * count];
            *lengths = chosen.iter::<i64>().flat_map(of_row).copied().collect();
        }
    }
}

/// The neighbours of the chunks that end in one pass, with their encodings, which all blocks of the pass share.
#[derive(Debug)]
pub struct RetrievedContext<'a> {
    neighbours: &'a Neighbours,
    encoder: &'a dyn ChunkEncoder,
    /// Number of positions of each row before this pass.
    seen: usize,
    /// The rotations of queries and keys, if positions are rotary.
    rotations: Option<[Rotation; 2]>,
    kept: RefCell<ChunkState>,
    encoded: OnceCell<Option<EncodedNeighbours>>,
}

/// Encoded neighbours for the tokens that attend to them: in each row `groups` times `chunk` queries.
#[derive(Debug)]
struct EncodedNeighbours {
    /// The encoded neighbours, `[batch · groups, count · width, d_memory]`.
    states: Tensor<3>,
    visible: Visibility,
    /// 1 if a group has a neighbour and 0 if it has none, `[batch · groups, 1, 1]`; `None` if all have.
    present: Option<Tensor<3>>,
    /// Number of groups in each row.
    groups: usize,
    /// Number of positions at the beginning of the pass that attend to nothing.
    skipped: usize,
    /// Number of the first group's positions that come before this pass.
    overlap: usize,
}

/// The block whose cross-attention runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct CrossAttentionBlock {
    /// Number of the block in its stack.
    pub layer: usize,
    /// Number of the block whose parameters it uses.
    pub owner: usize,
    /// Probability that a row skips one of the block's layers.
    pub drop_path: f64,
}

impl<'a> RetrievedContext<'a> {
    /// Prepares a pass over the positions after the first `seen` of each row; `neighbours` belong to the chunks that end in it.
    pub fn new(
        neighbours: &'a Neighbours,
        encoder: &'a dyn ChunkEncoder,
        seen: usize,
        turned: Option<[Rotation; 2]>,
        kept: ChunkState,
    ) -> Self {
        Self {
            neighbours,
            encoder,
            seen,
            rotations: turned,
            kept: RefCell::new(kept),
            encoded: OnceCell::new(),
        }
    }

    /// Returns the state for the next call.
    pub fn into_state(self) -> ChunkState {
        self.kept.into_inner()
    }

    /// Applies a block's cross-attention to the neighbours: stream `[batch, seq, d_model]` → the same shape.
    pub(super) fn cross_attend(
        &self,
        cross: &Cross,
        x: Tensor<3>,
        block: CrossAttentionBlock,
        pass: &Pass,
    ) -> Tensor<3> {
        let encoded = self.encoded.get_or_init(|| self.encoded(x.clone(), pass));
        let (Some(encoded), Some(residual)) = (encoded, &cross.residual) else {
            return x;
        };
        let layer = cross.attention.layer();
        residual.apply(x, "cross_attention", block.drop_path, pass, |x| {
            let mut cx = LayerContext::standalone(encoded.states.dims()[1], pass);
            (cx.layer, cx.owner) = (block.layer, block.owner);
            cx.span.queries = self.neighbours.chunk;
            cx.visible = &encoded.visible;
            cx.memory = Some(&encoded.states);
            cx.memory_rotations = self.rotations.as_ref().map(<[Rotation; 2]>::each_ref);
            encoded.cross_attention_output(layer, x, self.neighbours.chunk, &mut cx)
        })
    }

    /// Encodes the neighbours that queries of this pass attend to, from the stream `x` at the first block with cross-attention;
    /// `None` if no query attends to any.
    fn encoded(&self, x: Tensor<3>, pass: &Pass) -> Option<EncodedNeighbours> {
        let (m, of) = (self.neighbours.chunk, self.neighbours);
        let [batch, seq, d] = x.dims();
        let mut kept = self.kept.borrow_mut();
        let hidden = match kept.incomplete.take() {
            Some(open) => Tensor::cat(vec![open, x.clone()], 1),
            None => x.clone(),
        };
        let ended = Neighbours::chunks_ended(m, self.seen, seq);
        assert_eq!(
            of.lengths.len(),
            batch * ended * of.count,
            "neighbours for each chunk that ends"
        );
        let length = hidden.dims()[1];
        kept.incomplete =
            (length > ended * m).then(|| hidden.clone().narrow(1, ended * m, length - ended * m));
        let new = (ended > 0).then(|| {
            let chunks = hidden
                .narrow(1, 0, ended * m)
                .reshape([batch * ended, m, d]);
            let states = pass.with_derived_rows(ended * of.count, || {
                pass.in_network("neighbours", || self.encoder.encode(chunks, of, pass))
            });
            let [_, keys, width] = states.dims();
            states.reshape([batch, ended * keys, width])
        });
        // Query t attends to the neighbours of chunk number (t + 1) / m, counted from 1.
        let within = (self.seen + 1) % m;
        let before = kept.last.take().filter(|_| within != 0);
        let joined = |kept: &[usize], row: usize| -> Vec<usize> {
            let of_kept = kept.len() / batch;
            let of_new = ended * of.count;
            let kept = &kept[row * of_kept..(row + 1) * of_kept];
            [kept, &of.lengths[row * of_new..(row + 1) * of_new]].concat()
        };
        let (skipped, lead) = match &before {
            Some(_) => (0, within),
            None => ((m - 1).saturating_sub(self.seen % m).min(seq), 0),
        };
        let groups = usize::from(before.is_some()) + ended;
        let old = before.as_ref().map_or(&[][..], |(_, lengths)| lengths);
        let lengths: Vec<usize> = (0..batch).flat_map(|row| joined(old, row)).collect();
        let parts: Vec<Tensor<3>> = before
            .into_iter()
            .map(|(states, _)| states)
            .chain(new)
            .collect();
        if parts.is_empty() {
            return None;
        }
        let states = Tensor::cat(parts, 1);
        let keys = of.count * of.width;
        let last = states.clone().narrow(1, (groups - 1) * keys, keys);
        let of_last = lengths.chunks(groups * of.count);
        let of_last = of_last.flat_map(|row| row[(groups - 1) * of.count..].to_vec());
        kept.last = Some((last, of_last.collect()));
        let [_, _, width] = states.dims();
        let states = states.reshape([batch * groups, keys, width]);
        Some(EncodedNeighbours::new(
            states,
            lengths,
            of,
            groups,
            [skipped, lead],
        ))
    }
}

impl EncodedNeighbours {
    fn new(
        states: Tensor<3>,
        lengths: Vec<usize>,
        of: &Neighbours,
        groups: usize,
        [skipped, before]: [usize; 2],
    ) -> Self {
        let device = states.device();
        let any: Vec<f32> = lengths
            .chunks(of.count)
            .map(|chunk| f32::from(u8::from(chunk.iter().any(|length| *length > 0))))
            .collect();
        let rows = any.len();
        let some_lack = any.contains(&0.0);
        let whole = lengths.iter().all(|length| *length == of.width);
        let filled = || {
            Pattern::new(NeighbourMask {
                lengths,
                count: of.count,
                width: of.width,
            })
        };
        Self {
            states,
            visible: Visibility {
                pattern: (!whole).then(filled),
                ..Visibility::ALL
            },
            present: some_lack
                .then(|| Tensor::from_data(TensorData::new(any, [rows, 1, 1]), &device)),
            groups,
            skipped,
            overlap: before,
        }
    }

    /// Returns what cross-attention adds to the stream, `[batch, seq, d_model]`.
    fn cross_attention_output(
        &self,
        layer: &dyn Layer,
        x: Tensor<3>,
        chunk: usize,
        cx: &mut LayerContext,
    ) -> Tensor<3> {
        let [batch, seq, d] = x.dims();
        let (device, looking) = (x.device(), seq - self.skipped);
        let nothing = |places: usize| Tensor::<3>::zeros([batch, places, d], (&device, x.dtype()));
        let after = self.groups * chunk - self.overlap - looking;
        let queries = x.clone().narrow(1, self.skipped, looking);
        let queries = concat_positions([self.overlap, after].map(nothing), queries);
        let queries = queries.reshape([batch * self.groups, chunk, d]);
        let pass = cx.pass;
        let mut y = pass.with_derived_rows(self.groups, || layer.forward(queries, cx));
        if let Some(present) = &self.present {
            y = y * present.clone();
        }
        let y = y.reshape([batch, self.groups * chunk, d]);
        let y = y.narrow(1, self.overlap, looking);
        concat_positions([self.skipped, 0].map(nothing), y)
    }
}

/// Concatenates tensors along the positions, leaving out empty ones.
fn concat_positions([before, after]: [Tensor<3>; 2], x: Tensor<3>) -> Tensor<3> {
    let parts = [before, x, after].into_iter();
    let mut parts: Vec<Tensor<3>> = parts.filter(|part| part.dims()[1] > 0).collect();
    match parts.len() {
        1 => parts.remove(0),
        _ => Tensor::cat(parts, 1),
    }
}

/// The mask of neighbours that lie side by side, each padded to one width. If a chunk has no neighbour, its first position
/// is seen, and the result is multiplied by 0.
#[derive(Debug)]
struct NeighbourMask {
    /// Lengths of the neighbours, `[rows, count]`.
    lengths: Vec<usize>,
    count: usize,
    width: usize,
}

impl NeighbourMask {
    fn of_row(&self, row: usize, see: &mut dyn FnMut(Range<usize>)) {
        let lengths = &self.lengths[row * self.count..(row + 1) * self.count];
        if lengths.iter().all(|length| *length == 0) {
            return see(0..1);
        }
        for (number, length) in lengths
            .iter()
            .enumerate()
            .filter(|(_, length)| **length > 0)
        {
            see(number * self.width..number * self.width + length);
        }
    }
}

impl KeyPattern for NeighbourMask {
    fn keys_of_query(&self, query: Query, _keys: usize, see: &mut dyn FnMut(Range<usize>)) {
        self.of_row(query.row, see);
    }

    fn keys_of_queries(
        &self,
        [row, _]: [usize; 2],
        _positions: Range<usize>,
        _keys: usize,
        see: &mut dyn FnMut(Range<usize>),
    ) {
        self.of_row(row, see);
    }

    fn by_row(&self) -> bool {
        true
    }
}
