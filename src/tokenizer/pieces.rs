//! Cutting a long text where no tokenizer joins across: after a line break between two visible
//! characters.
//!
//! Byte-level splitting rules look at most one run of blanks ahead, and BERT's split at every
//! blank, so a single line break with a visible character on each side is a boundary in both. The
//! cuts depend on the text alone, never on the number of cores.

/// Bytes after which the next good place is taken.
pub const PIECE: usize = 1 << 20;

/// The pieces of `text`, in order; their concatenation is `text`.
pub fn cut(text: &str, piece: usize) -> Vec<&str> {
    let mut pieces = Vec::with_capacity(text.len() / piece.max(1) + 1);
    let mut rest = text;
    while let Some(at) = boundary(rest, piece) {
        let (head, tail) = rest.split_at(at);
        pieces.push(head);
        rest = tail;
    }
    if !rest.is_empty() {
        pieces.push(rest);
    }
    pieces
}

/// The first good place at or after `from`.
fn boundary(text: &str, from: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let visible = |c: Option<char>| c.is_some_and(|c| !c.is_whitespace() && !c.is_control());
    let mut at = from.max(1);
    while at < bytes.len() {
        // A line break is one byte, so both sides are character boundaries.
        at += bytes[at..].iter().position(|b| *b == b'\n')?;
        let before = text[..at].chars().next_back();
        let after = text[at + 1..].chars().next();
        if visible(before) && visible(after) {
            return Some(at + 1);
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_only_between_visible_lines() {
        let text = "ab\ncd\n\nef\n gh\r\nij \nkl\nmé\nno";
        let pieces = cut(text, 1);
        assert_eq!(pieces, ["ab\n", "cd\n\nef\n gh\r\nij \nkl\n", "mé\n", "no"]);
        assert_eq!(cut(text, 1000), [text]);
        assert!(cut("", 4).is_empty());
    }
}
