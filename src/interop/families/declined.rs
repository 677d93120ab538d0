//! The differences for which a family has no config.json at all, in words: they concern models of the family's kind and task with
//! a part that no key of the family can express.

use super::{Family, HfShape};
use crate::model::ModelConfig;
use serde::Serialize;
use serde_json::{Value, json};

/// The reasons why a model does not belong to a family.
#[derive(Debug, Default)]
pub struct Declined {
    /// Whether one of the model's networks is of another kind than the family's.
    pub other_networks: bool,
    /// The differences; empty if the model's kind or task already differs.
    pub differences: Vec<String>,
    /// The nearest model that the family can have, if it is known: the same except for these differences.
    pub nearest: Option<Box<HfShape>>,
}

impl Declined {
    /// How far the model is from the family: networks of another kind first, then the number of differences.
    pub fn distance(&self) -> (bool, usize) {
        (self.other_networks, self.differences.len())
    }
}

/// The differences for which a family declines a model; empty if the family does not list them.
pub(in crate::interop) fn declined(family: &Family, of: &HfShape) -> Declined {
    family.declined.map(|say| say(of)).unwrap_or_default()
}

/// A difference, unless `same`, that is, unless the class computes with our value of the key; `theirs` describes the class's
/// values.
pub(super) fn difference_unless(
    same: bool,
    key: &str,
    ours: impl Serialize,
    theirs: &str,
) -> Option<String> {
    if same {
        return None;
    }
    let ours = match json!(ours) {
        Value::Null => "absent".to_owned(),
        ours => ours.to_string(),
    };
    Some(format!("{key} is {ours} instead of {theirs}"))
}

/// The difference for images that are not square.
pub(super) fn difference_unless_square(of: &HfShape) -> Option<String> {
    let [_, height, width] = of.shape.image?;
    (height != width).then(|| format!("images are {height} by {width} instead of square"))
}

/// The differences of two towers from a vision transformer with patches and a text network of the kind `text`.
pub(super) fn tower_differences(of: &HfShape, text: &str) -> Declined {
    let ModelConfig::TwoTowers(towers) = &of.model else {
        return Declined::default();
    };
    let [image, words] = [towers.image.as_ref(), towers.text.as_ref()];
    let vision = image.kind() == "vision";
    let patches = !vision || image.patch_size().is_some();
    let kinds = [
        difference_unless(vision, "model.image.kind", image.kind(), "\"vision\""),
        difference_unless(patches, "model.image.stem.kind", "resnet", "\"patches\""),
        difference_unless(
            words.kind() == text,
            "model.text.kind",
            words.kind(),
            &format!("\"{text}\""),
        ),
    ];
    let mut why: Vec<String> = kinds.into_iter().flatten().collect();
    let other_networks = !why.is_empty();
    why.extend(difference_unless_square(of));
    Declined {
        other_networks,
        differences: why,
        nearest: None,
    }
}
