//! Reads images from a column of Parquet or Arrow tables, as Hugging Face distributes them: PNG or JPEG files
//! as bytes, alone or in a struct `{bytes, path}`, beside a column of labels.
//!
//! The classes are the names that the file's metadata gives to its labels (`ClassLabel`), in that order;
//! without them the labels themselves, with numbers sorted by value.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::folder::{Content, FoundImage, ImageRequirements, decoded};
use super::{ImagesConfig, Pictures};
use crate::data::files::columnar::{self, Features};
use crate::data::{Origin, Request};
use crate::error::{Error, Result, suggestion};

/// The usual names of a column of images.
const IMAGE: [&str; 2] = ["image", "img"];
/// The usual name of a column of labels.
const LABEL: &str = "label";

/// Whether a path stands for tables: a table or a pattern of them, or a folder that directly contains some.
pub(super) fn is_table(path: &Path) -> bool {
    let inside = |folder: &Path| {
        let mut entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.any(|entry| columnar::is_columnar(&entry.path()))
    };
    columnar::is_columnar(path) || path.is_dir() && inside(path)
}

/// Reads the images of the tables at the paths of a key, and the names of their classes.
///
/// # Errors
/// If there is no table, a folder holds the tables of several splits, a column does not exist, a row has no
/// image or no label, a label has no class, or a file cannot be decoded.
pub(super) fn read(
    config: &ImagesConfig,
    (key, paths): (&str, &[PathBuf]),
    request: &Request,
    wanted: ImageRequirements,
) -> Result<(Pictures, Vec<String>)> {
    let files = request.files(key, paths, columnar::is_columnar)?;
    let mut images = Vec::new();
    let mut named: Option<Vec<String>> = None;
    for path in &files {
        let features = columnar::features(path)?;
        let label = label(config, &features, path)?;
        let names = features.classes(&label);
        if let (Some(before), Some(now)) = (&named, &names)
            && before != now
        {
            return Err(Error::usage(format!(
                "[data] the metadata of {} has different classes than that of {}",
                path.display(),
                files[0].display()
            )));
        }
        let columns = [image(config, &features, path)?, label];
        rows(path, &columns, names.as_deref(), &mut images)?;
        named = named.or(names);
    }
    if images.is_empty() {
        let shown = paths
            .first()
            .map_or_else(String::new, |p| p.display().to_string());
        return Err(Error::usage(format!("[data] {shown} contains no image")));
    }
    let classes = match wanted.classes {
        Some(classes) => classes.to_vec(),
        None => named.clone().unwrap_or_else(|| sorted(&images)),
    };
    let numbers = images
        .iter()
        .map(|image| number(image, &classes, named.as_deref()))
        .collect::<Result<Vec<i32>>>()?;
    Ok((decoded(&images, numbers, wanted)?, classes))
}

/// Adds the rows of a table to `images`.
fn rows(
    path: &Path,
    [image, label]: &[String; 2],
    names: Option<&[String]>,
    images: &mut Vec<FoundImage>,
) -> Result<()> {
    let wanted = [(image.as_str(), "image"), (label.as_str(), "label")];
    let file: Arc<Path> = path.into();
    columnar::files(path, wanted, |row, bytes, cell| {
        let fault = |why: String| Error::run(format!("{}: row {row} {why}", path.display()));
        let bytes = bytes.ok_or_else(|| {
            fault(format!(
                "has no bytes in column `{image}`; a table must contain its images, not their paths"
            ))
        })?;
        let written = cell.joined().map(|label| label.trim().to_owned());
        let written = written.ok_or_else(|| fault(format!("has an empty column `{label}`")))?;
        let class = match names {
            Some(names) => Features::class(names, &written).map_err(fault)?.to_owned(),
            None => written,
        };
        images.push(FoundImage {
            class,
            name: format!("the image in row {row} of {}", path.display()),
            origin: Origin::of_row(&file, row, Vec::new()),
            content: Content::Packed(bytes),
        });
        Ok(())
    })
}

/// Returns the classes of labels that have no names.
fn sorted(images: &[FoundImage]) -> Vec<String> {
    let mut classes: Vec<String> = images.iter().map(|image| image.class.clone()).collect();
    classes.sort_unstable_by_key(|label| (label.parse::<i64>().unwrap_or(i64::MAX), label.clone()));
    classes.dedup();
    classes
}

/// Returns the number of an image's class, found by its name. If `classes` are other names, they rename the
/// classes of the metadata, or the numbers from 0 on.
fn number(image: &FoundImage, classes: &[String], named: Option<&[String]>) -> Result<i32> {
    let by_name = |all: &[String]| all.iter().position(|class| *class == image.class);
    let renamed = || match named {
        Some(named) => by_name(named).filter(|_| named.len() == classes.len()),
        None if classes.iter().all(|class| class.parse::<i64>().is_err()) => {
            image.class.parse::<usize>().ok()
        }
        None => None,
    };
    let found = by_name(classes)
        .or_else(renamed)
        .filter(|n| *n < classes.len());
    found.map(|n| n as i32).ok_or_else(|| {
        let near = suggestion(&image.class, classes.iter().map(String::as_str));
        Error::run(format!(
            "{} has the label `{}`, which is not one of the classes{near}",
            image.name, image.class
        ))
    })
}

/// Returns the name of the column of images.
fn image(config: &ImagesConfig, features: &Features, path: &Path) -> Result<String> {
    if let Some(column) = &config.image {
        return Ok(column.clone());
    }
    let usual = IMAGE.map(str::to_owned).to_vec();
    let is_there = |name: &&String| has(features, name);
    let named = features.of_type("Image");
    let found = match named.as_slice() {
        [one] => Some(one),
        _ => usual.iter().find(is_there),
    };
    found
        .cloned()
        .ok_or_else(|| unknown("image", "images", features, path))
}

/// Returns the name of the column of labels.
fn label(config: &ImagesConfig, features: &Features, path: &Path) -> Result<String> {
    if let Some(column) = &config.label {
        return Ok(column.clone());
    }
    if has(features, LABEL) {
        return Ok(LABEL.into());
    }
    let named = features.of_type("ClassLabel");
    match named.as_slice() {
        [one] => Ok(one.clone()),
        _ => Err(unknown("label", "labels", features, path)),
    }
}

/// Whether a table has a column or a struct of this name.
fn has(features: &Features, name: &str) -> bool {
    let inside = format!("{name}.");
    let mut columns = features.columns.iter();
    columns.any(|column| column == name || column.starts_with(&inside))
}

fn unknown(key: &str, what: &str, features: &Features, path: &Path) -> Error {
    let columns: Vec<String> = features.columns.iter().map(|c| format!("`{c}`")).collect();
    Error::usage(format!(
        "[data] {}: it is not clear which of the columns {} contains the {what}; set `{key}`",
        path.display(),
        columns.join(", ")
    ))
}
