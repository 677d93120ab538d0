//! What a recorded step reads that differs from step to step: noted in its first pass, answered with fixed buffers afterwards.

use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;

use burn::backend::DispatchDevice;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeBackend, CubeDevice};

use crate::kernel::reads;
use crate::kernel::replay::{Counter, Tick};
use crate::rng::{Purpose, Stream};

/// Words of a dropout's key.
const KEY: usize = 2;

thread_local! {
    /// The step that this thread makes ready for replays.
    static PRESENT: RefCell<Option<Noted>> = const { RefCell::new(None) };
}

/// Data of the host and its buffer.
struct Upload {
    data: TensorData,
    buffer: CubeTensor,
    /// The same as the step got it.
    tensor: Box<dyn Any>,
}

/// The numbers of one parameter's update that differ from step to step.
pub struct Later {
    /// Its learning rate.
    pub lr: f64,
    /// Which step of the parameter it is.
    pub time: u64,
    /// How many numbers they are.
    pub count: usize,
    /// The numbers at any rate and time.
    pub words: Rc<dyn Fn(f64, u64) -> Vec<u32>>,
}

impl Later {
    /// The same update at another step than the first.
    fn at(&self, first: Tick, now: Tick) -> Vec<u32> {
        let time = self.time + (now.step - first.step);
        (self.words)(self.lr / first.lr * now.lr, time)
    }

    fn now(&self) -> Vec<u32> {
        (self.words)(self.lr, self.time)
    }
}

/// What differs from step to step, in the order in which a step asks for it.
#[derive(Default)]
pub struct Noted {
    first: Option<Tick>,
    now: Option<Tick>,
    keys: Vec<(u64, Purpose)>,
    updates: Vec<Later>,
    /// The inputs, and what is the same in all steps.
    uploads: Vec<Upload>,
    /// Which of them are inputs.
    inputs: Vec<usize>,
    counters: Vec<Counter>,
    /// Keys, then numbers of updates; none in the first pass.
    table: Option<CubeTensor>,
    /// Updates and uploads that this pass has asked for.
    asked: [usize; 2],
    fault: Option<String>,
}

/// The words that dropouts of a seed draw by in a step.
pub fn key_words(seed: u64, purpose: Purpose, step: u64) -> [u32; KEY] {
    Stream::new(seed, purpose, (step, 0, 0)).key_and_counter().0
}

impl Noted {
    fn refuse(&mut self, reason: impl Into<String>) {
        self.fault.get_or_insert(reason.into());
    }

    /// Nothing is noted yet of a step's first pass.
    pub fn first_pass(first: Tick) -> Self {
        Self {
            first: Some(first),
            now: Some(first),
            ..Self::default()
        }
    }

    /// Gives what the first pass noted its buffers; these data are its inputs, in their order.
    pub fn settle(&mut self, inputs: &[TensorData], device: &CubeDevice) -> Result<(), String> {
        for data in inputs {
            let first = self.inputs.last().map_or(0, |last| last + 1);
            let mut rest = self.uploads[first..].iter();
            let found = rest.position(|own| own.data == *data);
            let found = found.ok_or("it does not read its batch as it says")?;
            self.inputs.push(first + found);
        }
        let words = self.first.map_or(0, |first| self.words(first).len()).max(1);
        let zeros = TensorData::new(vec![0i32; words], [words]);
        self.table = Some(buffer(&zeros, DType::I32, device));
        Ok(())
    }

    /// Does a step's work, while what it asks for is noted or answered.
    pub fn over<T>(&mut self, work: impl FnOnce() -> T) -> Result<T, String> {
        self.asked = [0; 2];
        let before = reads();
        PRESENT.set(Some(std::mem::take(self)));
        let done = work();
        *self = PRESENT.take().unwrap_or_default();
        if reads() != before {
            self.refuse("it reads numbers of the device on its way");
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

    /// Moves the optimizer's counters on, as a replayed step's work would.
    pub fn count(&self) {
        self.counters.iter().for_each(Counter::count);
    }

    fn words(&self, now: Tick) -> Vec<u32> {
        let keys = self.keys.iter();
        let keys = keys.flat_map(|(seed, purpose)| key_words(*seed, *purpose, now.step));
        let first = self.first.unwrap_or(now);
        let updates = self.updates.iter().flat_map(|update| update.at(first, now));
        keys.chain(updates).collect()
    }

    /// Writes what a step's work is to read, and keeps it to know what the work asks for.
    pub fn expect(&mut self, now: Tick, inputs: Vec<TensorData>) -> Result<(), String> {
        self.write(now, inputs.clone())?;
        for (number, data) in self.inputs.iter().zip(inputs) {
            self.uploads[*number].data = data;
        }
        Ok(())
    }

    /// Writes what a replay is to read.
    pub fn write(&mut self, now: Tick, inputs: Vec<TensorData>) -> Result<(), String> {
        self.now = Some(now);
        if inputs.len() != self.inputs.len() {
            return Err("it has more or fewer inputs than before".into());
        }
        for (number, data) in self.inputs.iter().zip(inputs) {
            let own = &self.uploads[*number];
            if data.shape() != own.data.shape() {
                return Err("it has inputs of other sizes than before".into());
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

/// A buffer with this data, without gaps between its rows.
fn buffer(data: &TensorData, dtype: DType, device: &CubeDevice) -> CubeTensor {
    let client = device.client();
    let data = data.clone().convert_dtype(dtype);
    let shape = data.shape().clone();
    let handle = client.create(data.into_parts().0);
    CubeTensor::new_contiguous(client, device.clone(), shape, handle, dtype)
}

/// The device of CubeCL behind one of Burn's.
pub fn cube_device(device: &Device) -> Option<CubeDevice> {
    match device.clone().without_autodiff().as_dispatch() {
        DispatchDevice::Cube(device) => Some(device.clone()),
        #[allow(unreachable_patterns, reason = "builds may have no other backend")]
        _ => None,
    }
}

/// Does some work with what the present step has noted; none where it is not made ready for replays.
fn present<T>(work: impl FnOnce(&mut Noted) -> Option<T>) -> Option<T> {
    PRESENT.with_borrow_mut(|noted| noted.as_mut().and_then(work))
}

/// Whether the present step is made ready for replays.
pub fn is_present() -> bool {
    PRESENT.with_borrow(Option::is_some)
}

/// The present step cannot be replayed.
pub fn refuse(reason: &str) {
    present(|noted| {
        noted.refuse(reason);
        Some(())
    });
}

/// Replays move a counter on.
pub fn counted(counter: &Counter) {
    present(|noted| {
        if noted.table.is_none() {
            noted.counters.push(counter.clone());
        }
        Some(())
    });
}

/// Where kernels read the words that dropouts of a seed draw by; none where they are arguments.
pub fn key_at(seed: u64, purpose: Purpose, step: u64) -> Option<(CubeTensor, u32)> {
    present(|noted| {
        if noted.now.is_some_and(|now| now.step != step) {
            noted.refuse("a dropout draws by another step's number");
        }
        let found = noted.keys.iter().position(|key| *key == (seed, purpose));
        match (&noted.table, found) {
            (Some(table), Some(number)) => return Some((table.clone(), (number * KEY) as u32)),
            (Some(_), None) => noted.refuse("a dropout was not there in the first pass"),
            (None, None) => noted.keys.push((seed, purpose)),
            (None, Some(_)) => {}
        }
        None
    })
}

/// Where the kernel of updates reads the numbers of one; none where they are arguments.
pub fn numbers_at(update: impl FnOnce() -> Later) -> Option<(CubeTensor, u32)> {
    present(|noted| {
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
            noted.refuse("an update has other factors than the step's number gives");
            return None;
        }
        let before = noted.updates.iter().take(number);
        let before: usize = before.map(|own| own.count).sum();
        Some((table, (noted.keys.len() * KEY + before) as u32))
    })
}

/// Whether a buffer that stays from step to step can be written in place; a recorded step cannot do without.
pub fn stays(x: &CubeTensor) {
    if !x.handle.can_mut() {
        refuse("a weight, a moment or an average is not updated in place");
    }
}

/// The next data of the present step: noted in its first pass, the buffer of before afterwards.
fn upload<T: Any + Clone>(
    data: &TensorData,
    made: impl FnOnce() -> Option<(CubeTensor, T)>,
) -> Option<T> {
    present(|noted| {
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
            noted.refuse("it is given data beside its inputs that differ from step to step");
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

/// Integers of the host.
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

/// Integers of the host as kernels read them: in the buffer of before where the present step is made ready for replays.
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

/// Numbers of the host.
pub fn floats<const D: usize>(data: &TensorData, device: &Device) -> Option<Tensor<D>> {
    upload(data, || {
        let own = buffer(data, DType::F32, &cube_device(device)?);
        let tensor = Tensor::<D>::from_primitive::<CubeBackend>(own.clone());
        Some((own, tracked_like(tensor, device)))
    })
}
