//! Arms whose values have another measure, or are over other examples, are noted and not tested; settings that only affect
//! training are tested.

use super::Fixture;
use formwork::report::analyse::comparison::{Comparison, Options, compare};
use formwork::report::analyse::statistics::contrast::{Reason, Verdict};
use formwork::report::read::run;
use std::fs;
use std::path::{Path, PathBuf};

/// Writes two arms of three seeds each with these settings.
fn two_arms(root: &Path, settings: [&str; 2]) -> Vec<PathBuf> {
    let mut runs = Vec::new();
    for (arm, settings) in settings.into_iter().enumerate() {
        for seed in 1..=3 {
            let name = format!("arm-{arm}-{seed}");
            let valid = [(200, 1.0 + arm as f64 + 0.1 * seed as f64 * seed as f64)];
            runs.push(Fixture::new(&name, seed, settings, &valid).write(root));
        }
    }
    runs
}

fn compared(settings: [&str; 2], metric: &str) -> Comparison {
    let root = tempfile::tempdir().unwrap();
    let runs = two_arms(root.path(), settings);
    for run in &runs {
        let journal = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
        let with = format!("\"accuracy\":0.5,\"{metric}\":0.5");
        if !["loss", "accuracy"].contains(&metric) {
            let journal = journal.replace("\"accuracy\":0.5", &with);
            fs::write(run.join("metrics.jsonl"), journal).unwrap();
        }
    }
    let runs = run::read_all(&runs).unwrap();
    let options = Options {
        metric: Some(metric.into()),
        ..Options::default()
    };
    compare(runs, &options).unwrap()
}

/// Returns whether the second arm is untested because of its measure, and the notes that say so.
fn untested(settings: [&str; 2], metric: &str) -> (bool, Vec<String>) {
    let c = compared(settings, metric);
    let gap = c.results[1].last_gap.clone().unwrap();
    let other = gap.verdict == Verdict::NotTested(Reason::OtherMeasure);
    assert_eq!(gap.difference.is_none(), other);
    let notes = c.notes.into_iter().filter(|n| n.contains("not tested"));
    (other, notes.collect())
}

/// Returns two task tables with these keys.
fn of_task(kind: &str, keys: [&str; 2]) -> [String; 2] {
    keys.map(|keys| format!("[task]\nkind = \"{kind}\"\n{keys}\n"))
}

#[test]
fn losses_of_another_measure_are_noted_and_not_tested() {
    for (kind, keys) in [
        (
            "masked_image",
            ["norm_pixels = false", "norm_pixels = true"],
        ),
        ("masked_image", ["mask_ratio = 0.75", "mask_ratio = 0.5"]),
        ("self_distillation", ["d_out = 32", "d_out = 64"]),
        (
            "self_distillation",
            ["views = { local = 2 }", "views = { local = 4 }"],
        ),
        ("preference", ["loss = \"sigmoid\"", "loss = \"hinge\""]),
        ("preference", ["beta = 0.1", "beta = 0.5"]),
        ("replaced_token", ["weight = 50.0", "weight = 1.0"]),
        (
            "multi_label_classification",
            ["", "positive_weights = [1.0, 2.0]"],
        ),
        (
            "text_classification",
            ["", "class_weights = { kind = \"balanced\" }"],
        ),
        (
            "masked_lm",
            ["masking = { share = 0.15 }", "masking = { share = 0.4 }"],
        ),
        ("span_corruption", ["mean_span = 3.0", "mean_span = 1.0"]),
        ("denoising", ["infill = 0.3", "infill = 0.0"]),
        (
            "text_embedding",
            ["temperature = 0.05", "temperature = 0.1"],
        ),
    ] {
        let settings = of_task(kind, keys);
        let settings = [settings[0].as_str(), settings[1].as_str()];
        let (other, notes) = untested(settings, "loss");
        assert!(other, "{kind}: {keys:?}");
        assert_eq!(notes.len(), 1, "{notes:#?}");
        assert!(
            notes[0].contains("keys that define loss (task."),
            "{notes:#?}"
        );
        // The share of right answers is comparable although the loss is not, but the share of right tokens depends on which
        // tokens are asked for.
        let (other, notes) = untested(settings, "accuracy");
        let asked = ["span_corruption", "denoising"].contains(&kind);
        assert_eq!(other, asked, "{kind}: {keys:?}: {notes:#?}");
        assert_eq!(notes.len(), usize::from(asked), "{kind}: {notes:#?}");
    }
}

#[test]
fn what_acts_in_training_alone_is_tested() {
    for (kind, keys) in [
        (
            "causal_lm",
            ["label_smoothing = 0.0", "label_smoothing = 0.1"],
        ),
        ("causal_lm", ["", "second_target = 0.5"]),
        (
            "preference",
            ["label_smoothing = 0.0", "label_smoothing = 0.1"],
        ),
        (
            "replaced_token",
            ["embeddings = \"shared\"", "embeddings = \"unshared\""],
        ),
    ] {
        let settings = of_task(kind, keys);
        let (other, notes) = untested([&settings[0], &settings[1]], "loss");
        assert!(!other && notes.is_empty(), "{kind}: {keys:?}: {notes:#?}");
    }
    // A distilled task is evaluated like the task itself.
    let alone = "[task]\nkind = \"masked_lm\"\n[task.masking]\nshare = 0.15\n";
    let taught = "[task]\nkind = \"distillation\"\nteacher = \"../big\"\n[task.of]\nkind = \"masked_lm\"\n[task.of.masking]\n\
                  share = 0.15\n";
    assert!(!untested([alone, taught], "loss").0);
    let other = taught.replace("0.15", "0.4");
    let (untested, notes) = untested([alone, &other], "loss");
    assert!(
        untested && notes[0].contains("task.masking.share: 0.15 | 0.4"),
        "{notes:#?}"
    );
}

#[test]
fn other_tokens_make_other_losses_and_bits_per_byte_compares() {
    let of = |kind: &str| format!("[task]\nkind = \"causal_lm\"\n[tokenizer]\nkind = \"{kind}\"\n");
    let settings = [of("byte"), of("bpe")];
    let (other, notes) = untested([&settings[0], &settings[1]], "loss");
    let note = "runs differ in keys that define loss (tokenizer.kind: bpe | byte): its values are not comparable (only \
                bits_per_byte is comparable between tokenizers), so their differences are not tested";
    assert!(other);
    assert_eq!(notes, [note]);
}

#[test]
fn generated_examples_differ_by_the_keys_that_make_them() {
    let of = |kind: &str, keys: &str| format!("[data]\nkind = \"{kind}\"\n{keys}\n");
    for (kind, keys) in [
        ("arithmetic", ["digits = 2", "digits = 3"]),
        (
            "arithmetic",
            ["operations = [\"+\"]", "operations = [\"+\", \"-\"]"],
        ),
        ("copy", ["held_out = 0.1", "held_out = 0.2"]),
        ("shapes", ["size = 28", "size = 32"]),
        ("grammar", ["valid_items = 100", "valid_items = 50"]),
        (
            "text",
            [
                "path = \"a.txt\"\nvalid_fraction = 0.1",
                "path = \"a.txt\"\nvalid_fraction = 0.2",
            ],
        ),
    ] {
        let settings = keys.map(|keys| of(kind, keys));
        for metric in ["loss", "accuracy"] {
            let (other, notes) = untested([&settings[0], &settings[1]], metric);
            assert!(other, "{kind}: {keys:?}: {metric}");
            assert!(
                notes[0].starts_with("runs differ in their valid examples (data."),
                "{notes:#?}"
            );
        }
    }
    // Keys of training documents, and keys that change what a network reads of an example.
    for (kind, keys) in [
        ("grammar", ["documents = 100", "documents = 2000"]),
        ("text", ["context = 32", "context = 64"]),
    ] {
        let settings = keys.map(|keys| of(kind, keys));
        assert!(
            !untested([&settings[0], &settings[1]], "loss").0,
            "{kind}: {keys:?}"
        );
    }
    // An answer written backwards has another loss, but the same meaning of accuracy.
    let settings = ["reversed = false", "reversed = true"]
        .map(|key| format!("[task]\nkind = \"causal_lm\"\n{}", of("arithmetic", key)));
    for metric in ["loss", "bits_per_byte"] {
        assert!(untested([&settings[0], &settings[1]], metric).0, "{metric}");
    }
    assert!(!untested([&settings[0], &settings[1]], "accuracy").0);
}

#[test]
fn right_tokens_are_of_those_that_are_hidden() {
    for (kind, keys) in [
        (
            "masked_lm",
            ["masking = { share = 0.15 }", "masking = { share = 0.4 }"],
        ),
        (
            "masked_lm",
            ["pairs = \"none\"", "pairs = \"next_sentence\""],
        ),
        (
            "replaced_token",
            ["masking = { share = 0.15 }", "masking = { share = 0.4 }"],
        ),
    ] {
        let settings = of_task(kind, keys);
        let (other, notes) = untested([&settings[0], &settings[1]], "mlm_accuracy");
        assert!(
            other && notes[0].contains("keys that define mlm_accuracy (task."),
            "{kind}: {keys:?}: {notes:#?}"
        );
    }
}

/// A task, a kind of data with two values of a key, metrics that depend on the key, and metrics that do not.
type Case = (
    &'static str,
    &'static str,
    [&'static str; 2],
    &'static [&'static str],
    &'static [&'static str],
);

const BY_TOKEN: &[&str] = &["loss", "accuracy", "bits_per_byte"];

#[test]
fn targets_that_are_cut_or_written_otherwise_are_others() {
    let cases: &[Case] = &[
        (
            "translation",
            "pairs",
            ["max_len = 64", "max_len = 128"],
            BY_TOKEN,
            &["bleu"],
        ),
        (
            "translation",
            "pairs",
            [
                "max_len = 64\nmax_target_len = 32",
                "max_len = 128\nmax_target_len = 32",
            ],
            &[],
            BY_TOKEN,
        ),
        (
            "text_embedding",
            "pairs",
            ["max_len = 64", "max_len = 128"],
            &[],
            &["loss", "mrr"],
        ),
        (
            "captioning",
            "captioned_images",
            ["context = 32", "context = 77"],
            BY_TOKEN,
            &["bleu"],
        ),
        (
            "transcription",
            "transcribed_speech",
            ["context = 32", "context = 448"],
            BY_TOKEN,
            &["wer"],
        ),
        (
            "translation",
            "articles",
            ["max_target = 32", "max_target = 64"],
            BY_TOKEN,
            &["rouge_l"],
        ),
        (
            "causal_lm",
            "conversations",
            ["", "template = \"other.jinja\""],
            &["loss", "bits_per_byte"],
            &["exact_match"],
        ),
        (
            "causal_lm",
            "conversations",
            ["context = 128", "context = 512"],
            &["loss", "accuracy", "exact_match"],
            &[],
        ),
        (
            "preference",
            "preferences",
            ["", "date = \"2024-07-26\""],
            &["loss"],
            &["reward_accuracy"],
        ),
        (
            "preference",
            "preferences",
            ["context = 128", "context = 512"],
            &["loss", "reward_accuracy"],
            &[],
        ),
        (
            "token_classification",
            "tagged_text",
            ["context = 32", "context = 64"],
            &["loss", "f1"],
            &[],
        ),
        (
            "question_answering",
            "questions",
            ["overlap = 64", "overlap = 128"],
            &["loss"],
            &["f1"],
        ),
    ];
    for (task, data, keys, defined, others) in cases {
        let settings = keys
            .map(|keys| format!("[task]\nkind = \"{task}\"\n[data]\nkind = \"{data}\"\n{keys}\n"));
        for (metrics, expected) in [(defined, true), (others, false)] {
            for metric in *metrics {
                let (other, notes) = untested([&settings[0], &settings[1]], metric);
                assert_eq!(other, expected, "{data}: {keys:?}: {metric}: {notes:#?}");
            }
        }
    }
}
