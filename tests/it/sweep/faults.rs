//! Faults of an `[ablation]`: the message gives the place and the allowed values, and nothing is written.

use super::Place;
use std::fs;
use std::io::{BufRead, BufReader};

/// Returns the message with which a sweep is refused, without its folder's name.
fn refusal(ablation: &str) -> String {
    let place = Place::new();
    let file = place.file("wrong", ablation);
    let output = place.sweep(&file, "wrong", &[]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(!place.path("wrong").exists());
    let told = String::from_utf8(output.stderr).unwrap();
    told.replace(&format!("{}/", place.0.path().display()), "")
}

#[test]
fn faults_name_the_line_and_the_remedy() {
    let axis = "[ablation.axes]\n\"model.n_layers\" = [1]\n";
    let cases = [
        (
            format!("seedz = 3\n{axis}"),
            "wrong.toml:6: [ablation] has no key `seedz`; did you mean `seeds`?",
        ),
        (
            format!("seeds = 0\n{axis}"),
            "wrong.toml:6: [ablation] seeds = 0 is not between 1 and 10000",
        ),
        (
            "seeds = 2\n".into(),
            "wrong.toml:5: [ablation] varies nothing; add axes, arms or random",
        ),
        (
            format!("baseline = \"n_layers=2\"\n{axis}"),
            "wrong.toml:6: [ablation] baseline = \"n_layers=2\" is not an arm; did you mean `n_layers=1`?",
        ),
        (
            format!("match = \"flop\"\n{axis}"),
            "wrong.toml:6: [ablation] match = \"flop\" is not known; did you mean `flops`?",
        ),
        (
            format!("match = \"flops\"\nbudget = {{ steps = 3 }}\n{axis}"),
            "match and budget both set how long arms train; remove one of them",
        ),
        (
            format!("budget = {{ steps = 3, flops = 1e9 }}\n{axis}"),
            "budget needs exactly one of steps, items, flops and minutes",
        ),
        (
            "[[ablation.arms]]\nname = \"a\"\n[[ablation.arms]]\nset = { \"model.n_layers\" = 1 }\n".into(),
            "wrong.toml:8: [[ablation.arms]] 2 needs the key `name`",
        ),
        (
            "[ablation.axes]\n\"model.norm_placment\" = [\"pre\"]\n".into(),
            "wrong.toml:7: [ablation] arm `norm_placment=pre`: [model] has no key `norm_placment`; did you mean `norm_placement`?",
        ),
        (
            "[ablation.axes]\n\"model.n_layerz\" = [1, 2, 3]\n".into(),
            "wrong.toml:7: [ablation] arm `n_layerz=1` and 2 others: [model] has no key `n_layerz`; did you mean `n_layers`?",
        ),
        (
            "[ablation.axes]\n\"model.norm_placement\" = [\"pre\", \"past\"]\n".into(),
            "wrong.toml:7: [ablation] arm `norm_placement=past`: [model] norm_placement = \"past\" is not known",
        ),
        (
            "[[ablation.arms]]\nname = \"a\"\n[[ablation.arms]]\nname = \"b\"\n[ablation.arms.set]\n\"model.n_layers\" = 2\n\
             \"model.d_modle\" = 8\n[ablation.axes]\n\"optimizer.lr\" = [1]\n"
                .into(),
            "wrong.toml:12: [ablation] arm `b, lr=1`: [model] has no key `d_modle`; did you mean `d_model`?",
        ),
        (
            "[ablation.random]\nsamples = 1\n[ablation.random.ranges]\n\"optimizer.lr\" = { kind = \"choice\", values = [1e-3] }\n\
             \"model.dropuot\" = { kind = \"uniform\", min = 0.1, max = 0.2 }\n"
                .into(),
            "wrong.toml:10: [ablation] arm `draw 1`: [model] has no key `dropuot`; did you mean `dropout`?",
        ),
        (
            "[ablation.axes]\n\"model.n_layers\" = [1]\nseed = [1, 2]\n".into(),
            "wrong.toml:8: [ablation] `seed` cannot be an axis: `seeds` sets how many seeds each arm gets",
        ),
        (
            "[ablation.axes]\n\"model.n_layers\" = [1]\n\"ablation.seeds\" = [1, 2]\n".into(),
            "wrong.toml:8: [ablation] `ablation.seeds` cannot be an axis: [ablation] belongs to the whole sweep, not to an arm",
        ),
        (
            "[ablation.axes]\n\"model.n_layers\" = [1]\n\"model.dropout\" = [0.1, 0.1]\n".into(),
            "wrong.toml:8: [ablation] axes.model.dropout contains a value twice",
        ),
        (
            "[ablation.random]\nsamples = 1\n[ablation.random.ranges]\n\"optimizer.lr\" = { kind = \"choice\", values = [1e-3] }\n\
             \"model.dropout\" = { kind = \"uniform\", min = 0.2, max = 0.1 }\n"
                .into(),
            "wrong.toml:10: [ablation.random] ranges.model.dropout: min must be below max",
        ),
        (
            "[ablation.axes]\nmodel.n_layers = [1]\n".into(),
            "write the dotted key in quotes",
        ),
        (
            format!("metric = \"acuracy\"\n{axis}"),
            "[ablation] metric = \"acuracy\" is not measured; did you mean `accuracy`?",
        ),
        (
            "metric = \"acuracy\"\n[ablation.axes]\n\"task.label_smoothing\" = [0.0, 0.1]\n".into(),
            "wrong.toml:6: [ablation] metric = \"acuracy\" is not measured; did you mean `accuracy`?",
        ),
        (
            format!(
                "seeds = 2\n{axis}[ablation.random]\nsamples = 1\n[ablation.random.ranges]\n\
                 model = {{ kind = \"choice\", values = [1] }}\n"
            ),
            "random and axes both set `model`; remove it from one of them",
        ),
        (
            "match = \"items\"\n[ablation.axes]\n\"train.steps\" = [10, 20]\n".into(),
            "`train.steps` has no effect with match or budget",
        ),
        (
            format!("budget = {{ flops = 1e300 }}\n{axis}"),
            "[ablation] arm `n_layers=1`: would train for ",
        ),
        (
            format!("seeds = 1\nbudget = {{ flops = 1.0 }}\n{axis}"),
            "wrong.toml:7: [ablation] arm `n_layers=1`: would train for 0 steps; the number must be between 1 and 1e12",
        ),
        (
            "match = \"parameters\"\n[ablation.axes]\n\"model.feed_forward\" = [\"gated\", { kind = \"moe\", n_experts = 4 }]\n".into(),
            "wrong.toml:6: [ablation] match = \"parameters\": arm `feed_forward=moe` does not accept model.feed_forward.d_ff, \
             the key with which match adjusts the number of parameters ([model.feed_forward] with kind = \"moe\" has no key \
             `d_ff`); remove the arm or match, or set match = \"flops\"",
        ),
        (
            "match = \"parameters\"\n[ablation.axes]\n\"model.n_layers\" = [1, 12]\n".into(),
            "arm `n_layers=12` cannot reach the baseline's number of parameters with any feed-forward width",
        ),
        (
            "match = \"parameters\"\n[ablation.axes]\n\"model.feed_forward\" = [\"gated\", { kind = \"dense\", d_ff = 40 }]\n".into(),
            "wrong.toml:6: [ablation] match = \"parameters\": arm `feed_forward=dense` sets model.feed_forward.d_ff = 40 (in \
             `model.feed_forward`), but match computes the value of this key; remove d_ff from the arm, or remove match",
        ),
        (
            "[ablation.random]\nsamples = 9000\n[ablation.random.ranges]\n\
             \"optimizer.lr\" = { kind = \"log\", min = 1e-4, max = 1e-2 }\n[ablation.axes]\n\
             \"model.n_layers\" = [1, 2]\n"
                .into(),
            "[ablation] has more than 10000 arms",
        ),
        ("[ablation]\n".into(), "there are two tables [ablation]"),
    ];
    for (ablation, wanted) in cases {
        let told = refusal(&ablation);
        assert!(
            told.contains(wanted),
            "{ablation}\n{told}\nwanted: {wanted}"
        );
        assert!(told.starts_with("error: "), "{told}");
    }
}

#[test]
fn seeds_end_where_numbers_of_a_file_do() {
    let place = Place::new();
    let file = place.file(
        "seeds",
        "seeds = 2\n[ablation.axes]\n\"model.n_layers\" = [1]\n",
    );
    let (fine, _, told) = place.swept(&file, "seeds", &["--set", "seed=9223372036854775807"]);
    assert!(
        !fine && told.contains("seed and the seeds that follow it are too large"),
        "{told}"
    );
}

#[test]
fn an_arm_whose_data_is_wrong_is_named() {
    let place = Place::new();
    fs::write(place.path("short.txt"), "ab").unwrap();
    let short = "{ data = { kind = \"text\", path = \"short.txt\", context = 64 }, tokenizer = { kind = \"char\" } }";
    let file = place.file(
        "data",
        &format!("seeds = 1\n[[ablation.arms]]\nname = \"long\"\n[[ablation.arms]]\nname = \"short\"\nset = {short}\n"),
    );
    let (fine, _, told) = place.swept(&file, "data", &[]);
    assert!(
        !fine && told.contains("data.toml:11: [ablation] arm `short`: "),
        "{told}"
    );
    assert!(!place.path("data").exists());
}

/// A folder named in a file must be a plain name, and a damaged end file is reported before anything is trained.
#[test]
fn damaged_files_of_a_sweep_are_named() {
    let place = Place::new();
    let file = place.file(
        "damaged",
        "seeds = 1\n[ablation.axes]\n\"model.n_layers\" = [1]\n",
    );
    assert!(place.swept(&file, "damaged", &[]).0);
    let folder = place.path("damaged").display().to_string();
    let end = place.path("damaged/ledger/n_layers_1.seed-3.end.json");
    let whole = std::fs::read(&end).unwrap();
    std::fs::write(&end, "").unwrap();
    let (status, told) = crate::binary::failure(&["sweep", &folder]);
    assert_eq!(status, 2);
    assert!(
        told.contains("delete the file to train the cell again"),
        "{told}"
    );
    std::fs::write(&end, whole).unwrap();
    let plan = place.path("damaged/sweep.json");
    let text = std::fs::read_to_string(&plan).unwrap();
    std::fs::write(&plan, text.replace("\"n_layers_1\"", "\"../outside\"")).unwrap();
    let (status, told) = crate::binary::failure(&["sweep", &folder]);
    assert_eq!(status, 2);
    assert!(
        told.contains("\"../outside\" is not a folder of an arm"),
        "{told}"
    );
}

#[test]
fn a_sweep_is_not_trained_as_a_run_nor_a_run_as_a_sweep() {
    let place = Place::new();
    let file = place.file("both", "[ablation.axes]\n\"model.n_layers\" = [1]\n");
    let shown = file.display().to_string();
    let (status, told) = crate::binary::failure(&["train", &shown, "--run", &shown]);
    assert_eq!(status, 2);
    assert!(told.contains("use: formwork sweep"), "{told}");
    let base = place.path("base.toml").display().to_string();
    let (status, told) = crate::binary::failure(&["sweep", &base]);
    assert_eq!(status, 2);
    assert!(
        told.contains("has no [ablation], so there is nothing to sweep; use: formwork train"),
        "{told}"
    );
    let folder = place.0.path().display().to_string();
    let (_, told) = crate::binary::failure(&["sweep", &base, "--run", &folder]);
    assert!(told.contains("has no [ablation]"), "{told}");
    let (status, told) = crate::binary::failure(&["sweep", &folder]);
    assert_eq!(status, 2);
    assert!(told.contains("no sweep is in it"), "{told}");
    for more in [&[][..], &["--fresh"]] {
        let arguments = [&["sweep", &shown, "--run", &folder], more].concat();
        let (status, told) = crate::binary::failure(&arguments);
        assert_eq!(status, 2);
        assert!(told.contains("do not belong to a sweep"), "{told}");
        assert!(!place.path("cells").exists());
    }
}

/// The error of a failed cell is not mistaken for a held lock because its folder has a lock's name.
#[test]
fn a_cell_that_fails_ends_whatever_its_folder_is_called() {
    let place = Place::new();
    let file = place.file(
        "named",
        "seeds = 1\n[ablation.axes]\n\"model.n_layers\" = [1]\n",
    );
    let run = place.path("what is in use/cells/n_layers_1/seed-3");
    fs::create_dir_all(run.parent().unwrap()).unwrap();
    fs::write(&run, "in the way").unwrap();
    let (fine, said, told) = place.swept(&file, "what is in use", &[]);
    assert!(!fine);
    assert!(
        said.starts_with("0 cells done, 0 diverged, 1 failed, 0 with"),
        "{said}{told}"
    );
}

/// A sweep without anything to compare fails; one arm that finished is enough for success.
#[test]
fn a_sweep_all_of_whose_arms_diverge_fails() {
    let place = Place::new();
    let wild = "set = { \"optimizer.lr\" = 1e30, \"train.clip_norm\" = 0.0 }\n";
    let arms = format!("seeds = 2\n[[ablation.arms]]\nname = \"wild\"\n{wild}");
    let file = place.file("wild", &arms);
    // The second time nothing is trained, and the result is the same.
    for _ in 0..2 {
        let ended = place.sweep(&file, "wild", &[]).output().unwrap();
        let said = String::from_utf8(ended.stdout).unwrap();
        let told = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{said}{told}");
        assert!(
            said.starts_with("0 cells done, 2 diverged, 0 failed, 0 with"),
            "{said}{told}"
        );
        let wanted = "error: no cell finished: 2 cells diverged, the first with: step ";
        assert!(told.contains(wanted), "{told}");
        assert!(told.contains("seed-3.log)"), "{told}");
    }
    let file = place.file(
        "wild",
        &format!("{arms}[[ablation.arms]]\nname = \"sound\"\n"),
    );
    let (fine, said, told) = place.swept(&file, "wild", &[]);
    assert!(
        fine && said.starts_with("2 cells done, 2 diverged, 0 failed"),
        "{said}{told}"
    );
}

/// Over NFS, the locks of a dead machine stay for a while: the sweep says so, and trains the other cells meanwhile.
#[test]
fn a_lock_that_nobody_lets_go_of_holds_up_its_own_cell_alone() {
    let place = Place::new();
    let arms = "seeds = 1\n[ablation.axes]\n\"model.n_layers\" = [1, 2]\n";
    let file = place.file("held", arms);
    let path = place.path("held/cells/n_layers_1/seed-3/run.lock");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let lock = fs::File::create(&path).unwrap();
    lock.lock().unwrap();
    let mut sweep = place.sweep(&file, "held", &[]).spawn().unwrap();
    let mut told = BufReader::new(sweep.stderr.take().unwrap()).lines();
    let mut until = |wanted: &str| -> Vec<String> {
        let mut lines = Vec::new();
        for line in told.by_ref() {
            lines.push(line.unwrap());
            if lines.last().unwrap().contains(wanted) {
                break;
            }
        }
        lines
    };
    let before = until("waiting for the process that locks").join("\n");
    let [theirs, spoken] = [
        "n_layers_2.seed-3: started",
        "held/cells/n_layers_1/seed-3/run.lock",
    ]
    .map(|part| {
        before
            .find(part)
            .unwrap_or_else(|| panic!("{part}: {before}"))
    });
    assert!(theirs < spoken, "{before}");
    assert!(!before.contains("n_layers_1.seed-3: started"), "{before}");
    drop(lock);
    let after = until("nothing ends it").join("\n");
    assert!(after.contains("n_layers_1.seed-3: started"), "{after}");
    let output = sweep.wait_with_output().unwrap();
    assert!(output.status.success());
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.starts_with("2 cells done, 0 diverged, 0 failed, 0 with"),
        "{said}"
    );
}
