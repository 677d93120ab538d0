//! Messages about data of long inputs with keys that it does not support.

use super::{judged, says};

/// An experiment with this task and data, and an encoder or the model that the task needs.
fn text(model: &str, task: &str, data: &str, more: &str) -> String {
    format!(
        "name = \"x\"\n[model]\nkind = \"{model}\"\nd_model = 16\n[task]\n{task}\n[data]\n{data}\n[optimizer]\n\
         kind = \"adamw\"\nlr = 1e-3\n[train]\nsteps = 1\nbatch_size = 1\n{more}"
    )
}

const BYTES: &str = "[tokenizer]\nkind = \"byte\"\n";
const CLASSES: &str = "kind = \"text_classification\"";
const ARTICLES: &str = "kind = \"articles\"\npath = \"a.txt\"";
const HALVES: &str = "kind = \"article_halves\"\npath = \"a.txt\"";
const PATHS: &str = "kind = \"pathfinder\"\nsequence = true";
const IMAGES: &str = "kind = \"images\"\npath = \"a.bin\"\nsequence = true";

fn right(text: &str) {
    if let Err(error) = judged(text, &[]) {
        panic!("{error}\n{text}");
    }
}

#[test]
fn every_kind_has_a_task() {
    let translation = "kind = \"translation\"";
    right(&text("encoder_decoder", translation, ARTICLES, BYTES));
    right(&text("decoder", translation, ARTICLES, BYTES));
    right(&text("encoder", CLASSES, HALVES, BYTES));
    right(&text(
        "encoder",
        &format!("{CLASSES}\ntowers = true"),
        HALVES,
        BYTES,
    ));
    right(&text("encoder", CLASSES, PATHS, ""));
    let pixels = format!("{IMAGES}\nchannels = 1\nsize = [8, 8]");
    right(&text("encoder", CLASSES, &pixels, ""));
    let joined = "kind = \"labelled_text\"\npath = \"a.tsv\"\njoin = true";
    right(&text("encoder", CLASSES, joined, BYTES));
    let arena =
        "kind = \"listops\"\nmax_depth = 9\nmax_args = 10\nmin_length = 501\nmax_length = 1999";
    right(&text("encoder", CLASSES, arena, ""));
}

#[test]
fn keys_of_articles() {
    let wrong = |keys: &str, rule: &str| {
        let data = format!("{ARTICLES}\n{keys}");
        says(
            &text("encoder_decoder", "kind = \"translation\"", &data, BYTES),
            rule,
        );
    };
    wrong(
        "rankin = \"order\"",
        "[data] has no key `rankin`; did you mean `ranking`?",
    );
    wrong("ranking = \"tfidf\"", "did you mean `tf_idf`?");
    wrong(
        "max_source = 20\nmax_target = 30",
        "max_source = 20 must be at least max_target = 30; raise max_source or lower max_target",
    );
    wrong("max_target = 2", "max_target = 2 must be at least 3");
    wrong(
        "lead_ends = 1",
        "lead_ends = 1 must be between 2 (the heading of a section) and 6",
    );
    wrong(
        "valid_path = \"b.txt\"\nvalid_fraction = 0.1",
        "valid_fraction has no effect beside valid_path; remove one of them",
    );
    says(
        &text("encoder", CLASSES, ARTICLES, BYTES),
        "reads texts with a class, but [data] kind = \"articles\" provides pairs of texts",
    );
}

#[test]
fn keys_of_texts_with_a_class() {
    let wrong = |task: &str, data: &str, more: &str, rule: &str| {
        says(&text("encoder", task, data, more), rule);
    };
    let halves = |keys: &str| format!("{HALVES}\n{keys}");
    wrong(
        CLASSES,
        &halves("contxt = 64"),
        BYTES,
        "[data] has no key `contxt`; did you mean `context`?",
    );
    wrong(
        CLASSES,
        &halves("context = 5"),
        BYTES,
        "context = 5 is too short for two texts and their special tokens; the minimum is 6",
    );
    wrong(
        CLASSES,
        "kind = \"labelled_text\"\npath = \"a.tsv\"\njoin = true\npair = 3",
        BYTES,
        "join = true is for single texts; remove it or `pair`",
    );
    wrong(
        &format!("{CLASSES}\ntowers = true"),
        PATHS,
        "",
        "towers = true compares the two texts of an example, but examples of [data] kind = \"pathfinder\" have one",
    );
    wrong(
        "kind = \"distillation\"\nteacher = \"runs/x\"\nof = { kind = \"text_classification\", towers = true }",
        HALVES,
        BYTES,
        "cannot be learned from a teacher",
    );
}

#[test]
fn keys_of_images_that_are_texts() {
    let wrong = |data: &str, rule: &str| says(&text("encoder", CLASSES, data, ""), rule);
    let paths = |keys: &str| format!("{PATHS}\n{keys}");
    wrong(
        &paths("lenght = 4"),
        "[data] has no key `lenght`; did you mean `length`?",
    );
    wrong(&paths("size = 8"), "size = 8 must be between 16 and 256");
    wrong(
        &paths("length = 1"),
        "length = 1 must be between 2 and 64 dashes",
    );
    wrong(
        &paths("distractor_length = 6"),
        "distractor_length = 6 must be at least 1 and below length = 6",
    );
    wrong(
        &paths("distractors = 65"),
        "distractors = 65 must be at most 64",
    );
    let images = |keys: &str| format!("{IMAGES}\n{keys}");
    let size = "size = [8, 8]\nchannels = 1\n";
    wrong(
        &images("channels = 1"),
        "sequence = true needs `size` = [height, width]",
    );
    wrong(
        &images("size = [8, 8]"),
        "sequence = true reads one grey value for each pixel; set channels = 1",
    );
    wrong(
        &images(&format!("{size}mean = [0.5]\nstd = [0.5]")),
        "mean and std have no effect with sequence = true",
    );
    wrong(
        &images(&format!("{size}augment = {{ mixup = 0.2 }}")),
        "erase, mixup and cutmix work on normalised images",
    );
    says(
        &text("vision", "kind = \"image_classification\"", PATHS, ""),
        "reads images, but [data] kind = \"pathfinder\" provides texts with a class",
    );
}
