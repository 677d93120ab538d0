//! Whether a device can be asked for: known by name, compiled in.

use crate::error::suggestion;

/// Names, whether a number may follow, and whether this binary has them.
const DEVICES: &[(&str, bool, bool)] = &[
    ("flex", false, cfg!(feature = "flex")),
    ("ndarray", false, cfg!(feature = "ndarray")),
    ("wgpu", true, cfg!(feature = "wgpu")),
    ("vulkan", true, cfg!(feature = "vulkan")),
    ("cuda", true, cfg!(feature = "cuda")),
];

/// What is wrong with a device's name: `flex`, `ndarray`, `wgpu[:i]`, `vulkan[:i]`, `cuda[:i]`.
pub fn device_fault(device: &str) -> Option<String> {
    let (name, number) = match device.split_once(':') {
        Some((name, number)) => (name, Some(number)),
        None => (device, None),
    };
    let Some((_, numbered, compiled)) = DEVICES.iter().find(|(known, ..)| *known == name) else {
        let near = suggestion(name, DEVICES.iter().map(|(known, ..)| *known));
        return Some(format!("device = \"{device}\" is not known{near}"));
    };
    match number {
        Some(_) if !numbered => return Some(format!("device = \"{device}\": {name} takes no number")),
        Some(number) if number.parse::<u16>().is_err() => {
            return Some(format!("device = \"{device}\": `{number}` is not a number, as in {name}:0"));
        }
        _ => {}
    }
    (!compiled).then(|| {
        format!("device = \"{device}\" is not compiled in; build with: cargo build --release --features {name}")
    })
}
