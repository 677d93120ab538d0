//! Devices by name: `flex`, `ndarray`, `wgpu[:i]`, `vulkan[:i]`, `cuda[:i]`.
//!
//! The features of the build decide which devices exist; asking for another one names the missing feature. Tuning results of a
//! GPU's kernels are kept in the user's cache folder, for later processes.

#[cfg(feature = "gpu")]
mod gpu;
#[cfg(feature = "cuda")]
mod toolkit;

use crate::error::{Error, Result, suggestion};
use burn::tensor::Device;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A device family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// The CPU, in pure Rust.
    Flex,
    /// The CPU, through the ndarray crate.
    Ndarray,
    /// A GPU through WebGPU and its shading language.
    Wgpu,
    /// A GPU through Vulkan and SPIR-V.
    Vulkan,
    /// An NVIDIA GPU.
    Cuda,
}

/// Names of all families, compiled in or not.
pub const NAMES: [&str; 5] = ["flex", "ndarray", "wgpu", "vulkan", "cuda"];

/// All families, in the order of their names.
pub const ALL: [Backend; 5] = [
    Backend::Flex,
    Backend::Ndarray,
    Backend::Wgpu,
    Backend::Vulkan,
    Backend::Cuda,
];

/// A GPU, and how this binary uses it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gpu {
    /// The device family.
    pub backend: String,
    /// The name that the device reports.
    pub adapter: String,
    /// The target that its kernels are compiled for.
    pub compiled_for: String,
    /// Whether element-wise operations are fused.
    pub fusion: bool,
    /// The file with the results of kernel tuning.
    pub tuning: String,
    /// Whether that file existed before this process.
    pub tuned_before: bool,
    /// Whether linear maps, attention and losses multiply float32 numbers as TF32.
    pub tf32: bool,
}

impl Backend {
    /// The name in experiment files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Flex => NAMES[0],
            Self::Ndarray => NAMES[1],
            Self::Wgpu => NAMES[2],
            Self::Vulkan => NAMES[3],
            Self::Cuda => NAMES[4],
        }
    }

    /// Whether this binary includes the family.
    pub fn compiled_in(self) -> bool {
        match self {
            Self::Flex => cfg!(feature = "flex"),
            Self::Ndarray => cfg!(feature = "ndarray"),
            Self::Wgpu => cfg!(feature = "wgpu"),
            Self::Vulkan => cfg!(feature = "vulkan"),
            Self::Cuda => cfg!(feature = "cuda"),
        }
    }
}

/// A device that was requested and that this binary can open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceName {
    /// The family.
    pub backend: Backend,
    /// The index among several GPUs.
    pub index: Option<usize>,
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.backend.name())?;
        self.index.map_or(Ok(()), |i| write!(f, ":{i}"))
    }
}

impl FromStr for DeviceName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, index) = match text.split_once(':') {
            Some((name, index)) => (name, Some(index)),
            None => (text, None),
        };
        let backend = match name {
            "flex" => Backend::Flex,
            "ndarray" => Backend::Ndarray,
            "wgpu" => Backend::Wgpu,
            "vulkan" => Backend::Vulkan,
            "cuda" => Backend::Cuda,
            _ => {
                let hint = match name {
                    "cpu" => String::from("; the CPU is `flex`"),
                    _ => suggestion(name, NAMES),
                };
                return Err(Error::usage(format!("there is no device `{text}`{hint}")));
            }
        };
        let index = match index {
            None => None,
            Some(_) if matches!(backend, Backend::Flex | Backend::Ndarray) => {
                return Err(Error::usage(format!(
                    "device `{text}`: {name} is a single device; remove the number"
                )));
            }
            Some(i) => Some(i.parse().map_err(|_| {
                Error::usage(format!(
                    "device `{text}`: `{i}` is not a number; write {name} or {name}:0"
                ))
            })?),
        };
        if !backend.compiled_in() {
            return Err(Error::usage(format!(
                "device `{text}` is not in this binary; build it with: cargo build --release --features {name}"
            )));
        }
        Ok(Self { backend, index })
    }
}

impl DeviceName {
    /// Checks the text of a flag: returns it if it names a device that this binary can open, else the reason why not.
    ///
    /// # Errors
    /// As in parsing.
    pub fn parse_flag(text: &str) -> std::result::Result<String, String> {
        let parsed: Result<Self> = text.parse();
        parsed.map(|_| text.to_owned()).map_err(|e| e.to_string())
    }

    /// Returns the device with this GPU index if it is `cuda` and has no index yet.
    #[must_use]
    pub fn with_gpu_index(self, gpu: Option<usize>) -> Self {
        match self.backend {
            Backend::Cuda => Self {
                index: self.index.or(gpu),
                ..self
            },
            _ => self,
        }
    }

    /// Whether the device is a CPU, whose memory is the machine's.
    pub fn is_cpu(self) -> bool {
        matches!(self.backend, Backend::Flex | Backend::Ndarray)
    }

    /// Opens the device.
    ///
    /// # Errors
    /// If the build has no such backend, or the machine has no such GPU or cannot compile for it.
    pub fn open(self) -> Result<Device> {
        let device = self.burn_device()?;
        #[cfg(feature = "gpu")]
        if !self.is_cpu() {
            gpu::cache_kernels();
            gpu::require(self, &device)?;
            gpu::separate_kernel_caches(&device);
            #[cfg(feature = "cuda")]
            if self.backend == Backend::Cuda {
                toolkit::require()?;
            }
        }
        Ok(device)
    }

    /// Returns Burn's device, whether the machine has it or not.
    fn burn_device(self) -> Result<Device> {
        match self.backend {
            #[cfg(feature = "flex")]
            Backend::Flex => Ok(Device::flex()),
            #[cfg(feature = "ndarray")]
            #[allow(deprecated)]
            Backend::Ndarray => Ok(Device::ndarray()),
            #[cfg(feature = "wgpu")]
            Backend::Wgpu => Ok(gpu::select_card(self.backend, self.index, Device::wgpu)),
            #[cfg(feature = "vulkan")]
            Backend::Vulkan => Ok(gpu::select_card(self.backend, self.index, Device::vulkan)),
            #[cfg(feature = "cuda")]
            Backend::Cuda => Ok(Device::cuda(self.index.unwrap_or(0))),
            #[allow(unreachable_patterns)]
            other => Err(Error::usage(format!(
                "device `{}` is not in this binary",
                other.name()
            ))),
        }
    }

    /// Opens a GPU and describes it for the records of a run; `None` for a CPU.
    pub fn gpu(self) -> Option<Gpu> {
        #[cfg(feature = "gpu")]
        if !self.is_cpu() {
            return gpu::described(self, &self.open().ok()?);
        }
        None
    }
}

impl Backend {
    /// Lists the devices of this family on this machine: for each, the name to request it by and the name that it reports. Empty
    /// if the binary does not include the family.
    pub fn list_devices(self) -> Vec<(String, String)> {
        match self {
            Self::Flex | Self::Ndarray if self.compiled_in() => {
                vec![(self.name().into(), "the processor".into())]
            }
            Self::Flex | Self::Ndarray => Vec::new(),
            #[cfg(feature = "gpu")]
            Self::Wgpu | Self::Vulkan | Self::Cuda => gpu::list_cards(self),
            #[cfg(not(feature = "gpu"))]
            Self::Wgpu | Self::Vulkan | Self::Cuda => Vec::new(),
        }
    }
}

/// The device for work that belongs to no run's device: plans, tables that are assembled, states that are read from files.
/// It is the CPU; Burn's default would be the first GPU that it was compiled for, whether the machine has one or not.
pub fn host() -> Device {
    #[cfg(feature = "flex")]
    {
        Device::flex()
    }
    #[cfg(not(feature = "flex"))]
    {
        Device::default()
    }
}
