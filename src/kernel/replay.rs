//! Steps that are recorded once and replayed: a GPU is given all launches of a step at once, without the host's work between
//! them. Source: CUDA graphs, in the form that Burn's CubeCL has for CUDA and, in software, for WebGPU.
//!
//! A recording reads and writes the buffers that it was recorded with. So whatever differs from step to step has a buffer of
//! its own, which the host writes before each step: the inputs, the words that dropout draws by, the factors of AdamW. Weights,
//! moments and averages are written in place. The first pass of a step notes what it is that differs; the second one
//! reads it from these buffers, so that every kernel is compiled and every buffer there; the third one is recorded, and run by
//! its first replay. Each of the three does a step's work once, so that no step is taken twice.

#[cfg(all(feature = "gpu", not(feature = "fusion")))]
use super::cube;
use crate::error::Result;
use burn::tensor::{Bool, Device, Int, Tensor, TensorData};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a step is told by its number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tick {
    /// Steps before this one.
    pub step: u64,
    /// Learning rate of the schedule.
    pub lr: f64,
}

/// Steps that a state of an optimizer has seen. Clones are one counter, which a replay moves on as the recorded step did.
#[derive(Clone, Debug, Default)]
pub struct Counter(Arc<AtomicU64>);

impl Counter {
    /// A counter that stands at so many steps.
    pub fn new(steps: u64) -> Self {
        Self(Arc::new(AtomicU64::new(steps)))
    }

    /// The steps so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts one more.
    pub fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Integers of the host on the device: of a batch, or the same at every step. In a step that is replayed they are in the buffer
/// that it reads.
pub fn integers<const D: usize>(data: TensorData, device: &Device) -> Tensor<D, Int> {
    fixed_integers(&data, device).unwrap_or_else(|| Tensor::from_data(data, device))
}

/// The buffer of [`integers`] in a step that is replayed; `None` in any other.
pub fn fixed_integers<const D: usize>(
    data: &TensorData,
    device: &Device,
) -> Option<Tensor<D, Int>> {
    #[cfg(all(feature = "gpu", not(feature = "fusion")))]
    return cube::noted::integers(data, device);
    #[cfg(not(all(feature = "gpu", not(feature = "fusion"))))]
    {
        let _ = (data, device);
        None
    }
}

/// [`integers`] for numbers.
pub fn floats<const D: usize>(data: TensorData, device: &Device) -> Tensor<D> {
    #[cfg(all(feature = "gpu", not(feature = "fusion")))]
    if let Some(fixed) = cube::noted::floats(&data, device) {
        return fixed;
    }
    Tensor::from_data(data, device)
}

/// [`integers`] for what is true or false.
pub fn flags<const D: usize>(
    flags: Vec<bool>,
    dims: [usize; D],
    device: &Device,
) -> Tensor<D, Bool> {
    #[cfg(all(feature = "gpu", not(feature = "fusion")))]
    if cube::noted::is_present() {
        let numbers: Vec<i32> = flags.iter().map(|flag| i32::from(*flag)).collect();
        return integers::<D>(TensorData::new(numbers, dims), device).equal_elem(1);
    }
    Tensor::from_data(TensorData::new(flags, dims), device)
}

/// Says that the present step draws by its number, otherwise than dropout does: no replay would draw anew.
pub fn draws() {
    refuse("a layer of it draws by the number of the step");
}

/// Says why the present step cannot be replayed.
pub fn refuse(reason: &str) {
    #[cfg(all(feature = "gpu", not(feature = "fusion")))]
    cube::noted::refuse(reason);
    #[cfg(not(all(feature = "gpu", not(feature = "fusion"))))]
    let _ = reason;
}

/// Has a counter moved on by replays, where the present step is being made ready for them.
pub fn counted(counter: &Counter) {
    #[cfg(all(feature = "gpu", not(feature = "fusion")))]
    cube::noted::counted(counter);
    #[cfg(not(all(feature = "gpu", not(feature = "fusion"))))]
    let _ = counter;
}

/// Writes a number `[1]` into the buffer of another.
pub fn overwrite(target: &Tensor<1>, value: Tensor<1>) {
    #[cfg(all(feature = "gpu", not(feature = "fusion")))]
    cube::replay::overwrite(target, value);
    #[cfg(not(all(feature = "gpu", not(feature = "fusion"))))]
    let _ = (target, value);
}

/// Which buffer a tensor is in; `None` of one that is not on a GPU.
pub fn place<const D: usize>(x: &Tensor<D>) -> Option<u64> {
    #[cfg(all(feature = "gpu", not(feature = "fusion")))]
    return cube::replay::place(x);
    #[cfg(not(all(feature = "gpu", not(feature = "fusion"))))]
    {
        let _ = x;
        None
    }
}

/// A step of one shape on its way from its first pass to its replays.
#[derive(Debug)]
pub struct Replay {
    #[cfg(all(feature = "gpu", not(feature = "fusion")))]
    inner: cube::replay::Replay,
}

impl Replay {
    /// Nothing is noted yet; `None` where the device has no recordings.
    pub fn new(device: &Device) -> Option<Self> {
        #[cfg(all(feature = "gpu", not(feature = "fusion")))]
        return cube::replay::Replay::new(device).map(|inner| Self { inner });
        #[cfg(not(all(feature = "gpu", not(feature = "fusion"))))]
        {
            let _ = device;
            None
        }
    }

    /// Whether the next step only notes what differs from step to step: its buffers are not fixed yet.
    pub fn notes(&self) -> bool {
        #[cfg(all(feature = "gpu", not(feature = "fusion")))]
        return self.inner.notes();
        #[cfg(not(all(feature = "gpu", not(feature = "fusion"))))]
        false
    }

    /// Whether there is a recording.
    pub fn is_ready(&self) -> bool {
        #[cfg(all(feature = "gpu", not(feature = "fusion")))]
        return self.inner.is_ready();
        #[cfg(not(all(feature = "gpu", not(feature = "fusion"))))]
        false
    }

    /// Takes a step with these inputs: by its work, which it gives back, or by a replay of it.
    ///
    /// # Errors
    /// The step cannot be replayed. Where it was being recorded, the weights are lost with the recording.
    pub fn step<T>(
        &mut self,
        tick: Tick,
        inputs: Vec<TensorData>,
        work: impl FnOnce() -> T,
    ) -> Result<Option<T>> {
        #[cfg(all(feature = "gpu", not(feature = "fusion")))]
        return self.inner.step(tick, inputs, work);
        #[cfg(not(all(feature = "gpu", not(feature = "fusion"))))]
        {
            let _ = (tick, inputs);
            Ok(Some(work()))
        }
    }
}
