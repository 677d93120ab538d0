//! The binary version of CIFAR (Krizhevsky 2009), plain or gzipped: records without a header.
//!
//! A CIFAR-10 record is a label, then 1,024 red, 1,024 green and 1,024 blue bytes, row by row: 3,073 bytes in
//! all. A CIFAR-100 record has a coarse label before the fine one; the fine one is the class.

use std::path::{Path, PathBuf};

use super::Pictures;
use crate::data::files::archive;
use crate::data::files::packed::content;
use crate::error::{Error, Result};

/// Channels, height, width.
const SHAPE: [usize; 3] = [3, 32, 32];
/// Bytes of an image.
const PIXELS: usize = 3 * 32 * 32;

/// Names of the classes of CIFAR-10.
pub const CLASSES: [&str; 10] = [
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
];

/// The version of CIFAR, which determines the label bytes per image and the number of classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// CIFAR-10: one label byte, below 10.
    Ten,
    /// CIFAR-100: two label bytes, the second below 100.
    Hundred,
}

impl Version {
    fn label_bytes(self) -> usize {
        match self {
            Self::Ten => 1,
            Self::Hundred => 2,
        }
    }

    fn classes(self) -> usize {
        match self {
            Self::Ten => 10,
            Self::Hundred => 100,
        }
    }

    /// Returns the version whose records fill `bytes` bytes.
    pub fn of_length(bytes: usize) -> Option<Self> {
        [Self::Ten, Self::Hundred]
            .into_iter()
            .find(|v| bytes > 0 && bytes.is_multiple_of(v.label_bytes() + PIXELS))
    }
}

/// Reads the records of files, in order.
///
/// # Errors
/// If a file cannot be read or is not a whole number of records, or a label is out of range.
pub fn read(paths: &[PathBuf], version: Version) -> Result<Pictures> {
    let mut pictures = Pictures {
        shape: SHAPE,
        ..Pictures::default()
    };
    for path in paths {
        add(&mut pictures, path, version)?;
    }
    Ok(pictures)
}

fn add(pictures: &mut Pictures, path: &Path, version: Version) -> Result<()> {
    let bad = |why: String| Error::run(format!("{}: {why}", path.display()));
    let bytes = bytes(path)?;
    let record = version.label_bytes() + PIXELS;
    if bytes.is_empty() || !bytes.len().is_multiple_of(record) {
        return Err(bad(format!(
            "{} bytes are not a whole number of records of {record} bytes; the file is truncated, or is not CIFAR-{}",
            bytes.len(),
            version.classes()
        )));
    }
    for (number, record) in bytes.chunks_exact(record).enumerate() {
        let (labels, pixels) = record.split_at(version.label_bytes());
        let label = labels[labels.len() - 1];
        if usize::from(label) >= version.classes() {
            return Err(bad(format!(
                "image {number} has the label {label}; CIFAR-{} has labels below {}",
                version.classes(),
                version.classes()
            )));
        }
        pictures.labels.push(i32::from(label));
        pictures.pixels.extend_from_slice(pixels);
    }
    Ok(())
}

/// Returns the content of a file, which may lie in an archive.
pub fn bytes(path: &Path) -> Result<Vec<u8>> {
    let Some((archive, inside)) = archive::split(path) else {
        return content(path);
    };
    let mut entries = archive::entries(&archive, &inside)?;
    match (entries.pop(), entries.is_empty()) {
        (Some((_, bytes)), true) => Ok(bytes),
        _ => Err(Error::usage(format!(
            "[data] {} contains several files; name each file to read",
            path.display()
        ))),
    }
}
