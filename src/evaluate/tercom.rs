//! tercom's search for the fewest phrase moves and word edits, as implemented in sacreBLEU, for [`super::ter`].
//!
//! Finding the best moves is NP-hard, so the search greedily takes the move that lowers the edit distance most, until
//! no move lowers it. Its limits and its choices on ties are part of the score.

use std::cmp::Reverse;

/// Maximum number of words in a phrase that moves.
const MAX_PHRASE: usize = 10;
/// Maximum distance in words between a phrase and its position in the reference.
const MAX_DISTANCE: usize = 50;
/// Half width of the edit-distance table's beam around the diagonal, in words.
const BEAM: usize = 25;
/// Maximum number of moves tried for one pair of texts, as in sacreBLEU.
const MAX_TRIED: usize = 1000;

/// Returns the number of moves and edits that turn the hypothesis into the reference.
pub(super) fn edits(hypothesis: &[usize], reference: &[usize]) -> u64 {
    if reference.is_empty() {
        return hypothesis.len() as u64;
    }
    let (mut moves, mut tried) = (0, 0);
    let mut table = Table::new(hypothesis.to_vec(), reference);
    while let Some(better) = best_shift(&table, &mut tried) {
        if tried >= MAX_TRIED {
            break;
        }
        table = Table::new(better, reference);
        moves += 1;
    }
    moves + u64::from(table.distance())
}

/// Returns the hypothesis after the move that lowers the edit distance most, if any does; `tried` counts the moves
/// tried.
fn best_shift(table: &Table<'_>, tried: &mut usize) -> Option<Vec<usize>> {
    let alignment = table.alignment();
    let mut best = None;
    'starts: for start in 0..table.hypothesis.len() {
        let near =
            start.saturating_sub(MAX_DISTANCE)..table.reference.len().min(start + MAX_DISTANCE + 1);
        for target in near {
            let (from, to) = (&table.hypothesis[start..], &table.reference[target..]);
            let equal = from.iter().zip(to).take_while(|(a, b)| a == b).count();
            for length in 1..=equal.min(MAX_PHRASE) {
                for place in alignment.shift_targets(start, target, length) {
                    let moved = shift_phrase(&table.hypothesis, start, length, place);
                    let gain = i64::from(table.distance()) - i64::from(table.distance_of(&moved));
                    *tried += 1;
                    // On a tie: the longest phrase, then the earliest phrase, then the earliest place.
                    let rank = (gain, length, Reverse(start), Reverse(place));
                    if best.as_ref().is_none_or(|(most, _)| rank > *most) {
                        best = Some((rank, moved));
                    }
                }
                if *tried >= MAX_TRIED {
                    break 'starts;
                }
            }
        }
    }
    best.filter(|((gain, ..), _)| *gain > 0)
        .map(|(_, moved)| moved)
}

/// Moves the `length` words from `start` before `place`. A place inside the phrase moves the phrase to the right by
/// that many words.
fn shift_phrase(words: &[usize], start: usize, length: usize, place: usize) -> Vec<usize> {
    let end = start + length;
    let mut moved = words.to_vec();
    if place < start {
        moved[place..end].rotate_right(length);
    } else if place > end {
        moved[start..place].rotate_left(length);
    } else {
        let pushed = (end + place - start).min(words.len());
        moved[start..pushed].rotate_left(length);
    }
    moved
}

/// One step of an edit script, read from its end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Keep,
    Replace,
    /// A word of the hypothesis is deleted.
    Delete,
    /// A word of the reference is inserted.
    Insert,
    /// Outside the beam.
    Unreached,
}

/// A cell of the table: edits so far and the last step.
type Cell = (u32, Step);

const UNREACHED: Cell = (u32::MAX / 2, Step::Unreached);

/// The edit distances between all prefixes of the hypothesis (rows) and of the reference (columns).
struct Table<'a> {
    hypothesis: Vec<usize>,
    reference: &'a [usize],
    rows: Vec<Vec<Cell>>,
}

impl<'a> Table<'a> {
    fn new(hypothesis: Vec<usize>, reference: &'a [usize]) -> Self {
        let first = (0..=reference.len() as u32).map(|edits| (edits, Step::Insert));
        let mut table = Self {
            hypothesis,
            reference,
            rows: vec![first.collect()],
        };
        for i in 0..table.hypothesis.len() {
            let row = table.row(i + 1, table.hypothesis[i], &table.rows[i]);
            table.rows.push(row);
        }
        table
    }

    /// Returns the number of edits from the whole hypothesis to the whole reference.
    fn distance(&self) -> u32 {
        self.rows[self.hypothesis.len()][self.reference.len()].0
    }

    /// Returns the edit distance for other words of the same number; rows are shared up to the first difference.
    fn distance_of(&self, other: &[usize]) -> u32 {
        let pairs = self.hypothesis.iter().zip(other);
        let shared = pairs.take_while(|(a, b)| a == b).count();
        let mut last = self.rows[shared].clone();
        for (i, word) in other.iter().enumerate().skip(shared) {
            last = self.row(i + 1, *word, &last);
        }
        last[self.reference.len()].0
    }

    /// Computes row `i` from the row `above` it, inside the beam around the diagonal.
    fn row(&self, i: usize, word: usize, above: &[Cell]) -> Vec<Cell> {
        let (n, m) = (self.hypothesis.len(), self.reference.len());
        let slope = m as f64 / n as f64;
        let diagonal = (i as f64 * slope).floor() as usize;
        // If the slope is so steep that the beams of neighbouring rows would not overlap, the beam is widened.
        let beam = match slope / 2.0 {
            half if half > BEAM as f64 => (half + BEAM as f64).ceil() as usize,
            _ => BEAM,
        };
        let end = if i == n {
            m + 1
        } else {
            (diagonal + beam).min(m + 1)
        };
        let mut row = vec![UNREACHED; m + 1];
        for j in diagonal.saturating_sub(beam)..end {
            row[j] = match j.checked_sub(1) {
                None => (above[0].0 + 1, Step::Delete),
                Some(left) => {
                    let keep = word == self.reference[left];
                    let step = if keep { Step::Keep } else { Step::Replace };
                    // On a tie the first step in this order wins.
                    let steps = [
                        (above[left].0 + u32::from(!keep), step),
                        (above[j].0 + 1, Step::Delete),
                        (row[left].0 + 1, Step::Insert),
                    ];
                    let better = |best: Cell, new: Cell| if new.0 < best.0 { new } else { best };
                    steps.into_iter().fold(UNREACHED, better)
                }
            };
        }
        row
    }

    /// Returns the word alignment of the cheapest edit script.
    fn alignment(&self) -> Alignment {
        let (mut i, mut j) = (self.hypothesis.len(), self.reference.len());
        let mut alignment = Alignment {
            behind: vec![0; j],
            hypothesis_wrong: vec![true; i],
            reference_wrong: vec![true; j],
        };
        while i > 0 || j > 0 {
            let step = self.rows[i][j].1;
            if step != Step::Delete {
                alignment.behind[j - 1] = i;
            }
            match step {
                Step::Keep => {
                    (i, j) = (i - 1, j - 1);
                    alignment.hypothesis_wrong[i] = false;
                    alignment.reference_wrong[j] = false;
                }
                Step::Replace => (i, j) = (i - 1, j - 1),
                Step::Delete => i -= 1,
                Step::Insert => j -= 1,
                Step::Unreached => unreachable!("beams of neighbouring rows overlap"),
            }
        }
        alignment
    }
}

/// An edit script as positions.
struct Alignment {
    /// For each word of the reference, the position in the hypothesis after its aligned word.
    behind: Vec<usize>,
    hypothesis_wrong: Vec<bool>,
    reference_wrong: Vec<bool>,
}

impl Alignment {
    /// Returns positions to which to move the phrase of `length` words at `start` that the reference has at `target`.
    /// There are none unless some of the phrase is wrong on both sides and its aligned word lies outside the phrase.
    fn shift_targets(&self, start: usize, target: usize, length: usize) -> Vec<usize> {
        let wrong = |flags: &[bool], at: usize| flags[at..at + length].contains(&true);
        let inside = start + 1..=start + length;
        if !wrong(&self.hypothesis_wrong, start)
            || !wrong(&self.reference_wrong, target)
            || inside.contains(&self.behind[target])
        {
            return Vec::new();
        }
        let before = |k: usize| (target + k).checked_sub(1).map_or(0, |j| self.behind[j]);
        let mut places: Vec<usize> = (0..=length).map(before).collect();
        places.dedup();
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_push_the_words_between() {
        let words = [0, 1, 2, 3, 4];
        assert_eq!(shift_phrase(&words, 3, 2, 1), [0, 3, 4, 1, 2]);
        assert_eq!(shift_phrase(&words, 0, 2, 4), [2, 3, 0, 1, 4]);
        // Inside the phrase: moved right by as many words as the place lies after its start.
        assert_eq!(shift_phrase(&words, 1, 2, 2), [0, 3, 1, 2, 4]);
        assert_eq!(shift_phrase(&words, 3, 2, 5), words);
    }

    #[test]
    fn a_move_costs_one() {
        assert_eq!(edits(&[1, 2, 3, 0], &[0, 1, 2, 3]), 1);
        assert_eq!(edits(&[0, 9, 2], &[0, 1, 2, 3]), 2);
        assert_eq!(edits(&[], &[0, 1]), 2);
        assert_eq!(edits(&[0, 1], &[]), 2);
    }
}
