//! Axes of figures: the range that holds the values, round ticks and their labels; linear or logarithmic.
//!
//! A logarithmic axis is a linear axis of decimal logarithms, so that all charts have one type and ticks are chosen here.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

use crate::report::render::terminal::{count, number};

/// Maximum magnitude of a drawn value; differences of larger values might overflow.
const LARGEST: f64 = 1e150;
/// Ranges narrower than this count as a single value.
const SMALLEST: f64 = 1e-150;

/// Whether no two finite values differ, so that an axis of them would show nothing.
pub fn is_single_value(values: impl IntoIterator<Item = f64>) -> bool {
    let mut values = values.into_iter().filter(|v| v.is_finite());
    let first = values.next();
    values.all(|v| Some(v) == first)
}

/// An axis with its range, ticks and labels. Positions on a logarithmic axis are decimal logarithms.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Label of the axis.
    pub title: String,
    /// Lower end, as a position on the axis.
    pub low: f64,
    /// Upper end, as a position on the axis.
    pub high: f64,
    /// Ticks, as positions on the axis.
    pub ticks: Vec<f64>,
    /// Whether the axis shows named rows, with ticks 0, 1, 2 … and no grid.
    pub rows: bool,
    log: bool,
    names: Vec<String>,
}

impl Axis {
    /// Builds an axis that holds all finite values, with about `n` ticks. It is logarithmic only if `log` is set and all values
    /// are positive. `margins` adds room at both ends.
    pub fn fit(
        title: impl Into<String>,
        values: impl IntoIterator<Item = f64>,
        log: bool,
        n: usize,
        margins: bool,
    ) -> Self {
        let values = values.into_iter().filter(|v| v.abs() <= LARGEST);
        let values: Vec<f64> = values.collect();
        let log = log && values.iter().all(|v| *v > 0.0);
        let at = |v: f64| if log { v.log10() } else { v };
        let low = values.iter().copied().map(at).fold(f64::INFINITY, f64::min);
        let high = values
            .iter()
            .copied()
            .map(at)
            .fold(f64::NEG_INFINITY, f64::max);
        let (mut low, mut high) = match low <= high {
            true => (low, high),
            false => (0.0, 1.0),
        };
        if high - low <= (1e-9 * high.abs().max(low.abs())).max(SMALLEST) {
            let room = if low.abs() <= SMALLEST || log {
                0.5
            } else {
                0.05 * low.abs()
            };
            (low, high) = (low - room, high + room);
        }
        if margins {
            let room = 0.06 * (high - low);
            (low, high) = (low - room, high + room);
        }
        let mut axis = Self {
            title: title.into(),
            low,
            high,
            ticks: Vec::new(),
            rows: false,
            log,
            names: Vec::new(),
        };
        axis.ticks = axis.round(n.max(2));
        let digits = axis.decimals();
        axis.names = axis
            .ticks
            .iter()
            .map(|t| axis.shown(axis.value(*t), digits))
            .collect();
        axis
    }

    /// Builds an axis of named rows, the first one on top.
    pub fn of_rows(names: Vec<String>) -> Self {
        let n = names.len() as f64;
        Self {
            title: String::new(),
            low: n - 0.5,
            high: -0.5,
            ticks: (0..names.len()).map(|i| i as f64).collect(),
            rows: true,
            log: false,
            names,
        }
    }

    /// Returns the position of a value on the axis; `None` for values that a logarithmic axis cannot show.
    pub fn position(&self, value: f64) -> Option<f64> {
        let at = if self.log { value.log10() } else { value };
        at.is_finite().then_some(at)
    }

    fn value(&self, at: f64) -> f64 {
        if self.log { 10f64.powf(at) } else { at }
    }

    /// Returns the label of a tick.
    pub fn label(&self, tick: f64) -> String {
        let nearest = self.ticks.iter().position(|t| *t == tick);
        nearest
            .and_then(|i| self.names.get(i))
            .cloned()
            .unwrap_or_default()
    }

    /// Returns round positions in the range: 1, 2 or 5 times a power of ten. Over several decades, only the powers themselves.
    fn round(&self, n: usize) -> Vec<f64> {
        let (low, high) = (self.value(self.low), self.value(self.high));
        if self.log && high / low >= 10.0 {
            let decades = (self.high - self.low).ceil() as usize;
            let factors: &[f64] = if decades > 2 {
                &[1.0]
            } else {
                &[1.0, 2.0, 5.0]
            };
            let every = decades.div_ceil(n).max(1) as i32;
            let powers = (self.low.floor() as i32)..=(self.high.ceil() as i32);
            let powers = powers.filter(|e| e.rem_euclid(every) == 0);
            return powers
                .flat_map(|e| factors.iter().map(move |f| f64::from(e) + f.log10()))
                .filter(|t| (self.low..=self.high).contains(t))
                .collect();
        }
        let rough = (high - low) / n as f64;
        let unit = 10f64.powf(rough.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|m| m * unit);
        let step = steps.into_iter().find(|s| *s >= rough).unwrap_or(rough);
        let (first, last) = ((low / step).ceil() as i64, (high / step).floor() as i64);
        (first..=last)
            .filter_map(|i| self.position(i as f64 * step))
            .collect()
    }

    /// Returns the number of decimals needed to tell the ticks apart.
    fn decimals(&self) -> usize {
        let values: Vec<f64> = self.ticks.iter().map(|t| self.value(*t)).collect();
        let apart = values.windows(2).map(|w| (w[1] - w[0]).abs());
        let least = apart.fold(f64::INFINITY, f64::min);
        if least.is_finite() && least > 0.0 {
            (-(least.log10() + 1e-9).floor()).clamp(0.0, 9.0) as usize
        } else {
            2
        }
    }

    fn shown(&self, value: f64, digits: usize) -> String {
        let size = value.abs();
        if size >= 1e6 || (size > 0.0 && size < 1e-4) {
            let rounded = format!("{value:.2e}");
            let (digits, power) = rounded.split_once('e').unwrap_or((&rounded, "0"));
            let digits = digits.trim_end_matches('0').trim_end_matches('.');
            format!("{digits}e{power}")
        } else if digits == 0 && value >= 0.0 {
            count(value.round() as u64)
        } else if self.log {
            let text = number(value);
            text.trim_end_matches('0').trim_end_matches('.').to_string()
        } else {
            format!("{value:.digits$}")
        }
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        // Clamped, because positions far outside the frame need not be exact.
        let share = ((value - self.low) / (self.high - self.low)).clamp(-1.0, 2.0);
        from + (share * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match hint.weight().allow_light_points() {
            true => Vec::new(),
            false => self.ticks.clone(),
        }
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, tick: &f64) -> String {
        self.label(*tick)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<String> {
        axis.ticks.iter().map(|t| axis.label(*t)).collect()
    }

    #[test]
    fn ticks_are_round() {
        let axis = Axis::fit("loss", [1.43, 1.61], false, 5, false);
        assert_eq!(labels(&axis), ["1.45", "1.50", "1.55", "1.60"]);
        let steps = Axis::fit("steps", [0.0, 20_000.0], false, 4, false);
        assert_eq!(labels(&steps), ["0", "5,000", "10,000", "15,000", "20,000"]);
        let flops = Axis::fit("FLOPs", [1.5e14, 8e15], true, 5, false);
        assert_eq!(labels(&flops), ["2e14", "5e14", "1e15", "2e15", "5e15"]);
        let nothing = Axis::fit("loss", [f64::NAN], false, 5, false);
        assert_eq!((nothing.low, nothing.high), (-0.0, 1.0));
        let same = Axis::fit("loss", [2.0, 2.0], false, 5, false);
        assert!(same.low < 2.0 && same.high > 2.0);
    }
}
