//! What is asked of CubeCL.

use super::{Backend, DeviceName, Gpu};
use crate::error::{Error, Result};
use crate::files::user_caches;
use crate::kernel::allows_tf32;
use burn::tensor::{Device, DeviceType};
use cubecl::config::cache::CacheConfig;
use cubecl::config::{CubeClRuntimeConfig, RuntimeConfig};
use cubecl::environment;
use std::sync::OnceLock;

#[cfg(any(feature = "wgpu", feature = "vulkan"))]
pub fn kind(index: Option<usize>) -> burn::tensor::DeviceKind {
    match index {
        Some(i) => burn::tensor::DeviceKind::DiscreteGpu(i),
        None => burn::tensor::DeviceKind::DefaultDevice,
    }
}

/// Has CubeCL keep what it tunes and compiles in the user's cache folder, unless a `cubecl.toml` names another place; its own choice
/// is below the folder that the program is called in, for what it tunes alone.
pub fn keep_kernels() {
    static KEPT: OnceLock<()> = OnceLock::new();
    KEPT.get_or_init(|| {
        let mut settings = CubeClRuntimeConfig::from_current_dir().override_from_env();
        // A kept kernel is known by its name and the build that compiled it, and by its source in another build.
        settings.compilation.cache |= buildid::build_id().is_some();
        let has_no_place = matches!(settings.environment.path, CacheConfig::Target);
        // CubeCL sets its own place while it takes its settings.
        CubeClRuntimeConfig::try_set(settings);
        if has_no_place {
            environment::set_root(user_caches().join("formwork").join("gpu"));
        }
    });
}

/// Has CubeCL keep what it tunes and compiles for this card apart from what it keeps for others, which may share the folder on another
/// machine: it tells cards by their numbers, and a form that is the fastest on one may not run on another. The first
/// card that a process opens names its place. Whether something was kept there before this process.
pub fn keep_apart(device: &Device) -> bool {
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
    let tuned_before = keep_apart(device);
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

/// Whether kernels that are compiled for this have TF32: on NVIDIA's tensor cores since compute capability 8.0.
fn has_tf32(compiled_for: &str) -> bool {
    let capability = compiled_for.strip_prefix("ptx_sm");
    let capability = capability.and_then(|number| number.parse::<u32>().ok());
    capability.is_some_and(|capability| capability >= 80)
}

/// The devices of a family that the machine has.
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

/// Burn panics over a device that is not there.
pub fn require(name: DeviceName, device: &Device) -> Result<()> {
    let devices = devices(name.backend);
    let is_there = match name.index {
        Some(_) => devices.contains(device),
        None => !devices.is_empty(),
    };
    if is_there {
        return readable(name, device);
    }
    Err(Error::usage(format!(
        "this machine has no device `{name}`; `formwork list devices` shows those that it has"
    )))
}

/// Mesa's software device falls over SPIR-V that CubeCL writes for it: docs/gpus.md, "Building".
fn readable(name: DeviceName, device: &Device) -> Result<()> {
    let adapter = device.identity().map(|identity| identity.name);
    let software = adapter.filter(|adapter| adapter.starts_with("llvmpipe"));
    match software.filter(|_| name.backend == Backend::Vulkan) {
        None => Ok(()),
        Some(adapter) => Err(Error::usage(format!(
            "device `{name}` is {adapter}, which cannot read the kernels that are written for `vulkan`; use `wgpu`"
        ))),
    }
}

pub fn found(backend: Backend) -> Vec<(String, String)> {
    keep_kernels();
    let devices = devices(backend);
    let each = devices.iter().enumerate();
    each.filter_map(|(number, device)| {
        let identity = device.identity()?;
        // Numbers count cards; what is no card of its own is the family's choice where there is none.
        let name = match identity.physical {
            Some(_) => format!("{}:{number}", backend.name()),
            None => backend.name().into(),
        };
        Some((name, identity.name))
    })
    .collect()
}
