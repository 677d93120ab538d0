//! Relative links from a page to the runs it describes, so that a folder can be moved together with its report.

use std::path::{Component, Path, PathBuf};

/// Returns the relative URL of `target` from a page in `folder`, escaped for an attribute; `None` if either has no
/// absolute path.
pub fn relative(folder: &Path, target: &Path) -> Option<String> {
    let (from, to) = (normalized(folder)?, normalized(target)?);
    let shared = from
        .components()
        .zip(to.components())
        .take_while(|(a, b)| a == b)
        .count();
    let up = from.components().skip(shared).map(|_| "..".to_string());
    let down = to.components().skip(shared);
    let down = down.map(|part| escaped(&part.as_os_str().to_string_lossy()));
    let parts: Vec<String> = up.chain(down).collect();
    Some(match parts.is_empty() {
        true => ".".into(),
        false => parts.join("/"),
    })
}

/// Returns the absolute path without `.` and `..`; symbolic links are not resolved.
fn normalized(path: &Path) -> Option<PathBuf> {
    let mut parts = PathBuf::new();
    for part in std::path::absolute(path).ok()?.components() {
        match part {
            Component::ParentDir => drop(parts.pop()),
            Component::CurDir => {}
            part => parts.push(part),
        }
    }
    Some(parts)
}

/// Percent-encodes all characters except those that are safe in a URL and in an attribute.
fn escaped(part: &str) -> String {
    let mut safe = String::new();
    for byte in part.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                safe.push(char::from(byte));
            }
            byte => safe.push_str(&format!("%{byte:02X}")),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_climb_and_descend() {
        let link = |a, b| relative(Path::new(a), Path::new(b));
        assert_eq!(
            link("/a/sweep/report", "/a/sweep/cells/pre norm/seed-1").as_deref(),
            Some("../cells/pre%20norm/seed-1")
        );
        assert_eq!(link("x", "./y/../x/run").as_deref(), Some("run"));
        assert_eq!(link("/a", "/a").as_deref(), Some("."));
    }
}
