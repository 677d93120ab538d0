//! Learns byte-pair merges: joins the most frequent adjacent pair, again and again.
//!
//! Sennrich et al., arXiv:1508.07909. Ties go to the pair with the smaller ids (older symbols), and
//! symbols are numbered in sorted order, so the result depends only on the word counts. The
//! trainers of the `tokenizers` crate number WordPiece symbols, and break some ties, in the order
//! of a randomly seeded hash table. If that order does not matter, both give the same merges (a
//! test compares them).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet};

/// How symbols are written and when learning stops.
pub struct MergeSettings<'a> {
    /// Final number of symbols, including the initial ones.
    pub vocab_size: usize,
    /// Pairs that occur less often are not joined.
    pub min_frequency: u64,
    /// Prefix of symbols that continue a word (WordPiece's `##`), or empty.
    pub continuation: &'a str,
    /// Symbols that exist whether or not they occur.
    pub alphabet: BTreeSet<String>,
}

/// The learned symbols and merges.
pub struct Learned {
    /// The symbols; a symbol's number is its index.
    pub symbols: Vec<String>,
    /// The joined pairs, in the order in which they were joined.
    pub merges: Vec<(String, String)>,
}

type Pair = (u32, u32);

struct Word {
    symbols: Vec<u32>,
    count: u64,
}

/// Learns merges from counted words.
pub fn learn(counts: &BTreeMap<String, u64>, settings: &MergeSettings<'_>) -> Learned {
    let mut symbols: Vec<String> = initial(counts, settings).into_iter().collect();
    let mut numbers: HashMap<String, u32> = symbols
        .iter()
        .enumerate()
        .map(|(number, symbol)| (symbol.clone(), number as u32))
        .collect();
    let mut words: Vec<Word> = counts
        .iter()
        .map(|(word, count)| Word {
            symbols: spell(word, settings.continuation)
                .map(|s| numbers[&s])
                .collect(),
            count: *count,
        })
        .collect();
    let mut pairs = Pairs::of(&words);
    let mut joined: HashSet<Pair> = HashSet::new();
    let mut merges = Vec::new();
    while symbols.len() < settings.vocab_size {
        let Some((pair, count)) = pairs.pop() else {
            break;
        };
        if count < settings.min_frequency.max(1) {
            break;
        }
        let (left, right) = (&symbols[pair.0 as usize], &symbols[pair.1 as usize]);
        let text = format!(
            "{left}{}",
            right.strip_prefix(settings.continuation).unwrap_or(right)
        );
        if joined.insert(pair) {
            merges.push((left.clone(), right.clone()));
        }
        let number = *numbers.entry(text.clone()).or_insert_with(|| {
            symbols.push(text);
            symbols.len() as u32 - 1
        });
        pairs.join(pair, number, &mut words);
    }
    Learned { symbols, merges }
}

/// The symbols before any merge.
fn initial(counts: &BTreeMap<String, u64>, settings: &MergeSettings<'_>) -> BTreeSet<String> {
    let seen = counts
        .keys()
        .flat_map(|word| spell(word, settings.continuation));
    settings.alphabet.iter().cloned().chain(seen).collect()
}

/// A word as its initial symbols.
fn spell<'a>(word: &'a str, continuation: &'a str) -> impl Iterator<Item = String> + 'a {
    word.chars().enumerate().map(move |(i, c)| match i {
        0 => c.to_string(),
        _ => format!("{continuation}{c}"),
    })
}

/// Counts of adjacent pairs, the words in which they occur, and a queue of the most frequent.
#[derive(Default)]
struct Pairs {
    counts: HashMap<Pair, u64>,
    places: HashMap<Pair, HashSet<usize>>,
    /// May hold outdated counts; [`Pairs::pop`] skips them.
    queue: BinaryHeap<(u64, Reverse<Pair>)>,
}

impl Pairs {
    fn of(words: &[Word]) -> Self {
        let mut pairs = Self::default();
        for (place, word) in words.iter().enumerate() {
            pairs.add(place, word);
        }
        pairs.queue = pairs
            .counts
            .iter()
            .map(|(p, c)| (*c, Reverse(*p)))
            .collect();
        pairs
    }

    /// Removes and returns the most frequent pair and its count.
    fn pop(&mut self) -> Option<(Pair, u64)> {
        while let Some((count, Reverse(pair))) = self.queue.pop() {
            if self.counts.get(&pair) == Some(&count) {
                return Some((pair, count));
            }
        }
        None
    }

    fn add(&mut self, place: usize, word: &Word) {
        for pair in word.symbols.windows(2).map(|w| (w[0], w[1])) {
            *self.counts.entry(pair).or_default() += word.count;
            self.places.entry(pair).or_default().insert(place);
        }
    }

    fn remove(&mut self, place: usize, word: &Word) {
        for pair in word.symbols.windows(2).map(|w| (w[0], w[1])) {
            if let Some(count) = self.counts.get_mut(&pair) {
                *count -= word.count;
                if *count == 0 {
                    self.counts.remove(&pair);
                }
            }
            if let Some(places) = self.places.get_mut(&pair) {
                places.remove(&place);
            }
        }
    }

    /// Replaces `pair` by `number` in every word that has it, and queues every pair whose count changed.
    fn join(&mut self, pair: Pair, number: u32, words: &mut [Word]) {
        let places = self.places.remove(&pair).unwrap_or_default();
        let mut changed: HashSet<Pair> = HashSet::new();
        for place in places {
            let word = &mut words[place];
            self.remove(place, word);
            changed.extend(word.symbols.windows(2).map(|w| (w[0], w[1])));
            word.symbols = replaced(&word.symbols, pair, number);
            changed.extend(word.symbols.windows(2).map(|w| (w[0], w[1])));
            self.add(place, word);
        }
        for pair in changed {
            if let Some(count) = self.counts.get(&pair) {
                self.queue.push((*count, Reverse(pair)));
            }
        }
    }
}

/// `symbols` with each `pair`, from the left, replaced by `number`.
fn replaced(symbols: &[u32], pair: Pair, number: u32) -> Vec<u32> {
    let mut result = Vec::with_capacity(symbols.len());
    let mut at = 0;
    while at < symbols.len() {
        if at + 1 < symbols.len() && (symbols[at], symbols[at + 1]) == pair {
            result.push(number);
            at += 2;
        } else {
            result.push(symbols[at]);
            at += 1;
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learn_from(words: &[(&str, u64)], vocab_size: usize, continuation: &str) -> Learned {
        let counts = words.iter().map(|(w, c)| ((*w).to_owned(), *c)).collect();
        let settings = MergeSettings {
            vocab_size,
            min_frequency: 2,
            continuation,
            alphabet: BTreeSet::new(),
        };
        learn(&counts, &settings)
    }

    /// The worked example of Sennrich et al., algorithm 1, without the end-of-word mark.
    #[test]
    fn joins_the_most_frequent_pair() {
        let l = learn_from(
            &[("low", 5), ("lower", 2), ("newest", 6), ("widest", 3)],
            14,
            "",
        );
        let merges: Vec<String> = l.merges.iter().map(|(a, b)| format!("{a}+{b}")).collect();
        assert_eq!(merges, ["e+s", "es+t", "l+o", "lo+w"]);
    }

    #[test]
    fn ties_go_to_the_smaller_symbols_and_rare_pairs_stay_apart() {
        let l = learn_from(&[("ab", 2), ("cd", 2), ("ef", 1)], 100, "");
        assert_eq!(
            l.merges,
            [("a".into(), "b".into()), ("c".into(), "d".into())]
        );
    }

    #[test]
    fn continuations_are_marked_once() {
        let l = learn_from(&[("aaa", 3)], 100, "##");
        assert!(l.symbols.contains(&"aaa".to_owned()));
        assert!(l.symbols.contains(&"##a".to_owned()));
    }
}
