//! The training step of several processes: each sums a subtree of the micro-batches, and the subtrees are added in the
//! same tree as in one process ([`gradients::subtree_ranges`]).
//!
//! A rank reads its own examples; padded widths and counts of the whole step are joined before it begins ([`batches`]).
//! After the forward and backward passes the ranks exchange the sums of their losses and which parameters have
//! gradients (`header`), then the gradients, bucket by bucket: each rank gets one chunk of the bucket from all others,
//! adds the ranks' chunks as the upper part of the tree, and sends the sum to all. A rank sends and receives
//! 2 (N − 1)/N of the gradients' bytes, as much as in a ring all-reduce (Rabenseifner 2004, section 4). The
//! communication layer adds nothing itself, so the result equals that of one process bit for bit.
//!
//! Every rank computes the norm, the clipping and the update from the same bits.

mod header;

use super::gradients::{self, Abandoned, Gradient, tree_sum};
use super::norms;
use crate::collective::Ranks;
use crate::data::loader::{Batch, Extent, Share};
use crate::device;
use crate::error::{Error, Result};
use crate::kernel;
use crate::stack::state::ModelState;
use crate::task::{StepOutput, TrainableModel};
use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::{DType, Device, Tensor, TensorData};
use header::Header;
pub use header::{from_bytes, to_bytes};

/// Bytes of gradients that are exchanged at once; the buffers of an exchange are three times as large.
const BUCKET: usize = 1 << 25;

/// Returns the micro-batches of this rank, padded and counted as those of the whole step.
///
/// # Errors
/// If a rank has failed, or could not read its examples.
pub fn batches(share: Share, ranks: &Ranks) -> Result<Vec<Batch>> {
    if !ranks.is_distributed() {
        return Ok(share.as_whole_step());
    }
    let all = ranks.all_gather(&share.extent().to_bytes())?;
    let extents = all.iter().map(|bytes| Extent::from_bytes(bytes));
    let step = extents.reduce(|a, b| Ok(a?.merged(b?)));
    Ok(share.in_step(step.unwrap_or_else(|| Ok(Extent::default()))?))
}

/// Computes the gradient of a step whose micro-batches are spread over ranks: `mine` are those of this rank, and
/// `state` is the state of their rows.
///
/// # Errors
/// Outer result: a rank has failed, or computes other bits. Inner result: a rank has abandoned the step.
pub fn accumulate<M: TrainableModel>(
    model: &M,
    mine: Vec<Batch>,
    state: Option<&ModelState>,
    leaves: &dyn Fn() -> bool,
    ranks: &Ranks,
) -> Result<Result<Gradient, Abandoned>> {
    if !ranks.is_distributed() {
        return Ok(gradients::accumulate_until(model, mine, state, leaves));
    }
    let made = gradients::accumulate_subtree(model, mine, state, leaves);
    let (own, output) = match made {
        Ok((own, output)) => (own, output.read()),
        Err(left) => {
            ranks.all_gather(&Header::left().to_bytes()?)?;
            return Ok(Err(left));
        }
    };
    let read = own.is_some().then_some(&output);
    let mut pieces = Pieces::of(model, own.unwrap_or_else(GradientsParams::new))?;
    let header = Header::new(read, pieces.presence());
    let all = ranks.all_gather(&header.to_bytes()?)?;
    let all = all.iter().map(|bytes| Header::from_bytes(bytes));
    let all = all.collect::<Result<Vec<Header>>>()?;
    if all.iter().any(|header| header.left) {
        return Ok(Err(Abandoned(0)));
    }
    pieces.fill_missing(&all)?;
    pieces.sum(ranks)?;
    let gradients = pieces.gradients(model);
    let mut sums = all.into_iter().map(Header::sums);
    let sum = tree_sum(&mut sums, ranks.count(), &|a, b| match (a, b) {
        (Some(mut a), Some(b)) => {
            a.add(&b);
            Some(a)
        }
        (a, b) => a.or(b),
    });
    let output = StepOutput {
        readings: output.readings,
        state: output.state,
        ..sum.flatten().unwrap_or_default()
    };
    Ok(Ok(Gradient {
        norm: norms::global_norm(model, &gradients),
        squares: None,
        gradients,
        output,
    }))
}

/// Fails if the ranks have computed different bits of one number, as happens with different kinds of processors.
///
/// # Errors
/// If they differ; the message names the rank that differs from the first.
pub fn require_identical(ranks: &Ranks, value: f64, what: &str) -> Result<()> {
    if !ranks.is_distributed() {
        return Ok(());
    }
    let all = ranks.all_gather(&value.to_bits().to_le_bytes())?;
    match all.iter().position(|bits| *bits != all[0]) {
        None => Ok(()),
        Some(rank) => Err(Error::run(format!(
            "rank {rank} computed a different {what} than rank 0 from the same numbers, since their processors differ; set \
             FORMWORK_SIMD to an instruction set that all of them have"
        ))),
    }
}

/// The gradients of a model as bytes, in the order of its parameters.
struct Pieces {
    all: Vec<Piece>,
    device: Device,
}

/// The gradient of one parameter.
struct Piece {
    id: ParamId,
    shape: Vec<usize>,
    dtype: DType,
    /// Empty if no rank has a gradient.
    bytes: Vec<u8>,
    present: bool,
}

impl Pieces {
    fn of<M: Module>(model: &M, gradients: GradientsParams) -> Result<Self> {
        let mut taken = Taken {
            gradients,
            found: Vec::new(),
            device: None,
            other: None,
        };
        model.visit(&mut taken);
        if let Some(other) = taken.other {
            return Err(Error::run(other));
        }
        let device = taken.device.unwrap_or_else(device::host);
        Ok(Self {
            all: taken.found,
            device,
        })
    }

    /// Returns one character per parameter: `1` if this rank has a gradient.
    fn presence(&self) -> String {
        let mark = |piece: &Piece| if piece.present { '1' } else { '0' };
        self.all.iter().map(mark).collect()
    }

    /// Fills the gradients that only other ranks have with −0, which changes no bit of the values that are added to it.
    fn fill_missing(&mut self, all: &[Header]) -> Result<()> {
        if let Some(rank) = all.iter().position(|h| h.present.len() != self.all.len()) {
            return Err(Error::run(format!("rank {rank} trains a different model")));
        }
        for (number, piece) in self.all.iter_mut().enumerate() {
            let some = all.iter().any(|h| h.present.as_bytes()[number] == b'1');
            if some && !piece.present {
                let size = piece.dtype.size();
                let mut zero = vec![0; size];
                zero[size - 1] = 0x80;
                piece.bytes = zero.repeat(piece.shape.iter().product());
                piece.present = true;
            }
        }
        Ok(())
    }

    /// Replaces every gradient by its sum over all ranks.
    fn sum(&mut self, ranks: &Ranks) -> Result<()> {
        let mut dtypes: Vec<DType> = Vec::new();
        for piece in &self.all {
            if !dtypes.contains(&piece.dtype) {
                dtypes.push(piece.dtype);
            }
        }
        for dtype in dtypes {
            let pieces = self.all.iter_mut().filter(|piece| piece.dtype == dtype);
            let mut stream: Vec<&mut [u8]> = pieces.map(|piece| &mut piece.bytes[..]).collect();
            sum_in_place(&mut stream, dtype, &self.device, ranks)?;
        }
        Ok(())
    }

    fn gradients<M: Module>(self, model: &M) -> GradientsParams {
        let mut made = Made {
            pieces: self.all.into_iter(),
            device: self.device,
            gradients: GradientsParams::new(),
        };
        model.visit(&mut made);
        made.gradients
    }
}

/// Replaces bytes by the sums over all ranks, bucket by bucket.
fn sum_in_place(
    stream: &mut [&mut [u8]],
    dtype: DType,
    device: &Device,
    ranks: &Ranks,
) -> Result<()> {
    let (mut piece, mut at) = (0, 0);
    loop {
        // Parts of a bucket: piece, from, to.
        let (mut parts, mut bucket) = (Vec::new(), Vec::new());
        while piece < stream.len() && bucket.len() < BUCKET {
            let to = stream[piece].len().min(at + BUCKET - bucket.len());
            bucket.extend_from_slice(&stream[piece][at..to]);
            parts.push((piece, at, to));
            at = to;
            if at == stream[piece].len() {
                (piece, at) = (piece + 1, 0);
            }
        }
        if bucket.is_empty() {
            return Ok(());
        }
        let summed = sum(&bucket, dtype, device, ranks)?;
        let mut from = 0;
        for (piece, begins, ends) in parts {
            let length = ends - begins;
            stream[piece][begins..ends].copy_from_slice(&summed[from..from + length]);
            from += length;
        }
    }
}

/// Sums the buckets of all ranks.
fn sum(bucket: &[u8], dtype: DType, device: &Device, ranks: &Ranks) -> Result<Vec<u8>> {
    let (size, count) = (dtype.size(), ranks.count());
    let values = bucket.len() / size;
    let lengths: Vec<usize> = (0..count)
        .map(|rank| ((rank + 1) * values / count - rank * values / count) * size)
        .collect();
    let chunks = ranks.all_to_all(bucket, &lengths)?;
    let own = lengths[ranks.rank()] / size;
    let mut tensors = chunks.into_iter().map(|bytes| {
        let data = TensorData::from_bytes_vec(bytes, [own], dtype);
        Tensor::<1>::from_data(data, (device, dtype))
    });
    // Burn's addition, as between the micro-batches of one process.
    let sum = match own {
        0 => None,
        _ => tree_sum(&mut tensors, count, &|a, b| a + b),
    };
    let sum = sum.map(kernel::read);
    let bytes = sum.as_ref().map_or(&[][..], TensorData::as_bytes);
    ranks.all_gather_sized(bytes, &lengths)
}

struct Taken {
    gradients: GradientsParams,
    found: Vec<Piece>,
    device: Option<Device>,
    other: Option<String>,
}

impl ModuleVisitor for Taken {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let value = kernel::untracked(param.val());
        self.device.get_or_insert_with(|| value.device());
        let gradient = self.gradients.remove::<D>(param.id).map(kernel::read);
        let dtype = value.dtype();
        if gradient.as_ref().is_some_and(|data| data.dtype() != dtype) {
            self.other = Some(format!(
                "a gradient of a {dtype:?} parameter has another number format"
            ));
        }
        self.found.push(Piece {
            id: param.id,
            shape: value.dims().to_vec(),
            dtype,
            present: gradient.is_some(),
            bytes: gradient.map_or_else(Vec::new, |data| data.into_bytes().to_vec()),
        });
    }
}

struct Made {
    pieces: std::vec::IntoIter<Piece>,
    device: Device,
    gradients: GradientsParams,
}

impl ModuleVisitor for Made {
    fn visit_float<const D: usize>(&mut self, _param: &Param<Tensor<D>>) {
        let Some(piece) = self.pieces.next().filter(|piece| piece.present) else {
            return;
        };
        let data = TensorData::from_bytes_vec(piece.bytes, piece.shape, piece.dtype);
        let gradient = Tensor::<D>::from_data(data, (&self.device, piece.dtype));
        self.gradients.register::<D>(piece.id, gradient);
    }
}

#[cfg(test)]
mod tests;
