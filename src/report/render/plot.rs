//! Curves in a terminal: braille dots in colour, each arm's letter without colour, ASCII where the terminal is not UTF-8.
//!
//! The frame holds every value from a tenth of the steps on; what lies above (a fresh model's loss) is cut off and said.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Color;
use ratatui::symbols::Marker;
use ratatui::widgets::Widget;
use ratatui::widgets::canvas::{Canvas, Line, Points};
use unicode_width::UnicodeWidthStr;

use super::terminal::{count, number, plain, shortened};
use crate::report::analyse::comparison::Comparison;
use crate::report::analyse::curves::curve;

/// Arms drawn at once; more cannot be told apart.
const ARMS: usize = 8;
/// Rows of the frame.
const ROWS: u16 = 16;
/// Points of one curve: more than a wide terminal has dots.
const POINTS: usize = 600;
/// ANSI colours of the arms, readable on dark and light grounds.
const COLORS: [(u8, Color); ARMS] = [
    (36, Color::Cyan),
    (33, Color::Yellow),
    (35, Color::Magenta),
    (32, Color::Green),
    (34, Color::Blue),
    (31, Color::Red),
    (94, Color::LightBlue),
    (92, Color::LightGreen),
];

/// What the terminal can show.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Columns.
    pub width: usize,
    /// ANSI colours.
    pub color: bool,
    /// UTF-8 text.
    pub unicode: bool,
}

/// A line of the plot.
struct Trace {
    /// What it is drawn with without dots: its arm's letter, or a digit where that has two.
    mark: String,
    /// Its arm.
    id: String,
    label: String,
    points: Vec<(f64, f64)>,
}

/// The axes' ranges.
struct Frame {
    x: [f64; 2],
    y: [f64; 2],
    /// The largest value, when it is above the frame.
    above: Option<f64>,
}

/// Draws the compared metric by step for each arm; empty when nothing was measured.
pub fn plot(c: &Comparison, style: &Style) -> String {
    let traces = traces(c);
    let Some(frame) = frame(&traces) else {
        return String::new();
    };
    let ticks: Vec<String> = (0..=4)
        .map(|i| number(frame.y[0] + (frame.y[1] - frame.y[0]) * f64::from(i) / 4.0))
        .collect();
    let margin = ticks.iter().map(|t| t.width()).max().unwrap_or(0);
    let columns = style.width.saturating_sub(margin + 3).clamp(20, 160) as u16;
    let area = Rect::new(0, 0, columns, ROWS);
    let mut buffer = Buffer::empty(area);
    canvas(&traces, &frame, style).render(area, &mut buffer);

    let mut text = title(c, &traces, &frame);
    let (side, corner, floor) = if style.unicode {
        ("│", "└", "─")
    } else {
        ("|", "+", "-")
    };
    for row in 0..ROWS {
        let tick = (row % 5 == 0).then(|| ticks[4 - usize::from(row / 5).min(4)].as_str());
        let tick = if row + 1 == ROWS {
            Some(ticks[0].as_str())
        } else {
            tick.filter(|_| row < ROWS - 1)
        };
        let cells = (0..columns).map(|x| &buffer[(x, row)]);
        text.push_str(&format!("{:>margin$} {side}", tick.unwrap_or("")));
        text.push_str(colored(cells.map(|cell| (cell.symbol(), cell.fg)), style).trim_end());
        text.push('\n');
    }
    text.push_str(&format!(
        "{:margin$} {corner}{}\n",
        "",
        floor.repeat(usize::from(columns))
    ));
    text.push_str(&format!(
        "{:margin$}  {}\n",
        "",
        step_labels(&frame, usize::from(columns))
    ));
    text.push_str(&legend(&traces, style));
    text
}

fn title(c: &Comparison, traces: &[Trace], frame: &Frame) -> String {
    let mut title = format!("{} {} by step", c.split, c.metric);
    if traces.len() < c.arms.len() {
        title.push_str(&format!(
            ", the {} best of {} arms",
            traces.len(),
            c.arms.len()
        ));
    }
    if let Some(above) = frame.above {
        title.push_str(&format!(
            " (early values up to {} are above the frame)",
            number(above)
        ));
    }
    title.push('\n');
    title
}

/// The arms' curves: all, or the best few by their best value.
fn traces(c: &Comparison) -> Vec<Trace> {
    let trace = |(n, i): (usize, usize)| {
        let arm = &c.arms[i];
        let letter = Some(arm.id.as_str()).filter(|id| id.len() == 1);
        let runs: Vec<_> = arm.drawn().iter().map(|&m| &c.runs[m]).collect();
        let points = curve(&runs, c.split, &c.metric, POINTS)
            .iter()
            .map(|b| (b.step as f64, b.mean))
            .collect();
        Trace {
            mark: letter.map_or((n + 1).to_string(), str::to_string),
            id: arm.id.clone(),
            label: plain(&arm.label),
            points,
        }
    };
    let leading = c.leading(ARMS).into_iter();
    leading
        .enumerate()
        .map(trace)
        .filter(|t| !t.points.is_empty())
        .collect()
}

/// What the axes reach over; none without points, and when they are further apart than a float tells.
fn frame(traces: &[Trace]) -> Option<Frame> {
    let all = || traces.iter().flat_map(|t| t.points.iter().copied());
    let last = all().map(|p| p.0).reduce(f64::max)?;
    let first = all().map(|p| p.0).reduce(f64::min)?;
    let settled = || {
        all()
            .filter(|p| p.0 >= first + 0.1 * (last - first))
            .map(|p| p.1)
    };
    let (low, high) = (settled().reduce(f64::min)?, settled().reduce(f64::max)?);
    let low = all().map(|p| p.1).fold(low, f64::min);
    let top = all().map(|p| p.1).fold(high, f64::max);
    let pad = if high > low {
        (high - low) * 0.03
    } else {
        1e-3 + low.abs() * 0.05
    };
    let x = if last > first {
        [first, last]
    } else {
        [first - 1.0, first + 1.0]
    };
    let above = (top > high + pad).then_some(top);
    let y = [low - pad, high + pad];
    // A canvas multiplies lengths by its columns and rows.
    let drawable = [x, y].iter().all(|axis| axis[1] - axis[0] < f64::MAX / 1e6);
    drawable.then_some(Frame { x, y, above })
}

fn canvas<'a>(
    traces: &'a [Trace],
    frame: &Frame,
    style: &Style,
) -> Canvas<'a, impl Fn(&mut ratatui::widgets::canvas::Context<'_>) + 'a> {
    let dots = style.unicode && (style.color || traces.len() == 1);
    let base = if dots {
        Marker::Braille
    } else {
        Marker::Custom('*')
    };
    Canvas::default()
        .x_bounds(frame.x)
        .y_bounds(frame.y)
        .marker(base)
        .paint(move |context| {
            for (i, trace) in traces.iter().enumerate().rev() {
                if !dots {
                    context.marker(Marker::Custom(trace.mark.chars().next().unwrap_or('*')));
                }
                let color = COLORS[i % ARMS].1;
                for pair in trace.points.windows(2) {
                    context.draw(&Line::new(
                        pair[0].0, pair[0].1, pair[1].0, pair[1].1, color,
                    ));
                }
                if trace.points.len() == 1 {
                    context.draw(&Points::new(&trace.points, color));
                }
                context.layer();
            }
        })
}

/// Cells in a row as text, with colour changes where the style has colours.
fn colored<'a>(cells: impl Iterator<Item = (&'a str, Color)>, style: &Style) -> String {
    let mut text = String::new();
    let mut current = None;
    for (symbol, color) in cells {
        let blank = symbol == " " || symbol == "\u{2800}";
        let wanted = COLORS
            .iter()
            .find(|(_, c)| *c == color && !blank)
            .map(|(code, _)| *code);
        if style.color && wanted != current {
            text.push_str(&wanted.map_or("\u{1b}[0m".into(), |code| format!("\u{1b}[{code}m")));
            current = wanted;
        }
        text.push_str(if blank { " " } else { symbol });
    }
    if current.is_some() {
        text.push_str("\u{1b}[0m");
    }
    text
}

/// The first, middle and last step below the frame.
fn step_labels(frame: &Frame, columns: usize) -> String {
    let label = |share: f64| {
        count(
            (frame.x[0] + (frame.x[1] - frame.x[0]) * share)
                .round()
                .max(0.0) as u64,
        )
    };
    let (first, middle, last) = (label(0.0), label(0.5), label(1.0));
    let gap = (columns / 2)
        .saturating_sub(first.len() + middle.len() / 2)
        .max(1);
    let rest = columns
        .saturating_sub(first.len() + gap + middle.len() + last.len())
        .max(1);
    format!(
        "{first}{}{middle}{}{last}",
        " ".repeat(gap),
        " ".repeat(rest)
    )
}

/// Marks and names of the arms, as many in a line as fit.
fn legend(traces: &[Trace], style: &Style) -> String {
    let mut text = String::new();
    let mut used = 0;
    for (i, trace) in traces.iter().enumerate() {
        let mark = match style.color || trace.mark == trace.id {
            true => String::new(),
            false => format!("{}: ", trace.mark),
        };
        let name = format!("{mark}{} {}", trace.id, shortened(&trace.label, 40));
        let width = name.width() + if style.color { 6 } else { 3 };
        if used > 0 && used + width > style.width {
            text.push('\n');
            used = 0;
        }
        used += width;
        match style.color {
            true => text.push_str(&format!(
                "\u{1b}[{}m━━\u{1b}[0m {name}   ",
                COLORS[i % ARMS].0
            )),
            false => text.push_str(&format!("{name}   ")),
        }
    }
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n") + "\n"
}
