//! Steps that are decided on the device and read later train like steps decided by the host at once; here, both run on the CPU.

mod planted;

use self::planted::Planted;
use crate::binary::shipped;
use crate::oracle::difference;
use crate::small_run::files;
use crate::transfer::values_of;
use formwork::error::Result;
use formwork::experiment::assemble::{self, WeightSource};
use formwork::experiment::{self, training};
use formwork::stop::StopFlag;
use formwork::task::Objective;
use formwork::train::checkpoint::{self, Checkpoint};
use formwork::train::job::{DecidedOn, Job, Observer, Outcome, Report};
use formwork::train::journal;
use formwork::train::run_dir::{Existing, RunDir};
use formwork::train::view::NoView;
use std::fs;
use std::path::{Path, PathBuf};

struct Silent;

impl Observer<Objective> for Silent {
    fn report(&mut self, _: &Report) {}

    fn evaluated(&mut self, _: u64) -> Result<()> {
        Ok(())
    }

    fn commit_samples(&mut self) -> Result<u64> {
        Ok(0)
    }
}

/// A run of an experiment in a temporary folder.
struct Trained {
    _folder: tempfile::TempDir,
    root: PathBuf,
    ended: Result<Outcome>,
}

impl Trained {
    fn newest(&self) -> Checkpoint {
        checkpoint::newest_complete(&self.root).found.unwrap()
    }

    /// Returns the lines of the journal without times and system measurements.
    fn lines(&self) -> Vec<serde_json::Value> {
        let text = fs::read_to_string(self.root.join("metrics.jsonl")).unwrap();
        let lines = text.lines().map(|line| {
            let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
            for key in ["items_per_s", "elapsed_s", "memory_mb"] {
                let object = line.as_object_mut().unwrap();
                object.remove(key);
            }
            line
        });
        lines.collect()
    }
}

/// Trains an experiment by one of the routes; `change` may change its job.
fn trained(
    file: &Path,
    sets: &[String],
    route: DecidedOn,
    change: impl FnOnce(&mut Job<Objective>),
) -> Trained {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("run");
    let loaded = experiment::load(file, sets).unwrap();
    experiment::check(&loaded).unwrap();
    let (experiment, places) = (&loaded.experiment, loaded.places());
    let data = assemble::training_data(&loaded).unwrap();
    let device = assemble::device(experiment, true).unwrap();
    let weights = WeightSource::Initial {
        places: &places,
        tokenizers: &data.tokenizers,
    };
    let made = training::training(experiment, &data.shape, &device, &weights).unwrap();
    let run = RunDir::create(&root, Existing::Refuse).unwrap();
    run.write("resolved.toml", b"").unwrap();
    let (model, mut job) = made.job(
        experiment,
        &data,
        run,
        StopFlag::default(),
        Default::default(),
    );
    job.route = route;
    change(&mut job);
    let ended = formwork::train::run(model, job, Box::new(Silent), Box::new(NoView));
    Trained {
        _folder: folder,
        root,
        ended,
    }
}

/// Checks that two numbers, or two values that contain numbers, differ only by rounding.
fn near(a: &serde_json::Value, b: &serde_json::Value, at: &str) {
    match (a.as_f64(), b.as_f64()) {
        (Some(x), Some(y)) => {
            let off = (x - y).abs() / x.abs().max(1e-3);
            assert!(off < 2e-5, "{at}: {x} and {y}");
        }
        _ => match (a.as_object(), b.as_object()) {
            (Some(a), Some(b)) => {
                let keys = |o: &serde_json::Map<_, _>| o.keys().cloned().collect::<Vec<String>>();
                assert_eq!(keys(a), keys(b), "{at}");
                for (key, value) in a {
                    near(value, &b[key], &format!("{at} {key}"));
                }
            }
            _ => assert_eq!(a, b, "{at}"),
        },
    }
}

/// Every optimizer, with active clipping, averaged weights, micro-batches, and lines, evaluations and checkpoints at steps that
/// do not coincide.
#[test]
fn both_routes_train_alike() {
    let tiny = shipped("experiments/smoke/tiny.toml");
    for (optimizer, lr) in [
        ("adamw", 3e-3),
        ("adam", 3e-3),
        ("sgd", 0.1),
        ("lion", 3e-4),
        ("adafactor", 1e-2),
        ("lamb", 3e-3),
        ("radam", 3e-3),
        ("nadam", 3e-3),
        ("adopt", 3e-3),
        ("ademamix", 1e-3),
        ("muon", 1e-2),
        ("schedule_free", 1e-2),
    ] {
        let mut sets = vec![
            format!("optimizer={{ kind = \"{optimizer}\", lr = {lr:?} }}"),
            "train.clip_norm=0.5".into(),
            "train.steps=23".into(),
            "train.log_every=5".into(),
            "train.eval_every=8".into(),
            "train.checkpoint_every=7".into(),
        ];
        sets.extend(own_average(optimizer));
        let [here, there] =
            [DecidedOn::Host, DecidedOn::Device].map(|route| trained(&tiny, &sets, route, |_| {}));
        for run in [&here, &there] {
            assert_eq!(run.ended.as_ref().unwrap().step, 23, "{optimizer}");
        }
        let (ours, theirs) = (there.lines(), here.lines());
        assert_eq!(ours.len(), theirs.len(), "{optimizer}");
        for (ours, theirs) in ours.iter().zip(&theirs) {
            near(ours, theirs, optimizer);
        }
        let model = |run: &Trained| {
            let saved = run.newest();
            assert_eq!(saved.state().step, 23);
            let loaded = experiment::load(&tiny, &sets).unwrap();
            let data = assemble::training_data(&loaded).unwrap();
            let device = assemble::device(&loaded.experiment, false).unwrap();
            let weights = WeightSource::ForTraining(&saved);
            let model = assemble::model(&loaded.experiment, &data.shape, &device, &weights);
            values_of(&model.unwrap().0)
        };
        let theirs = model(&here);
        for (path, ours) in model(&there) {
            let off = difference(&ours.values, &theirs[&path].values);
            assert!(off < 1e-4, "{optimizer}: {path} is off by {off:e}");
        }
    }
}

/// Keys for an optimizer that keeps its own average; none for another.
fn own_average(optimizer: &str) -> Vec<String> {
    match optimizer.contains("schedule_free") {
        true => vec![
            "train.ema=0".into(),
            "schedule={ kind = \"constant\", warmup_steps = 5 }".into(),
        ],
        false => Vec::new(),
    }
}

const IMAGES: &str = r#"
name = "planted"
seed = 2
[model]
kind = "resnet"
blocks = "basic"
stages = [1, 1]
width = 4
[data]
kind = "shapes"
size = 12
valid_items = 16
[task]
kind = "image_classification"
[optimizer]
kind = "adamw"
lr = 1e-3
[train]
steps = 40
batch_size = 8
log_every = 16
clip_norm = 0
ema = 0.9
"#;

/// An image has NaN pixels at step 19, which the host reads at step 32: both runs end with the state after step 18, including
/// averages of norms and of weights and the moments' counters, bit for bit.
#[test]
fn nothing_moves_after_a_bad_step() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("planted.toml");
    fs::write(&file, IMAGES).unwrap();
    let kinds = [
        "{ kind = \"adamw\", lr = 1e-3 }",
        "{ kind = \"sgd\", lr = 1e-2, momentum = 0.9 }",
        "{ kind = \"lamb\", lr = 1e-3 }",
        "{ kind = \"adafactor\" }",
        "{ kind = \"muon\", lr = 1e-2 }",
        "{ kind = \"lion\", lr = 1e-4 }",
        "{ kind = \"radam\", lr = 1e-3 }",
        "{ kind = \"nadam\", lr = 1e-3 }",
        "{ kind = \"adopt\", lr = 1e-3 }",
        "{ kind = \"ademamix\", lr = 1e-3, slow_warmup = 40 }",
        "{ kind = \"adamw\", lr = 1e-3, cautious = true }",
        "{ kind = \"lion\", lr = 1e-4, cautious = true }",
        "{ kind = \"schedule_free\", lr = 1e-3 }",
        "{ kind = \"soap\", lr = 1e-3, precondition_frequency = 4 }",
    ];
    for kind in kinds {
        let mut sets = vec![format!("optimizer={kind}")];
        sets.extend(own_average(kind));
        let bad = |route| {
            let run = trained(&file, &sets, route, |job| {
                job.train = Planted::without_numbers(job.train.clone(), 18 * 8 + 3);
            });
            let said = run.ended.as_ref().unwrap_err().to_string();
            assert!(said.contains("step 19 diverged: the loss is NaN"), "{said}");
            assert!(said.contains("the state before it is saved"), "{said}");
            run
        };
        let [here, there] = [DecidedOn::Host, DecidedOn::Device].map(bad);
        let (ours, theirs) = (there.newest(), here.newest());
        assert_eq!(ours.state().step, 18, "{kind}");
        assert_eq!(ours.state().items_seen, theirs.state().items_seen, "{kind}");
        let (ours, theirs) = (files(ours.folder()), files(theirs.folder()));
        assert_eq!(ours.len(), theirs.len(), "{kind}");
        let timed = ["state.json", "manifest.json"];
        for ((name, ours), (other, theirs)) in ours.iter().zip(&theirs) {
            assert_eq!(name, other, "{kind}");
            let same = ours == theirs || timed.contains(&name.as_str());
            assert!(same, "{kind}: {name} has other bytes");
        }
        let last = |run: &Trained| journal::read(run.root.join("metrics.jsonl")).unwrap().len();
        assert_eq!(last(&here), last(&there), "{kind}");
    }
}

/// The evaluation at step 20 reads step 19, which was bad, and the state before that step has no evaluation due.
#[test]
fn no_evaluation_is_due_before_a_bad_step() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("planted.toml");
    fs::write(&file, IMAGES).unwrap();
    let sets = ["train.eval_every=20".into()];
    for route in [DecidedOn::Host, DecidedOn::Device] {
        let run = trained(&file, &sets, route, |job| {
            job.train = Planted::without_numbers(job.train.clone(), 18 * 8 + 3);
        });
        let said = run.ended.as_ref().unwrap_err().to_string();
        assert!(said.contains("step 19 diverged"), "{said}");
        let newest = run.newest();
        assert_eq!(newest.state().step, 18, "{route:?}");
        assert!(!newest.state().evaluation_due, "{route:?}");
    }
}

/// The message does not suggest a lower learning rate, which would not help.
#[test]
fn a_step_that_scores_nothing_says_so() {
    let tiny = shipped("experiments/smoke/tiny.toml");
    for route in [DecidedOn::Host, DecidedOn::Device] {
        let run = trained(&tiny, &[], route, |job| {
            job.train = Planted::without_targets(job.train.clone(), 24..32);
        });
        let said = run.ended.as_ref().unwrap_err().to_string();
        let why = "step 4 diverged: its batch has no scored position";
        assert!(
            said.contains(why) && !said.contains("learning rate"),
            "{said}"
        );
    }
}

/// If steps may be skipped, each is read at once, and both routes skip the same ones.
#[test]
fn steps_are_skipped_alike() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("planted.toml");
    fs::write(&file, IMAGES).unwrap();
    let sets = ["train.on_divergence=skip".into(), "train.steps=24".into()];
    let skips = |route| {
        let run = trained(&file, &sets, route, |job| {
            job.train = Planted::without_numbers(job.train.clone(), 18 * 8 + 3);
        });
        assert_eq!(run.ended.as_ref().unwrap().skipped, 1);
        run
    };
    let [here, there] = [DecidedOn::Host, DecidedOn::Device].map(skips);
    for (ours, theirs) in there.lines().iter().zip(&here.lines()) {
        near(ours, theirs, "skip");
    }
}
