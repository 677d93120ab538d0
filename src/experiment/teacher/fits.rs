//! Whether a teacher fits the data of its student, and what is turned for it: pixels that it was trained to read in another
//! normalisation.

use super::wrong;
use crate::data::images::Fit;
use crate::data::images::normalise::Renormalise;
use crate::data::{Shape, Tokenizers};
use crate::error::Result;
use crate::experiment::open::Opened;
use crate::task::infer::Holds;
use crate::task::{AnyTask, Task};
use crate::tokenizer::Tokenizer;
use std::path::Path;

/// An error when the scores of a teacher belong to other things than those of the data.
pub(super) fn fits(
    folder: &Path,
    teacher: &Opened,
    shape: &Shape,
    tokenizers: &Tokenizers,
) -> Result<()> {
    let theirs = &teacher.shape;
    let print = |t: Option<&Tokenizer>| t.map(Tokenizer::fingerprint);
    let prints = |t: &Tokenizers| [print(t.text.as_ref()), print(t.of_targets())];
    let sizes = |s: &Shape| (s.vocab_size, s.source_vocab_size);
    if prints(&teacher.tokenizers) != prints(tokenizers) || sizes(theirs) != sizes(shape) {
        return Err(wrong(
            folder,
            format!(
                "has another vocabulary (of {} tokens, and {} here), so that its scores belong to other tokens; {}",
                theirs.vocab_size,
                shape.vocab_size,
                match tokenizers.text {
                    Some(_) => "leave [tokenizer] out to take the teacher's",
                    None => "learn from data of the same symbols",
                }
            ),
        ));
    }
    if theirs.classes != shape.classes {
        let [theirs, ours] = [theirs, shape].map(|shape| shape.classes.join(", "));
        return Err(wrong(
            folder,
            format!("tells the classes {theirs} apart, and the data has {ours}"),
        ));
    }
    if theirs.image != shape.image {
        return Err(wrong(folder, other_sizes([theirs.image, shape.image])));
    }
    match longest(&teacher.model.0, theirs) {
        Some(longest) if longest < shape.context => Err(wrong(
            folder,
            format!(
                "has positions for {longest} tokens, and inputs here have {}: shorten them to that",
                shape.context
            ),
        )),
        Some(_) | None => Ok(()),
    }
}

/// The fault of images of other sizes.
fn other_sizes([theirs, ours]: [Option<[usize; 3]>; 2]) -> String {
    let shown = |image: Option<[usize; 3]>| match image {
        Some([channels, height, width]) => format!("images of {channels} × {height} × {width}"),
        None => "no images".into(),
    };
    let remedy = theirs.map_or_else(String::new, |[channels, height, width]| {
        format!("; set data.channels = {channels} and data.size = [{height}, {width}]")
    });
    format!(
        "reads {} (channels, height, width), and the data has {}{remedy}",
        shown(theirs),
        shown(ours)
    )
}

/// The way from the pixels of the data to those that a teacher of this shape was trained on, where they differ.
pub(super) fn pixels(theirs: &Shape, ours: &Shape) -> Option<Renormalise> {
    let [channels, ..] = ours.image?;
    let from = [&ours.mean[..], &ours.std[..]];
    Renormalise::between(from, [&theirs.mean[..], &theirs.std[..]], channels)
}

/// The differences between the images that the teacher in `folder` was trained on and those of the data.
pub(super) fn note(folder: &Path, theirs: &Shape, ours: &Shape) -> Option<String> {
    let mut all = Vec::new();
    if pixels(theirs, ours).is_some() {
        all.push(format!(
            "with mean {:?} and std {:?} (here {:?} and {:?}: it reads them turned into its own)",
            theirs.mean, theirs.std, ours.mean, ours.std
        ));
    }
    if ours.image.is_some() && theirs.fit != ours.fit {
        all.push(format!(
            "{} (here {})",
            Fit::told(theirs.fit),
            Fit::told(ours.fit)
        ));
    }
    (!all.is_empty()).then(|| {
        format!(
            "the teacher {} was trained on images {}",
            folder.display(),
            all.join(" and ")
        )
    })
}

/// Tokens of an input at most, where a network has a limit.
fn longest(task: &AnyTask, shape: &Shape) -> Option<usize> {
    let inputs = task.networks().infers?.inputs(shape);
    let limits = inputs.iter().filter_map(|input| match input.holds {
        Holds::Tokens { longest, .. } => longest,
        _ => None,
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(mean: f32, std: f32) -> Shape {
        Shape {
            image: Some([1, 8, 8]),
            mean: vec![mean],
            std: vec![std],
            ..Shape::default()
        }
    }

    #[test]
    fn equal_pixels_are_left_as_they_are() {
        let (ours, folder) = (shape(0.25, 0.5), Path::new("run"));
        assert_eq!(pixels(&ours, &ours), None);
        assert_eq!(note(folder, &ours, &ours), None);
        let texts = Shape::default();
        assert_eq!(pixels(&texts, &texts), None);
    }

    #[test]
    fn other_pixels_and_another_fit_are_told() {
        let (ours, folder) = (shape(0.25, 0.5), Path::new("run"));
        let theirs = Shape {
            fit: Some(Fit {
                shorter: Some(9),
                ..Fit::default()
            }),
            ..shape(0.0, 0.25)
        };
        let turned = pixels(&theirs, &ours).unwrap();
        assert_eq!((turned.scale, turned.shift), (vec![2.0], vec![1.0]));
        assert_eq!(
            note(folder, &theirs, &ours).unwrap(),
            "the teacher run was trained on images with mean [0.0] and std [0.25] (here [0.25] and [0.5]: it reads \
             them turned into its own) and whose shorter side became 9 and whose middle was cut out (here stretched to their size)"
        );
    }

    #[test]
    fn sizes_are_shown_as_numbers() {
        assert_eq!(
            other_sizes([Some([3, 32, 32]), Some([1, 28, 28])]),
            "reads images of 3 × 32 × 32 (channels, height, width), and the data has images of 1 × 28 × 28; set data.channels = 3 \
             and data.size = [32, 32]"
        );
    }
}
