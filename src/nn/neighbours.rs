//! Neighbours: texts from a database that a retrieval-enhanced language model reads beside its own input (Borgeaud et al. 2022,
//! RETRO).
//!
//! A text is cut into chunks of m tokens. After a chunk has been read, the k database chunks nearest to it, each with its
//! continuation, are available to the tokens that follow.

/// The neighbours of chunks of a batch, stored row by row and, within a row, chunk by chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Neighbours {
    /// Tokens per chunk: m.
    pub chunk: usize,
    /// Neighbour slots per chunk: k.
    pub count: usize,
    /// Token slots per neighbour: r = 2m.
    pub width: usize,
    /// Token ids, `[rows, chunks, count, width]`; ids after a neighbour's last token are padding and never read.
    pub ids: Vec<i32>,
    /// Number of tokens of each neighbour, `[rows, chunks, count]`; 0 for an empty slot.
    pub lengths: Vec<usize>,
}

impl Neighbours {
    /// Creates an empty set of neighbours, with no chunk yet.
    pub fn empty(chunk: usize, count: usize) -> Self {
        Self {
            chunk,
            count,
            width: 2 * chunk,
            ids: Vec::new(),
            lengths: Vec::new(),
        }
    }

    /// Adds the tokens of a neighbour to the last chunk, or to a new one if the last is full; an empty slice fills a slot without
    /// a neighbour.
    pub fn push(&mut self, tokens: &[i32]) {
        let tokens = &tokens[..tokens.len().min(self.width)];
        self.lengths.push(tokens.len());
        self.ids.extend(tokens);
        self.ids.resize(self.lengths.len() * self.width, 0);
    }

    /// Appends the neighbours of other chunks, which must have the same sizes.
    pub fn append(&mut self, others: &Self) {
        self.ids.extend(&others.ids);
        self.lengths.extend(&others.lengths);
    }

    /// Returns how many chunks end within the next `tokens` tokens of a row of which `seen` tokens have been read.
    pub fn chunks_ended(chunk: usize, seen: usize, tokens: usize) -> usize {
        (seen + tokens) / chunk - seen / chunk
    }
}

/// A source of neighbours.
pub trait Retriever: Send + Sync {
    /// Tokens per chunk.
    fn chunk(&self) -> usize;

    /// Maximum number of neighbours per chunk.
    fn count(&self) -> usize;

    /// Appends the neighbours of a chunk of token ids.
    fn retrieve(&self, chunk: &[i32], found: &mut Neighbours);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_filled_up_and_chunks_are_counted() {
        let mut found = Neighbours::empty(2, 2);
        found.push(&[5, 6, 7]);
        found.push(&[]);
        assert_eq!(found.ids, [5, 6, 7, 0, 0, 0, 0, 0]);
        assert_eq!(found.lengths, [3, 0]);
        let ended = |seen, tokens| Neighbours::chunks_ended(4, seen, tokens);
        assert_eq!(
            [ended(0, 8), ended(3, 1), ended(4, 3), ended(5, 7)],
            [2, 1, 0, 2]
        );
    }
}
