//! The settings and queries that go to CubeCL.

use super::{Backend, DeviceName, Gpu};
use crate::error::{Error, Result};
use crate::files::user_caches;
use crate::kernel::allows_tf32;
use burn::backend::DispatchDevice;
use burn::tensor::{Device, DeviceType};
use cubecl::config::cache::CacheConfig;
use cubecl::config::{CubeClRuntimeConfig, RuntimeConfig};
use cubecl::device::WgpuDeviceKind;
use cubecl::environment;
use std::sync::OnceLock;

/// Returns the card with this number in a family, in the order of [`found`]. Without a number, the family's default is used. A
/// number that is too high gives a discrete card that does not exist, which [`require`] refuses.
#[cfg(any(feature = "wgpu", feature = "vulkan"))]
pub fn select_card(
    backend: Backend,
    index: Option<usize>,
    named: fn(burn::tensor::DeviceKind) -> Device,
) -> Device {
    let Some(number) = index else {
        return named(burn::tensor::DeviceKind::DefaultDevice);
    };
    cache_kernels();
    match cards(&devices(backend)).get(number) {
        Some(card) => Device::clone(card),
        None => named(burn::tensor::DeviceKind::DiscreteGpu(number)),
    }
}

/// Makes CubeCL store tuning results and compiled kernels in the user's cache folder, unless a `cubecl.toml` names another place.
/// CubeCL's default is below the current folder, and stores only tuning results.
pub fn cache_kernels() {
    static KEPT: OnceLock<()> = OnceLock::new();
    KEPT.get_or_init(|| {
        let mut settings = CubeClRuntimeConfig::from_current_dir().override_from_env();
        // A stored kernel is identified by its name and the build that compiled it; in another build, by its source.
        settings.compilation.cache |= buildid::build_id().is_some();
        let has_no_place = matches!(settings.environment.path, CacheConfig::Target);
        // CubeCL sets its own path while it reads its settings, so this comes after.
        CubeClRuntimeConfig::try_set(settings);
        if has_no_place {
            environment::set_root(user_caches().join("formwork").join("gpu"));
        }
    });
}

/// Makes CubeCL store tuning results and compiled kernels for this card separately from those for other cards, which may share the
/// folder on another machine: CubeCL identifies cards by their numbers, and the fastest kernel of one may not run on another. The
/// first card that a process opens determines the folder. Returns whether the folder existed before this process.
pub fn separate_kernel_caches(device: &Device) -> bool {
    static BEFORE: OnceLock<bool> = OnceLock::new();
    *BEFORE.get_or_init(|| {
        let identity = device.identity();
        if let Some(identity) = identity.filter(|_| *environment::active() == *environment::DEFAULT)
        {
            environment::activate(format!("{} {}", identity.name, identity.fingerprint));
        }
        environment::path().exists()
    })
}

pub fn described(name: DeviceName, device: &Device) -> Option<Gpu> {
    let tuned_before = separate_kernel_caches(device);
    let identity = device.identity()?;
    Some(Gpu {
        backend: name.backend.name().into(),
        adapter: identity.name,
        compiled_for: identity.fingerprint.clone(),
        fusion: cfg!(feature = "fusion"),
        tuning: environment::path().display().to_string(),
        tuned_before,
        tf32: has_tf32(&identity.fingerprint) && allows_tf32(),
    })
}

/// Whether kernels compiled for this target use TF32: NVIDIA's tensor cores have it since compute capability 8.0.
fn has_tf32(compiled_for: &str) -> bool {
    let capability = compiled_for.strip_prefix("ptx_sm");
    let capability = capability.and_then(|number| number.parse::<u32>().ok());
    capability.is_some_and(|capability| capability >= 80)
}

/// Returns the devices of a family on this machine.
fn devices(backend: Backend) -> Vec<Device> {
    let family = match backend {
        #[cfg(feature = "wgpu")]
        Backend::Wgpu => DeviceType::Wgpu,
        #[cfg(feature = "vulkan")]
        Backend::Vulkan => DeviceType::Vulkan,
        #[cfg(feature = "cuda")]
        Backend::Cuda => DeviceType::Cuda,
        #[allow(unreachable_patterns)]
        _ => return Vec::new(),
    };
    Device::enumerate(family).into_iter().collect()
}

/// Whether a device is a graphics card; Mesa's software device is not.
fn is_card(device: &Device) -> bool {
    kind(device).is_none_or(|kind| *kind != WgpuDeviceKind::Cpu)
}

/// The kind of device that the graphics library reports; `None` for families with only one kind.
fn kind(device: &Device) -> Option<&WgpuDeviceKind> {
    match device.as_dispatch() {
        DispatchDevice::Cube(cubecl::Device::Wgpu(own)) => Some(&own.kind),
        _ => None,
    }
}

/// Returns the graphics cards among devices: discrete ones first, then other kinds.
fn cards(devices: &[Device]) -> Vec<&Device> {
    let mut cards: Vec<&Device> = devices.iter().filter(|device| is_card(device)).collect();
    let is_other = |kind: &WgpuDeviceKind| !matches!(kind, WgpuDeviceKind::DiscreteGpu(_));
    cards.sort_by_key(|device| kind(device).is_some_and(is_other));
    cards
}

/// Refuses a device that does not exist, for which Burn would panic.
pub fn require(name: DeviceName, device: &Device) -> Result<()> {
    let devices = devices(name.backend);
    let is_there = match name.index {
        Some(_) => devices.contains(device),
        None => !devices.is_empty(),
    };
    if is_there {
        return refuse_software_device(name, device);
    }
    Err(Error::usage(format!(
        "this machine has no device `{name}`; `formwork list devices` shows its devices"
    )))
}

/// Refuses Mesa's software device, which crashes on the SPIR-V that CubeCL writes for it: docs/gpus.md, "Building".
fn refuse_software_device(name: DeviceName, device: &Device) -> Result<()> {
    let adapter = device.identity().map(|identity| identity.name);
    let software = adapter.filter(|adapter| adapter.starts_with("llvmpipe"));
    match software.filter(|_| name.backend == Backend::Vulkan) {
        None => Ok(()),
        Some(adapter) => Err(Error::usage(format!(
            "device `{name}` is {adapter}, which cannot run the kernels of `vulkan`; use `wgpu`"
        ))),
    }
}

/// Lists the devices of a family: its cards by number, or, if there are none, the device that the family uses instead.
pub fn list_cards(backend: Backend) -> Vec<(String, String)> {
    cache_kernels();
    let devices = devices(backend);
    let named = |device: &Device, name: String| Some((name, device.identity()?.name));
    let cards = cards(&devices);
    if cards.is_empty() {
        let first = devices.first();
        return first
            .and_then(|device| named(device, backend.name().into()))
            .into_iter()
            .collect();
    }
    let each = cards.into_iter().enumerate();
    each.filter_map(|(number, device)| named(device, format!("{}:{number}", backend.name())))
        .collect()
}
