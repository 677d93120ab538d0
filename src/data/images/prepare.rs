//! Prepares `kind = "images"`: reads its files, splits them, and measures the normalisation.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::cifar::{self, Version};
use super::config::{Files, ImageFormat, ImagesConfig, new_run_faults};
use super::folder::{self, ImageRequirements};
use super::sequence::{self, Sequences};
use super::source::{Augmented, PictureSource};
use super::{AugmentConfig, Pictures, format, idx, normalise, table};
use crate::data::files::paths::Paths;
use crate::data::split::{SPLIT_SEED, bounds, limit};
use crate::data::{Data, DataSet, ExampleForm, PerSplit, Request, Shape, Source, Split};
use crate::error::{Error, Result};
use crate::rng::{Purpose, Stream};

impl DataSet for ImagesConfig {
    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut fault = |wrong: bool, message: &str| {
            if wrong {
                faults.push(format!("[data] {message}"));
            }
        };
        self.path_faults(&mut fault);
        self.share_faults(&mut fault);
        self.shape_faults(&mut fault);
        self.sequence_faults(&mut fault);
        faults.extend(self.augment.faults());
        faults
    }

    fn new_run_faults(&self) -> Vec<String> {
        let form = (self.channels, self.size);
        new_run_faults(form, [&self.mean, &self.std], &self.augment)
    }

    fn mixing_augmentations(&self) -> Vec<(&'static str, f64)> {
        let both = [
            ("mixup", self.augment.mixup),
            ("cutmix", self.augment.cutmix),
        ];
        both.into_iter().filter(|(_, alpha)| *alpha > 0.0).collect()
    }

    fn is_augmented(&self) -> bool {
        self.augment != AugmentConfig::default()
    }

    fn example_form(&self) -> ExampleForm {
        match self.sequence {
            true => ExampleForm::Labelled,
            false => ExampleForm::Images,
        }
    }

    fn image(&self) -> Option<[usize; 3]> {
        let [height, width] = self.size.filter(|_| !self.sequence)?;
        Some([self.channels?, height, width])
    }

    fn context(&self) -> usize {
        let size = self.size.filter(|_| self.sequence);
        size.map_or(0, |[height, width]| height * width)
    }

    fn has(&self, split: Split) -> bool {
        match split {
            Split::Train => true,
            Split::Valid => self.valid_path.is_some() || self.fractions().0 > 0.0,
            Split::Test => self.test_path.is_some() || self.fractions().1 > 0.0,
        }
    }

    fn paths(&self) -> Vec<(&'static str, &Path)> {
        let mut all = Vec::new();
        for files in Split::ALL.into_iter().filter_map(|s| self.files(s)) {
            all.extend(files.paths.keyed(files.keys[0]));
            all.extend(files.labels.map(|path| (files.keys[1], path)));
        }
        all
    }

    fn examples_in(&self, folder: &Path, files: Vec<PathBuf>) -> Vec<PathBuf> {
        format::examples_in(self.format, folder, files)
    }

    fn is_text(&self) -> bool {
        false
    }

    fn prepare(&self, request: &Request) -> Result<Data> {
        prepare(self, request)
    }
}

fn prepare(config: &ImagesConfig, request: &Request) -> Result<Data> {
    let mut notes = Vec::new();
    let named = (!config.classes.is_empty()).then_some(config.classes.as_slice());
    let of_run = request.run_shape.and_then(|run| run.image);
    let wanted = ImageRequirements {
        channels: of_run.map(|[channels, ..]| channels).or(config.channels),
        size: of_run
            .map(|[_, height, width]| [height, width])
            .or(config.size),
        // A run that compares images with texts has no classes.
        classes: request
            .run_shape
            .map(|run| run.classes.as_slice())
            .filter(|classes| !classes.is_empty())
            .or(named),
        fit: match request.run_shape {
            Some(run) => run.fit,
            None => config.fit(),
        },
    };
    let all = config.files(Split::Train);
    let all = all.ok_or_else(|| Error::usage("[data] `path` is missing"))?;
    let (pictures, classes) = read(config, &all, request, wanted, &mut notes)?;
    if request.run_shape.is_none() {
        config.augment.require_fit(pictures.shape)?;
    }
    let [channels, height, width] = pictures.shape;
    let like_training = ImageRequirements {
        channels: Some(channels),
        size: Some([height, width]),
        classes: Some(&classes),
        fit: wanted.fit,
    };
    let pictures = Arc::new(pictures);
    let parts = split_indices(config, pictures.len())?;
    let (mean, std) = match request.run_shape {
        _ if config.sequence => (Vec::new(), Vec::new()),
        Some(run) => (run.mean.clone(), run.std.clone()),
        None => moments([&config.mean, &config.std], &pictures, &parts.train)?,
    };
    let shape = match config.sequence {
        true => sequence::shape(height * width, classes.clone()),
        false => Shape {
            image: Some(pictures.shape),
            classes: classes.clone(),
            mean,
            std,
            fit: wanted.fit,
            ..Shape::default()
        },
    };
    let mut held_out = |split: Split| -> Result<Option<Arc<dyn Source>>> {
        let (pictures, chosen) = match config.files(split) {
            Some(files) => {
                let (own, _) = read(config, &files, request, like_training, &mut notes)?;
                let chosen = (0..own.len() as u32).collect();
                (Arc::new(own), chosen)
            }
            None => (pictures.clone(), parts.get(split).clone()),
        };
        let source = PictureSource::new(pictures, chosen, split, &shape);
        Ok((!source.is_empty()).then(|| match config.sequence {
            true => Sequences::source(source, AugmentConfig::default(), request.seed),
            false => Arc::new(source) as Arc<dyn Source>,
        }))
    };
    let (valid, test) = (held_out(Split::Valid)?, held_out(Split::Test)?);
    let train = PictureSource::new(pictures, parts.train, Split::Train, &shape);
    let train = match config.sequence {
        true => Sequences::source(train, config.augment.clone(), request.seed),
        false => Augmented::source(train, &config.augment, request.seed),
    };
    Ok(Data {
        valid,
        test,
        notes,
        ..Data::new(train, shape)
    })
}

/// Reads the files of a split in the wanted shape, and the names of the classes.
fn read(
    config: &ImagesConfig,
    files: &Files,
    request: &Request,
    wanted: ImageRequirements,
    notes: &mut Vec<String>,
) -> Result<(Pictures, Vec<String>)> {
    let places = request.places;
    let paths = files.paths.0.iter().map(|p| places.resolve(p));
    let paths = paths.collect::<Result<Vec<PathBuf>>>()?;
    let first = &paths[0];
    let about = |error: Error| with_key(files.keys[0], files.paths, error);
    let format = match config.format {
        Some(format) => format,
        None => format::detect_format(first).map_err(about)?,
    };
    let [key, labels_key] = files.keys;
    if matches!(format, ImageFormat::Idx | ImageFormat::Folder) && paths.len() > 1 {
        return Err(Error::usage(format!(
            "[data] `{key}` names several files, but only CIFAR files and tables are read one after the other"
        )));
    }
    let named = config.image.is_some() || config.label.is_some();
    if named && format != ImageFormat::Table {
        return Err(Error::usage(
            "[data] image and label are columns of Parquet or Arrow tables; remove them",
        ));
    }
    if let (Some(_), false) = (files.labels, format == ImageFormat::Idx) {
        return Err(Error::usage(format!(
            "[data] {labels_key} has no effect: only IDX images have their labels in a separate file; remove it"
        )));
    }
    let numbered = |count: usize| (0..count).map(|n| n.to_string()).collect::<Vec<_>>();
    let (pictures, names) = match format {
        ImageFormat::Folder => {
            let (pictures, names, note) = folder::read(first, wanted).map_err(about)?;
            notes.extend(note);
            return Ok((pictures, names));
        }
        ImageFormat::Table => {
            return table::read(config, (key, &paths), request, wanted).map_err(about);
        }
        ImageFormat::Idx => {
            let labels = files.labels.ok_or_else(|| {
                Error::usage(format!(
                    "[data] IDX images need `{labels_key}`, the file of their labels"
                ))
            })?;
            let pictures = idx::read(first, &places.resolve(labels)?)?;
            let count = pictures.labels.iter().max().map_or(0, |l| *l as usize + 1);
            (pictures, numbered(count))
        }
        ImageFormat::Cifar => {
            let pictures = cifar::read(&paths, Version::Ten)?;
            (pictures, cifar::CLASSES.map(str::to_owned).to_vec())
        }
        ImageFormat::Cifar100 => (cifar::read(&paths, Version::Hundred)?, numbered(100)),
    };
    if pictures.is_empty() {
        let fault = format!("[data] {} contains no image", first.display());
        return Err(about(Error::usage(fault)));
    }
    let names = wanted.classes.map_or(names, <[String]>::to_vec);
    if let Some(at) = pictures
        .labels
        .iter()
        .position(|l| *l as usize >= names.len())
    {
        return Err(about(Error::usage(format!(
            "[data] image {at} of {} has the label {}, but there are {} classes",
            first.display(),
            pictures.labels[at],
            names.len()
        ))));
    }
    let [channels, height, width] = pictures.shape;
    let [height, width] = wanted.size.unwrap_or([height, width]);
    let shape = [wanted.channels.unwrap_or(channels), height, width];
    Ok((pictures.shaped(shape, wanted.fit)?, names))
}

/// Adds the key that names the files to a fault of their content; otherwise a word of the message would be
/// taken for the key.
fn with_key(key: &str, paths: &Paths, error: Error) -> Error {
    let Error::Invalid(mut faults) = error else {
        return error;
    };
    let named = match paths.0.as_slice() {
        [one] => format!("{key} = {one:?}"),
        _ => key.to_owned(),
    };
    for fault in faults.iter_mut().filter(|fault| fault.file.is_none()) {
        let rest = fault.message.strip_prefix("[data] ");
        let rest = rest.filter(|rest| !rest.starts_with(&format!("{key} = ")));
        if let Some(rest) = rest {
            fault.message = format!("[data] {named}: {rest}");
        }
    }
    Error::Invalid(faults)
}

/// Returns the indices of the images in each split, in the order of the files.
fn split_indices(config: &ImagesConfig, count: usize) -> Result<PerSplit<Vec<u32>>> {
    let (valid, test) = config.fractions();
    let mut order: Vec<u32> = (0..count as u32).collect();
    if valid + test > 0.0 {
        Stream::new(SPLIT_SEED, Purpose::Split, (0, 0, 0)).shuffle(&mut order);
    }
    let (first, second) = bounds(count, valid, test);
    let sorted = |part: &[u32]| {
        let mut part = part.to_vec();
        part.sort_unstable();
        part
    };
    let mut parts = PerSplit {
        train: sorted(&order[..first]),
        valid: sorted(&order[first..second]),
        test: sorted(&order[second..]),
    };
    if let Some(wanted) = config.train_items {
        limit(&mut parts.train, wanted, "images")?;
    }
    let missing = |share: f64, part: &[u32]| share > 0.0 && part.is_empty();
    if parts.train.is_empty() || missing(valid, &parts.valid) || missing(test, &parts.test) {
        return Err(Error::usage(format!(
            "[data] {count} image(s) cannot be split by fractions; set valid_path, or set valid_fraction = 0"
        )));
    }
    Ok(parts)
}

/// Returns the mean and standard deviation that the experiment sets, or those of the training images.
pub(in crate::data) fn moments(
    [mean, std]: [&[f64]; 2],
    pictures: &Pictures,
    training: &[u32],
) -> Result<(Vec<f32>, Vec<f32>)> {
    if mean.is_empty() {
        return Ok(normalise::statistics(pictures, training));
    }
    let channels = pictures.shape[0];
    if mean.len() != channels {
        return Err(Error::usage(format!(
            "[data] mean and std have {} number(s), but the images have {channels} channel(s)",
            mean.len()
        )));
    }
    let narrow = |list: &[f64]| list.iter().map(|x| *x as f32).collect();
    Ok((narrow(mean), narrow(std)))
}
