//! Checks for NVIDIA's run-time compiler of kernels; CubeCL would panic in the middle of a run if a part of it is missing.

use crate::error::{Error, Result};
use cubecl::cuda::install::{cccl_include_path, cuda_path, include_path};
use cudarc::driver::sys::cuDriverGetVersion;
use cudarc::nvrtc::sys::{is_culib_present, nvrtcVersion};
use std::path::PathBuf;

/// One header of each part of the toolkit that kernels include: the runtime's, the compiler's own, the C++ library's.
const HEADERS: [&str; 4] = ["cuda_fp16.h", "mma.h", "crt/mma.h", "cuda/barrier"];

/// Advice on installing the missing parts.
const REMEDY: &str = "install NVIDIA's CUDA toolkit, or its parts from PyPI in a version that the driver supports \
     (nvidia-cuda-nvrtc, nvidia-cuda-runtime, nvidia-cuda-crt, nvidia-cuda-cccl); set LD_LIBRARY_PATH to the folder of \
     libnvrtc.so.* and CUDA_PATH to the folder that contains `include`";

/// Checks that kernels can be compiled.
///
/// # Errors
/// If the NVRTC library or one of [`HEADERS`] is not found, or the library is newer than the driver.
pub fn require() -> Result<()> {
    // SAFETY: it loads a shared library under NVIDIA's name, as the first kernel would.
    let fault = match unsafe { is_culib_present() } {
        false => Some("the library libnvrtc was not found".to_owned()),
        true => missing_header().or_else(too_new),
    };
    match fault {
        Some(fault) => Err(Error::usage(format!(
            "device `cuda` compiles its kernels with NVIDIA's NVRTC: {fault}; {REMEDY}"
        ))),
        None => Ok(()),
    }
}

fn missing_header() -> Option<String> {
    if cuda_path().is_none() {
        return Some("the folder of its headers was not found".into());
    }
    let folders: [PathBuf; 2] = [include_path(), cccl_include_path()];
    let is_there = |header: &&str| folders.iter().any(|folder| folder.join(header).exists());
    let header = HEADERS.iter().find(|header| !is_there(header))?;
    Some(format!(
        "{} does not contain {header}",
        folders[0].display()
    ))
}

/// Reports a compiler that is newer than the driver, which would refuse its output. Versions are 1000·major + 10·minor.
fn too_new() -> Option<String> {
    let (mut driver, mut major, mut minor) = (0, 0, 0);
    // SAFETY: both functions write to the integers that they are given, and their libraries have been found.
    let asked = unsafe {
        (
            cuDriverGetVersion(&raw mut driver),
            nvrtcVersion(&raw mut major, &raw mut minor),
        )
    };
    let known = asked.0.result().is_ok() && asked.1.result().is_ok();
    let newer = known && 1000 * major + 10 * minor > driver;
    newer.then(|| {
        format!(
            "libnvrtc is for CUDA {major}.{minor}, but the driver supports at most CUDA {}.{}",
            driver / 1000,
            driver % 1000 / 10
        )
    })
}
