//! Detects the format of image files by their content and their names.

use super::cifar::{self, Version};
use super::config::ImageFormat;
use super::{folder, idx, table};
use crate::data::files::{archive, columnar, packed};
use crate::error::{Error, Result};
use std::path::{Path, PathBuf};

/// Returns the format of files: tables, a folder or an archive of one, IDX by its first bytes, CIFAR by its
/// length.
pub(super) fn detect_format(path: &Path) -> Result<ImageFormat> {
    if table::is_table(path) {
        return Ok(ImageFormat::Table);
    }
    let binary = packed::plain_name(path).ends_with(".bin");
    if path.is_dir() || (archive::split(path).is_some() && !binary) {
        return Ok(ImageFormat::Folder);
    }
    let content = cifar::bytes(path)?;
    if idx::is_idx(&content) && !binary {
        return Ok(ImageFormat::Idx);
    }
    match Version::of_length(content.len()) {
        Some(Version::Ten) => Ok(ImageFormat::Cifar),
        Some(Version::Hundred) => Ok(ImageFormat::Cifar100),
        None => Err(Error::usage(format!(
            "[data] {} is neither IDX images nor whole records of CIFAR, nor a folder, archive or table of \
             images; it may be damaged; `format` sets a format: `idx`, `cifar`, `cifar100`, `folder`, `table`",
            path.display()
        ))),
    }
}

/// Returns the files of a folder that are read: its tables, or its images.
pub(super) fn examples_in(
    format: Option<ImageFormat>,
    folder: &Path,
    mut files: Vec<PathBuf>,
) -> Vec<PathBuf> {
    match format {
        Some(ImageFormat::Table) => files.retain(|file| columnar::is_columnar(file)),
        None if table::is_table(folder) => files.retain(|file| columnar::is_columnar(file)),
        Some(ImageFormat::Folder) | None => files.retain(|file| folder::is_image(file)),
        Some(ImageFormat::Idx | ImageFormat::Cifar | ImageFormat::Cifar100) => {}
    }
    files
}
