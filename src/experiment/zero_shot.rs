//! Zero-shot image classification by texts that name the classes, without an example of any class (Radford et al. 2021, CLIP,
//! section 3.1).
//!
//! A class embedding is the mean direction of the embeddings of its prompts, such as `a photo of a {}` with the class name
//! filled in. An image is assigned to the class with the closest embedding.

use super::open::OpenedRun;
use crate::data::batch::{Content, ImageBatch};
use crate::data::{self, DataConfig, Request, Shape, Source, View, loader};
use crate::error::{Error, Result};
use crate::evaluate::classification::{Confusion, TopK};
use crate::evaluate::metric::ACCURACY;
use crate::evaluate::predictions::Predictions;
use crate::kernel;
use crate::nn::pass::Pass;
use crate::task::ImageText;
use crate::task::image_classification::TOP5_ACCURACY;
use crate::train::evaluation::Scores;
use burn::tensor::Tensor;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Prompt of a class if none is given. Source: Radford et al. 2021, section 3.1.4.
pub const DEFAULT_PROMPT: &str = "a photo of a {}";
/// Placeholder for the name of a class.
const NAME: &str = "{}";

/// A run that compares images with texts, and the embeddings of some classes.
pub struct ZeroShot<'a> {
    network: &'a ImageText,
    /// Class embeddings `[classes, d_joint]`.
    directions: Tensor<2>,
    /// Names of the classes.
    pub classes: Vec<String>,
}

impl<'a> ZeroShot<'a> {
    /// Embeds classes with these names, each as the mean of prompts in which `{}` stands for the name; [`DEFAULT_PROMPT`] is used if
    /// none is given.
    ///
    /// # Errors
    /// If the run does not compare images with texts, or has no tokenizer; if there are fewer than two classes; if a prompt
    /// lacks `{}` or the tokenizer cannot encode it.
    pub fn new(opened: &'a OpenedRun, classes: Vec<String>, prompts: &[String]) -> Result<Self> {
        let network = image_text_network(opened)?;
        require_distinct(&classes)?;
        let usual = [DEFAULT_PROMPT.to_owned()];
        let prompts = if prompts.is_empty() { &usual } else { prompts };
        if let Some(prompt) = prompts.iter().find(|prompt| !prompt.contains(NAME)) {
            return Err(Error::usage(format!(
                "--prompt {prompt:?} must contain {NAME}, the placeholder for the name of a class; for example {DEFAULT_PROMPT:?}"
            )));
        }
        let of_class = |class: &String| {
            let texts = prompts.iter().map(|prompt| prompt.replace(NAME, class));
            read(opened, texts)
        };
        let texts: Vec<_> = classes.iter().map(of_class).collect::<Result<_>>()?;
        for (number, text) in texts.iter().enumerate() {
            if let Some(other) = texts[..number].iter().position(|other| other == text) {
                return Err(Error::usage(format!(
                    "classes {:?} and {:?} have the same tokens: the run's tokenizer does not know their words",
                    classes[other], classes[number]
                )));
            }
        }
        let directions = texts
            .iter()
            .map(|texts| network.class_vector(texts))
            .collect();
        Ok(Self {
            network,
            directions: Tensor::cat(directions, 0),
            classes,
        })
    }

    /// Computes the class logits of images, `[images, classes]`.
    pub fn scores(&self, images: &ImageBatch) -> Tensor<2> {
        let images = self.network.images(images, &Pass::evaluation());
        self.network.scores(&images, &self.directions)
    }

    /// Computes the mean loss over labelled images, the accuracy, and the metrics of the confusion matrix.
    ///
    /// # Errors
    /// If images cannot be read.
    pub fn evaluate(&self, source: &Arc<dyn Source>, batch_size: usize) -> Result<Scores> {
        let count = self.classes.len();
        let mut confusion = Confusion::new((0..count).map(|n| n.to_string()).collect());
        let (mut top5, mut loss) = (TopK::new(5), 0.0);
        for batch in loader::eval_batches(Arc::clone(source), batch_size) {
            let Content::Images(images) = batch?.content else {
                return Err(Error::run("the data has no images with classes"));
            };
            let scores = kernel::read(kernel::untracked(self.scores(&images)));
            let scores: Vec<f32> = scores.iter().collect();
            for (row, label) in scores.chunks(count).zip(&images.labels) {
                let (label, best) = (*label as usize, argmax(row));
                confusion.add(label, best);
                top5.add(row, label);
                loss += negative_log_prob(row, label);
            }
        }
        let mut metrics = BTreeMap::from([(ACCURACY.name.to_owned(), confusion.accuracy())]);
        if count > 5 {
            metrics.insert(TOP5_ACCURACY.name.to_owned(), top5.accuracy());
        }
        let images = confusion.total().max(1) as f64;
        let predictions = Predictions::Classes(confusion);
        let further = predictions.metrics().into_iter();
        metrics.extend(further.map(|(metric, value)| (metric.name.to_owned(), value)));
        Ok(Scores {
            loss: loss / images,
            metrics,
            confusion: predictions.confusion().cloned(),
        })
    }
}

/// Checks that there are at least two classes with distinct names.
fn require_distinct(classes: &[String]) -> Result<()> {
    if classes.len() < 2 {
        return Err(Error::usage(format!(
            "{} given; classification needs at least two classes, each with --class",
            match classes.len() {
                0 => "no class is",
                _ => "one class is",
            }
        )));
    }
    for (number, class) in classes.iter().enumerate() {
        if class.trim().is_empty() {
            return Err(Error::usage(
                "--class \"\" is empty; give the name of a class",
            ));
        }
        if classes[..number].contains(class) {
            return Err(Error::usage(format!("class {class:?} is named twice")));
        }
    }
    Ok(())
}

/// The network of a run that compares images with texts.
fn image_text_network(opened: &OpenedRun) -> Result<&ImageText> {
    opened.model.networks().image_text.ok_or_else(|| {
        Error::usage(format!(
            "a run of {} does not compare images with texts: remove --class and --prompt",
            opened.experiment.task.kind()
        ))
    })
}

/// Tokenizes texts as the run reads them.
fn read(opened: &OpenedRun, texts: impl Iterator<Item = String>) -> Result<data::batch::TextBatch> {
    let tokenizer = opened.tokenizers.text.as_ref().ok_or_else(|| {
        Error::usage("the run has no tokenizer to read the names of classes; import it from a folder that has one")
    })?;
    let rows = texts.map(|text| {
        let (item, cut) = opened.experiment.data.read_single(&text, tokenizer)?;
        if cut {
            return Err(Error::usage(format!(
                "{text:?} is longer than the {} tokens that the run reads",
                opened.experiment.data.context()
            )));
        }
        Ok(item.inputs)
    });
    let rows = rows.collect::<Result<Vec<Vec<i32>>>>()?;
    Ok(data::batch::TextBatch::padded(&rows, 0))
}

/// Index of the largest score; the first one of equal scores.
fn argmax(scores: &[f32]) -> usize {
    let places = scores.iter().enumerate();
    let best = places.max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)));
    best.map_or(0, |(place, _)| place)
}

/// The negative log-probability of a class, in nats.
fn negative_log_prob(scores: &[f32], class: usize) -> f64 {
    let most = scores.iter().copied().fold(f32::MIN, f32::max);
    let sum: f64 = scores.iter().map(|x| f64::from(x - most).exp()).sum();
    sum.ln() - f64::from(scores[class] - most)
}

/// Reads labelled images, converted to the form that the run reads, and the names of the classes: the given ones, or those of
/// the files with underscores replaced by spaces. Relative paths start from the working folder.
///
/// # Errors
/// If files cannot be read, or the number of names differs from the number of classes.
pub fn labelled_images(
    opened: &OpenedRun,
    files: &[PathBuf],
    names: &[String],
) -> Result<(Arc<dyn Source>, Vec<String>)> {
    image_text_network(opened)?;
    let run = Shape {
        classes: Vec::new(),
        ..opened.shape.clone()
    };
    let absolute = |file: &PathBuf| std::path::absolute(file).map_err(Error::io("find", file));
    let files = files.iter().map(absolute).collect::<Result<Vec<_>>>()?;
    let config = DataConfig::labelled_images(&files, &run);
    let request = Request {
        tokenizer: None,
        saved_tokenizers: &opened.tokenizers,
        run_shape: Some(&run),
        places: &opened.places,
        seed: opened.experiment.seed,
        view: &View::Plain,
        compares_answers: false,
        retrieval: None,
    };
    let data = data::prepare(&config, &request).map_err(Error::into_usage_error)?;
    let found = data.shape.classes.len();
    if !names.is_empty() && names.len() != found {
        return Err(Error::usage(format!(
            "--class is given for {} classes, but the images have {found}; name all of them, in the order of their labels: {}",
            names.len(),
            data.shape.classes.join(", ")
        )));
    }
    let classes = match names {
        [] => data
            .shape
            .classes
            .iter()
            .map(|c| c.replace('_', " "))
            .collect(),
        names => names.to_vec(),
    };
    Ok((data.train, classes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loss_is_that_of_a_softmax() {
        assert!((negative_log_prob(&[0.0, 0.0], 1) - 2.0f64.ln()).abs() < 1e-12);
        assert!((negative_log_prob(&[100.0, 0.0], 1) - 100.0).abs() < 1e-6);
        assert_eq!(argmax(&[1.0, 3.0, 3.0]), 1);
    }
}
