//! Reads rows of tables as images with captions, and decodes the images.

use super::CaptionedImagesConfig;
use crate::data::described::{Described, Example, with_special_tokens};
use crate::data::files::{columnar, discovery};
use crate::data::images::folder::{Content, FoundImage, ImageRequirements, decoded};
use crate::data::images::{Pictures, is_image};
use crate::data::labelled::column::Column;
use crate::data::labelled::examples;
use crate::data::labelled::tables::{self, Format, Layout};
use crate::data::{Origin, Request, SearchPath, Split};
use crate::error::{Error, Result};
use crate::tokenizer::SpecialTokenLayout;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

impl CaptionedImagesConfig {
    /// Returns which columns the tables of a split have.
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

    /// Whether a file is a table, judged by its name; a folder may also hold images.
    pub(super) fn is_table(&self, file: &Path) -> bool {
        let named = Format::of(file).is_some() || columnar::is_columnar(file);
        named || (self.format.is_some() && !is_image(file))
    }

    /// Decodes the images, in the shape of the run, else in `shape`, else in the one that the keys set.
    pub(super) fn pictures(
        &self,
        examples: &[Example],
        shape: Option<[usize; 3]>,
        request: &Request,
    ) -> Result<Pictures> {
        let shape = request.run_shape.and_then(|run| run.image).or(shape);
        let wanted = ImageRequirements {
            channels: shape.map(|[channels, ..]| channels).or(self.channels),
            size: shape
                .map(|[_, height, width]| [height, width])
                .or(self.size),
            classes: None,
            fit: request.run_shape.and_then(|run| run.fit),
        };
        let found = |example: &Example| FoundImage {
            class: String::new(),
            name: format!("{}: the image {}", example.place, example.file.display()),
            content: Content::File(example.file.clone()),
            origin: Origin::of_file(&example.file),
        };
        let found: Vec<FoundImage> = examples.iter().map(found).collect();
        decoded(&found, vec![0; examples.len()], wanted)
    }

    /// Returns the tokens of a caption as the model reads them.
    pub(super) fn caption_tokens(
        &self,
        ids: Vec<i32>,
        marks: Option<&SpecialTokenLayout>,
        written: bool,
    ) -> Result<Vec<i32>> {
        match marks {
            Some(marks) if written => Ok(with_special_tokens(&ids, marks, self.context)),
            _ => Ok(examples::framed(ids, None, self.context, marks)?.inputs),
        }
    }
}

impl Described for CaptionedImagesConfig {
    const KIND: &'static str = "captioned_images";
    const INPUTS: [&'static str; 2] = ["images", "image"];

    fn folder(&self) -> Option<&Path> {
        self.images.as_deref()
    }

    fn tables(&self, places: &SearchPath, path: &Path) -> Result<Vec<PathBuf>> {
        let mut files = discovery::expand(&[places.resolve(path)?])?;
        files.retain(|file| self.is_table(file));
        if files.is_empty() {
            return Err(Error::usage(format!(
                "[data] path = {}: there is no table of captions; name a .tsv, .csv or .jsonl file, or set `format`. \
                 Images in a folder for each class are for formwork eval with --prompt or --class",
                path.display()
            )));
        }
        Ok(files)
    }

    fn of_table(&self, split: Split, path: &Path, folder: &Path) -> Result<Vec<Example>> {
        if columnar::is_columnar(path) {
            return Err(Error::usage(format!(
                "[data] path = {} is a Parquet or Arrow table, but captions are read from TSV, CSV or JSONL beside the image files",
                path.display()
            )));
        }
        let layout = self.layout(split, path);
        let mut all: Vec<Example> = Vec::new();
        let mut known: HashMap<PathBuf, usize> = HashMap::new();
        for row in tables::read(path, &layout)? {
            let place = format!("{}:{}", path.display(), row.line);
            let file = folder.join(&row.label);
            if row.text.trim().is_empty() {
                return Err(Error::run(format!("{place}: the caption is empty")));
            }
            if !file.is_file() {
                let numbered = matches!(layout.label, Column::Number(_));
                let hint = match row.line == 1 && numbered && !layout.header {
                    true => "; if the first line names the columns, set header = true",
                    false => "",
                };
                return Err(Error::run(format!(
                    "{place}: there is no image {}; set `images` to the folder of the images{hint}",
                    file.display()
                )));
            }
            let number = *known.entry(file.clone()).or_insert(all.len());
            if number == all.len() {
                all.push(Example {
                    file,
                    place,
                    texts: Vec::new(),
                });
            }
            all[number].texts.push(row.text);
        }
        Ok(all)
    }
}
