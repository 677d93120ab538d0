//! `machine.json`: the machine and the program version of a run, for comparing times.

use crate::device::{DeviceName, Gpu};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The machine and the program version.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// Number of threads that the process may use.
    pub cores: usize,
    /// Main memory in bytes; 0 if the system does not say.
    pub memory_bytes: u64,
    /// The system's name and version.
    pub os: String,
    /// Device of the tensors: `flex`, `cuda:0` …
    pub device: String,
    /// The GPU that the device names, and how the program uses it; `None` on a CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<Gpu>,
    /// The program's version.
    pub version: String,
    /// The program's commit, if the build was given one (`FORMWORK_COMMIT`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

impl Machine {
    /// Describes this machine.
    pub fn detect(device: &str) -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        Self {
            cpu: field(&read("/proc/cpuinfo"), "model name", ':')
                .unwrap_or_else(|| std::env::consts::ARCH.into()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: read_proc_bytes("/proc/meminfo", "MemTotal").unwrap_or(0),
            os: field(&read("/etc/os-release"), "PRETTY_NAME", '=')
                .map_or_else(|| std::env::consts::OS.into(), |name| name.replace('"', "")),
            device: device.into(),
            gpu: device.parse().ok().and_then(DeviceName::gpu),
            version: env!("CARGO_PKG_VERSION").into(),
            commit: option_env!("FORMWORK_COMMIT").map(Into::into),
        }
    }
}

/// Reads a size in kB from a file of `/proc` and returns it in bytes; `None` if there is no such file.
pub fn read_proc_bytes(file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let size = field(&text, name, ':')?;
    let kib: u64 = size.trim_end_matches("kB").trim().parse().ok()?;
    Some(kib * 1024)
}

/// Environment variable for how much memory a run may take, as `64G` or in bytes; it overrides the machine's memory.
pub const MEMORY_VARIABLE: &str = "FORMWORK_MEMORY";

/// Returns the bytes of memory that this process may use: the machine's, or less if its control group or one above it
/// is limited. `None` if the system does not tell.
pub fn available_memory() -> Option<u64> {
    memory_below(Path::new("/"))
}

/// [`memory`] of a machine whose files lie below `root`.
fn memory_below(root: &Path) -> Option<u64> {
    let whole = read_proc_bytes(&root.join("proc/meminfo").to_string_lossy(), "MemTotal");
    let groups = std::fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut limits: Vec<u64> = whole.into_iter().collect();
    for line in groups.lines() {
        // `0::/path` of version 2, `4:memory:/path` of version 1.
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            continue;
        };
        let (mount, file) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|c| c == "memory") => {
                ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let mount = root.join(mount);
        // In a container the path may be the one on the host, and the mount the container's own group.
        for group in Path::new(path.trim_start_matches('/')).ancestors() {
            let text = std::fs::read_to_string(mount.join(group).join(file)).unwrap_or_default();
            limits.extend(text.trim().parse::<u64>());
        }
    }
    limits.into_iter().min()
}

/// Parses a size such as `64G` into bytes: the letters K, M, G and T are powers of 1024.
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, unit) = match text.char_indices().last()? {
        (at, 'k' | 'K') => (&text[..at], 1 << 10),
        (at, 'm' | 'M') => (&text[..at], 1 << 20),
        (at, 'g' | 'G') => (&text[..at], 1 << 30),
        (at, 't' | 'T') => (&text[..at], 1_u64 << 40),
        _ => (text, 1),
    };
    digits.trim().parse::<u64>().ok()?.checked_mul(unit)
}

/// Returns the resident memory of this process in MB (2²⁰ bytes), if the system tells.
pub fn resident_mb() -> Option<f64> {
    read_proc_bytes("/proc/self/status", "VmRSS").map(|bytes| bytes as f64 / f64::from(1 << 20))
}

/// Returns the value of the first line `name <separator> value`.
fn field(text: &str, name: &str, separator: char) -> Option<String> {
    text.lines()
        .filter_map(|line| line.split_once(separator))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn write(root: &Path, file: &str, text: &str) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn the_narrowest_limit_counts() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        assert_eq!(memory_below(root), None);
        write(
            root,
            "proc/meminfo",
            "MemTotal:  1048576 kB\nMemFree: 1 kB\n",
        );
        assert_eq!(memory_below(root), Some(1 << 30));
        write(root, "proc/self/cgroup", "0::/user/run\n");
        write(root, "sys/fs/cgroup/user/run/memory.max", "max\n");
        assert_eq!(memory_below(root), Some(1 << 30));
        write(root, "sys/fs/cgroup/user/memory.max", "1048576\n");
        assert_eq!(memory_below(root), Some(1 << 20));
        write(root, "proc/self/cgroup", "3:cpu:/a\n2:memory:/docker/x\n");
        let limit = "sys/fs/cgroup/memory/memory.limit_in_bytes";
        write(root, limit, "9223372036854771712\n");
        assert_eq!(memory_below(root), Some(1 << 30));
        write(root, limit, "4096\n");
        assert_eq!(memory_below(root), Some(4096));
    }

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [
            ("64G", Some(64 << 30)),
            ("512m", Some(512 << 20)),
            ("7", Some(7)),
            ("2 T", Some(2 << 40)),
        ] {
            assert_eq!(parse_size(text), bytes, "{text}");
        }
        for text in ["", "G", "-1", "many", "99999999999T", "é"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }
}
