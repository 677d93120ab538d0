//! Reuse of the masked language model's head layer for classes of texts or tokens.
//!
//! ModernBERT has one dense layer with a norm for all of its heads (Warner et al. 2024, released code), so a classifier
//! begins with that layer of the masked language model. BERT's pooler is not part of its LM head and has no norm:
//! nothing is moved there.

use super::Patterns;
use burn::tensor::TensorData;
use std::collections::BTreeMap;

/// The dense layer and the norm before the LM head of masked tokens.
const LM_HEAD_LAYERS: [&str; 2] = ["head.transform.", "head.norm."];

/// The layers before the classifiers of whole texts, and of tokens.
const CLASSIFIER_LAYERS: [[&str; 2]; 2] = [
    ["model.pooler.", "model.pooler_norm."],
    [
        "model.token_transform.dense.",
        "model.token_transform.norm.",
    ],
];

/// Renames the stored layer before the LM head of masked tokens to the classifier's layer that the model has instead,
/// unless `new` names that layer.
pub(super) fn rename_head_layer(
    stored: &mut BTreeMap<String, TensorData>,
    wanted: &[&str],
    new: &Patterns,
) {
    for places in CLASSIFIER_LAYERS {
        let [_, norm] = places;
        let wants = |path: &&str| path.starts_with(norm) && !new.match_path(path);
        let has = stored.keys().any(|path| path.starts_with(norm));
        if has || !wanted.iter().any(wants) {
            continue;
        }
        for (from, to) in LM_HEAD_LAYERS.into_iter().zip(places) {
            let paths: Vec<String> = stored
                .keys()
                .filter(|path| path.starts_with(from))
                .cloned()
                .collect();
            for path in paths {
                if let Some(data) = stored.remove(&path) {
                    stored.insert(path.replacen(from, to, 1), data);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(wanted: &[&str], new: &[String]) -> Vec<String> {
        let stored = [
            "head.bias",
            "head.norm.gamma",
            "head.transform.weight",
            "model.embedding.weight",
        ];
        let one = || TensorData::from([1.0_f32]);
        let mut stored = stored.map(|path| (path.to_string(), one())).into();
        rename_head_layer(&mut stored, wanted, &Patterns::new("new", new).unwrap());
        stored.into_keys().collect()
    }

    #[test]
    fn classifiers_with_a_norm_begin_with_the_layer_of_masked_tokens() {
        let pooler = ["model.pooler.weight", "model.pooler_norm.gamma"];
        let of_texts = [
            "head.bias",
            "model.embedding.weight",
            "model.pooler.weight",
            "model.pooler_norm.gamma",
        ];
        assert_eq!(after(&pooler, &[]), of_texts);
        let of_tokens = [
            "head.bias",
            "model.embedding.weight",
            "model.token_transform.dense.weight",
            "model.token_transform.norm.gamma",
        ];
        assert_eq!(after(&["model.token_transform.norm.gamma"], &[]), of_tokens);
    }

    #[test]
    fn a_pooler_without_a_norm_and_one_that_begins_anew_leave_it() {
        let as_stored = [
            "head.bias",
            "head.norm.gamma",
            "head.transform.weight",
            "model.embedding.weight",
        ];
        assert_eq!(after(&["model.pooler.weight"], &[]), as_stored);
        let new = ["^model.pooler".to_string()];
        assert_eq!(after(&["model.pooler_norm.gamma"], &new), as_stored);
    }
}
