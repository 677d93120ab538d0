//! Texts without repeated n-grams (Paulus et al. 2018, section 2.5): a token may not follow if the text already contains the
//! n-gram that it would complete.

/// Returns the tokens that would complete an n-gram that `tokens` already contains, each at least once: those that followed an
/// earlier occurrence of the last `size − 1` tokens. There are none for a size of 0.
pub(crate) fn repeating_tokens(tokens: &[u32], size: usize) -> Vec<u32> {
    if size == 0 || tokens.len() < size {
        return Vec::new();
    }
    let last = &tokens[tokens.len() + 1 - size..];
    let same = tokens.windows(size).filter(|ngram| ngram.starts_with(last));
    same.map(|ngram| ngram[size - 1]).collect()
}

#[cfg(test)]
mod tests {
    use super::repeating_tokens;

    #[test]
    fn tokens_that_complete_an_earlier_ngram_are_found() {
        let text = [5, 6, 7, 5, 6, 8, 5, 6];
        assert_eq!(repeating_tokens(&text, 3), [7, 8]);
        assert_eq!(repeating_tokens(&text, 2), [7, 8]);
        assert_eq!(repeating_tokens(&text, 1), text);
        assert!(repeating_tokens(&text, 4).is_empty());
        assert!(repeating_tokens(&text, 0).is_empty());
        // The last tokens overlap with their repetition.
        assert_eq!(repeating_tokens(&[4, 4], 2), [4]);
        assert!(repeating_tokens(&[4], 2).is_empty());
        assert!(repeating_tokens(&[], 1).is_empty());
    }
}
