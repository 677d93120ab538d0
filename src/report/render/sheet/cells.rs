//! Formats the cells of a comparison's table: readable text, and the number to sort by.

use super::Cell;
use crate::report::analyse::arms::Arm;
use crate::report::analyse::cells::Cells;
use crate::report::analyse::statistics::contrast::{Contrast, MOST_SEEDS, Reason, Verdict};
use crate::report::analyse::statistics::rates::Rate;
use crate::report::analyse::statistics::summary::Summary;
use crate::report::analyse::statistics::{Interval, LEVEL, p_value};
use crate::report::read::run::Run;
use crate::report::render::terminal::{count, duration, mean_sd, number, signed};

/// Returns the cell of a setting's value, which may be a number. A float with many digits is shown in scientific notation with
/// all its significant digits, if that is shorter: `1e30`.
pub fn setting(value: Option<&str>) -> Cell {
    let text = value.unwrap_or_default();
    let value: Option<f64> = text.parse().ok();
    let float = value.filter(|x| x.is_finite() && text.contains('.'));
    let by_power = float.map(|x| format!("{x:e}"));
    Cell {
        text: by_power
            .filter(|short| text.len() > DIGITS && short.len() < text.len())
            .unwrap_or_else(|| text.to_string()),
        value,
    }
}

/// Maximum length of a float that is shown as it is written.
const DIGITS: usize = 12;

/// Returns the number of runs and their seeds: `3 (1, 2, 3)`, or `8 (1 … 8)` for more than five.
pub fn seeds(runs: &[&Run]) -> Cell {
    let n = runs.len();
    let seeds: Vec<&str> = runs.iter().filter_map(|r| r.seed.as_deref()).collect();
    let list = match seeds.as_slice() {
        [] => String::new(),
        [first, .., last] if seeds.len() > 5 => format!(" ({first} … {last})"),
        few => format!(" ({})", few.join(", ")),
    };
    Cell {
        text: format!("{n}{list}"),
        value: Some(n as f64),
    }
}

/// Returns the steps done, `100–200` if runs differ.
pub fn steps(runs: &[&Run]) -> Cell {
    let done = || runs.iter().map(|r| r.journal.last_step);
    let (least, most) = (done().min().unwrap_or(0), done().max().unwrap_or(0));
    let text = if least == most {
        count(most)
    } else {
        format!("{}–{}", count(least), count(most))
    };
    Cell {
        text,
        value: Some(most as f64),
    }
}

/// Returns the state of a single run, or the counts of an arm's runs by state.
pub fn state(arm: &Arm, runs: &[Run]) -> Cell {
    let states = arm.members.iter().map(|&m| runs[m].state());
    let open: Vec<String> = states.filter(|s| s != "done").collect();
    let text = match open.as_slice() {
        [] if arm.absent.is_empty() => "done".into(),
        [one] if arm.planned() == 1 => one.clone(),
        _ => Cells::of([arm], runs).to_string(),
    };
    Cell { text, value: None }
}

/// Returns `mean ± sd`.
pub fn summary(s: Option<&Summary>) -> Cell {
    s.map_or_else(Cell::default, |s| Cell {
        text: mean_sd(s.mean, s.sd),
        value: Some(s.mean),
    })
}

/// Appends marks to a value: `1.234 at 40`.
pub fn with_marks(mut cell: Cell, marks: &[String]) -> Cell {
    if !cell.text.is_empty() && !marks.is_empty() {
        cell.text = format!("{} {}", cell.text, marks.join(", "));
    }
    cell
}

/// Returns a mean without its deviation.
pub fn rate(s: Option<&Summary>) -> Cell {
    s.map_or_else(Cell::default, |s| Cell {
        text: number(s.mean),
        value: Some(s.mean),
    })
}

/// Returns a mean duration.
pub fn time(s: Option<&Summary>) -> Cell {
    s.map_or_else(Cell::default, |s| Cell {
        text: duration(s.mean),
        value: Some(s.mean),
    })
}

/// Returns the difference and its t interval: `-0.051 [-0.169, +0.067]`.
pub fn difference(gap: Option<&Contrast>) -> Cell {
    let Some((gap, mean)) = gap.and_then(|g| Some((g, g.difference?))) else {
        return Cell::default();
    };
    Cell {
        text: gap
            .interval()
            .and_then(|i| interval_text(mean, i))
            .unwrap_or_else(|| signed(mean)),
        value: Some(mean),
    }
}

/// Returns the BCa interval of the difference: `[-0.169, +0.067]`.
pub fn bootstrapped(gap: Option<&Contrast>) -> Cell {
    let interval = gap.and_then(|g| Some(g.bootstrap.as_ref()?.bca));
    interval.map_or_else(Cell::default, |i| Cell {
        text: bounds(i, places((i.high - i.low) / 2.0)),
        value: Some(f64::midpoint(i.low, i.high)),
    })
}

/// Formats middle and ends with enough decimals for two digits of the half width; `None` for an interval of width 0.
fn interval_text(middle: f64, interval: Interval) -> Option<String> {
    let half = (interval.high - interval.low) / 2.0;
    let places = places(half);
    (half > 0.0).then(|| format!("{middle:+.places$} {}", bounds(interval, places)))
}

fn bounds(Interval { low, high }: Interval, places: usize) -> String {
    format!("[{low:+.places$}, {high:+.places$}]")
}

/// Returns `3 of 5`, sorted by the share.
pub fn share(rate: Rate) -> Cell {
    rate.value().map_or_else(Cell::default, |share| Cell {
        text: format!("{} of {}", rate.events, rate.n),
        value: Some(share),
    })
}

/// Returns a rate with Wilson's interval: `1 of 5 [4, 62 %]`.
pub fn share_with_interval(rate: Rate) -> Cell {
    let percent = |x: f64| (100.0 * x).round();
    let mut cell = share(rate);
    if let Some(Interval { low, high }) = rate.wilson(LEVEL) {
        let interval = format!(" [{}, {} %]", percent(low), percent(high));
        cell.text.push_str(&interval);
    }
    cell
}

/// Returns an effect size with its sign.
pub fn effect(g: f64) -> Cell {
    Cell {
        text: format!("{g:+.2}"),
        value: Some(g),
    }
}

/// Returns the verdict of a test; empty if there were too few values or they overflowed.
pub fn verdict(gap: &Contrast) -> Cell {
    let text = match gap.verdict {
        Verdict::Better => "better".into(),
        Verdict::Worse => "worse".into(),
        Verdict::NotSettled { needed: Some(n) } => format!("open: ~{n} seeds"),
        Verdict::NotSettled { needed: None } => format!("open: >{MOST_SEEDS} seeds"),
        Verdict::Open => "open".into(),
        Verdict::NotTested(Reason::Identical | Reason::NoSpread) => "not tested".into(),
        Verdict::NotTested(Reason::OtherSteps) => "not tested: steps differ".into(),
        Verdict::NotTested(Reason::OtherContents) => "not tested: data or weights differ".into(),
        Verdict::NotTested(Reason::OtherMeasure) => "not tested: another measure".into(),
        Verdict::NotTested(Reason::NoValues | Reason::TooFewSeeds | Reason::OutOfRange) => {
            String::new()
        }
    };
    Cell { text, value: None }
}

/// Returns the number of decimals (3 to 8) that show two significant digits of a positive number; 3 for 0.
fn places(size: f64) -> usize {
    match size > 0.0 {
        true => (1 - size.log10().floor() as i64).clamp(3, 8) as usize,
        false => 3,
    }
}

/// Returns the corrected p value.
pub fn p_cell(gap: Option<&Contrast>) -> Cell {
    let p = gap.and_then(|g| g.p_holm);
    p.map_or_else(Cell::default, |p| Cell {
        text: p_value(p),
        value: Some(p),
    })
}
