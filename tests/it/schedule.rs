//! Learning rates computed by hand, and against the schedulers of torch and transformers (`tests/goldens/make_schedules.py`).

use crate::diagnostics::{RIGHT, judged};
use formwork::train::schedule::{
    ConstantConfig, DecayConfig, InverseSqrtConfig, KINDS, NoamConfig, ScheduleConfig, Warmup,
    WsdConfig, WsdShape,
};

fn close(a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-12 * b.abs().max(1e-3), "{a} is not {b}");
}

#[test]
fn schedules_by_hand() {
    let decay = DecayConfig {
        warmup_steps: 100,
        min_lr: Some(1e-4),
        ..DecayConfig::default()
    };
    // nanoGPT's get_lr with warmup 100, decay 5000, 1e-3 to 1e-4.
    let cosine = ScheduleConfig::Cosine(decay.clone());
    close(cosine.lr(1e-3, 0, 5000), 1e-3 / 101.0);
    close(cosine.lr(1e-3, 99, 5000), 1e-3 * 100.0 / 101.0);
    close(cosine.lr(1e-3, 100, 5000), 1e-3);
    close(cosine.lr(1e-3, 2550, 5000), 5.5e-4);
    close(cosine.lr(1e-3, 5000, 5000), 1e-4);
    close(cosine.lr(1e-3, 9000, 5000), 1e-4);

    let linear = ScheduleConfig::Linear(DecayConfig {
        decay_steps: Some(300),
        ..decay
    });
    close(linear.lr(1e-3, 200, 5000), 5.5e-4);
    close(linear.lr(1e-3, 300, 5000), 1e-4);

    let constant = ScheduleConfig::Constant(ConstantConfig { warmup_steps: 3 });
    let rates: Vec<f64> = (0..5).map(|s| constant.lr(4.0, s, 10)).collect();
    assert_eq!(rates, [1.0, 2.0, 3.0, 4.0, 4.0]);

    let root = ScheduleConfig::InverseSqrt(InverseSqrtConfig {
        warmup: Warmup::Linear,
        warmup_steps: 100,
        min_lr: 1e-4,
    });
    close(root.lr(1e-3, 100, 0), 1e-3);
    close(root.lr(1e-3, 400, 0), 5e-4);
    close(root.lr(1e-3, 1_000_000, 0), 1e-4);

    // T5: 1/√max(step, 10,000), which is 0.01 throughout warmup.
    let t5 = ScheduleConfig::InverseSqrt(InverseSqrtConfig {
        warmup: Warmup::Constant,
        warmup_steps: 10_000,
        min_lr: 0.0,
    });
    for (step, rate) in [(0, 0.01), (5_000, 0.01), (10_000, 0.01), (40_000, 0.005)] {
        close(t5.lr(0.01, step, 0), rate);
    }

    // The paper's base model, whose peak is 7e-4 at step 4000.
    let noam = ScheduleConfig::Noam(NoamConfig::default());
    close(noam.lr(1.0, 3999, 0), (512.0f64 * 4000.0).powf(-0.5));
    close(noam.lr(1.0, 0, 0), 512f64.powf(-0.5) * 4000f64.powf(-1.5));
    close(
        noam.lr(2.0, 15_999, 0),
        2.0 * (512.0f64 * 16_000.0).powf(-0.5),
    );

    let wsd = |shape| {
        ScheduleConfig::Wsd(WsdConfig {
            warmup_steps: 10,
            decay_fraction: Some(0.2),
            final_fraction: Some(0.1),
            shape,
            ..WsdConfig::default()
        })
    };
    for shape in [WsdShape::Linear, WsdShape::Cosine, WsdShape::Sqrt] {
        close(wsd(shape).lr(1.0, 10, 100), 1.0);
        close(wsd(shape).lr(1.0, 80, 100), 1.0);
        close(wsd(shape).lr(1.0, 100, 100), 0.1);
    }
    close(wsd(WsdShape::Linear).lr(1.0, 90, 100), 0.55);
    close(wsd(WsdShape::Cosine).lr(1.0, 90, 100), 0.55);
    close(wsd(WsdShape::Sqrt).lr(1.0, 85, 100), 0.1 + 0.9 * 0.5);
}

/// Decays of several powers, and one cycle or more, with warmup and without.
#[test]
fn schedules_equal_those_of_torch_and_transformers() {
    let cases = include_str!("../goldens/schedules.json");
    let cases: Vec<serde_json::Value> = serde_json::from_str(cases).unwrap();
    assert!(cases.len() >= 10);
    for case in &cases {
        let schedule: ScheduleConfig = serde_json::from_value(case["schedule"].clone()).unwrap();
        let (base, steps) = (
            case["lr"].as_f64().unwrap(),
            case["steps"].as_u64().unwrap(),
        );
        assert_eq!(schedule.faults(base), Vec::<String>::new(), "{case}");
        assert_eq!(schedule.length_fault(steps), None, "{case}");
        let mut compared = 0;
        for (step, rate) in (0..).zip(case["rates"].as_array().unwrap()) {
            let Some(rate) = rate.as_f64() else { continue };
            close(schedule.lr(base, step, steps), rate);
            compared += 1;
        }
        assert!(compared >= 40, "{case}");
        // After the schedule's end, the rate stays constant.
        let low = match &schedule {
            ScheduleConfig::Polynomial(c) => c.min_lr,
            ScheduleConfig::CosineRestarts(c) => c.min_lr,
            other => unreachable!("{other:?}"),
        };
        close(schedule.lr(base, steps + 9, steps), low.unwrap_or(0.0));
        assert_eq!(schedule.peak(base), base);
    }
}

#[test]
fn schedule_faults_are_named() {
    let faults = |text: &str| {
        let config: ScheduleConfig = toml::from_str(text).unwrap();
        let mut faults = config.faults(1e-3);
        faults.extend(config.length_fault(100));
        faults
    };
    for row in KINDS {
        let config: ScheduleConfig = toml::from_str(row.example).unwrap();
        assert_eq!(config.faults(1e-3), Vec::<String>::new(), "{}", row.kind);
        assert_eq!(config.length_fault(10_000), None, "{}", row.kind);
    }
    assert_eq!(
        faults("kind = \"cosine\"\nwarmup_steps = 100"),
        ["warmup_steps = 100 leaves none of [train] steps = 100 for the decay"]
    );
    assert_eq!(
        faults("kind = \"linear\"\nwarmup_steps = 50\ndecay_steps = 50"),
        ["warmup_steps = 50 leaves no steps for a decay that ends at decay_steps = 50"]
    );
    assert_eq!(
        faults("kind = \"linear\"\nmin_lr = 0.1"),
        ["min_lr = 0.1 is not between 0 and lr = 0.001"]
    );
    assert_eq!(
        faults("kind = \"wsd\"\nmin_lr = 0.0\nfinal_fraction = 0.1"),
        ["min_lr and final_fraction both set the final learning rate; keep one"]
    );
    assert_eq!(
        faults("kind = \"wsd\"\nwarmup_steps = 90\ndecay_fraction = 0.2"),
        ["warmup_steps = 90 and a decay of 20 steps are more than [train] steps = 100"]
    );
    for (keys, wanted) in [
        ("power = 0.0", "power = 0 is not above 0 and at most 100"),
        ("power = nan", "power = NaN is not above 0 and at most 100"),
        (
            "warmup_steps = 100",
            "warmup_steps = 100 leaves none of [train] steps = 100 for the decay",
        ),
    ] {
        assert_eq!(faults(&format!("kind = \"polynomial\"\n{keys}")), [wanted]);
    }
    for (keys, wanted) in [
        ("cycles = 0", "cycles = 0 is not between 1 and 10000"),
        ("growth = 0.5", "growth = 0.5 is not between 1 and 10"),
        (
            "warmup_steps = 100",
            "warmup_steps = 100 leaves none of [train] steps = 100 for the decay",
        ),
        (
            "cycles = 101",
            "cycles = 101 with growth = 1 leave less than one step for the first cycle, between warmup_steps = 0 and [train] steps = 100",
        ),
        (
            "warmup_steps = 40\ndecay_steps = 70\ngrowth = 2.0\ncycles = 5",
            "cycles = 5 with growth = 2 leave less than one step for the first cycle, between warmup_steps = 40 and decay_steps = 70",
        ),
    ] {
        assert_eq!(
            faults(&format!("kind = \"cosine_restarts\"\n{keys}")),
            [wanted]
        );
    }
    assert_eq!(
        faults("kind = \"cosine_restarts\"\ncycles = 100"),
        Vec::<String>::new()
    );
}

/// The remedy that a fault names works, for every schedule and however short the run.
#[test]
fn what_makes_room_for_a_schedule_is_named() {
    let written = "kind = \"cosine\"\nwarmup_steps = 100";
    for (schedule, steps) in [
        (written, 100),
        (written, 10),
        (written, 1),
        ("kind = \"constant\"\nwarmup_steps = 100", 10),
        ("kind = \"noam\"", 10),
        ("kind = \"inverse_sqrt\"\nwarmup = \"constant\"", 10),
        (
            "kind = \"linear\"\nwarmup_steps = 100\ndecay_steps = 50",
            200,
        ),
        ("kind = \"linear\"\ndecay_steps = 0", 200),
        ("kind = \"polynomial\"\nwarmup_steps = 100", 100),
        ("kind = \"cosine_restarts\"\ncycles = 30", 20),
        ("kind = \"cosine_restarts\"\ncycles = 30\ngrowth = 1.5", 200),
        (
            "kind = \"cosine_restarts\"\nwarmup_steps = 100\ndecay_steps = 150",
            50,
        ),
        ("kind = \"cosine_restarts\"\ndecay_steps = 0", 200),
        (
            "kind = \"wsd\"\nwarmup_steps = 100\ndecay_fraction = 0.2",
            110,
        ),
        ("kind = \"wsd\"\nwarmup_steps = 10\ndecay_steps = 500", 100),
        ("kind = \"wsd\"\nwarmup_steps = 10\ndecay_steps = 500", 1),
    ] {
        let text = RIGHT.replacen(written, schedule, 1);
        let mut sets = vec![format!("train.steps={steps}")];
        let told = judged(&text, &sets).unwrap_err().to_string();
        let remedy = told.split_once("; it fits with: ");
        let (_, remedy) = remedy.unwrap_or_else(|| panic!("{told}"));
        let more = remedy.split("--set ").map(str::trim);
        sets.extend(more.filter(|set| !set.is_empty()).map(String::from));
        judged(&text, &sets).unwrap_or_else(|error| panic!("{told}\n{error}"));
    }
    // If the file has no warmup key, the warmup is the schedule's default.
    let text = RIGHT.replacen(written, "kind = \"noam\"", 1);
    let told = judged(&text, &[String::from("train.steps=10")]).unwrap_err();
    assert_eq!(
        told.to_string(),
        "--set train.steps=10: [schedule] warmup_steps = 4000 is more than [train] steps = 10 (warmup_steps by default); it \
         fits with: --set schedule.warmup_steps=10"
    );
}

#[test]
fn noam_takes_the_width_of_the_model() {
    let sets = ["schedule.kind=noam", "schedule.warmup_steps=5"].map(String::from);
    let file = crate::binary::shipped("experiments/smoke/tiny.toml");
    let loaded = formwork::experiment::load(&file, &sets).unwrap();
    formwork::experiment::check(&loaded).unwrap();
    let schedule = formwork::experiment::training::schedule(&loaded.experiment);
    close(schedule.lr(1.0, 4, 0), (32.0f64 * 5.0).powf(-0.5));
    let own = ScheduleConfig::Noam(NoamConfig {
        d_model: Some(64),
        ..NoamConfig::default()
    });
    assert_eq!(own.for_width(32), own);
}
