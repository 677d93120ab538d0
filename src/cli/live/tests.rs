//! Snapshots of the live view as text: `FORMWORK_SNAPSHOTS=write cargo test --release live` rewrites them.

use super::draw::draw;
use super::state::State;
use super::{LeaveReason, handle_key};
use crate::train::job::{Report, RunSummary};
use crate::train::view::StepNumbers;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::f64::consts::LN_2;
use std::path::Path;

/// A journal line with this loss.
pub fn report(split: &'static str, step: u64, loss: f64) -> Report {
    Report {
        step,
        steps: 1000,
        split,
        epoch: (split == "train").then_some(step as f64 / 160.0),
        loss,
        lr: None,
        grad_norm: None,
        items_per_s: None,
        unit: "tokens",
        elapsed_s: 0.0,
        remaining_s: None,
        metrics: [("bits_per_byte".to_string(), loss / LN_2)].into(),
        part: None,
    }
}

fn outline() -> RunSummary {
    RunSummary {
        name: "shakespeare".into(),
        folder: "checkpoints/shakespeare".into(),
        device: "flex".into(),
        step: 0,
        steps: 1000,
        round: 100,
        unit: "tokens",
        best_by: None,
        best: None,
    }
}

/// A run of a thousand steps, ten per second, after `steps` of them; evaluations take two seconds.
fn after(steps: u64) -> (State, f64) {
    let mut state = State::new(outline());
    let mut now = 0.0;
    state.steps_begin(now);
    for step in 1..=steps {
        now += 0.1;
        let loss = 1.5 + 4.0 * (-(step as f64) / 120.0).exp();
        let learning_rate = 3e-4 * (step as f64 / 100.0).min(1.0);
        let values = StepNumbers {
            loss: loss + 0.1 * (step as f64).sin(),
            gradient_norm: 0.5 + 2.0 / (step as f64).sqrt(),
            learning_rate,
            items_per_s: 12_000.0,
        };
        state.stepped((step - 1) % 100 + 1, values, now);
        if step % 10 == 0 {
            state.report(&report("train", step, loss));
        }
        if step % 100 == 0 {
            state.evaluation_begins(40, now);
            now += 2.0;
            state.evaluated(40);
            state.report(&report("valid", step, loss + 0.12));
            state.sampled(
                step,
                "ROMEO: what light through yonder window\u{1b}[2J breaks",
            );
            state.saved = Some((step, now));
            state.end_round(step / 100, now);
            state.steps_begin(now);
        }
    }
    (state, now)
}

fn picture(state: &State, now: f64, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal
        .draw(|frame| draw(frame, state, now, Some(412.3)))
        .unwrap();
    let buffer = terminal.backend().buffer();
    let rows = buffer.content().chunks(usize::from(width));
    let rows = rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>());
    rows.map(|row| format!("{}\n", row.trim_end())).collect()
}

fn compare(name: &str, picture: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("src/cli/live/pictures")
        .join(name);
    if std::env::var_os("FORMWORK_SNAPSHOTS").is_some_and(|v| v == "write") {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, picture).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap();
    assert!(kept == picture, "{name} is now\n{picture}");
}

#[test]
fn pictures_at_both_sizes() {
    let (state, now) = after(437);
    compare("80x24.txt", &picture(&state, now, 80, 24));
    compare("120x40.txt", &picture(&state, now, 120, 40));
}

#[test]
fn a_picture_with_a_warning_an_evaluation_and_the_question() {
    let (mut state, now) = after(460);
    state.skipped(461, "the loss is NaN");
    state.evaluation_begins(40, now);
    state.evaluated(12);
    state.asks_to_end = true;
    compare("asks_80x24.txt", &picture(&state, now + 1.0, 80, 24));
}

#[test]
fn the_first_picture_promises_nothing_and_any_size_is_drawn() {
    let state = State::new(outline());
    let first = picture(&state, 0.0, 80, 24);
    assert!(first.contains("step 0 of 1,000"), "{first}");
    assert!(first.contains("time left not known yet"), "{first}");
    let (mut state, now) = after(250);
    state.asks_to_end = true;
    for (width, height) in [(1, 1), (10, 3), (33, 9), (79, 12), (300, 100)] {
        picture(&state, now, width, height);
    }
}

#[test]
fn the_time_left_is_there_after_one_step_and_counts_evaluations() {
    let (state, _) = after(1);
    assert!((state.remaining_s().unwrap() - 99.9).abs() < 1e-6);
    // 563 steps at ten per second, and six evaluations of two seconds.
    let (state, _) = after(437);
    let left = state.remaining_s().unwrap();
    assert!((left - 68.3).abs() < 0.5, "{left}");
}

#[test]
fn a_resumed_run_begins_in_the_middle_of_a_round() {
    let mut state = State::new(RunSummary {
        step: 250,
        ..outline()
    });
    state.steps_begin(0.0);
    state.stepped(51, StepNumbers::default(), 0.5);
    assert_eq!(state.step, 251);
    assert!((state.remaining_s().unwrap() - 374.5).abs() < 1e-6);
    state.stepped(52, StepNumbers::default(), 1.0);
    state.end_round(3, 9.0);
    state.steps_begin(9.0);
    state.stepped(1, StepNumbers::default(), 9.5);
    assert_eq!(state.step, 301);
}

#[test]
fn the_best_is_the_greatest_where_higher_is_better() {
    let mut state = State::new(RunSummary {
        best_by: Some("accuracy".into()),
        best: Some((10, 0.5)),
        ..outline()
    });
    for (step, accuracy) in [(20, 0.4), (30, 0.7), (40, f64::NAN), (50, 0.6)] {
        let metrics = [("accuracy".to_string(), accuracy)].into();
        state.report(&Report {
            metrics,
            ..report("valid", step, 1.0)
        });
    }
    assert_eq!(state.best, Some((30, 0.7)));
    assert_eq!(state.metric(), Some("accuracy"));
}

#[test]
fn lines_that_stay_are_few_of_training_and_all_of_evaluations() {
    let (mut state, _) = after(1000);
    let lines = state.take_history();
    let count = |word: &str| lines.iter().filter(|line| line.contains(word)).count();
    assert_eq!((count("  valid  "), count("sample at step")), (10, 10));
    assert!((1..=200).contains(&count("  train  ")));
    assert!(state.take_history().is_empty());
}

#[test]
fn keys_ask_before_they_end_a_run() {
    let mut state = State::new(outline());
    let press =
        |state: &mut State, code| handle_key(state, KeyEvent::new(code, KeyModifiers::NONE));
    // `s` ends nothing before the question is open.
    assert!(press(&mut state, KeyCode::Char('s')).is_none() && !state.asks_to_end);
    assert!(press(&mut state, KeyCode::Char('q')).is_none() && state.asks_to_end);
    assert!(press(&mut state, KeyCode::Esc).is_none() && !state.asks_to_end);
    let left = press(&mut state, KeyCode::Char('p'));
    assert!(matches!(left, Some(LeaveReason::Closed)));
    let suspended = handle_key(
        &mut state,
        KeyEvent::new(KeyCode::Char('z'), KeyModifiers::CONTROL),
    );
    assert!(matches!(suspended, Some(LeaveReason::Suspended)));
}
