//! `formwork plan --ranks`: a row for every number of ranks, computed from the given figures.

use crate::binary::{failure, output};

const FILE: &str = "experiments/smoke/tiny.toml";

/// Computed by hand from the model's own numbers: each of N ranks sends 2 (N - 1) / N of 4 bytes a parameter.
#[test]
fn rows_follow_from_parameters_bandwidth_and_step_time() {
    let said = output(&[
        "plan",
        FILE,
        "--set",
        "train.micro_batch_size=2",
        "--ranks",
        "4",
        "--bandwidth",
        "8Mbit/s",
        "--latency",
        "1ms",
        "--step-ms",
        "400",
        "--json",
    ]);
    let plan = super::json(&said);
    assert!(
        plan["probe"].is_null(),
        "a given time needs no probe: {plan}"
    );
    let gradients = 4.0 * plan["params"].as_f64().unwrap();
    let memory = plan["memory_bytes"].as_object().unwrap();
    let whole: f64 = memory.values().map(|bytes| bytes.as_f64().unwrap()).sum();
    let moments = memory["optimizer"].as_f64().unwrap();
    let rows = plan["ranks"].as_array().unwrap();
    assert_eq!(rows.len(), 3);
    for (row, ranks) in rows.iter().zip([1.0, 2.0, 4.0]) {
        let number = |key: &str| row[key].as_f64().unwrap();
        assert_eq!(number("ranks"), ranks);
        let sent = 2.0 * (ranks - 1.0) / ranks * gradients;
        assert_eq!(number("sent_bytes"), sent);
        // A million bytes per second, and a millisecond for each of 2 (N - 1) messages.
        let exchange = sent / 1e3 + 2.0 * (ranks - 1.0);
        assert!((number("exchange_ms") - exchange).abs() < 1e-9);
        let step = 400.0 / ranks + exchange;
        assert!((number("step_ms") - step).abs() < 1e-9);
        assert!((number("efficiency") - 400.0 / ranks / step).abs() < 1e-12);
        // Gradients smaller than a bucket exist three times during their exchange.
        let buffers = if ranks > 1.0 { 3.0 * gradients } else { 0.0 };
        assert_eq!(number("memory_bytes"), whole + buffers);
        let sharded = whole + buffers - moments + (moments / ranks).ceil();
        assert_eq!(number("sharded_memory_bytes"), sharded);
    }
}

#[test]
fn without_a_bandwidth_there_is_no_time() {
    let said = output(&["plan", FILE, "--ranks", "2", "--no-probe"]);
    assert!(said.contains("computed, not measured"), "{said}");
    assert!(!said.contains("exchange  "), "{said}");
    assert!(said.contains("give --bandwidth"), "{said}");
    let plain = output(&["plan", FILE, "--no-probe"]);
    assert!(
        said.starts_with(&plain) && !plain.contains("ranks"),
        "{plain}"
    );
}

#[test]
fn wrong_ranks_and_units_are_refused() {
    let asked = |more: &[&str]| {
        let mut arguments = vec!["plan", FILE, "--no-probe"];
        arguments.extend(more);
        let (status, told) = failure(&arguments);
        assert_eq!(status, 2, "{told}");
        told
    };
    let told = asked(&["--ranks", "4"]);
    assert!(
        told.contains("--ranks 4: 4 ranks cannot share the 2 micro-batches of a step"),
        "{told}"
    );
    assert!(
        told.contains("take 2, or set train.micro_batch_size = 2 for 4"),
        "{told}"
    );
    let told = asked(&["--ranks", "2", "--bandwidth", "10gb/s"]);
    assert!(told.contains("did you mean `GB/s`?"), "{told}");
    let told = asked(&["--ranks", "2", "--bandwidth", "10"]);
    assert!(told.contains("no unit"), "{told}");
    assert!(asked(&["--bandwidth", "10GB/s"]).contains("--ranks"));
    assert!(asked(&["--ranks", "0"]).contains("--ranks"));
    let (_, told) = failure(&["plan", "--preset", "gpt2", "--ranks", "1000"]);
    assert!(told.contains("a power of two; take 1024"), "{told}");
}

/// If memory exceeds what 64 bits count, words replace a number that would be smaller than its parts.
#[test]
fn memory_beyond_every_machine_is_told_in_words() {
    let sets = ["model.n_layers=1000", "model.d_model=16777216"];
    let told = output(&[
        "plan",
        FILE,
        "--no-probe",
        "--set",
        sets[0],
        "--set",
        sets[1],
    ]);
    let words = "more than any machine has";
    assert!(
        told.contains(&format!("{words} of memory")) && !told.contains("18446744073709"),
        "{told}"
    );
    let optimizer = told.lines().find(|line| line.contains("optimizer"));
    assert!(
        optimizer.is_some_and(|line| line.ends_with(words)),
        "{told}"
    );
}
