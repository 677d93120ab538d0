//! `check` refuses what `train` and `sweep` would refuse, in the same words: everything that is known before the first step.

use crate::binary::{failure, output, shipped};
use std::fs;
use std::path::Path;

const MODEL: &str = "[model]\nkind = \"encoder\"\nd_model = 8\nn_layers = 1\nattention = { kind = \"multi_head\", n_heads = 1 }\n";
const DECODER: &str = "[model]\nkind = \"decoder\"\nd_model = 8\nn_layers = 1\nattention = { kind = \"multi_head\", n_heads = 1 }\n";
const TRAIN: &str = "[train]\nsteps = 2\nbatch_size = 2\n";
const ADAMW: &str = "[optimizer]\nkind = \"adamw\"\nlr = 1e-3\n";

fn errors(said: &str) -> Vec<&str> {
    said.lines()
        .filter(|line| line.starts_with("error: "))
        .collect()
}

/// Checks that both commands refuse the file alike with these words, and returns the message.
fn refused(folder: &Path, command: &str, text: &str, says: &str) -> String {
    let (file, run) = (folder.join("x.toml"), folder.join("run"));
    fs::write(&file, text).unwrap();
    let (file, run) = (file.display().to_string(), run.display().to_string());
    let mut arguments = vec![command, &file, "--run", &run];
    if command == "train" {
        arguments.push("--quiet");
    }
    let (status, told) = failure(&arguments);
    assert_eq!(status, 2, "{says}: {told}");
    let (status, checked) = failure(&["check", &file]);
    assert_eq!(status, 2, "{says}: {checked}");
    assert_eq!(errors(&checked), errors(&told), "{says}");
    assert!(checked.contains(says), "{says}: {checked}");
    checked
}

fn labelled(table: &str) -> String {
    format!(
        "name = \"x\"\n{MODEL}[data]\nkind = \"labelled_text\"\ncontext = 16\n{table}\n[tokenizer]\nkind = \"char\"\n\
         [task]\nkind = \"text_classification\"\n{ADAMW}{TRAIN}"
    )
}

#[test]
fn tables_that_training_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let rows = "a good film\tyes\na bad film\tno\n".repeat(20);
    write("rows.dat", &rows);
    write("rows.tsv", &rows);
    write(
        "named.csv",
        &format!("text,class\n{}", rows.replace('\t', ",")),
    );
    write("one.tsv", &"a film\tyes\n".repeat(30));
    write("other.tsv", "a film\tmaybe\na film\tno\n");
    write("short.tsv", "only a text\n");
    write(
        "rows.jsonl",
        &"{\"text\": \"a\", \"class\": 1}\n{\"text\": \"b\", \"class\": 0}\n".repeat(20),
    );
    write(
        "bad.jsonl",
        &"{\"text\": \"a\", \"label\": 1}\n{\"text\": \n".repeat(20),
    );
    write(
        "twice.jsonl",
        &"{\"text\": \"a\", \"label\": 1}\n{\"text\": \"b\", \"label\": 0, \"label\": 1}\n"
            .repeat(20),
    );
    let array = "[{\"text\": \"a\", \"label\": 1}, {\"text\": \"b\", \"label\": 0}]\n";
    write("rows.json", array);
    write("array.jsonl", array);
    write("latin.tsv", "x");
    fs::write(folder.path().join("latin.tsv"), b"a \xff film\tyes\n").unwrap();
    for (table, says) in [
        ("path = \"rows.dat\"", "is unknown; set format"),
        (
            "path = \"named.csv\"\nheader = true\ntext = 1\nlabel = \"label\"",
            "no column `label`",
        ),
        (
            "path = \"one.tsv\"",
            "`yes` is the only label of the training rows",
        ),
        (
            "path = \"rows.tsv\"\nvalid_path = \"other.tsv\"",
            "unknown label `maybe`",
        ),
        ("path = \"short.tsv\"", "no column 2"),
        ("path = \"rows.jsonl\"", "no field `label`"),
        ("path = \"bad.jsonl\"", "not JSON"),
        (
            "path = \"twice.jsonl\"",
            "twice.jsonl:2: the object has the key `label` twice",
        ),
        (
            "path = \"rows.json\"\ntext = \"text\"",
            "JSON is read as lines, one object per line (.jsonl)",
        ),
        (
            "path = \"array.jsonl\"",
            "array.jsonl:1: a JSON array, but JSON lines have one object per line",
        ),
        ("path = \"latin.tsv\"", "is not UTF-8"),
        (
            "path = \"rows.tsv\"\ntext = 2\nlabel = 1\ntrain_items = 4000",
            "train_items",
        ),
    ] {
        refused(folder.path(), "train", &labelled(table), says);
    }
}

fn text(data: &str, more: &str) -> String {
    let train = match more.contains("[train]") {
        true => "",
        false => TRAIN,
    };
    format!(
        "name = \"x\"\n{DECODER}[data]\nkind = \"text\"\npath = \"text.txt\"\n{data}\n[task]\nkind = \"causal_lm\"\n{more}\n{train}"
    )
}

#[test]
fn texts_models_and_optimizers_that_training_refuses() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("text.txt"),
        "the cat sits on the mat\n".repeat(10),
    )
    .unwrap();
    let chars = format!("[tokenizer]\nkind = \"char\"\n{ADAMW}");
    let group = format!(
        "[tokenizer]\nkind = \"char\"\n{ADAMW}groups = [{{ match = \"nothing\", lr_scale = 0.1 }}]\n"
    );
    let frozen = format!("{chars}[init]\nfreeze = [\"nothing\"]\n");
    let sample = format!("{chars}{TRAIN}eval_every = 1\nsample = {{ prompt = \"QUIZ\" }}\n");
    let unigram = format!("[tokenizer]\nkind = \"unigram\"\nvocab_size = 5\n{ADAMW}");
    let unnamed = format!("[tokenizer]\nkind = \"byte\"\nspecial_tokens = [\"a\", \"\"]\n{ADAMW}");
    let carried = format!("{chars}{TRAIN}carry_state = true\n");
    // Each fault is reported at the line that begins with `line`.
    for (data, more, says, line) in [
        ("context = 4000", &chars, "needs at least 4001", "context"),
        (
            "context = 8\nvalid_fraction = 0.001",
            &chars,
            "token(s), and context",
            "context",
        ),
        (
            "context = 8",
            &unigram,
            "vocab_size = 5 is too small",
            "vocab_size",
        ),
        (
            "context = 8",
            &unnamed,
            "special_tokens contains an empty name",
            "special_tokens",
        ),
        ("context = 8", &group, "matches no parameter", "groups"),
        ("context = 8", &frozen, "nothing", "freeze"),
        (
            "context = 8",
            &sample,
            "[train] sample.prompt = \"QUIZ\" cannot be continued",
            "sample",
        ),
        (
            "context = 8\nwindows = \"contiguous\"",
            &carried,
            "carry_state = true has no effect",
            "carry_state",
        ),
        (
            "context = 8\nvalid_path = \"text.txt\"\nwindows = \"documents\"",
            &chars,
            "needs a token between documents",
            "windows",
        ),
    ] {
        let text = text(data, more);
        let at = text.lines().position(|l| l.starts_with(line)).unwrap();
        let told = refused(folder.path(), "train", &text, says);
        assert!(told.contains(&format!("x.toml:{}: ", at + 1)), "{told}");
    }
    // Weights of another run that do not fit.
    let run = folder.path().join("wide").display().to_string();
    let tiny = shipped("experiments/smoke/tiny.toml").display().to_string();
    output(&[
        "train",
        &tiny,
        "--quiet",
        "--run",
        &run,
        "--set",
        "train.steps=1",
        "--set",
        "schedule.warmup_steps=0",
    ]);
    let from = format!("{chars}[init]\nfrom = {run:?}\n");
    refused(
        folder.path(),
        "train",
        &text("context = 8", &from),
        "error: ",
    );
    let from = format!("{chars}[init]\nfrom = \"nowhere\"\n");
    refused(
        folder.path(),
        "train",
        &text("context = 8", &from),
        "nowhere",
    );
}

#[test]
fn sweeps_that_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("text.txt"),
        "the cat sits on the mat\n".repeat(10),
    )
    .unwrap();
    let base = text(
        "context = 8",
        &format!("[tokenizer]\nkind = \"char\"\n{ADAMW}"),
    );
    for (ablation, says) in [
        (
            "baseline = \"norm_placement=past\"\naxes = { \"model.norm_placement\" = [\"pre\", \"post\"] }",
            "is not an arm; did you mean",
        ),
        (
            "axes = { \"model.norm_placement\" = [\"pre\", \"past\"] }",
            "arm `norm_placement=past`",
        ),
        (
            "axes = { \"data.context\" = [8, 4000] }",
            "[ablation] arm `context=4000`",
        ),
        (
            "axes = { \"model.n_layers\" = [1, 2] }\nbudget = { steps = 0 }",
            "budget.steps must be above 0",
        ),
        (
            "axes = { \"model.n_layers\" = [1, 2] }\nbudget = { items = 1 }",
            "arm `n_layers=1`",
        ),
    ] {
        refused(
            folder.path(),
            "sweep",
            &format!("{base}[ablation]\n{ablation}\n"),
            says,
        );
    }
    // Faults that only the run of a later arm would meet are also known before the first arm.
    let axes = "axes = { \"optimizer.groups\" = [[], [{ match = \"nothing\", lr_scale = 0.1 }]] }";
    let file = folder.path().join("x.toml");
    fs::write(&file, format!("{base}[ablation]\n{axes}\n")).unwrap();
    let (status, said) = failure(&["check", &file.display().to_string()]);
    assert_eq!(status, 2, "{said}");
    assert!(
        said.contains("[ablation] arm `") && said.contains("matches no parameter"),
        "{said}"
    );
    let shown = file.display().to_string();
    let keys_only = ["check", &shown, "--keys-only"];
    output(&keys_only);
    let axes = "axes = { \"model.norm_placement\" = [\"pre\", \"past\"] }";
    fs::write(&file, format!("{base}[ablation]\n{axes}\n")).unwrap();
    let (status, said) = failure(&keys_only);
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("arm `norm_placement=past`"), "{said}");
}

/// Numbers that would fail only in the optimizer or at the first evaluation.
#[test]
fn what_would_stop_a_run_on_its_way() {
    let dates = "experiments/translation/dates.toml";
    for (set, says) in [
        (
            "decode.search.first=100000",
            "first = 100000 is not a token id",
        ),
        (
            "optimizer={ kind = \"adafactor\", weight_decay = 1e300 }",
            "weight_decay = ",
        ),
        (
            "optimizer={ kind = \"adafactor\", decay_rate = -1e300 }",
            "is not a negative number",
        ),
    ] {
        let (status, said) = failure(&["check", dates, "--set", set]);
        assert_eq!(status, 2, "{said}");
        assert!(said.contains(says) && !said.contains("panicked"), "{said}");
    }
    for (file, set, says) in [
        (
            "smoke/tiny.toml",
            "decode.beam_search={beam = 2, n_best = 3}",
            "n_best = 3 must be between 1 and beam = 2",
        ),
        (
            "smoke/tiny.toml",
            "decode.beam_search.width=3",
            "[decode.beam_search] has no key `width`",
        ),
        (
            "translation/dates.toml",
            "decode.beam_search.beam=3",
            "beam_search has no effect: it applies to texts that are continued",
        ),
    ] {
        let (status, said) = failure(&["check", &format!("experiments/{file}"), "--set", set]);
        assert!(status == 2 && said.contains(says), "{set}: {said}");
    }
    let ends = "decode.sampling.end=[0, 100000]";
    let (status, said) = failure(&["check", "experiments/smoke/tiny.toml", "--set", ends]);
    assert_eq!(status, 2, "{said}");
    assert!(
        said.contains("[decode.sampling] end = 100000 is not a token id: the vocabulary has "),
        "{said}"
    );
}

/// Neither command writes its results over its input.
#[test]
fn results_go_into_another_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lines.txt");
    fs::write(&file, "a line\n").unwrap();
    let file = file.display().to_string();
    for flags in [
        ["translate", "--input", "--output"],
        ["infer", "--inputs", "--outputs"],
    ] {
        let [command, input, output] = flags;
        let (status, said) = failure(&[command, "none", input, &file, output, &file]);
        assert_eq!(status, 2, "{said}");
        assert!(said.contains("choose another output file"), "{said}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "a line\n");
}
