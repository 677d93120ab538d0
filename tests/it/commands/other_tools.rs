//! Options known from other tools: the error names the equivalent here.

/// Returns the message about an option, all on one line.
fn told(words: &[&str]) -> String {
    let words = [&["formwork"], words].concat();
    let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
    let told = formwork::cli::check_words(&words).unwrap_err();
    told.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn an_option_of_another_tool_is_answered_with_what_says_the_same() {
    for (words, wanted) in [
        (
            &["train", "x.toml", "--epochs", "3"][..],
            "formwork train has no --epochs; use --set train.epochs=3",
        ),
        (
            &["train", "x.toml", "--epochs=3"],
            "use --set train.epochs=3",
        ),
        (
            &["train", "x.toml", "--epochs"],
            "use --set train.epochs=VALUE",
        ),
        (
            &["train", "x.toml", "--lr", "3e-4"],
            "use --set optimizer.lr=3e-4",
        ),
        (
            &["resume", "run", "--learning-rate", "1e-4"],
            "use --set optimizer.lr=1e-4",
        ),
        (
            &["train", "x.toml", "--batch-size", "8"],
            "use --set train.batch_size=8",
        ),
        (
            &["train", "x.toml", "--per_device_train_batch_size", "8"],
            "use --set train.batch_size=8",
        ),
        (&["sweep", "x.toml", "--seed", "8"], "use --set seed=8"),
        (
            &["plan", "x.toml", "--device", "cuda:0"],
            "use --set train.device=cuda:0",
        ),
        (
            &["train", "x.toml", "--gpus", "1"],
            "use --device cuda:0, or --device flex for the CPU",
        ),
        (
            &["train", "x.toml", "--bf16"],
            "use --set train.dtype=mixed_bf16",
        ),
        (
            &["train", "--config", "x.toml"],
            "use the experiment file as an argument, without an option",
        ),
        (
            &["train", "x.toml", "--output-dir", "out/a"],
            "use --run out/a",
        ),
        (&["train", "x.toml", "--output", "out/a"], "use --run out/a"),
        (
            &["train", "x.toml", "--resume-from-checkpoint", "run"],
            "use formwork resume RUN to continue a run",
        ),
        (
            &["sweep", "x.toml", "--resume"],
            "use the same command again",
        ),
        (
            &["train", "x.toml", "--num-beams", "4"],
            "use --set decode.search.beam=4",
        ),
        (&["generate", "run", "--num-beams", "4"], "use --beam 4"),
        (&["translate", "run", "--num_beams", "4"], "use --beam 4"),
        (
            &["generate", "run", "--max-new-tokens", "40"],
            "use --tokens 40",
        ),
        (
            &["generate", "run", "--max-length", "40"],
            "use --tokens 40",
        ),
        (
            &["translate", "run", "--max-length", "40"],
            "use --set decode.search.max_len_b=40",
        ),
        (
            &["generate", "--model", "run"],
            "use the run's folder as an argument, without an option",
        ),
        (
            &["generate", "run", "--output", "x.txt"],
            "use > FILE, because results go to standard output",
        ),
    ] {
        let told = told(words);
        assert!(told.contains(wanted), "{words:?}: {told}");
        assert!(!told.contains("as a value"), "{words:?}: {told}");
    }
    // Options of no known tool get clap's own tips.
    let told = told(&["generate", "run", "--seeed", "2"]);
    assert!(
        told.contains("a similar argument exists: '--seed'"),
        "{told}"
    );
}
