//! Differences for which a family has no config.json at all, in words: of a model that is of the family's kind and task, with a part
//! that no key of the family says.

use super::{Family, HfShape};
use crate::model::ModelConfig;
use serde::Serialize;
use serde_json::{Value, json};

/// What keeps a model from being one of a family.
#[derive(Debug, Default)]
pub struct Declined {
    /// Whether one of its networks is of another kind than the family's.
    pub other_networks: bool,
    /// The differences; none where its kind or task is another one already.
    pub why: Vec<String>,
    /// The nearest model that the family may have, where it is known: the same but for these differences.
    pub but_for: Option<Box<HfShape>>,
}

impl Declined {
    /// How far the model is from the family.
    pub fn distance(&self) -> (bool, usize) {
        (self.other_networks, self.why.len())
    }
}

/// The differences for which a family declines a model; none where it does not say them.
pub(in crate::interop) fn declined(family: &Family, of: &HfShape) -> Declined {
    family.declined.map(|say| say(of)).unwrap_or_default()
}

/// A difference, unless the value of a key is one that the class computes with; `theirs` is that value.
pub(super) fn unless(same: bool, key: &str, ours: impl Serialize, theirs: &str) -> Option<String> {
    if same {
        return None;
    }
    let ours = match json!(ours) {
        Value::Null => "absent".to_owned(),
        ours => ours.to_string(),
    };
    Some(format!("{key} is {ours}, there {theirs}"))
}

/// The difference of images whose sides are not equal.
pub(super) fn unless_square(of: &HfShape) -> Option<String> {
    let [_, height, width] = of.shape.image?;
    (height != width).then(|| format!("images are {height} by {width}, there squares"))
}

/// Those of two towers from a vision transformer with patches and a network for texts of the kind `text`.
pub(super) fn of_towers(of: &HfShape, text: &str) -> Declined {
    let ModelConfig::TwoTowers(towers) = &of.model else {
        return Declined::default();
    };
    let [image, words] = [towers.image.as_ref(), towers.text.as_ref()];
    let vision = image.kind() == "vision";
    let patches = !vision || image.patch_size().is_some();
    let kinds = [
        unless(vision, "model.image.kind", image.kind(), "\"vision\""),
        unless(patches, "model.image.stem.kind", "resnet", "\"patches\""),
        unless(
            words.kind() == text,
            "model.text.kind",
            words.kind(),
            &format!("\"{text}\""),
        ),
    ];
    let mut why: Vec<String> = kinds.into_iter().flatten().collect();
    let other_networks = !why.is_empty();
    why.extend(unless_square(of));
    Declined {
        other_networks,
        why,
        but_for: None,
    }
}
