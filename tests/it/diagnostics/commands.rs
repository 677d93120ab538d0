//! Wrong command lines, through the binary: exit status 2, exact words on standard error, nothing on standard output.

use super::RIGHT;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// Runs the binary in a folder that contains `x.toml`; returns exit status, standard output and standard error.
fn formwork(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_formwork"))
        .args(arguments)
        .current_dir(folder)
        .env_remove("FORMWORK_DATA")
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

fn folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("x.toml"), RIGHT).unwrap();
    folder
}

fn refused(folder: &TempDir, arguments: &[&str], says: &str) {
    let (status, out, err) = formwork(folder.path(), arguments);
    assert_eq!(
        (status, out.as_str(), err.trim_end()),
        (Some(2), "", says),
        "{arguments:?}"
    );
}

#[test]
fn wrong_arguments() {
    let folder = folder();
    for (arguments, says) in [
        (
            &["check", "y.toml"][..],
            "error: cannot read y.toml: no such file; did you mean x.toml?",
        ),
        (&["check", "."], "error: cannot read .: it is a folder"),
        (
            &["check", "no/such.toml"],
            "error: cannot read no/such.toml: no such file",
        ),
        (
            &["train", "y.toml"],
            "error: cannot read y.toml: no such file; did you mean x.toml?",
        ),
        (
            &["list", "position"],
            "error: there is no list `position`; did you mean `positions`?",
        ),
        (
            &["list", "colours"],
            "error: there is no list `colours`; allowed: `architectures`, `stems`, `positions`, `attention`, `norms`, `vocabularies`, `channel_norms`, `placements`, `residual_scales`, `sharing`, `feed_forward`, `cells`, `mixers`, `initial_weights`, `tasks`, `optimizers`, `schedules`, `tokenizers`, `data`, `presets`, `keys`, `devices`",
        ),
        (
            &["plan", "--preset", "gpt-2"],
            "error: --preset gpt-2: there is no preset `gpt-2`; did you mean `gpt2`?",
        ),
        (
            &["check", "x.toml", "--set", "train.step=5"],
            "error: --set train.step=5: [train] has no key `step`; did you mean `steps`?",
        ),
        (
            &["check", "x.toml", "--set", "train.steps"],
            "error: --set train.steps: no value; write --set KEY=VALUE",
        ),
        (
            &["check", "x.toml", "--set", "data.path=zzzz.txt"],
            "error: --set data.path=zzzz.txt: [data] no file or folder `zzzz.txt`; looked in ., datasets/data, datasets",
        ),
    ] {
        refused(&folder, arguments, says);
    }
}

#[test]
fn flags_beyond_all_bounds() {
    let folder = folder();
    for (arguments, says) in [
        (
            &[
                "generate",
                "run",
                "--prompt",
                "a",
                "--samples",
                "18446744073709551615",
            ][..],
            "error: --samples 18446744073709551615 is more than 4096, the maximum at a time; generate more with another --seed",
        ),
        (
            &["translate", "run", "--beam", "5000"],
            "error: --beam 5000 is not between 1 and 4096",
        ),
        (
            &["translate", "run", "--beam", "0"],
            "error: --beam 0 is not between 1 and 4096",
        ),
        (
            &["translate", "run", "--n-best", "4097"],
            "error: --n-best 4097 is not between 1 and 4096",
        ),
        (
            &["translate", "run", "--beam", "4", "--n-best", "5"],
            "error: --n-best 5 must be between 1 and --beam 4; increase --beam, or remove it",
        ),
        (
            &["translate", "run", "--set", "data.path=x"],
            "error: --set data.path=x: the run is already trained; only keys that begin with `decode.` can be set",
        ),
        (
            &["caption", "run", "images", "--beam", "1", "--n-best", "2"],
            "error: --n-best 2 must be between 1 and --beam 1; increase --beam, or remove it",
        ),
        (
            &["transcribe", "run", "a.wav", "--beam", "1", "--n-best", "2"],
            "error: --n-best 2 must be between 1 and --beam 1; increase --beam, or remove it",
        ),
        (
            &["eval", "run", "--beam", "18446744073709551615"],
            "error: --beam 18446744073709551615 is not between 1 and 4096",
        ),
        (
            &[
                "bench",
                "attention",
                "--context",
                "1048576",
                "--heads",
                "1048576",
            ],
            "error: --batch 1 x --heads 1048576 x --context 1048576 x --head-width 64 make 70368744177664 numbers, more than the \
             limit of 268435456; reduce one of them",
        ),
        (
            &["bench", "attention", "--rounds", "18446744073709551615"],
            "error: --rounds 18446744073709551615 is not between 1 and 1048576",
        ),
    ] {
        refused(&folder, arguments, says);
    }
}

#[test]
fn unknown_commands_and_flags() {
    let folder = folder();
    for (arguments, says) in [
        (&["chekc", "x.toml"][..], "unrecognized subcommand 'chekc'"),
        (
            &["check"],
            "the following required arguments were not provided",
        ),
        (
            &["check", "x.toml", "--sett", "a=b"],
            "unexpected argument '--sett' found",
        ),
        (
            &["check", "x.toml", "y.toml"],
            "unexpected argument 'y.toml' found",
        ),
        (
            &["generate", "run", "--prompt", "a", "--tokens", "-3"],
            "invalid value '-3' for '--tokens <TOKENS>': it must be a whole number, 0 or more",
        ),
        (
            &["eval", "run", "--context", "abc"],
            "invalid value 'abc' for '--context <N>': it must be a whole number",
        ),
        (
            &["eval", "run", "--context", "-3"],
            "invalid value '-3' for '--context <N>': -3 is not in 1..",
        ),
    ] {
        let (status, out, err) = formwork(folder.path(), arguments);
        assert_eq!((status, out.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(err.contains(says), "{err}");
    }
}

#[test]
fn a_folder_of_data_that_is_not_there_is_told() {
    let folder = folder();
    let output = Command::new(env!("CARGO_BIN_EXE_formwork"))
        .args(["list", "norms"])
        .current_dir(folder.path())
        .env("FORMWORK_DATA", "no/such")
        .output()
        .unwrap();
    assert!(output.status.success());
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(
        told.contains("names no/such, which is not a folder"),
        "{told}"
    );
}

#[test]
fn tables_and_keys_are_named_once() {
    let folder = folder();
    let (status, _, told) = formwork(folder.path(), &["list", "keys", "foo"]);
    assert_eq!(status, Some(2));
    let listed: Vec<&str> = told.split('`').skip(1).step_by(2).collect();
    let once: std::collections::BTreeSet<&str> = listed.iter().copied().collect();
    assert_eq!(listed.len(), once.len(), "{told}");
}

#[test]
fn bytes_that_are_no_text() {
    let folder = folder();
    std::fs::write(folder.path().join("x.toml"), b"name = \"x\"\nseed = \xff\n").unwrap();
    refused(
        &folder,
        &["check", "x.toml"],
        "error: cannot read x.toml: line 2 is not UTF-8 text",
    );
}

#[test]
fn files_that_extend_each_other() {
    let folder = folder();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    std::fs::create_dir(folder.path().join("base")).unwrap();
    write("a.toml", "extends = \"b.toml\"\n");
    write("b.toml", "# circle\nextends = \"a.toml\"\n");
    refused(
        &folder,
        &["check", "a.toml"],
        "error: b.toml:2: extends = \"a.toml\" leads back to this file",
    );
    write("c.toml", "name = \"c\"\nextends = \"base/c.toml\"\n");
    refused(
        &folder,
        &["check", "c.toml"],
        "error: c.toml:2: extends: cannot read base/c.toml: no such file",
    );
    write("d.toml", "extends = \"\"\n");
    refused(
        &folder,
        &["check", "d.toml"],
        "error: d.toml:1: extends = \"\" must be the path of a file",
    );
    write("d.toml", "extends = 3\n");
    refused(
        &folder,
        &["check", "d.toml"],
        "error: d.toml:1: extends = 3 must be the path of a file",
    );
    write(
        "base/e.toml",
        "extends = \"../x.toml\"\n[train]\nstep = 3\n",
    );
    write(
        "e.toml",
        "extends = \"base/e.toml\"\n[model]\nn_layers = 2\n",
    );
    let says = "error: base/e.toml:3: [train] has no key `step`; did you mean `steps`?";
    refused(&folder, &["check", "e.toml"], says);
}
