//! `machine.json`: the machine and the program of a run, for comparing times.

use serde::{Deserialize, Serialize};

/// The machine and the program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// Threads that the process may use.
    pub cores: usize,
    /// Main memory in bytes; 0 where the system does not say.
    pub memory_bytes: u64,
    /// The system's name and version.
    pub os: String,
    /// Where tensors are: `flex`, `cuda:0` …
    pub device: String,
    /// The program's version.
    pub version: String,
    /// The program's commit, where the build was told (`FORMWORK_COMMIT`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

impl Machine {
    /// This machine.
    pub fn here(device: &str) -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        Self {
            cpu: field(&read("/proc/cpuinfo"), "model name", ':')
                .unwrap_or_else(|| std::env::consts::ARCH.into()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: bytes("/proc/meminfo", "MemTotal").unwrap_or(0),
            os: field(&read("/etc/os-release"), "PRETTY_NAME", '=')
                .map_or_else(|| std::env::consts::OS.into(), |name| name.replace('"', "")),
            device: device.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            commit: option_env!("FORMWORK_COMMIT").map(Into::into),
        }
    }
}

/// Bytes of a size in kB that a file of `/proc` states, where there is such a file.
pub fn bytes(file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let size = field(&text, name, ':')?;
    let kib: u64 = size.trim_end_matches("kB").trim().parse().ok()?;
    Some(kib * 1024)
}

/// Resident size of this process in MB (2²⁰ bytes), where the system tells.
pub fn resident_mb() -> Option<f64> {
    bytes("/proc/self/status", "VmRSS").map(|bytes| bytes as f64 / f64::from(1 << 20))
}

/// The value of the first line `name <separator> value`.
fn field(text: &str, name: &str, separator: char) -> Option<String> {
    text.lines()
        .filter_map(|line| line.split_once(separator))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim().to_string())
}
