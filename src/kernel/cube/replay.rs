//! The recordings of [`crate::kernel::replay`] on CubeCL devices: three passes of a step, the last of which is
//! recorded, and the replays of the recording.

use burn::tensor::{Device, Tensor, TensorData};
use burn_cubecl::{CubeBackend, CubeDevice};
use cubecl::client::{Client, Graph};
use cubecl::prelude::*;

use super::launch::{contiguous, units};
use super::step_inputs::{StepInputs, cube_device};
use crate::error::{Error, Result};
use crate::kernel::replay::StepValues;
use crate::kernel::untracked;

/// How far a step has come.
enum Stage {
    /// The values that differ from step to step are not known yet.
    FirstPass,
    /// The values that differ have fixed buffers.
    FixedBuffers,
    /// The device is prepared to record the next pass.
    Recording,
    /// A recording exists.
    Ready(Graph),
}

/// A step of one shape, from its first pass to its replays.
pub struct Replay {
    device: CubeDevice,
    client: Client,
    noted: StepInputs,
    stage: Stage,
}

impl std::fmt::Debug for Replay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replay").finish_non_exhaustive()
    }
}

impl Replay {
    /// Creates a replay with nothing noted yet; `None` if the device is not one of CubeCL.
    pub fn new(device: &Device) -> Option<Self> {
        let device = cube_device(device)?;
        Some(Self {
            client: device.client(),
            device,
            noted: StepInputs::default(),
            stage: Stage::FirstPass,
        })
    }

    /// Returns whether the next pass is the first.
    pub fn is_first_pass(&self) -> bool {
        matches!(self.stage, Stage::FirstPass)
    }

    /// Returns whether a recording exists.
    pub fn is_recorded(&self) -> bool {
        matches!(self.stage, Stage::Ready(_))
    }

    /// Takes a step by running its work, or by replaying it.
    ///
    /// # Errors
    /// If the step cannot be replayed.
    pub fn step<T>(
        &mut self,
        tick: StepValues,
        inputs: Vec<TensorData>,
        work: impl FnOnce() -> T,
    ) -> Result<Option<T>> {
        match &self.stage {
            Stage::FirstPass => self.note(tick, &inputs, work).map(Some),
            Stage::FixedBuffers => self.rehearse(tick, inputs, work).map(Some),
            Stage::Recording => self.record(tick, inputs, work).map(Some),
            Stage::Ready(_) => {
                self.noted.write(tick, inputs).map_err(cannot_replay)?;
                self.replay()?;
                self.noted.count();
                Ok(None)
            }
        }
    }

    fn note<T>(
        &mut self,
        tick: StepValues,
        inputs: &[TensorData],
        work: impl FnOnce() -> T,
    ) -> Result<T> {
        self.noted = StepInputs::first_pass(tick);
        let done = self.noted.run(work).map_err(cannot_replay)?;
        self.noted
            .allocate_buffers(inputs, &self.device)
            .map_err(cannot_replay)?;
        self.stage = Stage::FixedBuffers;
        Ok(done)
    }

    fn rehearse<T>(
        &mut self,
        tick: StepValues,
        inputs: Vec<TensorData>,
        work: impl FnOnce() -> T,
    ) -> Result<T> {
        self.client.graph_prepare().map_err(cannot_replay)?;
        self.stage = Stage::Recording;
        self.noted
            .write_for_pass(tick, inputs)
            .map_err(cannot_replay)?;
        self.noted.run(work).map_err(cannot_replay)
    }

    fn record<T>(
        &mut self,
        tick: StepValues,
        inputs: Vec<TensorData>,
        work: impl FnOnce() -> T,
    ) -> Result<T> {
        self.noted
            .write_for_pass(tick, inputs)
            .map_err(cannot_replay)?;
        self.client.start_capture().map_err(cannot_replay)?;
        let done = self.noted.run(work);
        let graph = self.client.stop_capture();
        self.stage = Stage::FirstPass;
        let done = done.map_err(cannot_replay)?;
        self.stage = Stage::Ready(graph.map_err(cannot_replay)?);
        self.replay()?;
        Ok(done)
    }

    fn replay(&self) -> Result<()> {
        let Stage::Ready(graph) = &self.stage else {
            return Ok(());
        };
        // SAFETY: the recording keeps every memory page that it touches. It is replayed by the thread that made it,
        // whose stream orders it after the writes of inputs and before the reads of results.
        unsafe { graph.replay() }.map_err(cannot_replay)
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        if matches!(self.stage, Stage::Recording) {
            // Nothing was recorded; ending the capture cancels the device's preparation.
            drop(self.client.stop_capture());
        }
    }
}

fn cannot_replay(reason: impl std::fmt::Display) -> Error {
    Error::run(format!(
        "the step cannot be replayed: {reason}; remove `replay` from [train]"
    ))
}

#[cube(launch)]
fn copied(from: &[f32], to: &mut [f32]) {
    if ABSOLUTE_POS < to.len() {
        to[ABSOLUTE_POS] = from[ABSOLUTE_POS];
    }
}

/// Writes a number into the buffer of another tensor.
pub fn overwrite(target: &Tensor<1>, value: Tensor<1>) {
    let [target, value] = [target.clone(), value].map(|x| {
        let x = untracked(x).try_into_primitive::<CubeBackend>();
        contiguous(x.expect("the device was checked to be one of CubeCL"))
    });
    let (cubes, dim) = units(&target, 1);
    let client = target.client.clone();
    copied::launch(
        &client,
        cubes,
        dim,
        value.into_buffer_arg(),
        target.into_buffer_arg(),
    );
}

/// Returns the id of the buffer a tensor is in.
pub fn buffer_id<const D: usize>(x: &Tensor<D>) -> Option<u64> {
    let x = untracked(x.clone())
        .try_into_primitive::<CubeBackend>()
        .ok()?;
    Some(x.handle.memory.descriptor().id.value as u64)
}
