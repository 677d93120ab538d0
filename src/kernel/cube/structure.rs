//! Which keys a query sees, in the kernel: the structure of [`Visibility`] as a few numbers a row and a head, instead of a
//! tensor of pairs. Patterns are not among it.

use std::sync::{Mutex, PoisonError};

use burn::tensor::DType;
use burn_cubecl::CubeDevice;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use crate::kernel::extension::AttentionSettings;
use crate::kernel::{Visibility, Window};

/// The rules that are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    causal: bool,
    lengths: bool,
    prefix: bool,
    window: bool,
    documents: bool,
}

/// Sizes of attention, and where each rule's numbers begin.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub struct Sizes {
    /// Query heads.
    pub heads: u32,
    /// Queries of a head.
    pub queries: u32,
    /// Keys.
    pub keys: u32,
    /// Position of the first query.
    pub offset: u32,
    prefix_at: u32,
    window_at: u32,
    documents_at: u32,
}

/// A query and the keys among which it sees all but those that documents and dilation hide.
#[derive(CubeType, Clone, Copy)]
pub struct Place {
    /// Row of the batch.
    pub row: u32,
    /// Query head.
    pub head: u32,
    /// The query, counted from the first of the pass.
    pub query: u32,
    position: u32,
    /// First key.
    pub start: u32,
    /// Key behind the last.
    pub end: u32,
    step: u32,
    documents_at: u32,
    own: i32,
}

/// The place of query `number` of all.
#[cube]
pub fn place_of(number: u32, structure: &[i32], sizes: &Sizes, #[comptime] rules: Rules) -> Place {
    let query = number % sizes.queries;
    let head = number / sizes.queries % sizes.heads;
    let row = number / sizes.queries / sizes.heads;
    let position = sizes.offset + query;
    let mut start = 0u32;
    let mut end = sizes.keys;
    let mut step = 1u32;
    if comptime!(rules.causal) {
        let mut last = position + 1;
        if comptime!(rules.prefix) {
            last = max(last, structure[(sizes.prefix_at + row) as usize] as u32);
        }
        end = min(end, last);
    }
    if comptime!(rules.lengths) {
        end = min(end, structure[row as usize] as u32);
    }
    if comptime!(rules.window) {
        let at = sizes.window_at + 3 * head;
        let before = structure[at as usize] as u32;
        let after = structure[(at + 1) as usize] as u32;
        step = structure[(at + 2) as usize] as u32;
        start = position - min(before, position);
        end = min(end, position + after + 1);
    }
    let documents_at = sizes.documents_at + row * sizes.keys;
    let mut own = 0i32;
    if comptime!(rules.documents) {
        own = structure[(documents_at + position) as usize];
    }
    Place {
        row,
        head,
        query,
        position,
        start: min(start, end),
        end,
        step,
        documents_at,
        own,
    }
}

/// Whether the query sees a key.
#[cube]
pub fn sees(place: &Place, key: u32, structure: &[i32], #[comptime] rules: Rules) -> bool {
    let mut seen = key >= place.start && key < place.end;
    if comptime!(rules.window) {
        let low = min(key, place.position);
        let high = max(key, place.position);
        seen = seen && (high - low) % place.step == 0;
    }
    if comptime!(rules.documents) {
        if seen {
            seen = structure[(place.documents_at + key) as usize] == place.own;
        }
    }
    seen
}

/// The structure of attention of so many rows, heads, queries and keys on the device: its numbers, their places, and the
/// rules that they are of.
pub struct Structure {
    /// The numbers, or one zero.
    pub numbers: CubeTensor,
    /// Where they begin.
    pub sizes: [u32; 7],
    /// Whose they are.
    pub rules: Rules,
}

impl Structure {
    /// Of these settings.
    pub fn of(
        settings: &AttentionSettings,
        [rows, heads, queries, keys]: [usize; 4],
        device: &CubeDevice,
    ) -> Self {
        let Visibility {
            causal,
            lengths,
            documents,
            prefix,
            window,
            pattern,
            globals: _,
        } = &settings.visible;
        assert!(pattern.is_none(), "patterns have no kernel");
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
        let farthest = settings.offset + queries + keys;
        let window_at = window
            .as_ref()
            .map_or(0, |x| all(&mut numbers, &of_window(x, heads, farthest)));
        let documents_at = numbers.len() as u32;
        if let Some(documents) = documents {
            (0..rows).for_each(|row| numbers.extend(documents.row(row)));
        }
        let sizes = [heads, queries, keys, settings.offset].map(|x| x as u32);
        let [heads, queries, keys, offset] = sizes;
        Self {
            numbers: uploaded(numbers, device),
            sizes: [
                heads,
                queries,
                keys,
                offset,
                prefix_at,
                window_at,
                documents_at,
            ],
            rules: Rules {
                causal: *causal,
                lengths: lengths.is_some(),
                prefix: prefix.is_some(),
                window: window.is_some(),
                documents: documents.is_some(),
            },
        }
    }

    /// The sizes as an argument.
    pub fn sizes(&self) -> SizesLaunch {
        let [heads, queries, keys, offset, prefix, window, documents] = self.sizes;
        SizesLaunch::new(heads, queries, keys, offset, prefix, window, documents)
    }
}

/// Of each head how far it looks back and ahead, and its dilation; no farther than there are positions.
fn of_window(window: &Window, heads: usize, farthest: usize) -> Vec<usize> {
    let each = (0..heads).map(|head| {
        let step = window.step(head);
        let reach = |count: usize| count.saturating_mul(step).min(farthest);
        [reach(window.before), reach(window.after), step]
    });
    each.flatten().collect()
}

/// Numbers that were uploaded last: layers of one pass ask for the same.
static LAST: Mutex<Vec<(Vec<i32>, CubeDevice, CubeTensor)>> = Mutex::new(Vec::new());

/// Structures that are kept.
const KEPT: usize = 6;

fn uploaded(mut numbers: Vec<i32>, device: &CubeDevice) -> CubeTensor {
    if numbers.is_empty() {
        numbers.push(0);
    }
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let same = |(of, on, _): &(Vec<i32>, CubeDevice, CubeTensor)| *of == numbers && on == device;
    if let Some(at) = last.iter().position(same) {
        let found = last.remove(at);
        let tensor = found.2.clone();
        last.push(found);
        return tensor;
    }
    let client = device.client();
    let handle = client.create_from_slice(i32::as_bytes(&numbers));
    let shape = [numbers.len()].into();
    let tensor = CubeTensor::new_contiguous(client, device.clone(), shape, handle, DType::I32);
    if last.len() == KEPT {
        last.remove(0);
    }
    last.push((numbers, device.clone(), tensor.clone()));
    tensor
}
