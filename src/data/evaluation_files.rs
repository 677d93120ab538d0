//! A run's kind of data, read from other files: `eval --data`.

use std::path::PathBuf;

use super::{DataConfig, ExampleForm, ImagesConfig, LabelledTextConfig, PairsConfig, Paths, Shape};
use crate::error::{Error, Result};

/// A table whose only split is validation, from one file or folder; further keys are set to the given values.
macro_rules! over {
    ($config:expr, $path:expr, $($key:ident: $value:expr),*) => {{
        let mut config = $config;
        config.path = $path;
        config.valid_path = Some($path);
        config.test_path = None;
        config.valid_fraction = None;
        config.test_fraction = None;
        $(config.$key = $value;)*
        config
    }};
}

impl DataConfig {
    /// Returns the same data without the answer columns that an imported run assumes, if `keys` name other
    /// ones.
    #[must_use]
    pub fn without_assumed_answers<'k>(self, mut keys: impl Iterator<Item = &'k str>) -> Self {
        let answers = ["label", "labels", "indicators", "score"];
        match self {
            Self::LabelledText(c) if keys.any(|key| answers.contains(&key)) => {
                Self::LabelledText(LabelledTextConfig {
                    label: None,
                    labels: None,
                    indicators: Vec::new(),
                    label_separator: None,
                    score: None,
                    classes: Vec::new(),
                    ..c
                })
            }
            other => other,
        }
    }

    /// Returns the same data with the answer column that an imported run assumes, given by name if `form`
    /// names its columns. `form` is the same data with the keys that describe how tables are written.
    #[must_use]
    pub fn with_named_answer_column(self, form: &Self) -> Self {
        match (self, form) {
            (Self::LabelledText(c), Self::LabelledText(form)) if form.names_columns() => {
                let name = LabelledTextConfig::default_label(None, true);
                Self::LabelledText(LabelledTextConfig {
                    score: c.score.as_ref().map(|_| name.clone()),
                    labels: c.labels.as_ref().map(|_| name),
                    ..c
                })
            }
            (other, _) => other,
        }
    }

    /// Returns all images of a file or folder with their classes, for a run whose images have this shape. The
    /// second file holds the labels.
    pub fn labelled_images(files: &[PathBuf], shape: &Shape) -> Self {
        Self::Images(ImagesConfig {
            path: Paths(files.first().cloned().into_iter().collect()),
            labels: files.get(1).cloned(),
            valid_fraction: Some(0.0),
            channels: shape.image.map(|[channels, ..]| channels),
            size: shape.image.map(|[_, height, width]| [height, width]),
            mean: shape.mean.iter().map(|x| f64::from(*x)).collect(),
            std: shape.std.iter().map(|x| f64::from(*x)).collect(),
            ..ImagesConfig::default()
        })
    }

    /// Returns the same data with all of these files as its validation split. The second one holds the labels
    /// of images or the targets of texts, or is the folder of the images or recordings that a table names.
    /// `shape` is the run's: its classes, and the mean and standard deviation of its images.
    ///
    /// # Errors
    /// If the data is generated and reads no files, or if the kind takes only one file.
    pub fn for_evaluation_files(&self, files: &[PathBuf], shape: &Shape) -> Result<Self> {
        let paths = |number: usize| Paths(files.get(number).cloned().into_iter().collect());
        let asked = match self {
            Self::Imported(c) => c.with_files(files, shape),
            _ if self.data_set().paths().is_empty() => {
                let labelled = match self.data_set().example_form() {
                    ExampleForm::Captioned => {
                        ", or add --prompt or --class for images in a folder for each class"
                    }
                    _ => "",
                };
                return Err(Error::usage(format!(
                    "the run's [data] kind = \"{}\" is generated and reads no files; remove --data{labelled}",
                    self.kind()
                )));
            }
            _ => self.clone(),
        };
        let alone = matches!(
            asked,
            Self::Text(_)
                | Self::LabelledText(_)
                | Self::TaggedText(_)
                | Self::Conversations(_)
                | Self::Preferences(_)
                | Self::Questions(_)
                | Self::Articles(_)
                | Self::ArticleHalves(_)
        );
        if let (Some(second), true) = (files.get(1), alone) {
            return Err(Error::usage(format!(
                "--data {}: data of kind `{}` is one file or folder; remove the second",
                second.display(),
                asked.kind()
            )));
        }
        if matches!(&asked, Self::Text(c) if c.retrieval.as_ref().is_some_and(|c| c.path.is_none()))
        {
            return Err(Error::usage(
                "the database of the run is its training text, which --data replaces; remove --data, or name the files \
                 of the database in [data.retrieval] path",
            ));
        }
        Ok(match asked {
            // Weights only say how training draws from several files.
            Self::Text(c) => Self::Text(over!(c, paths(0), weights: Vec::new())),
            // The classes come from the run.
            Self::LabelledText(c) => Self::LabelledText(over!(c, paths(0), train_items: None)),
            Self::TaggedText(c) => Self::TaggedText(
                over!(c, paths(0), train_items: None, classes: shape.classes.clone()),
            ),
            Self::Conversations(c) => {
                Self::Conversations(Box::new(over!(*c, paths(0), train_items: None)))
            }
            Self::Preferences(c) => {
                Self::Preferences(Box::new(over!(*c, paths(0), train_items: None)))
            }
            Self::Questions(c) => Self::Questions(over!(c, paths(0), train_items: None)),
            Self::Articles(c) => Self::Articles(Box::new(over!(*c, paths(0),))),
            Self::ArticleHalves(c) => Self::ArticleHalves(over!(c, paths(0),)),
            Self::TranscribedSpeech(c) => {
                let folder = files.get(1).cloned();
                Self::TranscribedSpeech(Box::new(
                    over!(*c, paths(0), train_items: None, recordings: folder),
                ))
            }
            Self::CaptionedImages(c) => {
                let images = files.get(1).cloned();
                Self::CaptionedImages(Box::new(
                    over!(*c, paths(0), train_items: None, images: images),
                ))
            }
            Self::Images(c) => Self::Images(ImagesConfig {
                path: paths(0),
                labels: files.get(1).cloned(),
                valid_path: Some(paths(0)),
                valid_labels: files.get(1).cloned(),
                test_path: None,
                test_labels: None,
                valid_fraction: None,
                test_fraction: None,
                train_items: None,
                classes: shape.classes.clone(),
                mean: shape.mean.iter().map(|x| f64::from(*x)).collect(),
                std: shape.std.iter().map(|x| f64::from(*x)).collect(),
                ..c
            }),
            Self::Pairs(c) => {
                let (source, both) = match files.len() {
                    1 => (Paths::default(), paths(0)),
                    _ => (paths(0), Paths::default()),
                };
                Self::Pairs(Box::new(PairsConfig {
                    source: source.clone(),
                    target: paths(1),
                    valid_source: source,
                    valid_target: paths(1),
                    path: both.clone(),
                    valid_path: both,
                    test_source: Paths::default(),
                    test_target: Paths::default(),
                    test_path: Paths::default(),
                    valid_fraction: None,
                    test_fraction: None,
                    // Evaluations use all references in any case.
                    all_references: false,
                    ..*c
                }))
            }
            other => other,
        })
    }
}
