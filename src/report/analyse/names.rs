//! Names of arms: a letter as their mark, and the common part of the names of their runs.

use crate::report::read::run::Run;

/// `A` … `Z`, `AA`, `AB` …
pub(super) fn letters(mut n: usize) -> String {
    let mut text = Vec::new();
    loop {
        text.push(b'A' + (n % 26) as u8);
        match (n / 26).checked_sub(1) {
            Some(rest) => n = rest,
            None => break,
        }
    }
    text.iter().rev().map(|&b| char::from(b)).collect()
}

/// The runs' names without their seeds when these agree, else what the names begin with.
pub(super) fn label(members: &[usize], runs: &[Run]) -> String {
    let first = &runs[members[0]];
    if members.len() == 1 {
        return first.name.clone();
    }
    let mut stems = members.iter().map(|&m| stem(&runs[m]));
    let stem = stems.next().unwrap_or_default();
    if stems.all(|s| s == stem) && !stem.is_empty() {
        return stem;
    }
    let shared = members.iter().fold(first.name.as_str(), |shared, &m| {
        let same = shared
            .char_indices()
            .zip(runs[m].name.chars())
            .take_while(|((_, a), b)| a == b);
        let end = same.last().map_or(0, |((i, c), _)| i + c.len_utf8());
        &shared[..end]
    });
    let shared = shared.trim_end_matches(|c: char| c.is_ascii_digit() || "-_. ".contains(c));
    if shared.is_empty() {
        format!("{} …", first.name)
    } else {
        shared.to_string()
    }
}

/// `pre` for `pre-s7` and `pre_seed7` of seed 7.
fn stem(run: &Run) -> String {
    let seed = run.seed.as_deref().unwrap_or_default();
    match run.name.strip_suffix(seed) {
        Some(rest) if !seed.is_empty() => {
            let rest = rest.trim_end_matches(['-', '_', '.', '=', ' ']);
            let bare = rest
                .strip_suffix("seed")
                .or_else(|| rest.strip_suffix("-s"))
                .or_else(|| rest.strip_suffix("_s"));
            bare.unwrap_or(rest)
                .trim_end_matches(['-', '_', '.', ' '])
                .to_string()
        }
        _ => run.name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_go_on_after_z() {
        assert_eq!(
            [0, 25, 26, 27, 701, 702].map(letters),
            ["A", "Z", "AA", "AB", "ZZ", "AAA"]
        );
    }
}
