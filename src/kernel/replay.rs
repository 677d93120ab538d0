//! Steps that are recorded once and replayed: a GPU receives all launches of a step at once, without host work
//! between them. Source: CUDA graphs, in the form that Burn's CubeCL has for CUDA and, in software, for WebGPU.
//!
//! A recording reads and writes the buffers that it was recorded with. So every value that differs from step to step
//! has a separate buffer, which the host writes before each step: the inputs, the words dropout draws with, the
//! factors of AdamW. Weights, moments and averages are written in place.
//!
//! The first pass of a step notes which values differ. The second pass reads them from these buffers, so that every
//! kernel is compiled and every buffer allocated. The third pass is recorded, and its first replay executes it. Each
//! of the three does one step's work, so no step is taken twice.

#[cfg(all(feature = "gpu", not(feature = "fusion")))]
use super::cube;
use crate::error::Result;
use burn::tensor::{Bool, Device, Int, Tensor, TensorData};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The values of a step that depend on its number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepValues {
    /// Number of steps before this one.
    pub step: u64,
    /// Learning rate given by the schedule.
    pub lr: f64,
}

/// Number of steps an optimizer's state has seen. Clones share one counter, which a replay advances as the recorded
/// step did.
#[derive(Clone, Debug, Default)]
pub struct Counter(Arc<AtomicU64>);

impl Counter {
    /// Creates a counter that starts at `steps`.
    pub fn new(steps: u64) -> Self {
        Self(Arc::new(AtomicU64::new(steps)))
    }

    /// Returns the number of steps so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts one more step.
    pub fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Uploads host integers to the device. In a replayed step they are put into the fixed buffer that the recording
/// reads.
pub fn integers<const D: usize>(data: TensorData, device: &Device) -> Tensor<D, Int> {
    fixed_integers(&data, device).unwrap_or_else(|| Tensor::from_data(data, device))
}

/// Returns the fixed buffer of [`integers`] in a replayed step; `None` in any other step.
pub fn fixed_integers<const D: usize>(
    data: &TensorData,
    device: &Device,
) -> Option<Tensor<D, Int>> {
    #[cfg(all(feature = "gpu", not(feature = "fusion")))]
    return cube::step_inputs::integers(data, device);
    #[cfg(not(all(feature = "gpu", not(feature = "fusion"))))]
    {
        let _ = (data, device);
        None
    }
}

/// Uploads host floats to the device, as [`integers`] does.
pub fn floats<const D: usize>(data: TensorData, device: &Device) -> Tensor<D> {
    #[cfg(all(feature = "gpu", not(feature = "fusion")))]
    if let Some(fixed) = cube::step_inputs::floats(&data, device) {
        return fixed;
    }
    Tensor::from_data(data, device)
}

/// Uploads host booleans to the device, as [`integers`] does.
pub fn flags<const D: usize>(
    flags: Vec<bool>,
    dims: [usize; D],
    device: &Device,
) -> Tensor<D, Bool> {
    #[cfg(all(feature = "gpu", not(feature = "fusion")))]
    if cube::step_inputs::is_preparing() {
        let numbers: Vec<i32> = flags.iter().map(|flag| i32::from(*flag)).collect();
        return integers::<D>(TensorData::new(numbers, dims), device).equal_elem(1);
    }
    Tensor::from_data(TensorData::new(flags, dims), device)
}

/// Reports that the present step draws random numbers by its step number in another way than dropout does. It cannot
/// be replayed, since a replay would repeat the draws.
pub fn refuse_random_draws() {
    refuse("one of its layers draws random numbers by the number of the step");
}

/// Reports why the present step cannot be replayed.
pub fn refuse(reason: &str) {
    #[cfg(all(feature = "gpu", not(feature = "fusion")))]
    cube::step_inputs::refuse(reason);
    #[cfg(not(all(feature = "gpu", not(feature = "fusion"))))]
    let _ = reason;
}

/// Registers a counter that replays of the present step must advance.
pub fn register_counter(counter: &Counter) {
    #[cfg(all(feature = "gpu", not(feature = "fusion")))]
    cube::step_inputs::register_counter(counter);
    #[cfg(not(all(feature = "gpu", not(feature = "fusion"))))]
    let _ = counter;
}

/// Writes a number `[1]` into the buffer of another tensor.
pub fn overwrite(target: &Tensor<1>, value: Tensor<1>) {
    #[cfg(all(feature = "gpu", not(feature = "fusion")))]
    cube::replay::overwrite(target, value);
    #[cfg(not(all(feature = "gpu", not(feature = "fusion"))))]
    let _ = (target, value);
}

/// Returns the id of the buffer a tensor is in; `None` if it is not on a GPU.
pub fn buffer_id<const D: usize>(x: &Tensor<D>) -> Option<u64> {
    #[cfg(all(feature = "gpu", not(feature = "fusion")))]
    return cube::replay::buffer_id(x);
    #[cfg(not(all(feature = "gpu", not(feature = "fusion"))))]
    {
        let _ = x;
        None
    }
}

/// A step of one shape, from its first pass to its replays.
#[derive(Debug)]
pub struct Replay {
    #[cfg(all(feature = "gpu", not(feature = "fusion")))]
    inner: cube::replay::Replay,
}

impl Replay {
    /// Creates a replay with nothing noted yet; `None` if the device does not support recordings.
    pub fn new(device: &Device) -> Option<Self> {
        #[cfg(all(feature = "gpu", not(feature = "fusion")))]
        return cube::replay::Replay::new(device).map(|inner| Self { inner });
        #[cfg(not(all(feature = "gpu", not(feature = "fusion"))))]
        {
            let _ = device;
            None
        }
    }

    /// Returns whether the next step only notes what differs from step to step, before its buffers are fixed.
    pub fn is_first_pass(&self) -> bool {
        #[cfg(all(feature = "gpu", not(feature = "fusion")))]
        return self.inner.is_first_pass();
        #[cfg(not(all(feature = "gpu", not(feature = "fusion"))))]
        false
    }

    /// Returns whether a recording exists.
    pub fn is_recorded(&self) -> bool {
        #[cfg(all(feature = "gpu", not(feature = "fusion")))]
        return self.inner.is_recorded();
        #[cfg(not(all(feature = "gpu", not(feature = "fusion"))))]
        false
    }

    /// Takes a step with these inputs: by running `work`, whose result is returned, or by replaying the recording.
    ///
    /// # Errors
    /// If the step cannot be replayed. If it fails while being recorded, the weights are lost with the recording.
    pub fn step<T>(
        &mut self,
        tick: StepValues,
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
