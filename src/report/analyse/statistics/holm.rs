//! Holm's step-down correction. It adjusts the p values of several arms so that the probability of ANY false discovery
//! stays below the level, whatever the dependence between the tests (Holm, "A simple sequentially rejective multiple test
//! procedure", Scandinavian Journal of Statistics 6(2), 1979).
//!
//! With the m p values in rising order, the i-th becomes max over j ≤ i of min(1, (m - j + 1) p_j). It is never
//! larger than Bonferroni's m · p.

/// Returns the corrected p values, in the order given. Entries without a p value (`None` or NaN) stay `None` and do not
/// count as tests.
pub fn holm(p_values: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut tested: Vec<(usize, f64)> = p_values
        .iter()
        .enumerate()
        .filter_map(|(i, p)| Some((i, p.filter(|p| !p.is_nan())?)))
        .collect();
    tested.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut corrected = vec![None; p_values.len()];
    let mut largest: f64 = 0.0;
    for (rank, &(i, p)) in tested.iter().enumerate() {
        let remaining = (tested.len() - rank) as f64;
        largest = largest.max((remaining * p).clamp(0.0, 1.0));
        corrected[i] = Some(largest);
    }
    corrected
}
