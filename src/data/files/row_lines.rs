//! Finds the lines at which the rows of TSV and CSV files begin, as a text editor counts them.
//!
//! The position that the `csv` crate reports for a row is the end of the row before. With line breaks of two
//! characters, or empty lines between rows, that is one or more lines above the row.

use csv::{Position, StringRecord};

/// Counts the lines from one row to the next.
pub(in crate::data) struct RowLines<'a> {
    text: &'a [u8],
    /// Byte position up to which lines are counted, and the line number there.
    at: usize,
    line: u64,
}

impl<'a> RowLines<'a> {
    /// Starts at the beginning of a table's text.
    pub(in crate::data) fn of(text: &'a str) -> Self {
        Self {
            text: text.as_bytes(),
            at: 0,
            line: 1,
        }
    }

    /// Returns the line at which a row begins; rows must come in order.
    pub(in crate::data) fn line(&mut self, row: &StringRecord) -> u64 {
        let byte = row.position().map_or(0, Position::byte);
        let byte = usize::try_from(byte).unwrap_or(usize::MAX);
        let is_break = |byte: &u8| matches!(byte, b'\r' | b'\n');
        let from = byte.clamp(self.at, self.text.len());
        let breaks = self.text[from..].iter().take_while(|byte| is_break(byte));
        let begins = from + breaks.count();
        let between = self.text[self.at..begins].iter();
        self.line += between.filter(|byte| **byte == b'\n').count() as u64;
        self.at = begins;
        self.line
    }
}

#[cfg(test)]
mod tests {
    use super::RowLines;

    #[test]
    fn a_row_has_the_line_that_an_editor_shows() {
        for (text, wanted) in [
            ("h,i\na,b\nc,d\n", [2, 3]),
            ("h,i\r\na,b\r\nc,d\r\n", [2, 3]),
            ("h,i\n\n\na,b\n\nc,d", [4, 6]),
            ("h,i\r\n\r\na,b\r\nc,d", [3, 4]),
            ("h,i\r\n\"a\r\nb\",c\r\nd,e\r\n", [2, 4]),
        ] {
            let mut reader = csv::ReaderBuilder::new().from_reader(text.as_bytes());
            let mut lines = RowLines::of(text);
            let found: Vec<u64> = reader
                .records()
                .map(|row| lines.line(&row.unwrap()))
                .collect();
            assert_eq!(found, wanted, "{text:?}");
        }
    }
}
