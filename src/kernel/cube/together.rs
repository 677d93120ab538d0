//! Work on many small tensors that shares launches: a launch costs the host the same for a bias of 512 numbers as for a matrix.

use std::any::TypeId;
use std::cell::RefCell;
use std::collections::BTreeMap;

use burn::backend::TensorMetadata;
use burn_cubecl::tensor::CubeTensor;

use super::optim::Mean;
use super::updates::Update;

/// Elements up to which a tensor shares its launch; larger ones take as long as their memory does.
const SMALL: usize = 1 << 18;

/// Tensors of a launch at most.
const TOGETHER: usize = 14;

/// Buffers of a launch beside those of its tensors: a decision, a table and one of CubeCL's own.
const BESIDE: usize = 3;

/// Work on one tensor of which a launch does several.
pub trait Joint: Sized {
    /// Buffers that it binds: as many as others that it waits among.
    fn buffers(&self) -> usize;

    /// The tensor that it writes.
    fn written(&self) -> &CubeTensor;

    /// The work that waits for the same launch.
    fn among<'a>(&self, waiting: &'a mut Waiting) -> &'a mut Vec<Self>;

    /// Does all of these in one launch.
    fn launch(all: Vec<Self>);
}

/// Work that waits for more of it.
#[derive(Default)]
pub struct Waiting {
    /// By their formula.
    pub updates: BTreeMap<TypeId, Vec<Update>>,
    pub means: Vec<Mean>,
}

thread_local! {
    /// There while work may wait.
    static WAITING: RefCell<Option<Waiting>> = const { RefCell::new(None) };
}

/// Has work on small tensors wait for more of it, until this is done at the latest.
pub fn together<T>(work: impl FnOnce() -> T) -> T {
    let outer = WAITING.replace(Some(Waiting::default()));
    let done = work();
    let waiting = WAITING.replace(outer).unwrap_or_default();
    waiting.updates.into_values().for_each(Joint::launch);
    Joint::launch(waiting.means);
    done
}

/// As much of such work as a launch on its device does.
fn at_once(work: &impl Joint) -> usize {
    let client = &work.written().client;
    let bindings = client.properties().hardware.max_bindings as usize;
    (bindings.saturating_sub(BESIDE) / work.buffers()).clamp(1, TOGETHER)
}

/// Does the work now, or together with other work within [`together`].
pub fn jointly<S: Joint>(work: S) {
    let (limit, small) = (at_once(&work), elements(&work) <= SMALL);
    let full = WAITING.with_borrow_mut(|waiting| match waiting {
        Some(waiting) if small && limit > 1 => {
            let all = work.among(waiting);
            all.push(work);
            (all.len() == limit).then(|| std::mem::take(all))
        }
        _ => Some(vec![work]),
    });
    full.into_iter().for_each(S::launch);
}

/// Elements of the tensor that is written.
fn elements(work: &impl Joint) -> usize {
    work.written().shape().num_elements()
}

/// Elements of the largest tensor that is written.
pub fn largest<S: Joint>(all: &[S]) -> usize {
    all.iter().map(elements).max().unwrap_or(0)
}
