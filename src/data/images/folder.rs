//! Folders of images, `root/class/*.png|jpg|jpeg|jpe|jfif`, as they lie on disk or packed in an archive.
//!
//! The classes are the names of the folders in alphabetical order, as torchvision's ImageFolder has them. Every
//! image takes one shape: that of the first one, in colour as soon as one of them is, unless the experiment says
//! otherwise.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::{Fit, Pictures, decode};
use crate::data::Origin;
use crate::data::files::{archive, columnar, found, splits};
use crate::error::{Error, Result, suggestion};

/// How the names of images end.
const ENDINGS: [&str; 5] = ["png", "jpg", "jpeg", "jpe", "jfif"];
/// Files that are no images and are named in a note.
const NAMED: usize = 4;
/// Images that are not read.
const OTHERS: [&str; 13] = [
    "gif", "bmp", "webp", "tif", "tiff", "ppm", "pgm", "avif", "heic", "heif", "jxl", "jp2", "svg",
];

/// Whether a file is an image by its name.
pub fn is_image(path: &Path) -> bool {
    ends_with(path, &ENDINGS)
}

/// Whether a file is, by its name, an image that is not read.
pub fn is_other_image(path: &Path) -> bool {
    ends_with(path, &OTHERS)
}

fn ends_with(path: &Path, endings: &[&str]) -> bool {
    let ending = path.extension().map(|e| e.to_string_lossy().to_lowercase());
    ending.is_some_and(|ending| endings.contains(&ending.as_str()))
}

/// The channels, size and classes that images must have.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    /// 1 or 3; otherwise as the files have it.
    pub channels: Option<usize>,
    /// Height and width; otherwise those of the first image.
    pub size: Option<[usize; 2]>,
    /// The folders in the order of their labels; otherwise in that of their names.
    pub classes: Option<&'a [String]>,
    /// How an imported model's images get their size; stretched otherwise.
    pub fit: Option<Fit>,
}

/// An image that was found.
pub(in crate::data) struct Found {
    pub(in crate::data) class: String,
    /// For messages.
    pub(in crate::data) name: String,
    pub(in crate::data) content: Content,
    /// Its file, or its row of a table.
    pub(in crate::data) origin: Origin,
}

pub(in crate::data) enum Content {
    File(PathBuf),
    Packed(Vec<u8>),
}

impl Found {
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
    images: Vec<Found>,
    /// The names of the files below it that are no images.
    others: Vec<String>,
}

/// Reads the images of a folder, the names of its classes, and a note about files that are no images.
///
/// # Errors
/// No image, images outside a class, a class that is not wanted, a file that cannot be decoded.
pub fn read(root: &Path, wanted: Wanted) -> Result<(Pictures, Vec<String>, Option<String>)> {
    let Listing {
        images: found,
        others,
    } = match archive::split(root) {
        Some((file, inside)) => packed(root, archive::entries(&file, &inside)?)?,
        None => on_disk(root)?,
    };
    if found.is_empty() {
        return Err(nothing(root));
    }
    let classes = classes(root, &found, wanted.classes)?;
    let label = |image: &Found| classes.iter().position(|c| *c == image.class);
    let labels = found.iter().filter_map(label).map(|l| l as i32).collect();
    Ok((
        decoded(&found, labels, wanted)?,
        classes,
        note(root, &others),
    ))
}

/// The note about files that are no images.
fn note(root: &Path, others: &[String]) -> Option<String> {
    let files = match others.len() {
        0 => return None,
        1 => "a file that is no image is".to_owned(),
        several => format!("{several} files that are no images are"),
    };
    Some(format!(
        "[data] {}: {files} passed over: {}",
        root.display(),
        found::shown(others, NAMED)
    ))
}

/// The fault of a folder without an image: tables may lie further below.
fn nothing(root: &Path) -> Error {
    let mut tables = found::below(root).unwrap_or_default();
    tables.retain(|file| columnar::is_columnar(file));
    let remedy = match tables.first().and_then(|table| table.parent()) {
        None => "; it needs a folder for each class with .png, .jpg or .jpeg files".to_owned(),
        Some(folder) => format!(
            ", and tables of images lie in {}: give {}",
            folder.display(),
            splits::named(&tables).unwrap_or_else(|| format!("path = {folder:?}"))
        ),
    };
    Error::usage(format!("[data] {} holds no image{remedy}", root.display()))
}

/// Images with these labels, in one shape.
pub(in crate::data) fn decoded(
    found: &[Found],
    labels: Vec<i32>,
    wanted: Wanted,
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

/// The names of the classes; every image belongs to one.
fn classes(root: &Path, found: &[Found], wanted: Option<&[String]>) -> Result<Vec<String>> {
    let mut names: Vec<String> = found.iter().map(|f| f.class.clone()).collect();
    names.sort();
    names.dedup();
    let Some(wanted) = wanted else {
        return Ok(names);
    };
    match names.iter().find(|name| !wanted.contains(name)) {
        None => Ok(wanted.to_vec()),
        Some(name) => Err(Error::usage(format!(
            "[data] {} has a folder `{name}`, which is none of the classes{}",
            root.display(),
            suggestion(name, wanted.iter().map(String::as_str))
        ))),
    }
}

fn shape(found: &[Found], wanted: Wanted) -> Result<[usize; 3]> {
    let of = |image: &Found| decode::shape_of(&image.bytes()?, &image.name);
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

fn on_disk(root: &Path) -> Result<Listing> {
    let mut found = Listing::default();
    for class in listed(root)? {
        if !class.is_dir() {
            placed(root, &[name(&class)])?;
            found.others.push(name(&class));
            continue;
        }
        for path in listed(&class)? {
            let parts = [name(&class), name(&path)];
            if path.is_dir() {
                return Err(deeper(root, &parts[0], &parts[1]));
            }
            match placed(root, &parts)? {
                true => found.images.push(Found {
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

fn packed(root: &Path, entries: Vec<archive::Entry>) -> Result<Listing> {
    let mut found = Listing::default();
    for (path, bytes) in entries {
        let parts: Vec<String> = path.split('/').map(str::to_owned).collect();
        if let [class, inner, _, ..] = parts.as_slice() {
            return Err(deeper(root, class, inner));
        }
        match placed(root, &parts)? {
            true => found.images.push(Found {
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

/// The entries of a folder in the order of their names, hidden ones left out.
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

/// Whether a file, by its path below the root, is an image of a class.
fn placed(root: &Path, parts: &[String]) -> Result<bool> {
    let name = parts.last().map(|n| n.to_lowercase()).unwrap_or_default();
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    let root = root.display();
    match ending {
        Some(e) if OTHERS.contains(&e) => Err(Error::usage(format!(
            "[data] {root}/{} is not PNG or JPEG; convert it",
            parts.join("/")
        ))),
        Some(e) if ENDINGS.contains(&e) && parts.len() < 2 => Err(Error::usage(format!(
            "[data] the image {root}/{} lies in no class; images lie in a folder for each class",
            parts.join("/")
        ))),
        Some(e) => Ok(ENDINGS.contains(&e)),
        None => Ok(false),
    }
}

fn deeper(root: &Path, class: &str, inner: &str) -> Error {
    let root = root.display();
    Error::usage(format!(
        "[data] {root}/{class}/{inner} is a folder, and images lie in {root}/CLASS/; if `{class}` holds the classes, \
         give `{root}/{class}` as the path"
    ))
}
