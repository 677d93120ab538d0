//! Notes on differences over fewer seeds than the means beside them. If arms have different seeds or lost runs, only the seeds
//! that both arms have are paired.

use super::arms::Arm;
use super::origins::ComparedRuns;
use super::results::{ArmResults, RunResult};
use super::statistics::contrast::Contrast;

/// Maximum number of arms, and of seeds of one arm, that are named.
const NAMED: usize = 12;

/// Returns a note for each arm whose difference is not the difference of the shown means: `B: the difference from A is over …`.
pub fn notes(
    compared: ComparedRuns,
    outcomes: &[RunResult],
    results: &[ArmResults],
) -> Vec<String> {
    let ComparedRuns { runs, arms, .. } = compared;
    let Some(first) = arms.first() else {
        return Vec::new();
    };
    let seeds = |arm: &Arm| -> Vec<&str> {
        let valued = arm.counted.iter().filter(|&&m| outcomes[m].last.is_some());
        valued.filter_map(|&m| runs[m].seed.as_deref()).collect()
    };
    let of_first = seeds(first);
    let note = |(arm, result): (&Arm, &ArmResults)| {
        let gap = result.last_gap.as_ref()?;
        let values = [results.first()?, result].map(|r| r.last.map_or(0, |last| last.n));
        if !is_over_pairs(gap, values) || values.iter().all(|&n| n == gap.pairs) {
            return None;
        }
        let own = seeds(arm);
        let shared = own.iter().copied().filter(|seed| of_first.contains(seed));
        let shared: Vec<&str> = shared.take(NAMED + 1).collect();
        let more = if shared.len() > NAMED { ", …" } else { "" };
        let named = shared[..shared.len().min(NAMED)].join(", ");
        let those = match gap.pairs {
            1 => "one seed".to_string(),
            n => format!("{n} seeds"),
        };
        Some(format!(
            "{}: the difference from {} is over the {those} that both have ({named}{more}), not between their means, which are over \
             {} and {} runs",
            arm.id, first.id, values[1], values[0]
        ))
    };
    let all = arms.iter().zip(results).skip(1).filter_map(note);
    let mut notes: Vec<String> = all.collect();
    if let Some(more) = notes.len().checked_sub(NAMED + 1).map(|n| n + 1) {
        notes.truncate(NAMED);
        notes.push(format!(
            "differences of {more} more arms are over fewer seeds than their means"
        ));
    }
    notes
}

/// Whether a difference is a mean over the seeds that both arms have. A single shared seed does not count if both arms have
/// several values; those are compared by their means.
fn is_over_pairs(gap: &Contrast, values: [usize; 2]) -> bool {
    let pairs = match values.iter().all(|&n| n > 1) {
        true => gap.pairs > 1,
        false => gap.pairs > 0,
    };
    pairs && gap.difference.is_some()
}
