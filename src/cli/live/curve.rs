//! Curves of the live view.

use super::draw::{TRAIN, VALID};
use super::series::Series;
use super::state::State;
use crate::report::render::terminal::{count, number, plain};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Block, Chart, Dataset, GraphType};

/// A curve: its split, colour and points.
type PlottedLine = (&'static str, Color, Vec<(f64, f64)>);

/// A chart with a curve for each split.
pub struct Curve {
    name: String,
    lines: Vec<PlottedLine>,
}

/// Training and validation loss; the training loss, which fluctuates from step to step, is smoothed.
pub fn loss(state: &State) -> Curve {
    let train = state.loss.smooth();
    let valid = of(state, "valid", "loss");
    Curve {
        name: "loss".into(),
        lines: vec![("train", TRAIN, train), ("valid", VALID, valid)],
    }
}

/// The task's own metric, once an evaluation has reported it.
pub fn metric(state: &State) -> Option<Curve> {
    let name = state.metric()?;
    Some(Curve {
        name: plain(name),
        lines: vec![
            ("train", TRAIN, of(state, "train", name)),
            ("valid", VALID, of(state, "valid", name)),
        ],
    })
}

/// Norm of the gradient before clipping.
pub fn gradient_norm(state: &State) -> Curve {
    Curve {
        name: "gradient norm".into(),
        lines: vec![("", TRAIN, state.gradient_norm.smooth())],
    }
}

/// Learning rate.
pub fn learning_rate(state: &State) -> Curve {
    Curve {
        name: "learning rate".into(),
        lines: vec![("", TRAIN, state.learning_rate.points().to_vec())],
    }
}

fn of(state: &State, split: &'static str, metric: &str) -> Vec<(f64, f64)> {
    let series = state.metrics.get(&(split, metric.to_string()));
    series.map(Series::points).unwrap_or_default().to_vec()
}

impl Curve {
    /// Draws the chart with its last values in the title.
    pub fn draw(&self, frame: &mut Frame, area: Rect) {
        let block = Block::bordered()
            .border_style(Style::new().add_modifier(Modifier::DIM))
            .title(self.title(area.width));
        let Some((across, up)) = self.bounds() else {
            frame.render_widget(block, area);
            return;
        };
        let datasets = self.lines.iter().map(|(_, color, points)| {
            Dataset::default()
                .marker(Marker::Braille)
                .graph_type(GraphType::Line)
                .style(*color)
                .data(points)
        });
        let chart = Chart::new(datasets.collect())
            .block(block)
            .legend_position(None)
            .x_axis(
                Axis::default()
                    .bounds(across)
                    .labels(across.map(|step| count(step as u64))),
            )
            .y_axis(Axis::default().bounds(up).labels(up.map(number)));
        frame.render_widget(chart, area);
    }

    /// The name with the last values; in a narrow chart without the training value, so that no value is cut off.
    fn title(&self, width: u16) -> Line<'static> {
        let named = |all: bool| {
            let mut spans = vec![Span::raw(format!(" {} ", self.name))];
            for (name, color, points) in &self.lines {
                let Some((_, value)) = points.last().filter(|_| all || *name != "train") else {
                    continue;
                };
                let gap = if name.is_empty() { "" } else { " " };
                spans.push(Span::styled(
                    format!(" {name}{gap}{} ", number(*value)),
                    *color,
                ));
            }
            Line::from(spans)
        };
        let whole = named(true);
        match whole.width() <= usize::from(width.saturating_sub(2)) {
            true => whole,
            false => named(false),
        }
    }

    /// The range of steps and of values. The first twentieth of a curve does not extend the range upwards: a loss before
    /// training is so high that the rest would be a flat line.
    fn bounds(&self) -> Option<([f64; 2], [f64; 2])> {
        let points = || self.lines.iter().flat_map(|(_, _, points)| points);
        let (first, last) = span(points().map(|p| p.0))?;
        let (low, _) = span(points().map(|p| p.1))?;
        let settled = first + (last - first) / 20.0;
        let (_, high) = span(points().filter(|p| p.0 >= settled).map(|p| p.1))?;
        let room = ((high - low) / 20.0).max(high.abs().max(1e-12) * 1e-3);
        // A curve without negative values has no room below zero.
        let ground = if low < 0.0 { f64::MIN } else { 0.0 };
        let up = [(low - room).max(ground), high + room];
        Some(([first, last.max(first + 1.0)], up))
    }
}

/// The minimum and maximum of some numbers.
fn span(numbers: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    numbers.fold(None, |span, x| {
        Some(span.map_or((x, x), |(low, high): (f64, f64)| (low.min(x), high.max(x))))
    })
}
