//! Which keys of a kind of `[data]` define the examples that evaluations are of: values of runs that differ in them are of other
//! examples, whatever the metric. Keys of every kind that begin with the name of the split, `valid_items` say, define them too.
//!
//! What a network reads of an example is no other example: `context`, `size` of images from files, `max_len`.

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
}

/// Examples from files.
const fn files(kind: &'static str, keys: &'static [&'static str]) -> Evaluated {
    Evaluated {
        kind,
        keys,
        shared: &["path", TEST_FRACTION],
        written: &[],
    }
}

/// Examples that are made.
const fn made(kind: &'static str, keys: &'static [&'static str]) -> Evaluated {
    Evaluated {
        kind,
        keys,
        shared: &[],
        written: &[],
    }
}

/// The test part stands beside the validation part, which begins before it.
const TEST_FRACTION: &str = "test_fraction";
const STRINGS: &[&str] = &["length", "min_length", "symbols", "held_out"];
const SUMS: &[&str] = &["digits", "operations", "held_out"];
/// An answer from its last digit to its first is the same answer.
const REVERSED: &[&str] = &["reversed"];

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
    files("captioned_images", &["image", "caption"]),
    files(
        "transcribed_speech",
        &["recording", "transcript", "recordings"],
    ),
    made(
        "dialled_digits",
        &["digits", "tone", "pause", "noise", "held_out"],
    ),
    made(
        "captioned_shapes",
        &["size", "colours", "shapes", "alone", "noise", "held_out"],
    ),
    files("labelled_text", &["label", "labels", "indicators", "score"]),
    files("tagged_text", &["word", "tag"]),
    files("conversations", &["messages", "turns", "answers"]),
    files("preferences", &["prompt", "chosen", "rejected"]),
    files("questions", &[]),
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
    files("articles", &["lead_ends"]),
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

    #[test]
    fn every_kind_says_its_own_keys() {
        assert_eq!(ALL.len(), KINDS.len());
        for kind in KINDS {
            let evaluated = of_kind(kind.kind).unwrap();
            let table: toml::Table = kind.example.parse().unwrap();
            let data: DataConfig = table["data"].clone().try_into().unwrap();
            let written = toml::Value::try_from(&data).unwrap();
            // Keys that have no value unless they are given are not told apart from unknown ones here.
            let required = evaluated.keys.iter().chain(evaluated.written);
            let generated = evaluated.shared.is_empty();
            for key in required.filter(|key| generated && **key != "min_length") {
                assert!(written.get(*key).is_some(), "{}: {key}", kind.kind);
            }
        }
    }
}
