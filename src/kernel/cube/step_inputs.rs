//! The inputs of a recorded step that differ from step to step: noted in its first pass, read from fixed buffers
//! afterwards.

use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;

use burn::backend::DispatchDevice;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeBackend, CubeDevice};

use crate::kernel::read_count;
use crate::kernel::replay::{Counter, StepValues};
use crate::rng::{Purpose, Stream};

/// Number of words of a dropout's key.
const KEY: usize = 2;

thread_local! {
    /// The step that this thread is preparing for replays.
    static CURRENT: RefCell<Option<StepInputs>> = const { RefCell::new(None) };
}

/// Data uploaded by the host, and its buffer.
struct Upload {
    data: TensorData,
    buffer: CubeTensor,
    /// The tensor handed to the step, which shares the buffer.
    tensor: Box<dyn Any>,
}

/// The coefficients of one parameter's update, which differ from step to step.
pub struct UpdateCoefficients {
    /// Learning rate of the update.
    pub lr: f64,
    /// Step number of the parameter at this update.
    pub time: u64,
    /// Number of words of the coefficients.
    pub count: usize,
    /// Returns the coefficients' words at any learning rate and step number.
    pub words: Rc<dyn Fn(f64, u64) -> Vec<u32>>,
}

impl UpdateCoefficients {
    /// Returns the coefficients of this update at another step than the first.
    fn at(&self, first: StepValues, now: StepValues) -> Vec<u32> {
        let time = self.time + (now.step - first.step);
        (self.words)(self.lr / first.lr * now.lr, time)
    }

    fn now(&self) -> Vec<u32> {
        (self.words)(self.lr, self.time)
    }
}

/// Everything that differs from step to step, in the order in which a step asks for it.
#[derive(Default)]
pub struct StepInputs {
    first: Option<StepValues>,
    now: Option<StepValues>,
    keys: Vec<(u64, Purpose)>,
    updates: Vec<UpdateCoefficients>,
    /// Uploads: the inputs, and data that is the same in all steps.
    uploads: Vec<Upload>,
    /// Indices of the uploads that are inputs.
    inputs: Vec<usize>,
    counters: Vec<Counter>,
    /// Dropout keys, then coefficients of updates; `None` in the first pass.
    table: Option<CubeTensor>,
    /// Numbers of updates and uploads that this pass has asked for so far.
    asked: [usize; 2],
    fault: Option<String>,
}

/// Returns the key words with which dropouts of a seed draw in a step.
pub fn key_words(seed: u64, purpose: Purpose, step: u64) -> [u32; KEY] {
    Stream::new(seed, purpose, (step, 0, 0)).key_and_counter().0
}

impl StepInputs {
    fn refuse(&mut self, reason: impl Into<String>) {
        self.fault.get_or_insert(reason.into());
    }

    /// Creates the state for the first pass of a step, with nothing noted yet.
    pub fn first_pass(first: StepValues) -> Self {
        Self {
            first: Some(first),
            now: Some(first),
            ..Self::default()
        }
    }

    /// Allocates buffers for everything that the first pass noted. `inputs` are the step's inputs, in the order in
    /// which it reads them.
    pub fn allocate_buffers(
        &mut self,
        inputs: &[TensorData],
        device: &CubeDevice,
    ) -> Result<(), String> {
        for data in inputs {
            let first = self.inputs.last().map_or(0, |last| last + 1);
            let mut rest = self.uploads[first..].iter();
            let found = rest.position(|own| own.data == *data);
            let found = found.ok_or("it does not read its batch as declared")?;
            self.inputs.push(first + found);
        }
        let words = self.first.map_or(0, |first| self.words(first).len()).max(1);
        let zeros = TensorData::new(vec![0i32; words], [words]);
        self.table = Some(buffer(&zeros, DType::I32, device));
        Ok(())
    }

    /// Runs a step's work while noting, or answering, what it asks for.
    pub fn run<T>(&mut self, work: impl FnOnce() -> T) -> Result<T, String> {
        self.asked = [0; 2];
        let before = read_count();
        CURRENT.set(Some(std::mem::take(self)));
        let done = work();
        *self = CURRENT.take().unwrap_or_default();
        if read_count() != before {
            self.refuse("it reads values from the device during the step");
        }
        let asked = [self.updates.len(), self.uploads.len()];
        if self.table.is_some() && asked != self.asked {
            self.refuse("it does less than in the first pass");
        }
        match self.fault.take() {
            Some(fault) => Err(fault),
            None => Ok(done),
        }
    }

    /// Advances the optimizer's counters, as a replayed step's work would.
    pub fn count(&self) {
        self.counters.iter().for_each(Counter::count);
    }

    fn words(&self, now: StepValues) -> Vec<u32> {
        let keys = self.keys.iter();
        let keys = keys.flat_map(|(seed, purpose)| key_words(*seed, *purpose, now.step));
        let first = self.first.unwrap_or(now);
        let updates = self.updates.iter().flat_map(|update| update.at(first, now));
        keys.chain(updates).collect()
    }

    /// Writes the values that a step's work will read, and keeps the inputs to check what the work asks for.
    pub fn write_for_pass(
        &mut self,
        now: StepValues,
        inputs: Vec<TensorData>,
    ) -> Result<(), String> {
        self.write(now, inputs.clone())?;
        for (number, data) in self.inputs.iter().zip(inputs) {
            self.uploads[*number].data = data;
        }
        Ok(())
    }

    /// Writes the values that a replay will read.
    pub fn write(&mut self, now: StepValues, inputs: Vec<TensorData>) -> Result<(), String> {
        self.now = Some(now);
        if inputs.len() != self.inputs.len() {
            return Err("the number of its inputs differs from the first pass".into());
        }
        for (number, data) in self.inputs.iter().zip(inputs) {
            let own = &self.uploads[*number];
            if data.shape() != own.data.shape() {
                return Err("the sizes of its inputs differ from the first pass".into());
            }
            write(&own.buffer, data.convert_dtype(own.buffer.dtype));
        }
        let words: Vec<i32> = self.words(now).into_iter().map(u32::cast_signed).collect();
        if let Some(table) = &self.table {
            write(table, TensorData::new(words.clone(), [words.len()]));
        }
        Ok(())
    }
}

fn write(buffer: &CubeTensor, data: TensorData) {
    buffer.client.write(&buffer.handle, data.into_parts().0);
}

/// Creates a buffer with this data, without gaps between its rows.
fn buffer(data: &TensorData, dtype: DType, device: &CubeDevice) -> CubeTensor {
    let client = device.client();
    let data = data.clone().convert_dtype(dtype);
    let shape = data.shape().clone();
    let handle = client.create(data.into_parts().0);
    CubeTensor::new_contiguous(client, device.clone(), shape, handle, dtype)
}

/// Returns the CubeCL device behind a Burn device.
pub fn cube_device(device: &Device) -> Option<CubeDevice> {
    match device.clone().without_autodiff().as_dispatch() {
        DispatchDevice::Cube(device) => Some(device.clone()),
        #[allow(unreachable_patterns, reason = "builds may have no other backend")]
        _ => None,
    }
}

/// Runs `work` on the notes of the present step; returns `None` if the step is not being prepared for replays.
fn with_current<T>(work: impl FnOnce(&mut StepInputs) -> Option<T>) -> Option<T> {
    CURRENT.with_borrow_mut(|noted| noted.as_mut().and_then(work))
}

/// Returns whether the present step is being prepared for replays.
pub fn is_preparing() -> bool {
    CURRENT.with_borrow(Option::is_some)
}

/// Notes that the present step cannot be replayed.
pub fn refuse(reason: &str) {
    with_current(|noted| {
        noted.refuse(reason);
        Some(())
    });
}

/// Registers a counter that replays advance.
pub fn register_counter(counter: &Counter) {
    with_current(|noted| {
        if noted.table.is_none() {
            noted.counters.push(counter.clone());
        }
        Some(())
    });
}

/// Returns the table and offset at which kernels read the key words of a seed's dropouts; `None` if they are plain
/// arguments.
pub fn key_at(seed: u64, purpose: Purpose, step: u64) -> Option<(CubeTensor, u32)> {
    with_current(|noted| {
        if noted.now.is_some_and(|now| now.step != step) {
            noted.refuse("a dropout uses the number of another step");
        }
        let found = noted.keys.iter().position(|key| *key == (seed, purpose));
        match (&noted.table, found) {
            (Some(table), Some(number)) => return Some((table.clone(), (number * KEY) as u32)),
            (Some(_), None) => noted.refuse("a dropout is missing from the first pass"),
            (None, None) => noted.keys.push((seed, purpose)),
            (None, Some(_)) => {}
        }
        None
    })
}

/// Returns the table and offset at which the update kernel reads an update's coefficients; `None` if they are plain
/// arguments.
pub fn numbers_at(update: impl FnOnce() -> UpdateCoefficients) -> Option<(CubeTensor, u32)> {
    with_current(|noted| {
        let update = update();
        let Some(table) = noted.table.clone() else {
            noted.updates.push(update);
            return None;
        };
        let number = noted.asked[0];
        noted.asked[0] += 1;
        let (now, first) = (noted.now?, noted.first?);
        let expected = noted.updates.get(number).map(|own| own.at(first, now));
        if expected != Some(update.now()) {
            noted.refuse("the coefficients of an update do not follow from the number of the step");
            return None;
        }
        let before = noted.updates.iter().take(number);
        let before: usize = before.map(|own| own.count).sum();
        Some((table, (noted.keys.len() * KEY + before) as u32))
    })
}

/// Checks that a buffer that persists across steps can be written in place, as a recorded step requires.
pub fn check_persistent(x: &CubeTensor) {
    if !x.handle.can_mut() {
        refuse("a weight, a moment or an average is not updated in place");
    }
}

/// Answers the present step's next upload: it is noted in the first pass and gets the same buffer afterwards.
fn upload<T: Any + Clone>(
    data: &TensorData,
    made: impl FnOnce() -> Option<(CubeTensor, T)>,
) -> Option<T> {
    with_current(|noted| {
        if noted.table.is_none() {
            let (buffer, tensor) = made()?;
            noted.uploads.push(Upload {
                data: data.clone(),
                buffer,
                tensor: Box::new(tensor.clone()),
            });
            return Some(tensor);
        }
        let number = noted.asked[1];
        noted.asked[1] += 1;
        let known = noted.uploads.get(number).filter(|own| own.data == *data);
        let tensor = known.and_then(|own| own.tensor.downcast_ref::<T>().cloned());
        if tensor.is_none() {
            noted.refuse("it uploads data besides its inputs that differ from step to step");
        }
        tensor
    })
}

fn tracked_like<const D: usize>(x: Tensor<D>, device: &Device) -> Tensor<D> {
    match device.is_autodiff() {
        true => Tensor::from_inner(x),
        false => x,
    }
}

/// Uploads host integers for the present step; `None` if it is not being prepared for replays.
pub fn integers<const D: usize>(data: &TensorData, device: &Device) -> Option<Tensor<D, Int>> {
    upload(data, || {
        let own = buffer(data, DType::I32, &cube_device(device)?);
        let tensor = Tensor::<D, Int>::from_primitive::<CubeBackend>(own.clone());
        let tensor = match device.is_autodiff() {
            true => Tensor::from_inner(tensor),
            false => tensor,
        };
        Some((own, tensor))
    })
}

/// Uploads host integers as kernels read them, into the fixed buffer if the present step is being prepared for
/// replays.
pub fn numbers(numbers: Vec<i32>, device: &CubeDevice) -> CubeTensor {
    let count = numbers.len();
    let data = TensorData::new(numbers, [count]);
    let own = || buffer(&data, DType::I32, device);
    let kept = upload(&data, || {
        let own = own();
        Some((own.clone(), own))
    });
    kept.unwrap_or_else(own)
}

/// Uploads host floats for the present step; `None` if it is not being prepared for replays.
pub fn floats<const D: usize>(data: &TensorData, device: &Device) -> Option<Tensor<D>> {
    upload(data, || {
        let own = buffer(data, DType::F32, &cube_device(device)?);
        let tensor = Tensor::<D>::from_primitive::<CubeBackend>(own.clone());
        Some((own, tracked_like(tensor, device)))
    })
}
