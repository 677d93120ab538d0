//! `formwork plan --ranks`: the amount of data that ranks exchange, and the expected speedup.

use super::megabytes;
use crate::cli::output;
use crate::error::{Error, Result, suggestion};
use crate::experiment::Experiment;
use crate::plan::ModelCost;
use crate::plan::ranks::{DistributedCost, Link, distributed_cost};
use crate::train::ranks;
use clap::Args;

/// Flags about ranks.
#[derive(Debug, Args)]
pub struct RanksArgs {
    /// Plan for every number of ranks up to N that is a power of two.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    ranks: Option<u32>,
    /// Bandwidth at which a rank can send while it receives as much: 10GB/s, 25Gbit/s.
    #[arg(long, value_name = "RATE", requires = "ranks", value_parser = rate)]
    bandwidth: Option<f64>,
    /// Fixed time per message, in addition to its bytes: 20us; none when absent.
    #[arg(long, value_name = "TIME", requires = "bandwidth", value_parser = seconds)]
    latency: Option<f64>,
    /// Milliseconds per step on one rank, instead of the measured time.
    #[arg(long, value_name = "MS", requires = "ranks", value_parser = positive)]
    step_ms: Option<f64>,
}

impl RanksArgs {
    /// Whether the time of a step is given.
    pub fn has_step_time(&self) -> bool {
        self.step_ms.is_some()
    }

    /// Checks that the requested number of ranks can share a step.
    ///
    /// # Errors
    /// If the number is not a power of two, or does not divide the micro-batches.
    pub fn require(&self, experiment: &Experiment) -> Result<()> {
        self.refused(|asked| ranks::fault(asked, &experiment.train))
    }

    /// As [`RanksArgs::require`], for a model without training settings.
    ///
    /// # Errors
    /// If the number is not a power of two.
    pub fn require_power(&self) -> Result<()> {
        self.refused(ranks::power_of_two_fault)
    }

    fn refused(&self, fault: impl Fn(usize) -> Option<String>) -> Result<()> {
        let asked = self.ranks.unwrap_or(1) as usize;
        match fault(asked) {
            Some(fault) => Err(Error::usage(format!("--ranks {asked}: {fault}"))),
            None => Ok(()),
        }
    }

    /// Returns a row for every power of two up to the requested number of ranks; none if none is requested. `together` is the
    /// size in bytes of the optimizer moments that a single rank must keep as a whole.
    pub fn rows(
        &self,
        cost: &ModelCost,
        together: u64,
        measured_ms: Option<f64>,
    ) -> Vec<DistributedCost> {
        let link = self.bandwidth.map(|bytes_per_s| Link {
            bytes_per_s,
            latency_s: self.latency.unwrap_or(0.0),
        });
        let last = self.ranks.unwrap_or(0) as usize;
        let powers = (0..usize::BITS).map(|power| 1 << power);
        powers
            .take_while(|ranks| *ranks <= last)
            .map(|ranks| {
                distributed_cost(cost, together, ranks, link, self.step_ms.or(measured_ms))
            })
            .collect()
    }
}

/// Prints the rows as a table.
///
/// # Errors
/// If standard output cannot be written to.
pub fn show(rows: &[DistributedCost]) -> Result<()> {
    let Some(first) = rows.first() else {
        return Ok(());
    };
    output::line("")?;
    output::line("computed, not measured: ranks share a step and then exchange gradients")?;
    let mut head = format!(
        "{:>6}  {:>12}  {:>13}  {:>15}",
        "ranks", "sent a step", "memory a rank", "moments sharded"
    );
    let (linked, timed) = (first.exchange_ms.is_some(), first.step_ms.is_some());
    if linked {
        head += &format!("  {:>12}", "exchange");
    }
    if timed {
        head += &format!("  {:>12}  {:>10}", "step", "efficiency");
    }
    output::line(head)?;
    for row in rows {
        let ms = |time: f64| format!("{time:.2} ms");
        let mut line = format!(
            "{:>6}  {:>12}  {:>13}  {:>15}",
            row.ranks,
            megabytes(row.sent_bytes),
            megabytes(row.memory_bytes),
            megabytes(row.sharded_memory_bytes)
        );
        if let Some(exchange) = row.exchange_ms {
            line += &format!("  {:>12}", ms(exchange));
        }
        if let (Some(step), Some(efficiency)) = (row.step_ms, row.efficiency) {
            line += &format!("  {:>12}  {:>8.1} %", ms(step), 100.0 * efficiency);
        }
        output::line(line)?;
    }
    match (linked, timed) {
        (_, true) => Ok(()),
        (true, false) => {
            output::line("for step and efficiency give --step-ms, or let the probe time a step")
        }
        (false, false) => output::line("for the exchange, step and efficiency give --bandwidth"),
    }
}

/// Parses `10GB/s` or `25Gbit/s` to bytes per second.
fn rate(text: &str) -> Result<f64, String> {
    const UNITS: [(&str, f64); 9] = [
        ("B/s", 1.0),
        ("kB/s", 1e3),
        ("MB/s", 1e6),
        ("GB/s", 1e9),
        ("TB/s", 1e12),
        ("kbit/s", 1e3 / 8.0),
        ("Mbit/s", 1e6 / 8.0),
        ("Gbit/s", 1e9 / 8.0),
        ("Tbit/s", 1e12 / 8.0),
    ];
    with_unit(text, &UNITS, "10GB/s in bytes or 25Gbit/s in bits")
}

/// Parses `20us` to seconds.
fn seconds(text: &str) -> Result<f64, String> {
    const UNITS: [(&str, f64); 5] = [
        ("ns", 1e-9),
        ("us", 1e-6),
        ("µs", 1e-6),
        ("ms", 1e-3),
        ("s", 1.0),
    ];
    with_unit(text, &UNITS, "20us")
}

/// Parses a number above zero with its unit.
fn with_unit(text: &str, units: &[(&str, f64)], example: &str) -> Result<f64, String> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.'));
    let (digits, unit) = text.split_at(end.unwrap_or(text.len()));
    let value = positive(digits).map_err(|e| format!("{e}; write {example}"))?;
    let unit = unit.trim();
    match units.iter().find(|(name, _)| *name == unit) {
        Some((_, factor)) => Ok(value * factor),
        None if unit.is_empty() => Err(format!("it has no unit; write {example}")),
        None => {
            // A unit that differs only in case is a better suggestion than any other.
            let same = |name: &&str| name.eq_ignore_ascii_case(unit);
            let names = units.iter().map(|(name, _)| *name);
            let near = match names.clone().find(same) {
                Some(name) => format!("; did you mean `{name}`?"),
                None => suggestion(unit, names),
            };
            Err(format!("there is no unit `{unit}`{near}"))
        }
    }
}

/// Parses a number above zero.
fn positive(text: &str) -> Result<f64, String> {
    let value = text.trim().parse::<f64>().ok();
    value
        .filter(|value| value.is_finite() && *value > 0.0)
        .ok_or_else(|| "it needs a number above 0".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_times_have_units() {
        assert_eq!(rate("10GB/s"), Ok(1e10));
        assert_eq!(rate("25Gbit/s"), Ok(3.125e9));
        assert_eq!(rate("1.5 MB/s"), Ok(1.5e6));
        assert_eq!(seconds("20us"), Ok(20.0 * 1e-6));
        assert_eq!(seconds("0.5ms"), Ok(0.5 * 1e-3));
        let told = rate("10gb/s").unwrap_err();
        assert!(told.contains("did you mean `GB/s`?"), "{told}");
        assert!(rate("10").unwrap_err().contains("no unit"));
        for wrong in ["", "GB/s", "0GB/s", "-1GB/s", "1e999", "..GB/s"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }
}
