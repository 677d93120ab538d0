//! The five noises of BART, each a function of a text and a random stream (Lewis et al., arXiv:1910.13461,
//! section 2.2).
//!
//! A noise changes its share of the units, rounded up. Where the paper leaves a choice, its code is followed
//! (fairseq's denoising data set): spans begin at different words, uniformly drawn, and hold whole words.
//! They may meet, and a span that runs over the beginning of another removes its mask, so that somewhat less
//! than the share is hidden (26 % of a long text at 30 %).

use std::ops::Range;

use crate::data::masked::masks::choose;
use crate::rng::Stream;

/// The tokens that replace what is hidden.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replacement {
    /// Id of the mask token.
    pub mask: i32,
    /// Probability that a random token is used instead of the mask token.
    pub random: f64,
    /// Ids from which a random token is drawn.
    pub ordinary: Vec<i32>,
}

impl Replacement {
    /// Draws the token for one position. A random token takes a second draw; if none is possible, nothing is
    /// drawn.
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

/// Returns the share of `n` units, rounded up.
fn rounded_share(n: usize, share: f64) -> usize {
    // 7 % of 100 is 7.000000000000001 in floating point.
    ((n as f64 * share - 1e-9).ceil().max(0.0) as usize).min(n)
}

/// Permutes a share of the sentences: the chosen ones take each other's positions. `ends` holds the position
/// after each sentence in order; the last is the end of the text.
pub fn permute_sentences(ids: &[i32], ends: &[usize], share: f64, stream: &mut Stream) -> Vec<i32> {
    let chosen = choose(ends.len(), rounded_share(ends.len(), share), stream);
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

/// Replaces spans of words by one mask each until the share of the words is drawn. Span lengths follow a
/// Poisson distribution; the last one is cut to what is left. A span of length 0 is a mask inserted between
/// two tokens. `words` holds the words of the text; a span ends early if the next word does not follow
/// directly.
pub fn infill(
    ids: &[i32],
    words: &[Range<usize>],
    (share, mean_span): (f64, f64),
    stand: &Replacement,
    stream: &mut Stream,
) -> Vec<i32> {
    let mut left = rounded_share(words.len(), share);
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
        let end = span_end(words, start, length);
        masks[words[start].start] = Some(stand.draw(stream));
        hidden[words[start].start + 1..end].fill(true);
    }
    let kept = (0..ids.len()).filter(|at| !hidden[*at]);
    let filled: Vec<i32> = kept.map(|at| masks[at].unwrap_or(ids[at])).collect();
    insert(&filled, inserted, stand, stream)
}

/// Returns the end of a span of `length` words from word `start` on; it is shorter if there is a gap between
/// words or the text ends.
fn span_end(words: &[Range<usize>], start: usize, length: usize) -> usize {
    let mut end = words[start].end;
    for word in &words[start + 1..words.len().min(start + length)] {
        if word.start != end {
            break;
        }
        end = word.end;
    }
    end
}

/// Inserts `count` masks between tokens, before the first or after the last.
fn insert(ids: &[i32], count: usize, stand: &Replacement, stream: &mut Stream) -> Vec<i32> {
    let mut masks = vec![None; ids.len() + count];
    for place in choose(masks.len(), count, stream) {
        masks[place] = Some(stand.draw(stream));
    }
    let mut rest = ids.iter().copied();
    let tokens = masks.into_iter().map(|mask| mask.or_else(|| rest.next()));
    tokens.flatten().collect()
}

/// Draws a Poisson-distributed number with this mean, by inversion of one uniform draw.
fn poisson(mean: f64, stream: &mut Stream) -> usize {
    /// Upper bound of the count; a uniform draw of 24 bits never reaches it for a mean up to 100.
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

/// Replaces a share of the tokens at `places`, each by its own draw.
pub fn mask_tokens(
    ids: &[i32],
    places: &[usize],
    share: f64,
    stand: &Replacement,
    stream: &mut Stream,
) -> Vec<i32> {
    let mut masked = ids.to_vec();
    for chosen in choose(places.len(), rounded_share(places.len(), share), stream) {
        masked[places[chosen]] = stand.draw(stream);
    }
    masked
}

/// Deletes a share of the tokens at `places`; the model has to find out where something is missing.
pub fn delete_tokens(ids: &[i32], places: &[usize], share: f64, stream: &mut Stream) -> Vec<i32> {
    let mut gone = vec![false; ids.len()];
    for chosen in choose(places.len(), rounded_share(places.len(), share), stream) {
        gone[places[chosen]] = true;
    }
    let kept = ids.iter().zip(gone).filter(|(_, gone)| !gone);
    kept.map(|(id, _)| *id).collect()
}

/// Rotates the text to begin at a random token, followed by the tokens before it.
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
        let counts = [0, 1, 7, 10, 100].map(|n| rounded_share(n, 0.3));
        assert_eq!(counts, [0, 1, 3, 3, 30]);
        assert_eq!(
            [
                rounded_share(100, 0.07),
                rounded_share(7, 1.0),
                rounded_share(7, 0.0)
            ],
            [7, 7, 0]
        );
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
        let ends = [(0, 1), (0, 2), (0, 4), (2, 9), (3, 2)].map(|(s, n)| span_end(&words, s, n));
        assert_eq!(ends, [1, 3, 3, 6, 6]);
    }
}
