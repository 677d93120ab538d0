//! Draws one frame of the live view, for terminals of 80 × 24 characters and more.

use super::state::{Phase, State};
use crate::report::render::terminal::{count, duration, number, plain};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};

pub(super) const TRAIN: Color = Color::Cyan;
pub(super) const VALID: Color = Color::Yellow;

/// Minimum number of rows for two readable rows of curves.
const TWO_ROWS: u16 = 18;

/// Draws the view; `now` is in seconds since it began.
pub fn draw(frame: &mut Frame, state: &State, now: f64, memory_mb: Option<f64>) {
    let sample = 3 * u16::from(state.sample.is_some());
    let warnings = state.warnings.len().min(2) as u16;
    let rows = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(2),
        Constraint::Min(3),
        Constraint::Length(1),
        Constraint::Length(sample),
        Constraint::Length(warnings),
        Constraint::Length(1),
    ]);
    let [title, bar, facts, curves, kept, text, warned, keys] = rows.areas(frame.area());
    frame.render_widget(heading(state, title.width), title);
    frame.render_widget(progress(state, bar.width), bar);
    let lines = vec![position(state), measures(state, memory_mb)];
    frame.render_widget(Paragraph::new(lines), facts);
    all_curves(frame, state, curves);
    frame.render_widget(checkpoints(state, now), kept);
    if let Some((step, sample)) = &state.sample {
        frame.render_widget(written(*step, sample), text);
    }
    let newest = state.warnings.iter().rev().take(warnings.into()).rev();
    let newest = newest.map(|text| Line::styled(plain(text), Color::LightRed));
    frame.render_widget(Paragraph::new(newest.collect::<Vec<_>>()), warned);
    frame.render_widget(help(), keys);
    if state.asks_to_end {
        question(frame, state);
    }
}

fn faint(text: impl Into<String>) -> Span<'static> {
    Span::styled(text.into(), Style::new().add_modifier(Modifier::DIM))
}

fn strong(text: impl Into<String>) -> Span<'static> {
    Span::styled(text.into(), Style::new().add_modifier(Modifier::BOLD))
}

/// The experiment's name and folder on the left, the device on the right.
fn heading(state: &State, width: u16) -> Line<'static> {
    let outline = &state.outline;
    let name = plain(&outline.name);
    let folder = plain(&outline.folder.display().to_string());
    let left = Line::from(vec![strong(name), faint(format!("  {folder}"))]);
    let right = outline.device.clone();
    let gap = usize::from(width).saturating_sub(left.width() + right.len());
    let mut spans = left.spans;
    spans.push(Span::raw(" ".repeat(gap.max(2))));
    spans.push(faint(right));
    spans.into()
}

/// A progress bar over the whole width, with a percentage.
fn progress(state: &State, width: u16) -> Line<'static> {
    let part = state.step as f64 / state.outline.steps.max(1) as f64;
    let percent = format!(" {:3.0} %", (part * 100.0).floor());
    let cells = usize::from(width).saturating_sub(percent.len());
    let done = (part * cells as f64) as usize;
    Line::from(vec![
        Span::styled("━".repeat(done.min(cells)), TRAIN),
        faint("─".repeat(cells.saturating_sub(done))),
        strong(percent),
    ])
}

/// The step, the epoch, the time left, and the current phase.
fn position(state: &State) -> Line<'static> {
    let steps = count(state.outline.steps);
    let mut spans = vec![
        Span::raw("step "),
        strong(count(state.step)),
        Span::raw(format!(" of {steps}")),
    ];
    if let Some(epoch) = state.epoch {
        spans.push(Span::raw(format!("   epoch {epoch:.2}")));
    }
    spans.push(Span::raw("   "));
    spans.push(match state.remaining_s() {
        Some(left) => strong(format!("{} left", duration(left))),
        None => faint("time left not known yet"),
    });
    spans.push(match state.phase {
        Phase::Training => faint("   training"),
        Phase::Evaluating(done, of) => Span::styled(format!("   evaluating {done} of {of}"), VALID),
    });
    spans.into()
}

/// Throughput, memory, learning rate, gradient norm.
fn measures(state: &State, memory_mb: Option<f64>) -> Line<'static> {
    let mut parts = Vec::new();
    if let Some(speed) = state.speed.per_second() {
        parts.push(format!("{} {}/s", number(speed), state.outline.unit));
    }
    if let Some(memory) = memory_mb {
        parts.push(format!("memory {} MB", count(memory as u64)));
    }
    if !state.loss.points().is_empty() {
        parts.push(format!("learning rate {:.2e}", state.last.learning_rate));
        parts.push(format!(
            "gradient norm {}",
            number(state.last.gradient_norm)
        ));
    }
    parts.join("   ").into()
}

/// The best evaluation and the newest checkpoint.
fn checkpoints(state: &State, now: f64) -> Line<'static> {
    let name = state.outline.best_by.as_deref().unwrap_or("loss");
    let best = match state.best {
        Some((step, value)) => {
            let (value, step) = (number(value), count(step));
            format!("best valid {} {value} at step {step}", plain(name))
        }
        None => "no evaluation yet".into(),
    };
    let saved = match state.saved {
        Some((step, at)) => {
            let ago = duration((now - at).max(0.0).floor());
            format!("   checkpoint at step {}, {ago} ago", count(step))
        }
        None => "   no checkpoint yet".into(),
    };
    Line::from(vec![Span::styled(best, VALID), Span::raw(saved)])
}

fn written(step: u64, sample: &str) -> Paragraph<'static> {
    let text = vec![
        faint(format!("sample at step {}: ", count(step))),
        Span::raw(sample.to_string()),
    ];
    Paragraph::new(Line::from(text)).wrap(Wrap { trim: true })
}

fn help() -> Line<'static> {
    let keys = [
        ("q", "end the run"),
        ("p", "close the view, print lines"),
        ("Ctrl-Z", "suspend"),
    ];
    let spans = keys
        .into_iter()
        .flat_map(|(key, does)| [strong(key), faint(format!(" {does}   "))]);
    spans.collect::<Vec<_>>().into()
}

/// Two curves side by side, or four in a tall terminal.
fn all_curves(frame: &mut Frame, state: &State, area: Rect) {
    let mut curves = vec![super::curve::loss(state)];
    curves.extend(super::curve::metric(state));
    curves.push(super::curve::gradient_norm(state));
    curves.push(super::curve::learning_rate(state));
    let rows = if area.height < TWO_ROWS { 1 } else { 2 };
    let mut curves = curves.into_iter();
    for row in Layout::vertical(vec![Constraint::Fill(1); rows])
        .split(area)
        .iter()
    {
        for place in Layout::horizontal([Constraint::Fill(1); 2]).areas::<2>(*row) {
            if let Some(curve) = curves.next() {
                curve.draw(frame, place);
            }
        }
    }
}

/// The question that `q` opens.
fn question(frame: &mut Frame, state: &State) {
    let folder = plain(&state.outline.folder.display().to_string());
    let lines = vec![
        Line::from(vec![
            strong("  s  "),
            Span::raw("save a checkpoint and end"),
        ]),
        Line::from(faint(format!("     formwork resume {folder}"))),
        Line::from(vec![
            strong("  p  "),
            Span::raw("close this view; the run continues"),
        ]),
        Line::from(vec![strong("  n  "), Span::raw("back; the run continues")]),
    ];
    let widest = lines.iter().map(Line::width).max().unwrap_or(0) as u16 + 4;
    let all = frame.area();
    let (width, height) = (widest.clamp(30, 76).min(all.width), 6.min(all.height));
    let area = Rect {
        x: (all.width - width) / 2,
        y: (all.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, area);
    let block = Block::bordered().title(" End the run? ");
    frame.render_widget(Paragraph::new(lines).block(block), area);
}
