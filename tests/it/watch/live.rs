//! Changes reach a reader, and nothing else does; the end of the server.

use super::client::{Events, Watch};
use super::{grow, write_run};
use serde_json::{Value, json};
use std::fs;
use std::time::Instant;

fn ids(event: &Value) -> Vec<&str> {
    let runs = event["runs"].as_array().unwrap().iter();
    runs.map(|run| run["id"].as_str().unwrap()).collect()
}

#[test]
fn a_journal_that_grows_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let still = write_run(folder.path(), "still", 5, 10);
    let run = write_run(folder.path(), "run", 5, 40);
    let watch = Watch::start(folder.path(), &[]);
    watch.runs(2);
    let mut events = Events::open(watch.port, "/api/events", &[]);
    let (id, first) = events.next();
    assert_eq!(
        (&first["reset"], ids(&first)),
        (&json!(true), vec!["run", "still"])
    );

    grow(&run, 6, 12);
    let (_, changed) = events.until(|event| !ids(event).is_empty());
    assert_eq!(
        (&changed["reset"], ids(&changed)),
        (&json!(false), vec!["run"])
    );
    assert_eq!(changed["runs"][0]["step"], 12);
    assert_eq!(changed["runs"][0]["best_by"]["step"], 10);

    // A new run appears, and one is deleted, while half a line is written.
    write_run(folder.path(), "new", 3, 10);
    fs::write(
        run.join("metrics.jsonl"),
        "{\"step\":1,\"loss\":2.5}\n{\"step\":2,\"lo",
    )
    .unwrap();
    fs::remove_dir_all(&still).unwrap();
    let all = watch.until(|all| ids(all) == ["new", "run"] && all["runs"][1]["step"] == 1);
    assert_eq!(all["runs"][1]["train_loss"], 2.5);
    let mut gone = false;
    while !gone {
        gone = events.next().1["gone"] == json!(["run:still"]);
    }

    // A browser that reconnects gets what it missed, and so does a script that asks.
    let mut again = Events::open(watch.port, "/api/events", &[("Last-Event-ID", &id)]);
    let (_, missed) = again.next();
    assert_eq!(
        (&missed["reset"], ids(&missed)),
        (&json!(false), vec!["new", "run"])
    );
    assert_eq!(missed["gone"], json!(["run:still"]));
    let news = watch.json(&format!(
        "/api/runs?since={}",
        missed["version"].as_str().unwrap()
    ));
    assert_eq!(ids(&news), Vec::<&str>::new());
}

#[test]
fn a_run_in_training_is_told_apart_with_its_time_left() {
    let folder = tempfile::tempdir().unwrap();
    let run = write_run(folder.path(), "run", 20, 40);
    let lock = fs::File::create(run.join("run.lock")).unwrap();
    lock.lock().unwrap();
    let watch = Watch::start(folder.path(), &[]);
    let all = watch.runs(1);
    assert_eq!(all["runs"][0]["state"], "training");
    // Ten steps per second, with evaluations that take no time.
    let left = all["runs"][0]["left_s"].as_f64().unwrap();
    assert!((left - 2.0).abs() < 1e-6, "{left}");
    drop(lock);
    let all = watch.until(|all| all["runs"][0]["state"] != "training");
    assert_eq!(
        (&all["runs"][0]["state"], &all["runs"][0]["left_s"]),
        (&json!("stopped"), &Value::Null)
    );
}

#[cfg(unix)]
#[test]
fn it_ends_with_the_signal_at_once_and_status_0() {
    let folder = tempfile::tempdir().unwrap();
    for signal in ["INT", "TERM"] {
        let mut watch = Watch::start(folder.path(), &[]);
        watch.runs(0);
        let mut events = Events::open(watch.port, "/api/events", &[]);
        events.next();
        let begun = Instant::now();
        let pid = watch.process.id().to_string();
        let sent = std::process::Command::new("kill")
            .args([format!("-{signal}"), pid])
            .status();
        assert!(sent.unwrap().success());
        let status = watch.process.wait().unwrap();
        assert_eq!(status.code(), Some(0), "{signal}");
        assert!(begun.elapsed() < super::client::PATIENCE);
    }
}
