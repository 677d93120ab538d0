//! The recordings of [`crate::kernel::replay`] on the devices of CubeCL: three passes of a step, of which the last is recorded, and its
//! replays.

use burn::tensor::{Device, Tensor, TensorData};
use burn_cubecl::{CubeBackend, CubeDevice};
use cubecl::client::{Client, Graph};
use cubecl::prelude::*;

use super::launch::{contiguous, units};
use super::noted::{Noted, cube_device};
use crate::error::{Error, Result};
use crate::kernel::replay::Tick;
use crate::kernel::untracked;

/// How far a step is.
enum Stage {
    /// What differs is not known.
    Noting,
    /// What differs has its buffers.
    Rehearsing,
    /// The device expects to record the next pass.
    Recording,
    /// There is a recording.
    Ready(Graph),
}

/// A step of one shape on its way from its first pass to its replays.
pub struct Replay {
    device: CubeDevice,
    client: Client,
    noted: Noted,
    stage: Stage,
}

impl std::fmt::Debug for Replay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replay").finish_non_exhaustive()
    }
}

impl Replay {
    /// Nothing is noted yet; `None` where the device is none of CubeCL.
    pub fn new(device: &Device) -> Option<Self> {
        let device = cube_device(device)?;
        Some(Self {
            client: device.client(),
            device,
            noted: Noted::default(),
            stage: Stage::Noting,
        })
    }

    /// Whether the next pass is the first.
    pub fn notes(&self) -> bool {
        matches!(self.stage, Stage::Noting)
    }

    /// Whether there is a recording.
    pub fn is_ready(&self) -> bool {
        matches!(self.stage, Stage::Ready(_))
    }

    /// Takes a step by its work, or by a replay of it.
    ///
    /// # Errors
    /// The step cannot be replayed.
    pub fn step<T>(
        &mut self,
        tick: Tick,
        inputs: Vec<TensorData>,
        work: impl FnOnce() -> T,
    ) -> Result<Option<T>> {
        match &self.stage {
            Stage::Noting => self.note(tick, &inputs, work).map(Some),
            Stage::Rehearsing => self.rehearse(tick, inputs, work).map(Some),
            Stage::Recording => self.record(tick, inputs, work).map(Some),
            Stage::Ready(_) => {
                self.noted.write(tick, inputs).map_err(refused)?;
                self.replay()?;
                self.noted.count();
                Ok(None)
            }
        }
    }

    fn note<T>(
        &mut self,
        tick: Tick,
        inputs: &[TensorData],
        work: impl FnOnce() -> T,
    ) -> Result<T> {
        self.noted = Noted::first_pass(tick);
        let done = self.noted.over(work).map_err(refused)?;
        self.noted.settle(inputs, &self.device).map_err(refused)?;
        self.stage = Stage::Rehearsing;
        Ok(done)
    }

    fn rehearse<T>(
        &mut self,
        tick: Tick,
        inputs: Vec<TensorData>,
        work: impl FnOnce() -> T,
    ) -> Result<T> {
        self.client.graph_prepare().map_err(refused)?;
        self.stage = Stage::Recording;
        self.noted.expect(tick, inputs).map_err(refused)?;
        self.noted.over(work).map_err(refused)
    }

    fn record<T>(
        &mut self,
        tick: Tick,
        inputs: Vec<TensorData>,
        work: impl FnOnce() -> T,
    ) -> Result<T> {
        self.noted.expect(tick, inputs).map_err(refused)?;
        self.client.start_capture().map_err(refused)?;
        let done = self.noted.over(work);
        let graph = self.client.stop_capture();
        self.stage = Stage::Noting;
        let done = done.map_err(refused)?;
        self.stage = Stage::Ready(graph.map_err(refused)?);
        self.replay()?;
        Ok(done)
    }

    fn replay(&self) -> Result<()> {
        let Stage::Ready(graph) = &self.stage else {
            return Ok(());
        };
        // SAFETY: the recording has kept every page that it touches for itself since it was made, and it is replayed by the
        // thread that made it, whose stream orders it behind the writes of inputs and before the reads of results.
        unsafe { graph.replay() }.map_err(refused)
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        if matches!(self.stage, Stage::Recording) {
            // Nothing was recorded; the device is told to expect it no longer.
            drop(self.client.stop_capture());
        }
    }
}

fn refused(reason: impl std::fmt::Display) -> Error {
    Error::run(format!(
        "the step cannot be replayed: {reason}; leave `replay` out of [train]"
    ))
}

#[cube(launch)]
fn copied(from: &[f32], to: &mut [f32]) {
    if ABSOLUTE_POS < to.len() {
        to[ABSOLUTE_POS] = from[ABSOLUTE_POS];
    }
}

/// Writes a number into the buffer of another.
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

/// Which buffer a tensor is in.
pub fn place<const D: usize>(x: &Tensor<D>) -> Option<u64> {
    let x = untracked(x.clone())
        .try_into_primitive::<CubeBackend>()
        .ok()?;
    Some(x.handle.memory.descriptor().id.value as u64)
}
