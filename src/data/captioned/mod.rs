//! `kind = "captioned_images"`: PNG and JPEG files that a table names, with a caption for each.
//!
//! A row names a file and describes it. Several rows of one file are captions of the same image: training
//! draws one of them each time, an evaluation reads the first. Images are decoded once and changed according
//! to `[data] augment`. Captions get the special tokens that the tokenizer's file puts around a text, or else
//! those of the vocabulary's frame, and are cut to the context. Captions that the model is to generate always
//! get the frame, because generation needs its begin and end tokens.
//!
//! `flickr8k/captions.tsv` holds lines like `1000268201.jpg⇥a child climbs up a set of stairs`.

mod read;
mod source;

use super::captions::Captions;
use super::described::{Described, Example, context_fault, missing_frame_error};
use super::files::paths::Paths;
use super::images::config::{form_faults, new_run_faults};
use super::images::prepare::moments;
use super::images::{AugmentConfig, Pictures, is_image};
use super::labelled::column::Column;
use super::labelled::header::Header;
use super::labelled::tables::{Format, Quoting};
use super::parts::{Parted, parted};
use super::{Data, DataSet, ExampleForm, Request, SearchPath, Shape, Split, View, split};
use crate::error::Result;
use crate::tokenizer::TokenFraming;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// `kind = "captioned_images"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CaptionedImagesConfig {
    /// A table of images and captions, a folder with one (`metadata.jsonl` say) or a pattern, or a list of them: TSV, CSV and
    /// JSONL, plain or packed.
    pub path: Paths,
    /// Validation table.
    pub valid_path: Option<Paths>,
    /// Test table.
    pub test_path: Option<Paths>,
    /// Share of the images of `path` to validate on, drawn at random but always the same. Default 0.1 without
    /// `valid_path`.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub valid_fraction: Option<f64>,
    /// Share of the images of `path` to test on.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub test_fraction: Option<f64>,
    /// Images to train on, drawn at random and the same for every seed. Default: all.
    pub train_items: Option<usize>,
    /// The folder that holds the images. Default: that of the table which names them.
    pub images: Option<PathBuf>,
    /// Format of the tables. Default: according to their file names.
    pub format: Option<Format>,
    /// Whether quotes around a column enclose it or belong to its text. Default: they enclose it in CSV.
    pub quoting: Option<Quoting>,
    /// Whether the first line names the columns, in all tables or in those of the listed splits.
    pub header: Header,
    /// The column with the names of images. Default 1, in JSONL `file_name`.
    pub image: Option<Column>,
    /// The column of captions. Default 2, in JSONL `text`.
    pub caption: Option<Column>,
    /// Maximum length of a caption in tokens, including its special tokens.
    pub context: usize,
    /// 1 for grey, 3 for colour; by default as the files have it.
    pub channels: Option<usize>,
    /// Height and width to resize to. Default: those of the first image.
    pub size: Option<[usize; 2]>,
    /// Mean of each channel, of values from 0 to 1. Default: that of the training images.
    pub mean: Vec<f64>,
    /// Standard deviation of each channel.
    pub std: Vec<f64>,
    /// How training images are augmented. A mirrored image may no longer match its caption.
    pub augment: AugmentConfig,
}

impl Default for CaptionedImagesConfig {
    fn default() -> Self {
        Self {
            path: Paths::default(),
            valid_path: None,
            test_path: None,
            valid_fraction: None,
            test_fraction: None,
            train_items: None,
            images: None,
            format: None,
            quoting: None,
            header: Header::All(false),
            image: None,
            caption: None,
            context: 77,
            channels: None,
            size: None,
            mean: Vec::new(),
            std: Vec::new(),
            augment: AugmentConfig::default(),
        }
    }
}

parted!(CaptionedImagesConfig);

impl CaptionedImagesConfig {
    /// Returns the same configuration with every path replaced by `place(path)`.
    #[must_use]
    pub fn with_paths(&self, place: impl Fn(&Path) -> PathBuf) -> Self {
        Self {
            images: self.images.as_ref().map(|folder| place(folder)),
            ..self.placed(place)
        }
    }
}

impl DataSet for CaptionedImagesConfig {
    fn faults(&self) -> Vec<String> {
        let mut faults = self.parts().faults("a table of images and captions");
        let mut fault = |wrong: bool, message: &str| {
            if wrong {
                faults.push(format!("[data] {message}"));
            }
        };
        form_faults(
            self.channels,
            self.size,
            [&self.mean, &self.std],
            &mut fault,
        );
        faults.extend(context_fault(self.context));
        if self.augment.mixing().is_some() {
            let rule =
                "augment: mixup and cutmix mix classes, but captions are not classes; remove them";
            faults.push(format!("[data] {rule}"));
        }
        faults.extend(self.augment.faults());
        faults
    }

    fn new_run_faults(&self) -> Vec<String> {
        let form = (self.channels, self.size);
        new_run_faults(form, [&self.mean, &self.std], &self.augment)
    }

    fn example_form(&self) -> ExampleForm {
        ExampleForm::Captioned
    }

    fn image(&self) -> Option<[usize; 3]> {
        let [height, width] = self.size?;
        Some([self.channels?, height, width])
    }

    fn context(&self) -> usize {
        self.context
    }

    fn has(&self, split: Split) -> bool {
        self.parts().has(split)
    }

    fn examples_in(&self, _folder: &Path, mut files: Vec<PathBuf>) -> Vec<PathBuf> {
        files.retain(|file| self.is_table(file) || is_image(file));
        files
    }

    fn paths(&self) -> Vec<(&'static str, &Path)> {
        self.keyed_paths()
    }

    fn referenced_files(
        &self,
        places: &SearchPath,
    ) -> Result<Vec<(&'static str, PathBuf, Vec<PathBuf>)>> {
        self.inputs_beside_tables(places)
    }

    fn needs_tokenizer(&self) -> bool {
        true
    }

    fn can_be_encoded_separately(&self) -> bool {
        true
    }

    fn framing(&self, view: &View) -> TokenFraming {
        match view {
            View::Plain => TokenFraming::Frame,
            View::EncodedSeparately | View::Ctc | View::Masked(_) | View::Corrupted(_) => {
                TokenFraming::FileLayout
            }
        }
    }

    fn prepare(&self, request: &Request) -> Result<Data> {
        let mut examples = self.examples(request)?;
        let tokenizer = self.tokenizer(request, &examples.train)?;
        let written = *request.view == View::Plain;
        if written && tokenizer.frame().is_none() {
            return Err(missing_frame_error("a caption"));
        }
        if let Some(wanted) = self.train_items {
            split::limit(&mut examples.train, wanted, "images")?;
        }
        let training = Arc::new(self.pictures(&examples.train, None, request)?);
        if request.run_shape.is_none() {
            self.augment.require_fit(training.shape)?;
        }
        let all: Vec<u32> = (0..training.len() as u32).collect();
        let (mean, std) = match request.run_shape {
            Some(run) => (run.mean.clone(), run.std.clone()),
            None => moments([&self.mean, &self.std], &training, &all)?,
        };
        let shape = Shape {
            image: Some(training.shape),
            mean,
            std,
            fit: request.run_shape.and_then(|run| run.fit),
            ..Shape::of_text(self.context, tokenizer.vocab_size())
        };
        let source = |split: Split| {
            let of_split: &[Example] = examples.get(split);
            let pictures: Arc<Pictures> = match split {
                Split::Train => Arc::clone(&training),
                Split::Valid | Split::Test => {
                    Arc::new(self.pictures(of_split, Some(training.shape), request)?)
                }
            };
            self.source(of_split, pictures, &shape, &tokenizer, split, request)
        };
        let mut data = self
            .parts()
            .data(shape.clone(), tokenizer.clone(), source)?;
        Captions::attach(&mut data, request, |split| {
            let examples = examples.get(split).iter();
            examples.map(|example| example.texts.clone()).collect()
        });
        Ok(data)
    }
}
