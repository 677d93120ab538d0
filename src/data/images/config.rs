//! `kind = "images"`: the configuration of images from files. `prepare` carries it out.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AugmentConfig, Fit};
use crate::data::Split;
use crate::data::files::paths::Paths;

/// `kind = "images"`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ImagesConfig {
    /// IDX images, CIFAR files, or a folder of classes; `x.tar.gz/train` is a folder inside an archive. Or tables with a column
    /// of images, as Hugging Face has them: Parquet or Arrow, a file, a folder, a pattern or a list.
    pub path: Paths,
    /// The labels of IDX images.
    pub labels: Option<PathBuf>,
    /// Validation images, instead of a fraction of `path`.
    pub valid_path: Option<Paths>,
    /// Labels of IDX validation images.
    pub valid_labels: Option<PathBuf>,
    /// Test images.
    pub test_path: Option<Paths>,
    /// Labels of IDX test images.
    pub test_labels: Option<PathBuf>,
    /// Share of the images of `path` to validate on, drawn at random and the same for every seed. Default 0.1
    /// without `valid_path`.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub valid_fraction: Option<f64>,
    /// Share of the images of `path` to test on, drawn in the same way.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub test_fraction: Option<f64>,
    /// Number of training images that are used, drawn at random and the same for every seed. Default: all.
    pub train_items: Option<usize>,
    /// Format of the images; by default as the files tell.
    pub format: Option<ImageFormat>,
    /// The column of images of a table. Default: the one that its metadata names, else `image` or `img`.
    pub image: Option<String>,
    /// The column of labels of a table. Default: `label`, else the one that its metadata names.
    pub label: Option<String>,
    /// Names of the classes in the order of their labels. Default: the names of the folders, of CIFAR-10's
    /// classes, those in the metadata of a Hugging Face table, or the labels.
    pub classes: Vec<String>,
    /// 1 for grey, 3 for colour; by default as the files have it.
    pub channels: Option<usize>,
    /// Height and width to resize to. Default: those of the first image.
    pub size: Option<[usize; 2]>,
    /// How images of another shape become that `size`: stretched or, if it is a square, resized in proportion until their
    /// shorter side fits, with the middle cut out. Default: stretched.
    pub fit: Option<Fitting>,
    /// Mean of each channel, of values from 0 to 1. Default: that of the training images.
    pub mean: Vec<f64>,
    /// Standard deviation of each channel.
    pub std: Vec<f64>,
    /// Whether images are read as texts, one token for each grey value, row by row. It needs `size` and `channels = 1`.
    pub sequence: bool,
    /// How training images are augmented.
    pub augment: AugmentConfig,
}

/// How an image of another shape is brought to the configured size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fitting {
    /// Both sides are stretched to their length.
    Stretch,
    /// The shorter side is resized to its length and the other one in proportion; then the middle is cut out.
    Crop,
}

/// Format of images on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImageFormat {
    /// IDX, the format of MNIST.
    Idx,
    /// CIFAR-10, binary version.
    Cifar,
    /// CIFAR-100, binary version: the fine labels.
    Cifar100,
    /// A folder for each class, with PNG and JPEG files.
    Folder,
    /// Parquet or Arrow, with PNG and JPEG files in a column.
    Table,
}

/// The files of a split, with their labels.
pub(super) struct Files<'a> {
    pub(super) paths: &'a Paths,
    pub(super) labels: Option<&'a Path>,
    /// Keys of the paths and of the labels.
    pub(super) keys: [&'static str; 2],
}

impl ImagesConfig {
    /// Returns the same configuration with every path replaced by `place(path)`.
    #[must_use]
    pub fn with_paths(&self, place: impl Fn(&Path) -> PathBuf) -> Self {
        let all = |paths: &Paths| paths.placed(&place);
        let one = |path: &PathBuf| place(path);
        Self {
            path: all(&self.path),
            labels: self.labels.as_ref().map(one),
            valid_path: self.valid_path.as_ref().map(all),
            valid_labels: self.valid_labels.as_ref().map(one),
            test_path: self.test_path.as_ref().map(all),
            test_labels: self.test_labels.as_ref().map(one),
            ..self.clone()
        }
    }

    /// Returns how images are fitted, if they are not stretched.
    pub(super) fn fit(&self) -> Option<Fit> {
        match (self.fit, self.size) {
            (Some(Fitting::Crop), Some([side, _])) => Some(Fit {
                shorter: Some(side),
                ..Fit::default()
            }),
            (Some(Fitting::Crop | Fitting::Stretch) | None, _) => None,
        }
    }

    /// Returns the files of a split, if it has its own.
    pub(super) fn files(&self, split: Split) -> Option<Files<'_>> {
        let (paths, labels, keys) = match split {
            Split::Train => (Some(&self.path), &self.labels, ["path", "labels"]),
            Split::Valid => (
                self.valid_path.as_ref(),
                &self.valid_labels,
                ["valid_path", "valid_labels"],
            ),
            Split::Test => (
                self.test_path.as_ref(),
                &self.test_labels,
                ["test_path", "test_labels"],
            ),
        };
        Some(Files {
            paths: paths?,
            labels: labels.as_deref(),
            keys,
        })
    }

    /// Returns the shares of `path` held out for validation and for testing.
    pub(super) fn fractions(&self) -> (f64, f64) {
        let valid = if self.valid_path.is_some() { 0.0 } else { 0.1 };
        (
            self.valid_fraction.unwrap_or(valid),
            self.test_fraction.unwrap_or(0.0),
        )
    }

    pub(super) fn path_faults(&self, fault: &mut dyn FnMut(bool, &str)) {
        let empty = |p: &Paths| p.0.is_empty() || p.0.iter().any(|p| p.as_os_str().is_empty());
        fault(
            empty(&self.path),
            "`path` is missing; name a file of images, a folder with a folder for each class, or a list of files",
        );
        for split in [Split::Valid, Split::Test] {
            let (name, files) = (split.name(), self.files(split));
            let labels = match split {
                Split::Valid => &self.valid_labels,
                Split::Train | Split::Test => &self.test_labels,
            };
            fault(
                files.as_ref().is_some_and(|f| empty(f.paths)),
                &format!("`{name}_path` is empty; remove it or name a file"),
            );
            fault(
                files.is_none() && labels.is_some(),
                &format!("{name}_labels has no effect without {name}_path"),
            );
        }
        for split in Split::ALL {
            let Some(files) = self.files(split) else {
                continue;
            };
            let [path, labels] = files.keys;
            fault(
                self.format == Some(ImageFormat::Idx) && files.labels.is_none(),
                &format!("IDX images need `{labels}`, the file of their labels"),
            );
            let several = matches!(self.format, Some(ImageFormat::Idx | ImageFormat::Folder));
            fault(
                several && files.paths.0.len() > 1,
                &format!(
                    "`{path}` names several files, but only CIFAR files and tables are read one after the other"
                ),
            );
            let named = self.image.is_some() || self.label.is_some();
            fault(
                named && self.format.is_some_and(|f| f != ImageFormat::Table),
                "image and label are columns of tables; remove them",
            );
            let labelled = self.format.is_none_or(|f| f == ImageFormat::Idx);
            fault(
                !labelled && files.labels.is_some(),
                &format!(
                    "{labels} has no effect: only IDX images have their labels in a separate file; remove it"
                ),
            );
        }
    }

    pub(super) fn share_faults(&self, fault: &mut dyn FnMut(bool, &str)) {
        let share = |f: Option<f64>| f.is_some_and(|f| !(0.0..1.0).contains(&f));
        let (valid, test) = self.fractions();
        for (name, fraction, path) in [
            ("valid", self.valid_fraction, &self.valid_path),
            ("test", self.test_fraction, &self.test_path),
        ] {
            fault(
                share(fraction),
                &format!("{name}_fraction must be at least 0 and below 1"),
            );
            fault(
                fraction.is_some() && path.is_some(),
                &format!("{name}_fraction has no effect beside {name}_path; remove one of them"),
            );
        }
        fault(
            self.train_items == Some(0),
            "train_items = 0 leaves nothing to train on",
        );
        fault(
            valid + test >= 1.0,
            "valid_fraction and test_fraction leave nothing to train on",
        );
    }

    pub(super) fn shape_faults(&self, fault: &mut dyn FnMut(bool, &str)) {
        form_faults(self.channels, self.size, [&self.mean, &self.std], fault);
        fault(
            self.fit.is_some() && self.size.is_none(),
            "fit resizes images to `size` = [height, width]; set `size` too, or remove fit",
        );
        fault(
            self.fit == Some(Fitting::Crop)
                && self.size.is_some_and(|[height, width]| height != width),
            "fit = \"crop\" cuts squares; set equal sides in `size`, or remove fit",
        );
        let mut names = self.classes.clone();
        names.sort();
        names.dedup();
        let repeats = names.len() < self.classes.len();
        fault(repeats, "classes must contain each name only once");
    }

    /// Faults of images that are read as sequences.
    pub(super) fn sequence_faults(&self, fault: &mut dyn FnMut(bool, &str)) {
        if !self.sequence {
            return;
        }
        fault(
            self.size.is_none(),
            "sequence = true needs `size` = [height, width], which sets the length of a sequence; [28, 28] for Fashion-MNIST, \
             [32, 32] for CIFAR",
        );
        fault(
            self.channels != Some(1),
            "sequence = true reads one grey value for each pixel; set channels = 1",
        );
        fault(
            self.fit == Some(Fitting::Crop),
            "fit = \"crop\" has no effect with sequence = true, which stretches images; remove fit",
        );
        fault(
            !self.mean.is_empty() || !self.std.is_empty(),
            "mean and std have no effect with sequence = true, which reads pixel values without normalisation; remove them",
        );
        let AugmentConfig {
            erase,
            mixup,
            cutmix,
            ..
        } = &self.augment;
        fault(
            *erase > 0.0 || *mixup > 0.0 || *cutmix > 0.0,
            "augment: erase, mixup and cutmix work on normalised images, but sequence = true reads pixel values; remove them",
        );
    }
}

/// Faults of the shape and the normalisation of images.
pub(in crate::data) fn form_faults(
    channels: Option<usize>,
    size: Option<[usize; 2]>,
    [mean, std]: [&[f64]; 2],
    fault: &mut dyn FnMut(bool, &str),
) {
    fault(
        channels.is_some_and(|c| c != 1 && c != 3),
        "channels must be 1 (grey) or 3 (colour)",
    );
    // At most as large as the images that networks of this kind read.
    fault(
        size.is_some_and(|s| s.iter().any(|n| !(1..=4096).contains(n))),
        "size must be [height, width], each between 1 and 4096",
    );
    fault(
        mean.len() != std.len(),
        "mean and std must both contain one number for each channel",
    );
}

/// Returns the faults of a normalisation that pixels hardly have, and of augmentations that do not fit images of this shape.
pub(in crate::data) fn new_run_faults(
    (channels, size): (Option<usize>, Option<[usize; 2]>),
    [mean, std]: [&[f64]; 2],
    augment: &AugmentConfig,
) -> Vec<String> {
    let mut faults = Vec::new();
    let mut fault = |wrong: bool, message: &str| {
        if wrong {
            faults.push(format!("[data] {message}"));
        }
    };
    // The mean of pixels from 0 to 1 is in that range. Their standard deviation is at most one half; 1 means no scaling.
    fault(
        !mean.iter().all(|x| (-1.0..=1.0).contains(x)),
        &format!(
            "mean = {mean:?} must be between -1 and 1: pixels are between 0 and 1{}",
            byte_scale_hint(mean)
        ),
    );
    fault(
        !std.iter().all(|x| (1e-6..=1.0).contains(x)),
        &format!(
            "std = {std:?} must be between 1e-6 and 1: pixels are between 0 and 1{}",
            byte_scale_hint(std)
        ),
    );
    faults.extend(augment.misfits(channels, size));
    faults
}

/// If the numbers look as if they were for pixels from 0 to 255, returns a hint with their values for pixels from 0 to 1.
fn byte_scale_hint(list: &[f64]) -> String {
    let alike = list.iter().all(|x| (0.0..=255.0).contains(x)) && list.iter().any(|x| *x > 1.0);
    if !alike {
        return String::new();
    }
    let divided = list.iter().map(|x| (x / 255.0 * 1e4).round() / 1e4);
    let divided: Vec<f64> = divided.collect();
    format!("; if it is for pixels from 0 to 255, set {divided:?}")
}
