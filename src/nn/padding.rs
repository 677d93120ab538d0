//! Masks for rows that are padded to the longest one.

/// Returns a mask, row by row, that is 1 at the tokens of rows of these lengths and 0 at the padding; `None` if all rows are
/// `seq` long.
pub fn token_mask(lengths: Option<&[usize]>, seq: usize) -> Option<Vec<f32>> {
    let filled = |lengths: &&[usize]| lengths.iter().any(|length| *length < seq);
    let lengths = lengths.filter(filled)?;
    let row = |length: &usize| {
        let length = *length;
        (0..seq).map(move |at| f32::from(u8::from(at < length)))
    };
    Some(lengths.iter().flat_map(row).collect())
}
