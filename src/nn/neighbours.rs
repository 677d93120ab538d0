//! Neighbours: texts of a database that a retrieval-enhanced language model reads beside its own (Borgeaud et al. 2022, RETRO).
//!
//! A text is cut into chunks of m tokens. Once a chunk is read, the k chunks of the database that are nearest to it, each with
//! its continuation, are at hand for the tokens after it.

/// The neighbours of some chunks of the rows of a batch, which lie row after row, chunk after chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Neighbours {
    /// Tokens of a chunk: m.
    pub chunk: usize,
    /// Places for neighbours of a chunk: k.
    pub count: usize,
    /// Places for tokens of a neighbour: r = 2m.
    pub width: usize,
    /// Token ids, `[rows, chunks, count, width]`; what stands behind a neighbour's last token is not read.
    pub ids: Vec<i32>,
    /// Tokens of each neighbour, `[rows, chunks, count]`; 0 where there is none.
    pub lengths: Vec<usize>,
}

impl Neighbours {
    /// Of no chunk yet.
    pub fn none(chunk: usize, count: usize) -> Self {
        Self {
            chunk,
            count,
            width: 2 * chunk,
            ids: Vec::new(),
            lengths: Vec::new(),
        }
    }

    /// Adds a neighbour to the last chunk or begins another: its tokens, none of a place without a neighbour.
    pub fn push(&mut self, tokens: &[i32]) {
        let tokens = &tokens[..tokens.len().min(self.width)];
        self.lengths.push(tokens.len());
        self.ids.extend(tokens);
        self.ids.resize(self.lengths.len() * self.width, 0);
    }

    /// Adds those of other chunks, cut alike.
    pub fn append(&mut self, others: &Self) {
        self.ids.extend(&others.ids);
        self.lengths.extend(&others.lengths);
    }

    /// The number of chunks that end in the next `tokens` tokens of a row of which `seen` were read.
    pub fn ended(chunk: usize, seen: usize, tokens: usize) -> usize {
        (seen + tokens) / chunk - seen / chunk
    }
}

/// Something that finds neighbours.
pub trait Retrieves: Send + Sync {
    /// Tokens of a chunk.
    fn chunk(&self) -> usize;

    /// Neighbours of a chunk at most.
    fn count(&self) -> usize;

    /// Appends the neighbours of a chunk of token ids.
    fn retrieve(&self, chunk: &[i32], found: &mut Neighbours);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_filled_up_and_chunks_are_counted() {
        let mut found = Neighbours::none(2, 2);
        found.push(&[5, 6, 7]);
        found.push(&[]);
        assert_eq!(found.ids, [5, 6, 7, 0, 0, 0, 0, 0]);
        assert_eq!(found.lengths, [3, 0]);
        let ended = |seen, tokens| Neighbours::ended(4, seen, tokens);
        assert_eq!(
            [ended(0, 8), ended(3, 1), ended(4, 3), ended(5, 7)],
            [2, 1, 0, 2]
        );
    }
}
