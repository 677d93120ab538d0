//! Image runs that begin from other runs, distill them, and describe their use.

use crate::binary::{failure, formwork, output, shown};
use formwork::train::run_manifest;
use std::path::Path;
use std::process::Output;

/// Writes an experiment on eight grey pictures of 8 by 8 in two classes, with these lines in its tables.
fn file(folder: &Path, name: &str, [model, data, rest]: [&str; 3]) -> String {
    let pictures = folder.join("pictures");
    for n in 0..8_u32 {
        let class = pictures.join(["dark", "light"][n as usize % 2]);
        std::fs::create_dir_all(&class).unwrap();
        let point = |x: u32, y: u32| image::Luma([(n * 30 + x * y) as u8]);
        let picture = image::GrayImage::from_fn(8, 8, point);
        picture.save(class.join(format!("{n}.png"))).unwrap();
    }
    let text = format!(
        "name = {name:?}\n[model]\nn_layers = 1\nd_model = 8\nattention = {{ kind = \"multi_head\", n_heads = 2 }}\n{model}\n\
         [data]\nkind = \"images\"\npath = {pictures:?}\nvalid_fraction = 0.25\n{data}\n[optimizer]\nkind = \"adamw\"\n\
         lr = 1e-3\n[train]\nsteps = 2\nbatch_size = 4\n{rest}\n"
    );
    let path = folder.join(format!("{name}.toml"));
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

const VISION: &str = "kind = \"vision\"\nstem = { kind = \"patches\", size = 2 }";
const CLASSES: &str = "[task]\nkind = \"image_classification\"";

/// Trains an experiment into the folder of its name; returns the folder and the output.
fn trained(folder: &Path, file: &str, sets: &[&str]) -> (String, Output) {
    let name = Path::new(file).file_stem().unwrap();
    let run = folder.join(name).display().to_string();
    let mut arguments = vec!["train", file, "--run", &run];
    arguments.extend(sets.iter().flat_map(|set| ["--set", set]));
    let output = formwork(&arguments).output().unwrap();
    (run, output)
}

fn good(folder: &Path, file: &str, sets: &[&str]) -> (String, String) {
    let (run, output) = trained(folder, file, sets);
    assert!(output.status.success(), "{}", shown(&output));
    (run, shown(&output))
}

#[test]
fn positions_on_a_grid_begin_from_those_of_smaller_images() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for kind in ["learned", "learned_2d", "relative_bias_2d"] {
        let model = format!("{VISION}\nposition = {{ kind = {kind:?} }}");
        let small = file(at, kind, [&model, "size = [8, 8]\nchannels = 1", CLASSES]);
        let (run, _) = good(at, &small, &[]);
        let rest = format!("{CLASSES}\n[init]\nfrom = {run:?}");
        let tall = format!("{kind}-tall");
        let tall = file(at, &tall, [&model, "size = [16, 8]\nchannels = 1", &rest]);
        let (_, refused) = trained(at, &tall, &[]);
        let said = shown(&refused);
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(
            said.contains("resample = [\"position\"] interpolates them"),
            "{said}"
        );
        let (_, said) = good(at, &tall, &["init.resample=[\"position\"]"]);
        assert!(
            said.contains("with another length: model.position."),
            "{said}"
        );
        assert!(!said.contains("class_token [1, 8] →"), "{said}");
    }
}

#[test]
fn a_teacher_of_other_pixels_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let data = |mean: f64| format!("size = [8, 8]\nchannels = 1\nmean = [{mean:?}]\nstd = [0.25]");
    let (teacher, _) = good(at, &file(at, "teacher", [VISION, &data(0.0), CLASSES]), &[]);
    let task = format!(
        "[task]\nkind = \"distillation\"\nteacher = {teacher:?}\nof = {{ kind = \"image_classification\" }}"
    );
    let (_, said) = good(at, &file(at, "other", [VISION, &data(0.5), &task]), &[]);
    let wanted = "was trained on images with mean [0.0] and std [0.25] (here [0.5] and [0.25]; images are converted for it)";
    assert!(said.contains(wanted), "{said}");
    let (_, said) = good(at, &file(at, "same", [VISION, &data(0.0), &task]), &[]);
    assert!(!said.contains("was trained on images"), "{said}");
    let larger = data(0.0).replace("[8, 8]", "[16, 16]");
    let (_, refused) = trained(at, &file(at, "larger", [VISION, &larger, &task]), &[]);
    let said = shown(&refused);
    assert!(
        said.contains("reads images of 1 × 8 × 8 (channels, height, width)"),
        "{said}"
    );
    assert!(
        said.contains("set data.channels = 1 and data.size = [8, 8]"),
        "{said}"
    );
}

#[test]
fn runs_say_what_they_read() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let sequence = "size = [8, 8]\nchannels = 1\nsequence = true";
    let model = "kind = \"encoder\"\nposition = { kind = \"learned\" }";
    let texts = "[task]\nkind = \"text_classification\"";
    let (run, said) = good(at, &file(at, "sequences", [model, sequence, texts]), &[]);
    assert!(
        said.contains(&format!("formwork classify {run} FILE.png")),
        "{said}"
    );
    let (status, said) = failure(&["classify", &run, "--text", "a"]);
    assert_eq!(status, 2, "{said}");
    assert!(
        said.contains("reads images as sequences of grey values, not texts"),
        "{said}"
    );
    let (run, _) = good(
        at,
        &file(at, "images", [VISION, "channels = 1", CLASSES]),
        &[],
    );
    let (status, said) = failure(&["generate", &run, "--prompt", "a"]);
    assert_eq!(status, 2, "{said}");
    let wanted = format!(
        "reads images and does not continue text; use it with: formwork classify {run} FILE.png"
    );
    assert!(said.contains(&wanted), "{said}");
}

#[test]
fn errors_stand_at_their_lines() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let model = VISION.replace("size = 2", "size = 5");
    let uncut = file(at, "uncut", [&model, "channels = 1", CLASSES]);
    let (_, said) = failure(&["plan", &uncut, "--no-probe"]);
    assert!(
        said.contains(&format!("{uncut}:7: [model.stem] size = 5 does not divide")),
        "{said}"
    );
    // A file name is not mistaken for a key.
    let mixed = file(
        at,
        "mixed",
        [VISION, "channels = 1\nsize = [8, 8]", CLASSES],
    );
    std::fs::write(at.join("pictures/dark/size channels.bmp"), b"BM").unwrap();
    let (_, said) = failure(&["check", &mixed]);
    assert!(
        said.contains(&format!("{mixed}:10: [data] path = ")),
        "{said}"
    );
    let std = file(
        at,
        "std",
        [VISION, "channels = 1\nmean = [0.5]\nstd = [2.5]", CLASSES],
    );
    let (_, said) = failure(&["check", &std]);
    assert!(
        said.contains(&format!(
            "{std}:14: [data] std = [2.5] must be between 1e-6 and 1"
        )),
        "{said}"
    );
    let typed = format!("data.path={:?}", at.join("picturse"));
    let (_, said) = failure(&["check", &std, "--set", "data.std=[0.5]", "--set", &typed]);
    assert!(
        said.contains("did you mean `") && said.contains("pictures`?"),
        "{said}"
    );
}

/// The size of pictures is known once they are read, after the experiment was checked.
#[test]
fn tables_of_positions_are_held_against_pictures() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for (kind, size, said_of) in [
        (
            "learned",
            "max_len = 10",
            "max_len = 10 has rows for 10 positions",
        ),
        (
            "axial",
            "axial_shape = [2, 5]",
            "axial_shape = [2, 5] has 10 positions, fewer than the 17 positions",
        ),
    ] {
        let model = format!("{VISION}\nposition = {{ kind = {kind:?}, {size} }}");
        let short = file(at, kind, [&model, "channels = 1", CLASSES]);
        let (_, refused) = trained(at, &short, &[]);
        let said = shown(&refused);
        assert_eq!(refused.status.code(), Some(2), "{said}");
        let wanted = format!("[model.position] {said_of}");
        assert!(said.contains(&wanted), "{said}");
        let (_, said) = failure(&["plan", &short, "--no-probe"]);
        assert!(said.contains(&format!("{short}:8: {wanted}")), "{said}");
    }
    // Registers have no position rows.
    let model =
        format!("{VISION}\nn_registers = 3\nposition = {{ kind = \"learned\", max_len = 17 }}");
    let right = file(at, "right", [&model, "channels = 1", CLASSES]);
    good(at, &right, &[]);
}

/// If the tokens before the patches differ, the rows of a position table that is long enough for both models belong to other
/// patches.
#[test]
fn other_tokens_before_patches_move_positions() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let model = format!("{VISION}\nposition = {{ kind = \"learned\", max_len = 17 }}");
    let class = file(at, "class", [&model, "channels = 1", CLASSES]);
    let (run, _) = good(at, &class, &[]);
    let rest = format!("{CLASSES}\n[init]\nfrom = {run:?}\nskip = [\"class_token\"]");
    let mean = file(at, "mean", [&model, "channels = 1", &rest]);
    let (_, refused) = trained(at, &mean, &["model.pooling=mean"]);
    let said = shown(&refused);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(
        said.contains("different tokens before the patches"),
        "{said}"
    );
    assert!(!said.contains("max_len ="), "{said}");
    let rest = format!("{CLASSES}\n[init]\nfrom = {run:?}\nnew = [\"head\"]");
    let both = file(at, "both", [&model, "channels = 1", &rest]);
    let antialiased = ["check", &both, "--set", "init.resample_antialias=true"];
    let (_, said) = failure(&antialiased);
    assert!(said.contains("no effect without resample"), "{said}");
    good(at, &both, &["model.pooling=class_and_mean"]);
}

/// A head for other classes is taken over if their number is the same, and the message says so.
#[test]
fn a_head_of_other_classes_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let first = file(at, "first", [VISION, "channels = 1", CLASSES]);
    let (run, _) = good(at, &first, &[]);
    let rest = format!("{CLASSES}\n[init]\nfrom = {run:?}");
    let [second, third, fourth, fifth] = ["second", "third", "fourth", "fifth"]
        .map(|name| file(at, name, [VISION, "channels = 1", &rest]));
    let (_, said) = good(at, &second, &[]);
    assert!(!said.contains("a head of other classes"), "{said}");
    for (class, other) in [("dark", "dim"), ("light", "loud")] {
        let folder = at.join("pictures");
        std::fs::rename(folder.join(class), folder.join(other)).unwrap();
    }
    let (_, said) = good(at, &third, &[]);
    let wanted = "a head of other classes: 0 is \"dark\" (\"dim\" here), and 1 more";
    assert!(said.contains(wanted), "{said}");
    let (_, said) = good(at, &fourth, &["init.new=[\"head\"]"]);
    assert!(!said.contains("a head of other classes"), "{said}");
    // A parameter that `init.skip` leaves out is initialised again.
    let (_, said) = good(at, &fifth, &["init.skip=[\"head.bias\"]"]);
    assert!(
        said.contains("; new: head.bias; skipped: head.bias"),
        "{said}"
    );
}

/// Image embeddings are compared, however wide the patches' hidden states are.
#[test]
fn a_teacher_is_as_wide_as_what_stands_for_an_image() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let (teacher, _) = good(
        at,
        &file(at, "teacher", [VISION, "channels = 1", CLASSES]),
        &["model.d_model=16"],
    );
    let task = format!(
        "[task]\nkind = \"distillation\"\nteacher = {teacher:?}\nof = {{ kind = \"image_classification\" }}"
    );
    let student = file(at, "student", [VISION, "channels = 1", &task]);
    good(at, &student, &["model.pooling=class_and_mean"]);
    let wide = file(at, "wide", [VISION, "channels = 1", &task]);
    let sets = ["model.pooling=class_and_mean", "model.d_model=16"];
    let (_, refused) = trained(at, &wide, &sets);
    let said = shown(&refused);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    let wanted = "which are 32 wide here and 16 wide in the teacher: set cosine = 0.0, or choose model.d_model and model.pooling \
                  so that the width is 16";
    assert!(said.contains(wanted), "{said}");
}

/// The split tables beside pictures are never read: `check`, `train` and `resume` all ignore them.
#[test]
fn tables_beside_pictures_are_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let plain = file(at, "plain", [VISION, "channels = 1", CLASSES]);
    for name in ["train.csv", "test.csv"] {
        std::fs::write(at.join("pictures").join(name), "file,label\n").unwrap();
    }
    output(&["check", &plain]);
    let (run, _) = good(at, &plain, &[]);
    output(&["resume", &run, "--quiet", "--set", "train.steps=3"]);
}

/// A run of an earlier version may contain keys that are refused in a new run.
#[test]
fn runs_with_idle_keys_are_used_and_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let data = "channels = 1\nsize = [8, 8]\nmean = [0.25]\nstd = [0.75]\naugment = { crop = 1, jitter = { contrast = 0.1 } }";
    let usual = file(at, "usual", [VISION, data, CLASSES]);
    let (run, _) = good(at, &usual, &[]);
    let resolved = Path::new(&run).join("resolved.toml");
    let mut text = std::fs::read_to_string(&resolved).unwrap();
    for (usual, odd) in [
        ("mean = [0.25]", "mean = [-1.25]"),
        ("std = [0.75]", "std = [1.75]"),
        ("crop = 1\n", "crop = 9\n"),
        ("saturation = 0.0", "saturation = 0.4"),
    ] {
        assert_eq!(text.matches(usual).count(), 1, "{usual}: {text}");
        text = text.replace(usual, odd);
    }
    std::fs::write(&resolved, &text).unwrap();
    run_manifest::seal(Path::new(&run)).unwrap();
    output(&["eval", &run, "--json"]);
    output(&["resume", &run, "--quiet", "--set", "train.steps=4"]);
    let again = resolved.display().to_string();
    let (_, refused) = trained(at, &again, &[]);
    let said = shown(&refused);
    for fault in [
        "mean = [-1.25] must be between -1 and 1",
        "std = [1.75] must be between 1e-6 and 1",
        "crop = 9 must be at most 8",
        "saturation = 0.4 has no effect",
    ] {
        assert!(said.contains(fault), "{said}");
    }
}
