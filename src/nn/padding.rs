//! Rows that are filled up to the longest one.

/// 1 at the tokens of rows of these lengths and 0 behind them, row by row; `None` where all rows are `seq` long.
pub fn tokens(lengths: Option<&[usize]>, seq: usize) -> Option<Vec<f32>> {
    let filled = |lengths: &&[usize]| lengths.iter().any(|length| *length < seq);
    let lengths = lengths.filter(filled)?;
    let row = |length: &usize| {
        let length = *length;
        (0..seq).map(move |at| f32::from(u8::from(at < length)))
    };
    Some(lengths.iter().flat_map(row).collect())
}
