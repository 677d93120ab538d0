//! The device data from which the attention kernels determine which keys a query sees.

use std::sync::{Mutex, PoisonError};

use burn::backend::TensorMetadata;
use burn::backend::ops::IntTensorOps;
use burn::tensor::{DType, Int, Tensor};
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeBackend, CubeDevice};
use cubecl::prelude::*;

use super::blocks::Block;
use super::launch::contiguous;
use super::step_inputs;
use super::structure::{Rules, SizesLaunch};
use crate::kernel::extension::AttentionSettings;
use crate::kernel::{Documents, Pattern, Query, Visibility, Window};

/// The visibility structure of attention of given rows, heads, queries and keys on the device: its numbers, their
/// offsets, and the rules they encode.
#[derive(Clone)]
pub struct Structure {
    /// The numbers; a single zero if there are none.
    pub numbers: CubeTensor,
    /// The rules that the numbers encode.
    pub rules: Rules,
    /// Numbers of rows, heads, queries and keys.
    dims: [u32; 4],
    /// Position of the first query.
    offset: u32,
    /// Offsets of the numbers of prefix, window, documents and pattern.
    places: [u32; 4],
}

impl Structure {
    /// Returns the structure for these settings, from the cache if it was requested recently.
    pub fn of(settings: &AttentionSettings, dims: [usize; 4], device: &CubeDevice) -> Self {
        let (visible, offset) = (&settings.visible, settings.offset);
        let numbers = visible.documents.as_ref().and_then(Documents::replayed);
        let Some(numbers) = numbers else {
            return Self::on_host(visible, (offset, dims), device);
        };
        let every = Self::on_host(
            &visible.without_replayed_documents(),
            (offset, dims),
            device,
        );
        let new = || every.with_documents(numbers.clone());
        cached(visible, (offset, dims), device, new)
    }

    /// Builds the structure for rules known to the host. Patterns are rebuilt in each pass, so the cache never
    /// contains them; in a step prepared for replays their numbers are noted like its other data.
    fn on_host(visible: &Visibility, place: Place, device: &CubeDevice) -> Self {
        if visible.pattern.is_some() && step_inputs::is_preparing() {
            return Self::new(visible, place, device, step_inputs::numbers);
        }
        let new = || Self::new(visible, place, device, upload_integers);
        cached(visible, place, device, new)
    }

    /// Adds documents `[rows, keys]` that are on the device, after all other numbers.
    fn with_documents(self, documents: Tensor<2, Int>) -> Self {
        let documents = documents.flatten::<1>(0, 1);
        let documents = documents.try_into_primitive::<CubeBackend>();
        let documents = documents.expect("steps are replayed on devices of CubeCL");
        let [prefix_at, window_at, _, pattern_at] = self.places;
        let documents_at = self.numbers.shape().num_elements() as u32;
        let numbers = CubeBackend::int_cat(vec![self.numbers, documents], 0);
        Self {
            numbers: contiguous(numbers),
            rules: Rules {
                documents: true,
                ..self.rules
            },
            places: [prefix_at, window_at, documents_at, pattern_at],
            ..self
        }
    }

    fn new(
        visible: &Visibility,
        (offset, dims): Place,
        device: &CubeDevice,
        upload: fn(Vec<i32>, &CubeDevice) -> CubeTensor,
    ) -> Self {
        let [rows, heads, queries, keys] = dims;
        let Visibility {
            causal,
            lengths,
            documents,
            prefix,
            window,
            pattern,
            globals: _,
        } = visible;
        let mut numbers = Vec::new();
        let all = |numbers: &mut Vec<i32>, each: &[usize]| {
            let at = numbers.len() as u32;
            numbers.extend(each.iter().map(|x| *x as i32));
            at
        };
        if let Some(lengths) = lengths {
            all(&mut numbers, &lengths[..rows]);
        }
        let prefix_at = prefix.as_ref().map_or(0, |x| all(&mut numbers, &x[..rows]));
        let farthest = offset + queries + keys;
        let window_at = window
            .as_ref()
            .map_or(0, |x| all(&mut numbers, &of_window(x, heads, farthest)));
        let documents_at = numbers.len() as u32;
        if let Some(documents) = documents {
            (0..rows).for_each(|row| numbers.extend(documents.row(row)));
        }
        let pattern_at = numbers.len() as u32;
        if let Some(pattern) = pattern {
            of_pattern(&mut numbers, pattern, dims, offset);
        }
        Self {
            numbers: upload(numbers, device),
            rules: Rules {
                causal: *causal,
                lengths: lengths.is_some(),
                prefix: prefix.is_some(),
                window: window.is_some(),
                documents: documents.is_some(),
                pattern: pattern.is_some(),
            },
            dims: dims.map(|x| x as u32),
            offset: offset as u32,
            places: [prefix_at, window_at, documents_at, pattern_at],
        }
    }

    /// Returns the number of queries of a block in all rows and heads.
    pub fn lines(&self, block: &Block) -> usize {
        let [rows, heads, ..] = self.dims;
        (rows * heads) as usize * block.queries.len()
    }

    /// Converts the sizes to a kernel argument.
    pub fn sizes(&self, block: &Block) -> SizesLaunch {
        let [_, heads, queries, keys] = self.dims;
        let [prefix, window, documents, pattern] = self.places;
        SizesLaunch::new(
            heads,
            queries,
            keys,
            self.offset,
            block.queries.start as u32,
            block.queries.len() as u32,
            block.keys.start as u32,
            block.keys.end as u32,
            self.lines(block) as u32,
            prefix,
            window,
            documents,
            pattern,
        )
    }
}

/// Encodes a pattern: the number of heads to skip per row and per head (0 if they do not differ), the offset of each
/// query's ranges, the end of the last query's, then the first key of each range and the key after its last.
fn of_pattern(
    numbers: &mut Vec<i32>,
    pattern: &Pattern,
    [rows, heads, queries, keys]: [usize; 4],
    offset: usize,
) {
    let heads = if pattern.by_head() { heads } else { 1 };
    let rows = if pattern.by_row() { rows } else { 1 };
    let by_row = if pattern.by_row() { heads } else { 0 };
    numbers.extend([by_row, usize::from(pattern.by_head())].map(|x| x as i32));
    let begins = numbers.len();
    let ranges = begins + rows * heads * queries + 1;
    let mut all = Vec::new();
    for line in 0..rows * heads * queries {
        numbers.push((ranges + all.len()) as i32);
        let query = Query {
            row: line / queries / heads,
            head: line / queries % heads,
            position: offset + line % queries,
        };
        pattern.for_each_range(query, keys, &mut |range| {
            let [first, last] = [range.start, range.end].map(|key| key.min(keys) as i32);
            all.extend([first, last]);
        });
    }
    numbers.push((ranges + all.len()) as i32);
    numbers.append(&mut all);
}

/// Returns for each head how far it looks back and ahead, limited to the number of positions, and its dilation.
fn of_window(window: &Window, heads: usize, farthest: usize) -> Vec<usize> {
    let each = (0..heads).map(|head| {
        let step = window.step(head);
        let reach = |count: usize| count.saturating_mul(step).min(farthest);
        [reach(window.before), reach(window.after), step]
    });
    each.flatten().collect()
}

/// Position of the first query; numbers of rows, heads, queries and keys.
type Place = (usize, [usize; 4]);

/// A cached structure and its key.
struct CachedStructure {
    visible: Visibility,
    place: Place,
    device: CubeDevice,
    structure: Structure,
}

/// The most recently requested structures: all layers of a pass request the same one, and the backward pass requests
/// those of the forward pass.
static CACHE: Mutex<Vec<CachedStructure>> = Mutex::new(Vec::new());

/// Maximum number of cached structures.
const MAX_CACHED: usize = 24;

/// Returns the structure of these rules from the cache, or creates it.
fn cached(
    visible: &Visibility,
    place: Place,
    device: &CubeDevice,
    new: impl FnOnce() -> Structure,
) -> Structure {
    let mut known = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    let same = |known: &CachedStructure| {
        known.place == place && known.device == *device && known.visible == *visible
    };
    let found = match known.iter().position(same) {
        Some(at) => known.remove(at),
        None => CachedStructure {
            visible: visible.clone(),
            place,
            device: device.clone(),
            structure: new(),
        },
    };
    let structure = found.structure.clone();
    if known.len() == MAX_CACHED {
        known.remove(0);
    }
    known.push(found);
    structure
}

/// Uploads integers to a device; a single zero if there are none.
pub fn upload_integers(mut numbers: Vec<i32>, device: &CubeDevice) -> CubeTensor {
    if numbers.is_empty() {
        numbers.push(0);
    }
    let client = device.client();
    let handle = client.create_from_slice(i32::as_bytes(&numbers));
    let shape = [numbers.len()].into();
    CubeTensor::new_contiguous(client, device.clone(), shape, handle, DType::I32)
}
