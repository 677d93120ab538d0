//! Shared launches for work on many small tensors: a launch costs the host the same for a bias of 512 numbers as for
//! a matrix.

use std::any::TypeId;
use std::cell::RefCell;
use std::collections::BTreeMap;

use burn::backend::TensorMetadata;
use burn_cubecl::tensor::CubeTensor;

use super::optim::Mean;
use super::updates::Update;

/// Maximum number of elements of a tensor that shares its launch; the time of larger ones is bounded by memory.
const MAX_SHARED_LEN: usize = 1 << 18;

/// Maximum number of tensors of a launch.
const MAX_TENSORS: usize = 14;

/// Number of buffers of a launch besides those of its tensors: a decision, a table and one used by CubeCL.
const EXTRA_BUFFERS: usize = 3;

/// Work on one tensor, several of which share a launch.
pub trait SharedLaunch: Sized {
    /// Returns the number of buffers that it binds, which is the same for all work of its queue.
    fn buffers(&self) -> usize;

    /// Returns the tensor that it writes.
    fn written(&self) -> &CubeTensor;

    /// Returns the queue of work that waits for the same launch.
    fn queue<'a>(&self, waiting: &'a mut LaunchQueue) -> &'a mut Vec<Self>;

    /// Does all of the work in one launch.
    fn launch(all: Vec<Self>);
}

/// Queued work that waits for a shared launch.
#[derive(Default)]
pub struct LaunchQueue {
    /// Updates by the type of their formula.
    pub updates: BTreeMap<TypeId, Vec<Update>>,
    pub means: Vec<Mean>,
}

thread_local! {
    /// The queue of this thread; `None` if work is launched at once.
    static WAITING: RefCell<Option<LaunchQueue>> = const { RefCell::new(None) };
}

/// Queues work on small tensors during `work`; everything is launched by the time this returns.
pub fn batch_launches<T>(work: impl FnOnce() -> T) -> T {
    let outer = WAITING.replace(Some(LaunchQueue::default()));
    let done = work();
    let waiting = WAITING.replace(outer).unwrap_or_default();
    waiting.updates.into_values().for_each(SharedLaunch::launch);
    SharedLaunch::launch(waiting.means);
    done
}

/// Returns how much of such work one launch on its device can do.
fn max_per_launch(work: &impl SharedLaunch) -> usize {
    let client = &work.written().client;
    let bindings = client.properties().hardware.max_bindings as usize;
    (bindings.saturating_sub(EXTRA_BUFFERS) / work.buffers()).clamp(1, MAX_TENSORS)
}

/// Does the work now, or queues it within [`together`].
pub fn launch_or_queue<S: SharedLaunch>(work: S) {
    let (limit, small) = (max_per_launch(&work), elements(&work) <= MAX_SHARED_LEN);
    let full = WAITING.with_borrow_mut(|waiting| match waiting {
        Some(waiting) if small && limit > 1 => {
            let all = work.queue(waiting);
            all.push(work);
            (all.len() == limit).then(|| std::mem::take(all))
        }
        _ => Some(vec![work]),
    });
    full.into_iter().for_each(S::launch);
}

/// Returns the number of elements of the written tensor.
fn elements(work: &impl SharedLaunch) -> usize {
    work.written().shape().num_elements()
}

/// Returns the number of elements of the largest written tensor.
pub fn largest<S: SharedLaunch>(all: &[S]) -> usize {
    all.iter().map(elements).max().unwrap_or(0)
}
