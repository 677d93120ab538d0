//! Cases that a sweep would otherwise ignore silently: a `--set` that its arms override, another sweep's folder, a job without
//! work.

use super::{Place, begun};
use std::fs;

const LAYERS: &str = "seeds = 1\n[ablation.axes]\n\"model.n_layers\" = [1, 2]\n";

#[test]
fn a_set_that_every_arm_overrides_is_refused_and_one_of_some_is_noted() {
    let place = Place::new();
    let file = place.file("axis", LAYERS);
    let dry = ["--dry-run", "--no-probe", "--set"];
    let (fine, _, told) = place.swept(&file, "axis", &[&dry[..], &["model.n_layers=3"]].concat());
    let refusal = "--set model.n_layers=3 has no effect: the axis `model.n_layers` sets `model.n_layers` in every arm; remove \
         --set, or give the axis other values: --set 'ablation.axes={ \"model.n_layers\" = […] }'";
    assert!(!fine && told.contains(refusal), "{told}");
    let arms = "[[ablation.arms]]\nname = \"deep\"\nset = { \"model.n_layers\" = 4 }\n[[ablation.arms]]\nname = \"base\"\n";
    let file = place.file("named", arms);
    let (fine, _, told) = place.swept(&file, "named", &[&dry[..], &["model.n_layers=3"]].concat());
    let note = "--set model.n_layers=3 has no effect in 1 of 2 arms, which set `model.n_layers` themselves";
    assert!(fine && told.contains(note), "{told}");
    let tables = "[ablation.axes]\n\"model.position\" = [{ kind = \"rotary\", theta = 100.0 }, { kind = \"rotary\", theta = 200.0 }]\n";
    let file = place.file("tables", tables);
    let more = [&dry[..], &["model.position.theta=7.0"]].concat();
    let (fine, _, told) = place.swept(&file, "tables", &more);
    assert!(
        !fine && told.contains("the axis `model.position` sets `model.position.theta`"),
        "{told}"
    );
    // Changing the axis itself is allowed.
    let file = place.file("axis", LAYERS);
    let more = [&dry[..], &["ablation.axes={ \"model.n_layers\" = [3] }"]].concat();
    let (fine, said, told) = place.swept(&file, "axis", &more);
    assert!(
        fine && said.contains("n_layers=3") && !said.contains("n_layers=2"),
        "{said}{told}"
    );
}

#[test]
fn an_axis_is_not_set_by_a_path_of_tables() {
    let place = Place::new();
    let file = place.file("axis", LAYERS);
    let (fine, _, told) = place.swept(
        &file,
        "axis",
        &["--set", "ablation.axes.model.n_layers=[1, 2, 3]"],
    );
    let way = "write the dotted key in quotes: \"model.…\" = […]; with --set: --set 'ablation.axes={ \"model.…\" = […] }'";
    assert!(!fine && told.contains(way), "{told}");
    assert!(!told.contains("both set"), "{told}");
}

#[test]
fn seeds_are_a_number_and_not_their_list() {
    let place = Place::new();
    let axis = LAYERS.replace("seeds = 1", "seeds = [3, 5]");
    let (fine, _, told) = place.swept(&place.file("seeds", &axis), "seeds", &[]);
    let wanted = "not a list: it is the number of runs of each arm, 1 to 10000; their seeds count up from the file's `seed`";
    assert!(
        !fine && told.contains("seeds.toml:6: [ablation] seeds must be"),
        "{told}"
    );
    assert!(told.contains(wanted), "{told}");
}

#[test]
fn a_finished_sweep_is_begun_anew_or_left_alone() {
    let place = Place::new();
    let file = place.file("mine", LAYERS);
    let short = [
        "--set",
        "train.steps=2",
        "--set",
        "schedule.warmup_steps=1",
        "--set",
        "train.eval_every=2",
    ];
    let swept = |more: &[&str]| place.swept(&file, "mine", &[&short[..], more].concat());
    let (fine, said, told) = swept(&[]);
    assert!(fine && begun(&told).len() == 2, "{said}{told}");
    // All of its cells, not only those that are left.
    let (fine, said, told) = swept(&["--fresh", "--dry-run", "--no-probe"]);
    assert!(fine && said.contains("2 cells left"), "{said}{told}");
    let (fine, said, told) = swept(&["--dry-run", "--no-probe"]);
    assert!(fine && said.contains("0 cells left"), "{said}{told}");
    // This machine has no sbatch, and it is not called.
    let (fine, said, told) = swept(&["--slurm", "4"]);
    assert!(
        fine && said.starts_with("no cell is left to train, and nothing was submitted"),
        "{said}{told}"
    );
    assert!(!place.path("mine/sweep.sbatch").exists());
    // Another sweep needs its own folder.
    let plan = fs::read_to_string(place.path("mine/sweep.json")).unwrap();
    let other = place.file("other", LAYERS);
    let (fine, _, told) = place.swept(&other, "mine", &short);
    let wanted = "mine contains the sweep `mine`, but this sweep is `other`; choose another folder with --run DIR";
    assert!(!fine && told.contains(wanted), "{told}");
    assert_eq!(
        fs::read_to_string(place.path("mine/sweep.json")).unwrap(),
        plan
    );
}

#[test]
fn arms_with_the_same_settings_are_told() {
    let place = Place::new();
    let arms = "[[ablation.arms]]\nname = \"pre\"\n[[ablation.arms]]\nname = \"same\"\nset = { }\n";
    let dry = ["--dry-run", "--no-probe"];
    let (fine, _, told) = place.swept(&place.file("alike", arms), "alike", &dry);
    let note = "arm `same` has the same settings as arm `pre`";
    assert!(fine && told.contains(note), "{told}");
    let (fine, _, told) = place.swept(&place.file("axis", LAYERS), "axis", &dry);
    assert!(fine && !told.contains("the same settings"), "{told}");
}

#[test]
fn a_sweep_without_a_name_is_told_whose_it_has() {
    let place = Place::new();
    let file = place.path("unnamed.toml");
    fs::write(&file, format!("base = \"base.toml\"\n[ablation]\n{LAYERS}")).unwrap();
    let taken = place.path("checkpoints/smoke-tiny");
    fs::create_dir_all(&taken).unwrap();
    fs::write(taken.join("resolved.toml"), "").unwrap();
    let said = |arguments: &[&str]| {
        let mut command = crate::binary::formwork(arguments);
        let ended = command.current_dir(place.0.path()).output().unwrap();
        let told = String::from_utf8(ended.stderr).unwrap();
        (ended.status.code(), told)
    };
    let note = "the sweep takes its name, `smoke-tiny`, from base.toml; set `name` in unnamed.toml";
    let (status, told) = said(&["check", "unnamed.toml", "--keys-only"]);
    assert!(status == Some(0) && told.contains(note), "{told}");
    let (status, told) = said(&["sweep", "unnamed.toml", "--dry-run", "--no-probe"]);
    let refusal = format!(
        "contains files that do not belong to a sweep; choose another folder with --run DIR. {note}"
    );
    assert!(status == Some(2) && told.contains(&refusal), "{told}");
}
