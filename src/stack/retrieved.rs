//! Chunked cross-attention: the tokens after a chunk look at the neighbours that were found for it (Borgeaud et al. 2022,
//! RETRO, section 2.4 and algorithm 1).
//!
//! Rows are cut into chunks C₁, C₂, … of m tokens. The last token of Cᵤ and the m − 1 tokens after it look at E(Cᵤ), the
//! encoded neighbours of Cᵤ: neighbours are found when a chunk is whole, so that no token sees what follows it. The first
//! m − 1 tokens of a row see none, and where a chunk has no neighbour nothing is added to the stream.
//!
//! The neighbours of a chunk are encoded once in a pass, conditioned on the chunk's stream where the first such layer reads it.
//! In decoding the stream of the chunk that is not whole yet and the neighbours of the last whole one are kept.

use super::block::Cross;
use crate::kernel::{Pattern, Query, SeenKeys};
use crate::nn::attention::Visibility;
use crate::nn::layer::{Layer, LayerContext};
use crate::nn::neighbours::Neighbours;
use crate::nn::pass::Pass;
use crate::nn::position::Rotation;
use burn::tensor::{Int, Tensor, TensorData};
use std::cell::{OnceCell, RefCell};
use std::fmt::Debug;
use std::ops::Range;

/// What encodes neighbours.
pub trait EncodesNeighbours: Debug {
    /// States `[chunks, count · width, d_memory]` of the neighbours of chunks, from the stream of these,
    /// `[chunks, chunk, d_model]`.
    fn encode(&self, hidden: Tensor<3>, neighbours: &Neighbours, pass: &Pass) -> Tensor<3>;
}

/// What is kept of the chunks of each row between two calls in decoding.
#[derive(Clone, Debug, Default)]
pub struct KeptChunks {
    /// The stream of the chunk that is not whole, `[batch, tokens, d_model]`.
    open: Option<Tensor<3>>,
    /// The encoded neighbours of the last whole chunk, `[batch, count · width, d_memory]`, and their lengths
    /// `[batch, count]`.
    last: Option<(Tensor<3>, Vec<usize>)>,
}

impl KeptChunks {
    /// The same for other rows: row i becomes that of `rows[i]`.
    pub fn select(&mut self, rows: &Tensor<1, Int>) {
        if let Some(open) = &mut self.open {
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

/// The neighbours of the chunks that end in one pass, and what its blocks share of them.
#[derive(Debug)]
pub struct Retrieved<'a> {
    neighbours: &'a Neighbours,
    encoder: &'a dyn EncodesNeighbours,
    /// Positions of each row before this pass.
    seen: usize,
    /// The rotation of queries and of keys, where positions turn them.
    turned: Option<[Rotation; 2]>,
    kept: RefCell<KeptChunks>,
    encoded: OnceCell<Option<Encoded>>,
}

/// Encoded neighbours with the tokens that look at them: in each row `groups` times `chunk` queries.
#[derive(Debug)]
struct Encoded {
    /// `[batch · groups, count · width, d_memory]`.
    states: Tensor<3>,
    visible: Visibility,
    /// 1 where a group has a neighbour and 0 where it has none, `[batch · groups, 1, 1]`; `None` where all have.
    present: Option<Tensor<3>>,
    /// Groups of each row.
    groups: usize,
    /// Positions of the pass that look at nothing, at its beginning.
    skipped: usize,
    /// Places of the first group before the first position of the pass.
    before: usize,
}

/// The block that looks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Looking {
    /// Its number in the stack.
    pub layer: usize,
    /// That of the block whose parameters it has.
    pub owner: usize,
    /// Probability that a row skips a layer of it.
    pub drop_path: f64,
}

impl<'a> Retrieved<'a> {
    /// For a pass over positions after the first `seen` of each row: `neighbours` are those of the chunks that end in it.
    pub fn new(
        neighbours: &'a Neighbours,
        encoder: &'a dyn EncodesNeighbours,
        seen: usize,
        turned: Option<[Rotation; 2]>,
        kept: KeptChunks,
    ) -> Self {
        Self {
            neighbours,
            encoder,
            seen,
            turned,
            kept: RefCell::new(kept),
            encoded: OnceCell::new(),
        }
    }

    /// What is kept for the next call.
    pub fn into_kept(self) -> KeptChunks {
        self.kept.into_inner()
    }

    /// The stream `[batch, seq, d_model]` after a block's cross-attention to the neighbours.
    pub(super) fn through(
        &self,
        cross: &Cross,
        x: Tensor<3>,
        block: Looking,
        pass: &Pass,
    ) -> Tensor<3> {
        let encoded = self.encoded.get_or_init(|| self.encoded(x.clone(), pass));
        let (Some(encoded), Some(residual)) = (encoded, &cross.residual) else {
            return x;
        };
        let layer = cross.attention.layer();
        residual.around(x, "cross_attention", block.drop_path, pass, |x| {
            let mut cx = LayerContext::alone(encoded.states.dims()[1], pass);
            (cx.layer, cx.owner) = (block.layer, block.owner);
            cx.span.queries = self.neighbours.chunk;
            cx.visible = &encoded.visible;
            cx.memory = Some(&encoded.states);
            cx.turned = self.turned.as_ref().map(<[Rotation; 2]>::each_ref);
            encoded.added(layer, x, self.neighbours.chunk, &mut cx)
        })
    }

    /// The neighbours that queries of this pass look at, from the stream that the first block with cross-attention has;
    /// `None` where no query looks at any.
    fn encoded(&self, x: Tensor<3>, pass: &Pass) -> Option<Encoded> {
        let (m, of) = (self.neighbours.chunk, self.neighbours);
        let [batch, seq, d] = x.dims();
        let mut kept = self.kept.borrow_mut();
        let hidden = match kept.open.take() {
            Some(open) => Tensor::cat(vec![open, x.clone()], 1),
            None => x.clone(),
        };
        let ended = Neighbours::ended(m, self.seen, seq);
        assert_eq!(
            of.lengths.len(),
            batch * ended * of.count,
            "neighbours for each chunk that ends"
        );
        let length = hidden.dims()[1];
        kept.open =
            (length > ended * m).then(|| hidden.clone().narrow(1, ended * m, length - ended * m));
        let new = (ended > 0).then(|| {
            let chunks = hidden
                .narrow(1, 0, ended * m)
                .reshape([batch * ended, m, d]);
            let states = pass.in_rows(ended * of.count, || {
                pass.within("neighbours", || self.encoder.encode(chunks, of, pass))
            });
            let [_, keys, width] = states.dims();
            states.reshape([batch, ended * keys, width])
        });
        // Query t looks at the chunk of number (t + 1) / m, counted from 1.
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
        Some(Encoded::new(states, lengths, of, groups, [skipped, lead]))
    }
}

impl Encoded {
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
            Pattern::new(Filled {
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
            before,
        }
    }

    /// What the layer adds to the stream, `[batch, seq, d_model]`.
    fn added(
        &self,
        layer: &dyn Layer,
        x: Tensor<3>,
        chunk: usize,
        cx: &mut LayerContext,
    ) -> Tensor<3> {
        let [batch, seq, d] = x.dims();
        let (device, looking) = (x.device(), seq - self.skipped);
        let nothing = |places: usize| Tensor::<3>::zeros([batch, places, d], (&device, x.dtype()));
        let after = self.groups * chunk - self.before - looking;
        let queries = x.clone().narrow(1, self.skipped, looking);
        let queries = between([self.before, after].map(nothing), queries);
        let queries = queries.reshape([batch * self.groups, chunk, d]);
        let pass = cx.pass;
        let mut y = pass.in_rows(self.groups, || layer.forward(queries, cx));
        if let Some(present) = &self.present {
            y = y * present.clone();
        }
        let y = y.reshape([batch, self.groups * chunk, d]);
        let y = y.narrow(1, self.before, looking);
        between([self.skipped, 0].map(nothing), y)
    }
}

/// A tensor with others before and behind it along its positions.
fn between([before, after]: [Tensor<3>; 2], x: Tensor<3>) -> Tensor<3> {
    let parts = [before, x, after].into_iter();
    let mut parts: Vec<Tensor<3>> = parts.filter(|part| part.dims()[1] > 0).collect();
    match parts.len() {
        1 => parts.remove(0),
        _ => Tensor::cat(parts, 1),
    }
}

/// The tokens of neighbours that lie side by side, each filled up to one width. Where a chunk has none its first place is
/// seen, and what comes of that is left out.
#[derive(Debug)]
struct Filled {
    /// `[rows, count]`.
    lengths: Vec<usize>,
    count: usize,
    width: usize,
}

impl Filled {
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

impl SeenKeys for Filled {
    fn of_query(&self, query: Query, _keys: usize, see: &mut dyn FnMut(Range<usize>)) {
        self.of_row(query.row, see);
    }

    fn of_queries(
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
