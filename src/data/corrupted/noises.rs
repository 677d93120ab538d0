//! The five noises of BART, each a function of a text and a stream of draws (Lewis et al., arXiv:1910.13461, section 2.2).
//!
//! How many things a noise changes is its share of them, rounded up. Where the paper leaves a choice, that of its code
//! (fairseq's denoising data set) is taken: spans begin at different words, all alike probable, and hold whole words; they
//! may meet, and a span that runs over the beginning of another takes its mask away, so that somewhat less than the
//! share is hidden (26 % of a long text at 30 %).

use std::ops::Range;

use crate::data::masked::masks::choose;
use crate::rng::Stream;

/// The token that stands in the place of what is hidden.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stand {
    /// The mask token.
    pub mask: i32,
    /// Probability that a random token stands there instead.
    pub random: f64,
    /// The tokens that a random one is drawn from.
    pub ordinary: Vec<i32>,
}

impl Stand {
    /// The token for one place. It draws once more when it is a random one; it draws nothing where none can be.
    fn draw(&self, stream: &mut Stream) -> i32 {
        if self.random == 0.0 || self.ordinary.is_empty() {
            return self.mask;
        }
        match f64::from(stream.uniform()) < self.random {
            true => self.ordinary[stream.below(self.ordinary.len() as u64) as usize],
            false => self.mask,
        }
    }
}

/// The share of `n` things, rounded up.
fn part(n: usize, share: f64) -> usize {
    // 7 % of 100 is 7.000000000000001 in floating point.
    ((n as f64 * share - 1e-9).ceil().max(0.0) as usize).min(n)
}

/// A share of the sentences in another order: those that are chosen take each other's places. `ends` is the place after
/// each sentence, in order, the last one the end of the text.
pub fn permute_sentences(ids: &[i32], ends: &[usize], share: f64, stream: &mut Stream) -> Vec<i32> {
    let chosen = choose(ends.len(), part(ends.len(), share), stream);
    let mut sources = chosen.clone();
    stream.shuffle(&mut sources);
    let mut order: Vec<usize> = (0..ends.len()).collect();
    for (place, sentence) in chosen.into_iter().zip(sources) {
        order[place] = sentence;
    }
    let start = |sentence: usize| match sentence {
        0 => 0,
        later => ends[later - 1],
    };
    let sentences = order.into_iter().map(|s| &ids[start(s)..ends[s]]);
    sentences.flatten().copied().collect()
}

/// Spans of words become one mask each, until as many words as the share is were drawn; their lengths are of a Poisson
/// distribution, the last one cut to what is left. A span of no word is a mask that is put between two tokens. `words`
/// are the words of the text; a span ends where the next word does not follow at once.
pub fn infill(
    ids: &[i32],
    words: &[Range<usize>],
    (share, mean_span): (f64, f64),
    stand: &Stand,
    stream: &mut Stream,
) -> Vec<i32> {
    let mut left = part(words.len(), share);
    let mut lengths = Vec::new();
    let mut inserted = 0;
    while left > 0 {
        match poisson(mean_span, stream).min(left) {
            0 => inserted += 1,
            length => {
                lengths.push(length);
                left -= length;
            }
        }
    }
    let starts = choose(words.len(), lengths.len(), stream);
    let mut hidden = vec![false; ids.len()];
    let mut masks = vec![None; ids.len()];
    for (start, length) in starts.into_iter().zip(lengths) {
        let end = run(words, start, length);
        masks[words[start].start] = Some(stand.draw(stream));
        hidden[words[start].start + 1..end].fill(true);
    }
    let kept = (0..ids.len()).filter(|at| !hidden[*at]);
    let filled: Vec<i32> = kept.map(|at| masks[at].unwrap_or(ids[at])).collect();
    insert(&filled, inserted, stand, stream)
}

/// The end of a span of so many words from word `start` on: where the text has a gap between words, or ends, it is shorter.
fn run(words: &[Range<usize>], start: usize, length: usize) -> usize {
    let mut end = words[start].end;
    for word in &words[start + 1..words.len().min(start + length)] {
        if word.start != end {
            break;
        }
        end = word.end;
    }
    end
}

/// Masks at `count` places between tokens, before the first or after the last.
fn insert(ids: &[i32], count: usize, stand: &Stand, stream: &mut Stream) -> Vec<i32> {
    let mut masks = vec![None; ids.len() + count];
    for place in choose(masks.len(), count, stream) {
        masks[place] = Some(stand.draw(stream));
    }
    let mut rest = ids.iter().copied();
    let tokens = masks.into_iter().map(|mask| mask.or_else(|| rest.next()));
    tokens.flatten().collect()
}

/// A number with the Poisson distribution of this mean, by inversion of one uniform draw.
fn poisson(mean: f64, stream: &mut Stream) -> usize {
    /// The least share that 24 bits tell from never, for any mean up to 100.
    const MOST: usize = 1000;
    let mut lot = f64::from(stream.uniform());
    let mut share = (-mean).exp();
    let mut number = 0;
    while lot >= share && number < MOST {
        lot -= share;
        number += 1;
        share *= mean / number as f64;
    }
    number
}

/// A share of the tokens that stand at `places`, each replaced for itself.
pub fn mask_tokens(
    ids: &[i32],
    places: &[usize],
    share: f64,
    stand: &Stand,
    stream: &mut Stream,
) -> Vec<i32> {
    let mut masked = ids.to_vec();
    for chosen in choose(places.len(), part(places.len(), share), stream) {
        masked[places[chosen]] = stand.draw(stream);
    }
    masked
}

/// A text without a share of the tokens that stand at `places`: a model has to tell where something is missing.
pub fn delete_tokens(ids: &[i32], places: &[usize], share: f64, stream: &mut Stream) -> Vec<i32> {
    let mut gone = vec![false; ids.len()];
    for chosen in choose(places.len(), part(places.len(), share), stream) {
        gone[places[chosen]] = true;
    }
    let kept = ids.iter().zip(gone).filter(|(_, gone)| !gone);
    kept.map(|(id, _)| *id).collect()
}

/// The text from a random token on, then what stood before it.
pub fn rotate(ids: &[i32], stream: &mut Stream) -> Vec<i32> {
    let mut rotated = ids.to_vec();
    if !rotated.is_empty() {
        rotated.rotate_left(stream.below(ids.len() as u64) as usize);
    }
    rotated
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Purpose;

    #[test]
    fn shares_are_rounded_up() {
        let counts = [0, 1, 7, 10, 100].map(|n| part(n, 0.3));
        assert_eq!(counts, [0, 1, 3, 3, 30]);
        assert_eq!([part(100, 0.07), part(7, 1.0), part(7, 0.0)], [7, 7, 0]);
    }

    #[test]
    fn the_lengths_of_spans_are_poisson() {
        let mut stream = Stream::new(1, Purpose::Split, (0, 0, 0));
        const N: usize = 200_000;
        let mut counts = [0usize; 40];
        (0..N).for_each(|_| counts[poisson(3.0, &mut stream)] += 1);
        let mut share = (-3.0f64).exp();
        for (k, count) in counts.iter().enumerate().take(12) {
            let off = (*count as f64 - N as f64 * share).abs();
            assert!(off < 4.5 * (N as f64 * share).sqrt(), "{k}: {count}");
            share *= 3.0 / (k + 1) as f64;
        }
    }

    #[test]
    fn spans_end_where_words_have_a_gap() {
        let words = [0..1, 1..3, 4..5, 5..6];
        let ends = [(0, 1), (0, 2), (0, 4), (2, 9), (3, 2)].map(|(s, n)| run(&words, s, n));
        assert_eq!(ends, [1, 3, 3, 6, 6]);
    }
}
