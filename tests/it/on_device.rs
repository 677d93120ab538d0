//! GPU kernels against flex: values and every gradient within float32's rounding, dropout masks bit for bit, and short training
//! runs.
//!
//! The device is `FORMWORK_TEST_DEVICE`, or else the first GPU backend of the build; if there is none, the tests report that
//! they were skipped. Mesa's lavapipe is enough: `cargo test --features wgpu --test it on_device`.

mod attention;
mod elements;
mod kinds;
mod losses;
mod mixers;
mod relative;
mod replay;
mod rounded;
mod steps;
mod tiles;
mod training;
mod updates;

use burn::tensor::{Device, Int, Tensor, TensorData};
use formwork::device::DeviceName;
use formwork::kernel;
use formwork::rng::{Purpose, Stream};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The device's name, if there is one.
pub fn name() -> Option<String> {
    let asked = std::env::var("FORMWORK_TEST_DEVICE").ok();
    let compiled = ["cuda", "vulkan", "wgpu"].into_iter();
    let found = compiled.map(String::from).find(|name| {
        let parsed: Result<DeviceName, _> = name.parse();
        parsed.is_ok()
    });
    let name = asked.or(found);
    if name.is_none() {
        eprintln!("skipped: no GPU backend in this build");
    }
    name
}

/// Returns the device to test, if there is one. In this process its products do not round operands, as tensor cores would, to
/// TF32.
pub fn device() -> Option<Device> {
    let device: DeviceName = name()?.parse().unwrap();
    kernel::allow_tf32(false);
    Some(device.open().unwrap())
}

/// Lock for comparisons of runs bit for bit: two processes that tune a size at once may find different kernels fastest, one of
/// which is kept, so that the next run rounds differently from the one before.
pub fn tunes_alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Values that can be moved to any device.
#[derive(Clone)]
pub struct Numbers<const D: usize> {
    pub dims: [usize; D],
    pub values: Vec<f32>,
}

/// Normal random numbers, equal for equal seeds.
pub fn random<const D: usize>(dims: [usize; D], seed: u64) -> Numbers<D> {
    let mut stream = Stream::new(seed, Purpose::Split, (0, 0, 0));
    let n = dims.iter().product();
    Numbers {
        dims,
        values: (0..n).map(|_| stream.normal()).collect(),
    }
}

impl<const D: usize> Numbers<D> {
    /// Multiplies all values by a factor.
    pub fn times(mut self, factor: f32) -> Self {
        self.values.iter_mut().for_each(|x| *x *= factor);
        self
    }

    /// Creates a tensor on a device.
    pub fn on(&self, device: &Device) -> Tensor<D> {
        Tensor::from_data(TensorData::new(self.values.clone(), self.dims), device)
    }
}

/// Random integers below a bound.
pub fn integers(n: usize, below: u64, seed: u64) -> Vec<i64> {
    let mut stream = Stream::new(seed, Purpose::Split, (1, 0, 0));
    (0..n).map(|_| stream.below(below) as i64).collect()
}

/// Integers as a tensor.
pub fn ints<const D: usize>(values: &[i64], dims: [usize; D], device: &Device) -> Tensor<D, Int> {
    Tensor::from_data(TensorData::new(values.to_vec(), dims), device)
}

pub fn values<const D: usize>(x: &Tensor<D>) -> Vec<f32> {
    x.to_data().try_to_vec::<f32>().unwrap()
}

/// Largest difference, relative to the largest result: additions are in another order.
const ROUNDING: f32 = 2e-5;

/// Largest difference for convolutions, which are Burn's and use TF32: operands of 11 bits.
const TF32: f32 = 4e-3;

/// Checks equality to 2e-5 of the largest value, or to 1e-5 if only small values are left.
pub fn close(what: &str, ours: &[f32], oracle: &[f32]) {
    within(ROUNDING, what, ours, oracle);
}

fn within(limit: f32, what: &str, ours: &[f32], oracle: &[f32]) {
    assert_eq!(ours.len(), oracle.len(), "{what}: sizes");
    let size = oracle.iter().fold(0.5f32, |m, x| m.max(x.abs()));
    for (i, (a, b)) in ours.iter().zip(oracle).enumerate() {
        assert!(
            (a - b).abs() <= limit * size,
            "{what}[{i}]: {a} instead of {b} (largest {size})"
        );
    }
}

/// Runs a function of leaves with gradients on the device and on flex, and compares its value and all gradients of a
/// non-uniform loss.
pub fn same<const D: usize, const E: usize, const N: usize>(
    what: &str,
    device: &Device,
    leaves: [Numbers<D>; N],
    f: impl Fn(&Device, [Tensor<D>; N]) -> Tensor<E>,
) {
    same_within(ROUNDING, what, device, leaves, f);
}

/// The same for convolutions.
pub fn same_convolutions<const D: usize, const E: usize, const N: usize>(
    what: &str,
    device: &Device,
    leaves: [Numbers<D>; N],
    f: impl Fn(&Device, [Tensor<D>; N]) -> Tensor<E>,
) {
    let limit = match name().is_some_and(|name| name.starts_with("cuda")) {
        true => TF32,
        false => ROUNDING,
    };
    same_within(limit, what, device, leaves, f);
}

fn same_within<const D: usize, const E: usize, const N: usize>(
    limit: f32,
    what: &str,
    device: &Device,
    leaves: [Numbers<D>; N],
    f: impl Fn(&Device, [Tensor<D>; N]) -> Tensor<E>,
) {
    let run = |device: &Device| {
        let device = device.clone().autodiff();
        let leaves = leaves.each_ref().map(|x| x.on(&device).require_grad());
        let y = f(&device, leaves.clone());
        let weights = random(y.dims(), 99).on(&device);
        let grads = (y.clone() * weights).sum().backward();
        let grads = leaves.map(|x| x.grad(&grads).map(|g| values(&g)));
        (values(&y), grads)
    };
    let (y, dy) = run(device);
    let (z, dz) = run(&Device::flex());
    within(limit, what, &y, &z);
    for (i, (a, b)) in dy.iter().zip(&dz).enumerate() {
        let (a, b) = (a.as_ref().unwrap(), b.as_ref().unwrap());
        within(limit, &format!("{what}, gradient {i}"), a, b);
    }
}

/// A missing GPU is refused with an error instead of a panic in the libraries below.
#[test]
fn a_gpu_that_the_machine_has_not_is_refused() {
    let Some(name) = name() else { return };
    let family = name.split(':').next().unwrap();
    let absent: DeviceName = format!("{family}:77").parse().unwrap();
    let error = absent.open().unwrap_err().to_string();
    assert!(
        error.contains("no device") && error.contains(":77"),
        "{error}"
    );
}
