//! The names and facts of `kind = "people"`.

use crate::rng::{Permutation, Stream};

/// Number of first names.
pub(super) const FIRST: usize = 64;
/// Number of last names.
pub(super) const LAST: usize = 256;
/// Number of values of each fact.
const VALUES: usize = 40;
/// Seed of the shuffle of the names, so that the name of one person does not predict that of the next.
const ORDER: u64 = 0;

const BEGINNINGS: [&str; 8] = ["ma", "to", "el", "bri", "san", "ju", "ka", "vo"];
const ENDINGS: [&str; 8] = ["ra", "lin", "na", "bert", "do", "mir", "sa", "ric"];
const STEMS: [&str; 16] = [
    "tol", "har", "quin", "wes", "bran", "dor", "fel", "gar", "hol", "ing", "jas", "kel", "lom",
    "mor", "nor", "pel",
];
const TAILS: [&str; 16] = [
    "ven", "by", "ton", "wick", "mann", "stad", "ley", "ford", "gate", "hurst", "low", "ridge",
    "shaw", "thorp", "well", "yard",
];

/// The words after the name in a sentence about each fact, and the beginning of the fact's values.
const FACTS: [[&str; 2]; 5] = [
    ["was born in", "port"],
    ["works as a", "maker"],
    ["keeps a", "beast"],
    ["plays the", "horn"],
    ["likes", "dish"],
];

const OTHERS: [&str; 21] = [
    ".", ",", "dear", "friend", "came", "to", "see", "me", "today", "write", "soon", "was", "born",
    "in", "works", "as", "a", "keeps", "plays", "the", "likes",
];

fn first(number: usize) -> String {
    format!(
        "{}{}",
        BEGINNINGS[number / ENDINGS.len()],
        ENDINGS[number % ENDINGS.len()]
    )
}

fn last(number: usize) -> String {
    format!(
        "{}{}",
        STEMS[number / TAILS.len()],
        TAILS[number % TAILS.len()]
    )
}

/// Returns the name of a person, a different one for each number below [`FIRST`] · [`LAST`].
pub(super) fn name(number: usize) -> String {
    let all = Permutation::new(ORDER, ORDER, (FIRST * LAST) as u64);
    let place = all.at(number as u64) as usize;
    format!("{} {}", first(place / LAST), last(place % LAST))
}

/// Returns a value of a fact, such as `portven`.
fn value(fact: usize, number: usize) -> String {
    let [_, begins] = FACTS[fact];
    format!(
        "{begins}{}{}",
        STEMS[number % STEMS.len()],
        number / STEMS.len()
    )
}

/// Returns one sentence for each fact about the person of this name.
pub(super) fn facts(name: &str, stream: &mut Stream) -> Vec<String> {
    let facts = FACTS.iter().enumerate();
    let each = facts.map(|(fact, [says, _])| {
        let number = stream.below(VALUES as u64) as usize;
        format!("{name} {says} {} .", value(fact, number))
    });
    each.collect()
}

/// Returns every word that letters can contain, each once.
pub(super) fn words() -> Vec<String> {
    let values = (0..FACTS.len()).flat_map(|fact| (0..VALUES).map(move |n| value(fact, n)));
    let others = OTHERS.iter().map(|word| (*word).to_string());
    others
        .chain((0..FIRST).map(first))
        .chain((0..LAST).map(last))
        .chain(values)
        .collect()
}
