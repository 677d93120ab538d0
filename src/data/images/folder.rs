//! Reads folders of images, `root/class/*.png|jpg|jpeg|jpe|jfif`, on disk or packed in an archive.
//!
//! The classes are the names of the folders in alphabetical order, as in torchvision's ImageFolder. All
//! images get one shape: the size of the first one, and colour if any of them has colour, unless the
//! experiment sets otherwise.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::{Fit, Pictures, decode};
use crate::data::Origin;
use crate::data::files::{archive, columnar, discovery, splits};
use crate::error::{Error, Result, suggestion};

/// File name extensions of images.
const ENDINGS: [&str; 5] = ["png", "jpg", "jpeg", "jpe", "jfif"];
/// Maximum number of other files that a note names.
const NAMED: usize = 4;
/// Extensions of image formats that cannot be read.
const OTHERS: [&str; 13] = [
    "gif", "bmp", "webp", "tif", "tiff", "ppm", "pgm", "avif", "heic", "heif", "jxl", "jp2", "svg",
];

/// Whether a file is an image, judged by its name.
pub fn is_image(path: &Path) -> bool {
    ends_with(path, &ENDINGS)
}

/// Whether a file is an image that cannot be read, judged by its name.
pub fn is_other_image(path: &Path) -> bool {
    ends_with(path, &OTHERS)
}

fn ends_with(path: &Path, endings: &[&str]) -> bool {
    let ending = path.extension().map(|e| e.to_string_lossy().to_lowercase());
    ending.is_some_and(|ending| endings.contains(&ending.as_str()))
}

/// The channels, size and classes that images should have.
#[derive(Clone, Copy, Debug, Default)]
pub struct ImageRequirements<'a> {
    /// Channels, 1 or 3; `None` for those of the files.
    pub channels: Option<usize>,
    /// Height and width; `None` for those of the first image.
    pub size: Option<[usize; 2]>,
    /// Class names in the order of their labels; `None` for the folders in alphabetical order.
    pub classes: Option<&'a [String]>,
    /// How images are fitted to the size; `None` to stretch them.
    pub fit: Option<Fit>,
}

/// An image that has been found, not yet decoded.
pub(in crate::data) struct FoundImage {
    pub(in crate::data) class: String,
    /// Name in messages.
    pub(in crate::data) name: String,
    pub(in crate::data) content: Content,
    /// File, or row of a table, that the image is from.
    pub(in crate::data) origin: Origin,
}

pub(in crate::data) enum Content {
    File(PathBuf),
    Packed(Vec<u8>),
}

impl FoundImage {
    fn bytes(&self) -> Result<Cow<'_, [u8]>> {
        match &self.content {
            Content::File(path) => Ok(Cow::Owned(crate::files::read(path)?)),
            Content::Packed(bytes) => Ok(Cow::Borrowed(bytes)),
        }
    }
}

/// The files of a folder.
#[derive(Default)]
struct Listing {
    images: Vec<FoundImage>,
    /// Names of the files that are not images.
    others: Vec<String>,
}

/// Reads the images of a folder, the names of its classes, and a note about files that are not images.
///
/// # Errors
/// If there is no image, an image lies outside a class, a class is not wanted, or a file cannot be decoded.
pub fn read(
    root: &Path,
    wanted: ImageRequirements,
) -> Result<(Pictures, Vec<String>, Option<String>)> {
    let Listing {
        images: found,
        others,
    } = match archive::split(root) {
        Some((file, inside)) => list_archive(root, archive::entries(&file, &inside)?)?,
        None => list_folder(root)?,
    };
    if found.is_empty() {
        return Err(no_images_error(root));
    }
    let classes = classes(root, &found, wanted.classes)?;
    let label = |image: &FoundImage| classes.iter().position(|c| *c == image.class);
    let labels = found.iter().filter_map(label).map(|l| l as i32).collect();
    Ok((
        decoded(&found, labels, wanted)?,
        classes,
        note(root, &others),
    ))
}

/// The note about files that are not images.
fn note(root: &Path, others: &[String]) -> Option<String> {
    let files = match others.len() {
        0 => return None,
        1 => "a file that is not an image is".to_owned(),
        several => format!("{several} files that are not images are"),
    };
    Some(format!(
        "[data] {}: {files} ignored: {}",
        root.display(),
        discovery::join_first(others, NAMED)
    ))
}

/// The error of a folder without an image; it names tables of images further below.
fn no_images_error(root: &Path) -> Error {
    let mut tables = discovery::files_below(root).unwrap_or_default();
    tables.retain(|file| columnar::is_columnar(file));
    let remedy = match tables.first().and_then(|table| table.parent()) {
        None => "; it needs a folder for each class with .png, .jpg or .jpeg files".to_owned(),
        Some(folder) => format!(
            ", but tables of images are in {}: set {}",
            folder.display(),
            splits::suggested_keys(&tables).unwrap_or_else(|| format!("path = {folder:?}"))
        ),
    };
    Error::usage(format!(
        "[data] {} contains no image{remedy}",
        root.display()
    ))
}

/// Decodes images with these labels into one shape.
pub(in crate::data) fn decoded(
    found: &[FoundImage],
    labels: Vec<i32>,
    wanted: ImageRequirements,
) -> Result<Pictures> {
    let shape = shape(found, wanted)?;
    let images = found
        .par_iter()
        .map(|image| decode::decode(&image.bytes()?, &image.name, shape, wanted.fit))
        .collect::<Result<Vec<_>>>()?;
    Ok(Pictures {
        shape,
        pixels: images.concat(),
        labels,
        origins: found.iter().map(|image| image.origin.clone()).collect(),
    })
}

/// Returns the names of the classes; every image must belong to one.
fn classes(root: &Path, found: &[FoundImage], wanted: Option<&[String]>) -> Result<Vec<String>> {
    let mut names: Vec<String> = found.iter().map(|f| f.class.clone()).collect();
    names.sort();
    names.dedup();
    let Some(wanted) = wanted else {
        return Ok(names);
    };
    match names.iter().find(|name| !wanted.contains(name)) {
        None => Ok(wanted.to_vec()),
        Some(name) => Err(Error::usage(format!(
            "[data] {} has a folder `{name}`, which is not one of the classes{}",
            root.display(),
            suggestion(name, wanted.iter().map(String::as_str))
        ))),
    }
}

fn shape(found: &[FoundImage], wanted: ImageRequirements) -> Result<[usize; 3]> {
    let of = |image: &FoundImage| decode::shape_of(&image.bytes()?, &image.name);
    let first = match wanted.size {
        Some([height, width]) => [0, height, width],
        None => of(&found[0])?,
    };
    let channels = match wanted.channels {
        Some(channels) => channels,
        None => {
            let shapes = found.par_iter().map(of).collect::<Result<Vec<_>>>()?;
            shapes.iter().map(|shape| shape[0]).max().unwrap_or(1)
        }
    };
    Ok([channels, first[1], first[2]])
}

fn list_folder(root: &Path) -> Result<Listing> {
    let mut found = Listing::default();
    for class in listed(root)? {
        if !class.is_dir() {
            is_class_image(root, &[name(&class)])?;
            found.others.push(name(&class));
            continue;
        }
        for path in listed(&class)? {
            let parts = [name(&class), name(&path)];
            if path.is_dir() {
                return Err(too_deep_error(root, &parts[0], &parts[1]));
            }
            match is_class_image(root, &parts)? {
                true => found.images.push(FoundImage {
                    class: name(&class),
                    name: path.display().to_string(),
                    origin: Origin::of_file(&path),
                    content: Content::File(path),
                }),
                false => found.others.push(parts.join("/")),
            }
        }
    }
    Ok(found)
}

fn list_archive(root: &Path, entries: Vec<archive::Entry>) -> Result<Listing> {
    let mut found = Listing::default();
    for (path, bytes) in entries {
        let parts: Vec<String> = path.split('/').map(str::to_owned).collect();
        if let [class, inner, _, ..] = parts.as_slice() {
            return Err(too_deep_error(root, class, inner));
        }
        match is_class_image(root, &parts)? {
            true => found.images.push(FoundImage {
                class: parts[0].clone(),
                name: root.join(&path).display().to_string(),
                origin: Origin::of_file(&root.join(path)),
                content: Content::Packed(bytes),
            }),
            false => found.others.push(path),
        }
    }
    Ok(found)
}

/// Returns the entries of a folder sorted by name, without hidden ones.
fn listed(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).map_err(Error::io("read", folder))?;
    let mut paths = entries
        .map(|entry| entry.map(|e| e.path()))
        .collect::<std::io::Result<Vec<_>>>()
        .map_err(Error::io("read", folder))?;
    paths.retain(|path| !name(path).starts_with('.'));
    paths.sort();
    Ok(paths)
}

fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Whether a file is an image of a class, judged by its path below the root.
fn is_class_image(root: &Path, parts: &[String]) -> Result<bool> {
    let name = parts.last().map(|n| n.to_lowercase()).unwrap_or_default();
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    let root = root.display();
    match ending {
        Some(e) if OTHERS.contains(&e) => Err(Error::usage(format!(
            "[data] {root}/{} is not a PNG or JPEG file; convert it",
            parts.join("/")
        ))),
        Some(e) if ENDINGS.contains(&e) && parts.len() < 2 => Err(Error::usage(format!(
            "[data] the image {root}/{} is not in a class; put images in a folder for each class",
            parts.join("/")
        ))),
        Some(e) => Ok(ENDINGS.contains(&e)),
        None => Ok(false),
    }
}

fn too_deep_error(root: &Path, class: &str, inner: &str) -> Error {
    let root = root.display();
    Error::usage(format!(
        "[data] {root}/{class}/{inner} is a folder, but images must be in {root}/CLASS/; if `{class}` contains the classes, \
         set the path to `{root}/{class}`"
    ))
}
