//! Checks whether a teacher fits the data of its student, and converts pixels to the normalisation that it was trained with.

use super::FrozenRun;
use crate::data::images::Fit;
use crate::data::images::normalise::Renormalise;
use crate::data::{Shape, Tokenizers};
use crate::error::Result;
use crate::experiment::open::OpenedRun;
use crate::experiment::run_contents;
use crate::task::infer::ArrayContent;
use crate::task::{AnyTask, Task};
use crate::train::config::Dtype;
use crate::train::run_dir;
use std::path::Path;

/// Returns an error if the teacher's outputs do not correspond to the data's tokens, classes, images or lengths.
pub(super) fn require_compatible(
    named: &FrozenRun,
    folder: &Path,
    teacher: &OpenedRun,
    (shape, tokenizers): (&Shape, &Tokenizers),
) -> Result<()> {
    let theirs = &teacher.shape;
    let wrong = |reason: String| named.run_error(folder, reason);
    if !same_tokens(&teacher.tokenizers, tokenizers)
        || !has_embedding_rows(theirs, (shape, tokenizers))
    {
        let remedy = match tokenizers.text {
            Some(_) => format!(
                "remove [tokenizer] to use the {}'s or, if it comes from another file, set [tokenizer] kind = \"pretrained\", \
                 path = {:?}",
                named.role,
                folder.join(run_dir::TOKENIZER)
            ),
            None => "use data with the same symbols".into(),
        };
        return Err(wrong(format!(
            "has a different vocabulary ({} tokens, but {} here), so its logits belong to other tokens; {remedy}",
            theirs.vocab_size, shape.vocab_size,
        )));
    }
    if theirs.classes != shape.classes {
        let [theirs, ours] = [theirs, shape].map(|shape| shape.classes.join(", "));
        return Err(wrong(format!(
            "distinguishes the classes {theirs}, but the data has {ours}"
        )));
    }
    if theirs.image != shape.image {
        return Err(wrong(image_size_message([theirs.image, shape.image])));
    }
    match longest(&teacher.model.0, theirs) {
        Some(longest) if longest < shape.context => Err(wrong(format!(
            "has positions for {longest} tokens, but inputs here have {}; shorten them to {longest}",
            shape.context
        ))),
        Some(_) | None => Ok(()),
    }
}

/// Whether a network of the shape `theirs` has an embedding row for every token of the data. It may have more rows than there
/// are tokens, as published models do.
fn has_embedding_rows(theirs: &Shape, (shape, tokenizers): (&Shape, &Tokenizers)) -> bool {
    let sizes = |s: &Shape| (s.vocab_size, s.source_vocab_size);
    let both = [tokenizers.text.as_ref(), tokenizers.target.as_ref()];
    match tokenizers.text {
        Some(_) => run_contents::vocabulary_overflow(both, theirs).is_none(),
        None => sizes(theirs) == sizes(shape),
    }
}

/// Whether both sides map texts to the same tokens and ids; which of them are special tokens does not matter.
pub(in crate::experiment) fn same_tokens(theirs: &Tokenizers, ours: &Tokenizers) -> bool {
    let sides = |all: &Tokenizers| [all.text.clone(), all.target_tokenizer().cloned()];
    let mut both = sides(theirs).into_iter().zip(sides(ours));
    both.all(|both| match both {
        (Some(theirs), Some(ours)) => ours.encodes_like(&theirs),
        (theirs, ours) => theirs.is_none() && ours.is_none(),
    })
}

/// The message about images of different sizes.
fn image_size_message([theirs, ours]: [Option<[usize; 3]>; 2]) -> String {
    let shown = |image: Option<[usize; 3]>| match image {
        Some([channels, height, width]) => format!("images of {channels} × {height} × {width}"),
        None => "no images".into(),
    };
    let remedy = theirs.map_or_else(String::new, |[channels, height, width]| {
        format!("; set data.channels = {channels} and data.size = [{height}, {width}]")
    });
    format!(
        "reads {} (channels, height, width), but the data has {}{remedy}",
        shown(theirs),
        shown(ours)
    )
}

/// Returns the conversion from the data's pixel normalisation to that of a teacher of this shape, if they differ.
pub(super) fn pixels(theirs: &Shape, ours: &Shape) -> Option<Renormalise> {
    let [channels, ..] = ours.image?;
    let from = [&ours.mean[..], &ours.std[..]];
    Renormalise::between(from, [&theirs.mean[..], &theirs.std[..]], channels)
}

/// Describes how the images that the teacher in `folder` was trained on differ from the data.
pub(super) fn note(folder: &Path, theirs: &Shape, ours: &Shape) -> Option<String> {
    let mut all = Vec::new();
    let [pixels, fit] = theirs.images_differ(ours);
    if pixels {
        all.push(format!(
            "with mean {:?} and std {:?} (here {:?} and {:?}; images are converted for it)",
            theirs.mean, theirs.std, ours.mean, ours.std
        ));
    }
    if fit {
        all.push(format!(
            "{} (here {})",
            Fit::describe(theirs.fit),
            Fit::describe(ours.fit)
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

/// Says that the run in `folder` was trained in another number format than the one in which it computes here.
pub(super) fn number_format_note(
    named: &FrozenRun,
    folder: &Path,
    [theirs, ours]: [Dtype; 2],
) -> Option<String> {
    (theirs != ours).then(|| {
        format!(
            "the {} {} was trained in {} and computes in {} here",
            named.role,
            folder.display(),
            theirs.name(),
            ours.name()
        )
    })
}

/// Maximum length of an input in tokens, if a network has a limit.
fn longest(task: &AnyTask, shape: &Shape) -> Option<usize> {
    let inputs = task.networks().infers?.inputs(shape);
    let limits = inputs.iter().filter_map(|input| match input.content {
        ArrayContent::Tokens { longest, .. } => longest,
        _ => None,
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::{MarkNames, Tokenizer, TokenizerConfig};

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
            "the teacher run was trained on images with mean [0.0] and std [0.25] (here [0.25] and [0.5]; images are converted \
             for it) and resized to a shorter side of 9 and cropped at the centre (here stretched to their size)"
        );
    }

    #[test]
    fn marks_make_no_other_vocabulary() {
        let config = "kind = \"word\"\nspecial_tokens = [\"<s>\", \"<pad>\", \"</s>\", \"de_DE\"]";
        let config: TokenizerConfig = toml::from_str(config).unwrap();
        let of = |text| Tokenizer::build(&config, &[text]).unwrap();
        let plain = of("one two");
        let marks = MarkNames {
            begin: Some("de_DE".into()),
            ..MarkNames::default()
        };
        let marked = plain.with_marks(&marks).unwrap();
        assert_ne!(plain.fingerprint(), marked.fingerprint());
        let [plain, marked, other] = [plain, marked, of("one three")].map(Tokenizers::single);
        assert!(same_tokens(&plain, &marked));
        assert!(!same_tokens(&plain, &other));
        assert!(!same_tokens(&plain, &Tokenizers::default()));
    }

    #[test]
    fn rows_without_a_token_are_no_other_vocabulary() {
        let config: TokenizerConfig = toml::from_str("kind = \"char\"").unwrap();
        let one = Tokenizers::single(Tokenizer::build(&config, &["abc"]).unwrap());
        let tokens = one.text.as_ref().map_or(0, Tokenizer::vocab_size);
        let of = |rows: usize| Shape::of_text(8, rows);
        let ours = of(tokens);
        assert!(has_embedding_rows(&of(tokens), (&ours, &one)));
        assert!(has_embedding_rows(&of(tokens + 5), (&ours, &one)));
        assert!(has_embedding_rows(&of(tokens), (&of(tokens + 5), &one)));
        assert!(!has_embedding_rows(&of(tokens - 1), (&ours, &one)));
        // Without a tokenizer, only equal sizes prove that the ids of the data fit.
        let none = Tokenizers::default();
        assert!(has_embedding_rows(&ours, (&ours, &none)));
        assert!(!has_embedding_rows(&of(tokens + 5), (&ours, &none)));
    }

    #[test]
    fn sizes_are_shown_as_numbers() {
        assert_eq!(
            image_size_message([Some([3, 32, 32]), Some([1, 28, 28])]),
            "reads images of 3 × 32 × 32 (channels, height, width), but the data has images of 1 × 28 × 28; set data.channels = 3 \
             and data.size = [32, 32]"
        );
    }
}
