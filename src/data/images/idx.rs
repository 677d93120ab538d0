//! Reads IDX files, plain or gzipped: MNIST's format (LeCun, Cortes and Burges), which Fashion-MNIST keeps.
//!
//! `0 0 type dimensions · the size of each dimension as 4 bytes, highest first · the values`. Images are
//! bytes (type 8) of `[count, rows, columns]`, grey; labels are bytes of `[count]`.

use std::path::Path;

use super::Pictures;
use crate::data::files::packed::content;
use crate::error::{Error, Result};

/// First bytes of a file of images.
const IMAGES: [u8; 4] = [0, 0, 8, 3];
/// First bytes of a file of labels.
const LABELS: [u8; 4] = [0, 0, 8, 1];

/// Whether a file begins like IDX images.
pub fn is_idx(content: &[u8]) -> bool {
    content.starts_with(&IMAGES)
}

/// Reads images and their labels.
///
/// # Errors
/// If a file cannot be read, is not IDX, is cut short or too long, or the numbers of images and labels
/// differ.
pub fn read(images: &Path, labels: &Path) -> Result<Pictures> {
    let (sizes, pixels) = values::<3>(images, IMAGES, "images")?;
    let ([count], labels_read) = values::<1>(labels, LABELS, "labels")?;
    let [images_read, height, width] = sizes;
    if height == 0 || width == 0 {
        return Err(Error::run(format!(
            "{} contains images of {height}x{width} pixels",
            images.display()
        )));
    }
    if images_read != count {
        return Err(Error::run(format!(
            "{} contains {images_read} images, but {} contains {count} labels; they do not belong together",
            images.display(),
            labels.display()
        )));
    }
    Ok(Pictures {
        shape: [1, height, width],
        pixels,
        labels: labels_read.into_iter().map(i32::from).collect(),
        origins: Vec::new(),
    })
}

/// Returns the sizes of the dimensions, and the values.
fn values<const D: usize>(
    path: &Path,
    magic: [u8; 4],
    what: &str,
) -> Result<([usize; D], Vec<u8>)> {
    let bad = |why: String| Error::run(format!("{}: {why}", path.display()));
    let mut bytes = content(path)?;
    if !bytes.starts_with(&magic) {
        let begin = &bytes[..bytes.len().min(4)];
        return Err(bad(format!(
            "not IDX {what}: it begins with {begin:02x?}, not with {magic:02x?}"
        )));
    }
    let header = 4 + 4 * D;
    if bytes.len() < header {
        return Err(bad(format!(
            "truncated inside its header of {header} bytes"
        )));
    }
    let words = bytes[4..header].as_chunks::<4>().0;
    let sizes: [usize; D] = std::array::from_fn(|i| u32::from_be_bytes(words[i]) as usize);
    let expected = sizes
        .iter()
        .try_fold(1usize, |n, size| n.checked_mul(*size));
    let held = bytes.len() - header;
    if expected != Some(held) {
        let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
        return Err(bad(format!(
            "its header announces {} values, but {held} follow; the file is damaged",
            sizes.join(" x ")
        )));
    }
    bytes.drain(..header);
    Ok((sizes, bytes))
}
