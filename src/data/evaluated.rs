//! Which keys of a kind of `[data]` define the examples that evaluations are of: values of runs that differ in them are of other
//! examples, whatever the metric. Keys of every kind that begin with the name of the split, `valid_items` say, define them too.
//!
//! What a network reads of an example is no other example: `context` of a text, `size` of images from files. Where such a key leaves
//! out what would be scored, values are of fewer targets: of all that is measured where whole examples go or all that is measured
//! is of single tokens (`keys`), of what is measured token by token elsewhere (`cut`).

/// The keys of a kind that define the examples of evaluations, each below `data`.
#[derive(Clone, Copy, Debug)]
pub struct Evaluated {
    /// The kind.
    pub kind: &'static str,
    /// Keys that define them in any case.
    pub keys: &'static [&'static str],
    /// Keys that define them where they are a share of the training examples.
    pub shared: &'static [&'static str],
    /// Keys by which the same examples are written otherwise: their loss is another measure, what is right about them is not.
    pub written: &'static [&'static str],
    /// Keys that say how long a target is at most, of which the first that is given counts: what lies beyond is not scored token
    /// by token. What is said of texts as a whole is of the same texts.
    pub cut: &'static [&'static str],
}

/// Examples from files.
const fn files(kind: &'static str, keys: &'static [&'static str]) -> Evaluated {
    Evaluated {
        kind,
        keys,
        shared: &["path", TEST_FRACTION],
        written: &[],
        cut: &[],
    }
}

/// Examples that are made.
const fn made(kind: &'static str, keys: &'static [&'static str]) -> Evaluated {
    Evaluated {
        kind,
        keys,
        shared: &[],
        written: &[],
        cut: &[],
    }
}

/// The test part stands beside the validation part, which begins before it.
const TEST_FRACTION: &str = "test_fraction";
const STRINGS: &[&str] = &["length", "min_length", "symbols", "held_out"];
const SUMS: &[&str] = &["digits", "operations", "held_out"];
/// An answer from its last digit to its first is the same answer.
const REVERSED: &[&str] = &["reversed"];
/// A chat template writes the same messages otherwise, and says which marks behind an answer are scored.
const TEMPLATE: &[&str] = &["template", "date"];

/// Every kind of data.
pub const ALL: &[Evaluated] = &[
    files("text", &["field"]),
    Evaluated {
        written: REVERSED,
        ..made("arithmetic", SUMS)
    },
    made("copy", STRINGS),
    made("reverse", STRINGS),
    made("sort", STRINGS),
    made("random_tokens", &["vocab_size", "context"]),
    Evaluated {
        shared: &["path", "source", "target", TEST_FRACTION],
        cut: &["max_target_len", "max_len"],
        ..files("pairs", &["source_field", "target_field"])
    },
    made("dates", &["held_out"]),
    made("number_words", &["held_out"]),
    made("random_pairs", &["vocab_size", "source_len", "target_len"]),
    Evaluated {
        shared: &["path", "labels", TEST_FRACTION],
        ..files("images", &["image", "label"])
    },
    made("shapes", &["size", "channels", "classes", "noise"]),
    made("random_images", &["channels", "height", "width", "classes"]),
    Evaluated {
        cut: &["context"],
        ..files("captioned_images", &["image", "caption"])
    },
    Evaluated {
        cut: &["context"],
        ..files(
            "transcribed_speech",
            &["recording", "transcript", "recordings"],
        )
    },
    made(
        "dialled_digits",
        &["digits", "tone", "pause", "noise", "held_out"],
    ),
    made(
        "captioned_shapes",
        &["size", "colours", "shapes", "alone", "noise", "held_out"],
    ),
    files("labelled_text", &["label", "labels", "indicators", "score"]),
    // Words beyond the context have no tag.
    files("tagged_text", &["word", "tag", "context"]),
    // Answers are cut to the context, and rows without a token of one within it are left out.
    Evaluated {
        written: TEMPLATE,
        ..files(
            "conversations",
            &["messages", "turns", "answers", "context"],
        )
    },
    Evaluated {
        written: TEMPLATE,
        ..files("preferences", &["prompt", "chosen", "rejected", "context"])
    },
    // The loss is that of windows, answers are those of questions.
    Evaluated {
        written: &["context", "overlap"],
        ..files("questions", &[])
    },
    made("grammar", &["sentences"]),
    // Letters of the test stand behind those of validation.
    made("people", &["valid_items"]),
    made(
        "listops",
        &[
            "max_depth",
            "max_args",
            "min_length",
            "max_length",
            "held_out",
        ],
    ),
    made("themes", &["filling", "held_out"]),
    Evaluated {
        written: REVERSED,
        ..made("right_and_wrong", SUMS)
    },
    Evaluated {
        cut: &["max_target"],
        ..files("articles", &["lead_ends"])
    },
    files("article_halves", &[]),
    made(
        "pathfinder",
        &["size", "length", "distractors", "distractor_length"],
    ),
    made("none", &[]),
];

/// Those of a kind; `None` of one that is not known.
pub fn of_kind(kind: &str) -> Option<&'static Evaluated> {
    ALL.iter().find(|evaluated| evaluated.kind == kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{DataConfig, KINDS};

    /// Whether a kind has a key, whatever its value: keys that have no value unless they are given are not written out.
    fn has(example: &toml::Table, key: &str) -> bool {
        let mut data = example["data"].clone();
        // No key takes a list of lists of nothing.
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
            let Evaluated {
                keys,
                shared,
                written,
                cut,
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
            assert_eq!(!evaluated.shared.is_empty(), drawn, "{}", kind.kind);
            // Columns of targets and of labels have these names elsewhere.
            let files: &[&str] = match kind.kind {
                "pairs" => &["source", "target"],
                "images" => &["labels"],
                _ => &[],
            };
            for key in ["path", TEST_FRACTION].iter().chain(files) {
                let says = evaluated.shared.contains(key);
                assert_eq!(says, drawn && has(&table, key), "{}: {key}", kind.kind);
            }
        }
    }
}
