//! The live view of a run in a terminal: progress, curves, the last sample; keys to end it or to close the view.

mod curve;
mod draw;
mod screen;
mod series;
mod state;
#[cfg(test)]
pub mod tests;

use super::line_printer::{LineInterval, LinePrinter};
use super::output;
use crate::experiment::run::Follower;
use crate::stop::StopFlag;
use crate::train::job::{Report, RunSummary};
use crate::train::machine::resident_mb;
use crate::train::view::{StepNumbers, View};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use screen::Screen;
pub use screen::is_available;
use state::State;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two frames.
const FRAME: Duration = Duration::from_millis(200);

/// State of the view, shared by the run's threads and the view's thread.
pub struct SharedView {
    state: Mutex<State>,
    began: Instant,
    /// Whether the view is on the screen; otherwise lines are printed.
    open: AtomicBool,
    /// Whether the run has ended.
    has_ended: AtomicBool,
}

impl SharedView {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state; `change` gets the seconds since the view began.
    fn change(&self, change: impl FnOnce(&mut State, f64)) {
        change(&mut self.state(), self.began.elapsed().as_secs_f64());
    }
}

/// Follows a run in the terminal: shows the view while it is open, prints lines otherwise.
pub struct Live {
    lines: LinePrinter,
    view: Option<(Arc<SharedView>, JoinHandle<()>)>,
}

impl Live {
    /// Creates a view that opens before the first step; lines are printed at the given pace.
    pub fn new(pace: LineInterval) -> Self {
        Self {
            lines: LinePrinter::new(pace),
            view: None,
        }
    }

    /// Changes the view's state; returns whether a line is to be printed now, instead of being kept for later.
    fn update(&self, change: impl FnOnce(&mut State, f64)) -> bool {
        let Some((shared, _)) = &self.view else {
            return true;
        };
        let now = shared.began.elapsed().as_secs_f64();
        // The lock is held while the view closes, so a line is either kept before that or printed after it.
        let mut state = shared.state();
        change(&mut state, now);
        let open = shared.open.load(Ordering::SeqCst);
        if !open {
            let _ = state.take_history();
        }
        !open
    }
}

impl Follower for Live {
    fn data(&mut self, size: &str) {
        self.lines.data(size);
    }

    fn report(&mut self, report: &Report) {
        if self.update(|state, _| state.report(report)) {
            self.lines.report(report);
        }
    }

    fn sample(&mut self, step: u64, text: &str) {
        if self.update(|state, _| state.sampled(step, text)) {
            self.lines.sample(step, text);
        }
    }

    fn saved(&mut self, step: u64) {
        self.update(|state, now| state.saved = Some((step, now)));
    }

    fn skipped(&mut self, step: u64, reason: &str) {
        if self.update(|state, _| state.skipped(step, reason)) {
            self.lines.skipped(step, reason);
        }
    }

    fn view(&mut self, outline: &RunSummary) -> Box<dyn View> {
        let shared = Arc::new(SharedView {
            state: Mutex::new(State::new(outline.clone())),
            began: Instant::now(),
            open: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
        });
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("live-view".into())
            .spawn(move || show(&own));
        // If the view cannot start, lines are printed.
        if let Ok(thread) = thread {
            self.view = Some((Arc::clone(&shared), thread));
        }
        Box::new(shared)
    }
}

impl View for Arc<SharedView> {
    fn round(&mut self, round: u64) {
        self.change(|state, now| state.end_round(round, now));
    }

    fn steps_begin(&mut self) {
        self.change(|state, now| state.steps_begin(now));
    }

    fn stepped(&mut self, done: u64, step: StepNumbers) {
        self.change(|state, now| state.stepped(done, step, now));
    }

    fn evaluation_begins(&mut self, batches: u64) {
        self.change(|state, now| state.evaluation_begins(batches, now));
    }

    fn evaluated(&mut self, done: u64) {
        self.change(|state, _| state.evaluated(done));
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if let Some((shared, thread)) = self.view.take() {
            shared.has_ended.store(true, Ordering::SeqCst);
            let _ = thread.join();
        }
    }
}

/// Why the view leaves the screen.
enum LeaveReason {
    /// The run has ended or is to end, or lines are wanted instead.
    Closed,
    /// The process is suspended, and the shell has the terminal.
    Suspended,
}

/// Shows the view until the run is over, or the user closes it.
fn show(shared: &SharedView) {
    let Ok(stop) = StopFlag::on_signals() else {
        return;
    };
    loop {
        let Ok(screen) = Screen::open() else {
            return;
        };
        shared.open.store(true, Ordering::SeqCst);
        let left = follow(shared, screen, &stop);
        if !matches!(left, Ok(LeaveReason::Suspended)) {
            return;
        }
        screen::suspend();
        while !screen::in_foreground() {
            if shared.has_ended.load(Ordering::SeqCst) || stop.is_raised() {
                return;
            }
            std::thread::sleep(FRAME);
        }
    }
}

/// Draws and reads keys while the screen is open; on leaving, prints all events as lines in the terminal.
fn follow(shared: &SharedView, mut screen: Screen, stop: &StopFlag) -> io::Result<LeaveReason> {
    let left = loop {
        if shared.has_ended.load(Ordering::SeqCst) || stop.is_raised() {
            break Ok(LeaveReason::Closed);
        }
        let drawn = screen.draw(|frame| {
            let now = shared.began.elapsed().as_secs_f64();
            draw::draw(frame, &shared.state(), now, resident_mb());
        });
        match drawn.and_then(|()| key(shared, FRAME)) {
            Ok(None) => {}
            Ok(Some(left)) => break Ok(left),
            Err(error) => break Err(error),
        }
    };
    let mut state = shared.state();
    drop(screen);
    for line in state.take_history() {
        output::note(line);
    }
    shared.open.store(false, Ordering::SeqCst);
    if stop.is_raised() {
        output::note("saving a checkpoint; Ctrl-C ends at once, without it");
    }
    left
}

/// Waits for a key and handles it; returns why the screen is left, if it is.
fn key(shared: &SharedView, wait: Duration) -> io::Result<Option<LeaveReason>> {
    if !event::poll(wait)? {
        return Ok(None);
    }
    let Event::Key(key) = event::read()? else {
        return Ok(None);
    };
    Ok(match key.kind {
        KeyEventKind::Press => handle_key(&mut shared.state(), key),
        KeyEventKind::Repeat | KeyEventKind::Release => None,
    })
}

fn handle_key(state: &mut State, key: KeyEvent) -> Option<LeaveReason> {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match (key.code, control, state.asks_to_end) {
        (KeyCode::Char('c'), true, _) | (KeyCode::Char('s'), false, true) => {
            // Same signal as Ctrl-C outside of the view; the next one ends the process at once.
            let _ = signal_hook::low_level::raise(signal_hook::consts::SIGINT);
            None
        }
        (KeyCode::Char('z'), true, _) => Some(LeaveReason::Suspended),
        (KeyCode::Char('q'), false, false) => {
            state.asks_to_end = true;
            None
        }
        (KeyCode::Char('p'), false, _) => Some(LeaveReason::Closed),
        (KeyCode::Esc | KeyCode::Char('q' | 'n'), false, true) => {
            state.asks_to_end = false;
            None
        }
        _ => None,
    }
}
