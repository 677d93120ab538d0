//! The arms of an `[ablation]`: combinations, names, draws, budgets.

use super::Place;
use formwork::ablation::arms::{Arm, arms};
use formwork::experiment::ablation::AblationConfig;

fn of(text: &str) -> Vec<Arm> {
    arms(&toml::from_str::<AblationConfig>(text).unwrap())
}

fn names(arms: &[Arm]) -> Vec<&str> {
    arms.iter().map(|arm| arm.name.as_str()).collect()
}

#[test]
fn axes_make_a_grid_and_named_arms_multiply_it() {
    let arms = of(r#"
        axes = { "model.norm_placement" = ["pre", "post"], "schedule.warmup_steps" = [0, 100] }
        arms = [{ name = "flat" }, { name = "deep", set = { "model.n_layers" = 8, "model.d_model" = 64 } }]
    "#);
    assert_eq!(
        names(&arms),
        [
            "flat, norm_placement=pre, warmup_steps=0",
            "flat, norm_placement=pre, warmup_steps=100",
            "flat, norm_placement=post, warmup_steps=0",
            "flat, norm_placement=post, warmup_steps=100",
            "deep, norm_placement=pre, warmup_steps=0",
            "deep, norm_placement=pre, warmup_steps=100",
            "deep, norm_placement=post, warmup_steps=0",
            "deep, norm_placement=post, warmup_steps=100",
        ]
    );
    assert_eq!(
        arms[7].overrides(),
        [
            "model.n_layers=8",
            "model.d_model=64",
            "model.norm_placement=\"post\"",
            "schedule.warmup_steps=100"
        ]
    );
}

#[test]
fn tables_are_named_by_their_kind_where_that_is_enough() {
    let arms = of(r#"
        [axes]
        "model.position" = ["rotary", { kind = "learned", max_len = 64 }, { kind = "none" }]
        "model.norm" = [{ kind = "rms", eps = 1e-5 }, { kind = "rms", eps = 1e-6 }]
    "#);
    assert_eq!(arms.len(), 6);
    assert_eq!(
        arms[0].name,
        "position=rotary, norm={ kind = \"rms\", eps = 1e-5 }"
    );
    assert_eq!(
        arms[2].name,
        "position=learned, norm={ kind = \"rms\", eps = 1e-5 }"
    );
}

#[test]
fn draws_stay_when_there_are_more_of_them_or_another_key() {
    let text = |samples: u32, more: &str| {
        format!(
            "[random]\nsamples = {samples}\nseed = 4\n[random.ranges]\n\
             \"optimizer.lr\" = {{ kind = \"log\", min = 1e-4, max = 1e-2 }}\n\
             \"model.n_layers\" = {{ kind = \"integer\", min = 1, max = 3 }}\n{more}"
        )
    };
    let few = of(&text(3, ""));
    let many = of(&text(200, ""));
    assert_eq!(few, many[..3]);
    let wider = of(&text(
        3,
        "\"model.dropout\" = { kind = \"uniform\", min = 0.0, max = 0.5 }\n",
    ));
    for (arm, wider) in few.iter().zip(&wider) {
        assert!(arm.sets.iter().all(|set| wider.sets.contains(set)));
    }
    let values = |key: &str| -> Vec<f64> {
        let of_key = many.iter().flat_map(|a| &a.sets).filter(|(k, _)| k == key);
        of_key
            .map(|(_, v)| {
                v.as_float()
                    .unwrap_or_else(|| v.as_integer().unwrap() as f64)
            })
            .collect()
    };
    let rates = values("optimizer.lr");
    assert!(rates.iter().all(|r| (1e-4..=1e-2).contains(r)));
    // Half of them are below the geometric mean: 100 ± 4 standard deviations.
    let low = rates.iter().filter(|r| **r < 1e-3).count();
    assert!((72..=128).contains(&low), "{low}");
    let depths = values("model.n_layers");
    for depth in 1..=3 {
        let seen = depths.iter().filter(|d| **d == f64::from(depth)).count();
        assert!((40..=94).contains(&seen), "{depth}: {seen}");
    }
}

/// Returns the table of a dry run, on which a user decides.
fn dry_run(ablation: &str) -> String {
    let place = Place::new();
    let file = place.file("plan", ablation);
    let (fine, said, told) = place.swept(&file, "plan", &["--dry-run", "--no-probe"]);
    assert!(fine, "{told}");
    assert!(!place.path("plan").exists(), "a dry run leaves nothing");
    said
}

#[test]
fn arms_are_matched_by_flops_items_and_parameters() {
    let layers = "seeds = 1\nmatch = \"flops\"\n[ablation.axes]\n\"model.n_layers\" = [2, 4]\n";
    let said = dry_run(layers);
    let steps: Vec<&str> = said.lines().filter(|l| l.contains("n_layers=")).collect();
    assert!(steps[0].contains(" 20 "), "{said}");
    assert!(
        steps[1].contains(" 10 ") || steps[1].contains(" 11 "),
        "{said}"
    );
    let batches = "seeds = 1\nmatch = \"items\"\n[ablation.axes]\n\"train.batch_size\" = [8, 16]\n";
    let said = dry_run(batches);
    assert!(
        said.lines()
            .any(|l| l.contains("batch_size=16") && l.contains(" 10 ")),
        "{said}"
    );
    let kinds = "seeds = 1\nmatch = \"parameters\"\n[ablation.axes]\n\
                 \"model.feed_forward.kind\" = [\"gated\", \"dense\"]\n";
    let said = dry_run(kinds);
    let params = |kind: &str| -> f64 {
        let line = said.lines().find(|l| l.contains(kind)).unwrap();
        let cell = line.split_whitespace().nth(2).unwrap();
        cell.replace(',', "").parse().unwrap()
    };
    let off = params("=dense") / params("=gated") - 1.0;
    assert!(off.abs() < 0.02, "{said}");
    let moved = said
        .lines()
        .filter(|l| l.contains("has model.feed_forward.d_ff = "));
    assert!(moved.map(|l| l.contains("=dense")).eq([true]), "{said}");
    let budget =
        "seeds = 1\nbudget = { steps = 12 }\n[ablation.axes]\n\"train.batch_size\" = [8, 16]\n";
    let said = dry_run(budget);
    let steps = said
        .lines()
        .filter(|l| l.contains("batch_size=") && l.contains(" 12 "));
    assert_eq!(steps.count(), 2, "{said}");
}

/// Keys that no evaluation during training reads cannot distinguish arms.
#[test]
fn keys_of_the_use_of_a_run_are_no_arms() {
    let place = Place::new();
    let named = |set: &str| {
        format!(
            "[[ablation.arms]]\nname = \"a\"\n[[ablation.arms]]\nname = \"b\"\nset = {{ \"{set}\" = 4 }}\n"
        )
    };
    for (ablation, wanted) in [
        (
            "[ablation.axes]\n\"decode.search.beam\" = [1, 4]\n".to_owned(),
            "wrong.toml:7: [ablation] `decode.search.beam` has no effect on what a sweep measures: evaluations during training \
             search with decode.valid_beam; vary that key instead",
        ),
        (
            "[ablation.random]\nsamples = 1\n[ablation.random.ranges]\n\"decode.sampling.top_k\" = { kind = \"integer\", min = 1, max = 9 }\n".to_owned(),
            "`decode.sampling.top_k` has no effect on what a sweep measures: evaluations during training sample no texts",
        ),
        (
            named("decode.search.n_best"),
            "`decode.search.n_best` has no effect on what a sweep measures",
        ),
    ] {
        let file = place.file("wrong", &ablation);
        let (fine, _, told) = place.swept(&file, "wrong", &[]);
        assert!(!fine && told.contains(wanted), "{told}");
    }
}
