//! Rows of tables as images with their captions, and the images as pixels.

use super::CaptionedImagesConfig;
use crate::data::files::{columnar, found};
use crate::data::images::folder::{Content, Found, Wanted, decoded};
use crate::data::images::{Pictures, is_image};
use crate::data::labelled::column::Column;
use crate::data::labelled::examples;
use crate::data::labelled::tables::{self, Format, Layout};
use crate::data::{PerSplit, Places, Request, Split};
use crate::error::{Error, Result};
use crate::tokenizer::{Edges, Tokenizer};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// An image with its captions.
#[derive(Clone, Debug)]
pub(super) struct Example {
    image: PathBuf,
    /// The table and the line that name it first, for messages.
    place: String,
    pub(super) captions: Vec<String>,
}

impl CaptionedImagesConfig {
    /// Where things are in the tables of a split.
    fn layout(&self, split: Split, path: &Path) -> Layout {
        let named = self.format.or_else(|| Format::of(path)) == Some(Format::Jsonl);
        let column = |given: &Option<Column>, number, name: &str| {
            let usual = match named {
                true => Column::Name(name.into()),
                false => Column::Number(number),
            };
            given.clone().unwrap_or(usual)
        };
        Layout {
            format: self.format,
            quoting: self.quoting,
            header: self.header.is_in(split),
            text: column(&self.caption, 2, "text"),
            pair: None,
            label: column(&self.image, 1, "file_name"),
            answer: "image",
            several: None,
        }
    }

    /// The images of each split with their captions.
    pub(super) fn examples(&self, request: &Request) -> Result<PerSplit<Vec<Example>>> {
        let folder = self.images.as_ref();
        let folder = folder.map(|f| request.places.resolve(f)).transpose()?;
        let parts = self.parts();
        for (_, path) in parts.paths() {
            self.tables(request.places, path)?;
        }
        parts.read(request, ["images", "image"], |split, path| {
            match self.is_table(path) {
                true => self.of_table(split, path, folder.as_deref()),
                false => Ok(Vec::new()),
            }
        })
    }

    /// The folder of each table with the images that the table names, where they lie beside it.
    pub(super) fn beside(&self, places: &Places) -> Result<Vec<(PathBuf, Vec<PathBuf>)>> {
        let mut all = Vec::new();
        if self.images.is_some() {
            return Ok(all);
        }
        for (split, paths) in [
            (Split::Train, Some(&self.path)),
            (Split::Valid, self.valid_path.as_ref()),
            (Split::Test, self.test_path.as_ref()),
        ] {
            for path in paths.into_iter().flat_map(|paths| &paths.0) {
                for table in self.tables(places, path)? {
                    let examples = self.of_table(split, &table, None)?;
                    let images = examples.into_iter().map(|example| example.image);
                    let folder = table.parent().unwrap_or(Path::new(""));
                    all.push((folder.to_path_buf(), images.collect()));
                }
            }
        }
        Ok(all)
    }

    /// The tables that a path stands for.
    fn tables(&self, places: &Places, path: &Path) -> Result<Vec<PathBuf>> {
        let mut files = found::listed(&[places.resolve(path)?])?;
        files.retain(|file| self.is_table(file));
        if files.is_empty() {
            return Err(Error::usage(format!(
                "[data] path = {}: no table of captions; one is a .tsv, .csv or .jsonl file, or says by `format` how it is written. \
                 Images in a folder for each class are for formwork eval with --prompt or --class",
                path.display()
            )));
        }
        Ok(files)
    }

    /// Whether a file is a table by its name; in a folder images lie beside it.
    fn is_table(&self, file: &Path) -> bool {
        let named = Format::of(file).is_some() || columnar::is_columnar(file);
        named || (self.format.is_some() && !is_image(file))
    }

    fn of_table(&self, split: Split, path: &Path, folder: Option<&Path>) -> Result<Vec<Example>> {
        if columnar::is_columnar(path) {
            return Err(Error::usage(format!(
                "[data] path = {} is a table of columns; captions are read from TSV, CSV or JSONL beside the files of images",
                path.display()
            )));
        }
        let own = path.parent().unwrap_or(Path::new(""));
        let folder = folder.unwrap_or(own);
        let layout = self.layout(split, path);
        let mut all: Vec<Example> = Vec::new();
        let mut known: HashMap<PathBuf, usize> = HashMap::new();
        for row in tables::read(path, &layout)? {
            let place = format!("{}:{}", path.display(), row.line);
            let image = folder.join(&row.label);
            if row.text.trim().is_empty() {
                return Err(Error::run(format!("{place}: the caption is empty")));
            }
            if !image.is_file() {
                let numbered = matches!(layout.label, Column::Number(_));
                let hint = match row.line == 1 && numbered && !layout.header {
                    true => "; where the first line names the columns, set header = true",
                    false => "",
                };
                return Err(Error::run(format!(
                    "{place}: there is no image {}; `images` names the folder in which they lie{hint}",
                    image.display()
                )));
            }
            let number = *known.entry(image.clone()).or_insert(all.len());
            if number == all.len() {
                all.push(Example {
                    image,
                    place,
                    captions: Vec::new(),
                });
            }
            all[number].captions.push(row.text);
        }
        Ok(all)
    }

    /// The tokenizer of the run, or one that is made for the captions of training.
    pub(super) fn tokenizer(&self, request: &Request, training: &[Example]) -> Result<Tokenizer> {
        let captions = training.iter().flat_map(|example| &example.captions);
        let captions = captions.map(String::as_str);
        // With a frame, whose end stands for a caption.
        examples::tokenizer("captioned_images", request, true, captions)
    }

    /// The images in the shape of the run, of `shape`, or that the keys say.
    pub(super) fn pictures(
        &self,
        examples: &[Example],
        shape: Option<[usize; 3]>,
        request: &Request,
    ) -> Result<Pictures> {
        let shape = request.run.and_then(|run| run.image).or(shape);
        let wanted = Wanted {
            channels: shape.map(|[channels, ..]| channels).or(self.channels),
            size: shape
                .map(|[_, height, width]| [height, width])
                .or(self.size),
            classes: None,
            fit: request.run.and_then(|run| run.fit),
        };
        let found = |example: &Example| Found {
            class: String::new(),
            name: format!("{}: the image {}", example.place, example.image.display()),
            content: Content::File(example.image.clone()),
        };
        let found: Vec<Found> = examples.iter().map(found).collect();
        decoded(&found, vec![0; examples.len()], wanted)
    }

    /// The captions of an image as a model reads them. One that is to be written, and is longer than the context, has no end: the model
    /// is not to learn that a caption ends where it was cut.
    pub(super) fn encoded(
        &self,
        example: &Example,
        tokenizer: &Tokenizer,
        written: bool,
    ) -> Result<Vec<Vec<i32>>> {
        let edges = match written {
            true => tokenizer.frame().map(Edges::from),
            false => tokenizer.edges(),
        };
        let marks = edges.as_ref().map_or(0, |edges| edges.len(false));
        let room = self.context.saturating_sub(marks);
        let encode = |caption: &String| {
            let ids = tokenizer.encode(caption)?.into_iter().map(|id| id as i32);
            let ids: Vec<i32> = ids.collect();
            let next = ids.get(room).copied().filter(|_| written);
            let mut inputs = examples::framed(ids, None, self.context, edges.as_ref())?.inputs;
            if let (Some(next), Some(end)) = (next, inputs.last_mut()) {
                *end = next;
            }
            Ok(inputs)
        };
        let all = example.captions.iter().map(encode).collect::<Result<_>>();
        all.map_err(|error| Error::run(format!("{}: {error}", example.place)))
    }
}
