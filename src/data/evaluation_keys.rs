//! Which keys of a kind of `[data]` define the examples of evaluations. Values of runs that differ in one of
//! these keys are about different examples, whatever the metric. In every kind, keys that begin with the name
//! of the split (such as `valid_items`) define the examples too.
//!
//! How much of an example the network reads does not define it: `context` of a text, `size` of images from
//! files. But if such a key leaves out something that would be scored, values cover fewer targets. The key is
//! then in `keys` if whole examples are left out or if everything is measured per token, and in `cut` if only
//! the token-by-token measures are affected.

/// The keys of a kind of data that define the examples of evaluations; all of them are keys of `[data]`.
#[derive(Clone, Copy, Debug)]
pub struct EvaluationKeys {
    /// Kind of data.
    pub kind: &'static str,
    /// Keys that always define the examples.
    pub keys: &'static [&'static str],
    /// Keys that define the examples if these are drawn as a share of the training examples.
    pub fraction_keys: &'static [&'static str],
    /// Keys that change how the same examples are written: the loss then measures something else, the
    /// correctness of an answer does not.
    pub rendering_keys: &'static [&'static str],
    /// Keys that limit the length of a target; the first one that is given counts. Tokens beyond the limit
    /// are left out of token-by-token measures; measures of whole texts still cover the same texts.
    pub length_keys: &'static [&'static str],
}

/// A kind whose examples are read from files.
const fn from_files(kind: &'static str, keys: &'static [&'static str]) -> EvaluationKeys {
    EvaluationKeys {
        kind,
        keys,
        fraction_keys: &["path", TEST_FRACTION],
        rendering_keys: &[],
        length_keys: &[],
    }
}

/// A kind whose examples are generated.
const fn generated(kind: &'static str, keys: &'static [&'static str]) -> EvaluationKeys {
    EvaluationKeys {
        kind,
        keys,
        fraction_keys: &[],
        rendering_keys: &[],
        length_keys: &[],
    }
}

/// The test part lies next to the validation part, which begins before it, so this key moves both.
const TEST_FRACTION: &str = "test_fraction";
const STRINGS: &[&str] = &["length", "min_length", "symbols", "held_out"];
const SUMS: &[&str] = &["digits", "operations", "held_out"];
/// An answer written from its last digit to its first is the same answer.
const REVERSED: &[&str] = &["reversed"];
/// A chat template writes the same messages differently and decides which tokens after an answer are scored.
const TEMPLATE: &[&str] = &["template", "date"];

/// Every kind of data.
pub const ALL: &[EvaluationKeys] = &[
    from_files("text", &["field"]),
    EvaluationKeys {
        rendering_keys: REVERSED,
        ..generated("arithmetic", SUMS)
    },
    generated("copy", STRINGS),
    generated("reverse", STRINGS),
    generated("sort", STRINGS),
    generated("random_tokens", &["vocab_size", "context"]),
    EvaluationKeys {
        fraction_keys: &["path", "source", "target", TEST_FRACTION],
        length_keys: &["max_target_len", "max_len"],
        ..from_files("pairs", &["source_field", "target_field"])
    },
    generated("dates", &["held_out"]),
    generated("number_words", &["held_out"]),
    generated("random_pairs", &["vocab_size", "source_len", "target_len"]),
    EvaluationKeys {
        fraction_keys: &["path", "labels", TEST_FRACTION],
        ..from_files("images", &["image", "label"])
    },
    generated("shapes", &["size", "channels", "classes", "noise"]),
    generated("random_images", &["channels", "height", "width", "classes"]),
    EvaluationKeys {
        length_keys: &["context"],
        ..from_files("captioned_images", &["image", "caption"])
    },
    EvaluationKeys {
        length_keys: &["context"],
        ..from_files(
            "transcribed_speech",
            &["recording", "transcript", "recordings"],
        )
    },
    generated(
        "dialled_digits",
        &["digits", "tone", "pause", "noise", "held_out"],
    ),
    generated(
        "captioned_shapes",
        &["size", "colours", "shapes", "alone", "noise", "held_out"],
    ),
    from_files("labelled_text", &["label", "labels", "indicators", "score"]),
    // Words beyond the context have no tag.
    from_files("tagged_text", &["word", "tag", "context"]),
    // Answers are cut to the context, and rows that hold no token of an answer within it are left out.
    EvaluationKeys {
        rendering_keys: TEMPLATE,
        ..from_files(
            "conversations",
            &["messages", "turns", "answers", "context"],
        )
    },
    EvaluationKeys {
        rendering_keys: TEMPLATE,
        ..from_files("preferences", &["prompt", "chosen", "rejected", "context"])
    },
    // The loss is measured per window, answers per question.
    EvaluationKeys {
        rendering_keys: &["context", "overlap"],
        ..from_files("questions", &[])
    },
    generated("grammar", &["sentences"]),
    // The test letters come after the validation letters.
    generated("people", &["valid_items"]),
    generated(
        "listops",
        &[
            "max_depth",
            "max_args",
            "min_length",
            "max_length",
            "held_out",
        ],
    ),
    generated("themes", &["filling", "held_out"]),
    EvaluationKeys {
        rendering_keys: REVERSED,
        ..generated("right_and_wrong", SUMS)
    },
    EvaluationKeys {
        length_keys: &["max_target"],
        ..from_files("articles", &["lead_ends"])
    },
    from_files("article_halves", &[]),
    generated(
        "pathfinder",
        &["size", "length", "distractors", "distractor_length"],
    ),
    generated("none", &[]),
];

/// Returns the keys of a kind; `None` if the kind is unknown.
pub fn of_kind(kind: &str) -> Option<&'static EvaluationKeys> {
    ALL.iter().find(|evaluated| evaluated.kind == kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{DataConfig, KINDS};

    /// Whether a kind has a key, whatever its value: the key may be absent from the serialized configuration.
    fn has(example: &toml::Table, key: &str) -> bool {
        let mut data = example["data"].clone();
        // No key takes a list of empty lists.
        let value = toml::Value::Array(vec![toml::Value::Array(Vec::new())]);
        let table = data.as_table_mut().unwrap();
        table.insert(key.to_string(), value);
        let read: Result<DataConfig, _> = data.try_into();
        let unknown = format!("unknown field `{key}`");
        !read.is_err_and(|error| error.to_string().contains(&unknown))
    }

    #[test]
    fn every_kind_says_its_own_keys() {
        assert_eq!(ALL.len(), KINDS.len());
        for kind in KINDS {
            let evaluated = of_kind(kind.kind).unwrap();
            let table: toml::Table = kind.example.parse().unwrap();
            assert!(!has(&table, "no_key_of_this_name"), "{}", kind.kind);
            let EvaluationKeys {
                keys,
                fraction_keys: shared,
                rendering_keys: written,
                length_keys: cut,
                ..
            } = *evaluated;
            for key in [keys, shared, written, cut].concat() {
                assert!(has(&table, key), "{}: {key}", kind.kind);
            }
        }
    }

    #[test]
    fn what_a_share_is_drawn_from_defines_it_for_every_kind_of_files() {
        for kind in KINDS {
            let evaluated = of_kind(kind.kind).unwrap();
            let table: toml::Table = kind.example.parse().unwrap();
            let drawn = has(&table, "valid_fraction");
            assert_eq!(!evaluated.fraction_keys.is_empty(), drawn, "{}", kind.kind);
            // Other kinds use these names for columns of targets and of labels.
            let files: &[&str] = match kind.kind {
                "pairs" => &["source", "target"],
                "images" => &["labels"],
                _ => &[],
            };
            for key in ["path", TEST_FRACTION].iter().chain(files) {
                let says = evaluated.fraction_keys.contains(key);
                assert_eq!(says, drawn && has(&table, key), "{}: {key}", kind.kind);
            }
        }
    }
}
