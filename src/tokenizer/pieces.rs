//! Cutting a long text where no tokenizer joins across: after a line break between two visible
//! characters.
//!
//! Byte-level splitting rules look at most one run of blanks ahead, and BERT's split at every
//! blank, so a single line break with a visible character on each side is a boundary in both. The
//! cuts depend on the text alone, never on the number of cores.
//!
//! A line may be as long as a file, and a library's own form of a text is some thirty times its size. So where no such
//! line break comes soon, a text is cut before a single space between two visible characters, which both rules
//! keep apart from what is before it; without one, between a letter and a punctuation mark, which they keep apart, too;
//! and within a word of megabytes at the next character. Only there, and with rules that join words across spaces,
//! can the tokens beside a cut differ from those of the whole line.

/// Bytes after which the next good place is taken.
pub const PIECE: usize = 1 << 20;

/// The pieces of `text`, in order; their concatenation is `text`. None is longer than twice `piece` and a character.
pub fn cut(text: &str, piece: usize) -> Vec<&str> {
    let mut pieces = Vec::with_capacity(text.len() / piece.max(1) + 1);
    let mut rest = text;
    while rest.len() > piece {
        let at = boundary(rest, piece.max(1));
        let (head, tail) = rest.split_at(at);
        pieces.push(head);
        rest = tail;
    }
    if !rest.is_empty() {
        pieces.push(rest);
    }
    pieces
}

/// The first of the pieces that [`cut`] makes of `text`, whatever follows it.
pub fn begun(text: &str, piece: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    // A cut depends on so many bytes and the character behind them.
    while rest.len() > 2 * piece.max(1) + 8 {
        let (head, tail) = rest.split_at(boundary(rest, piece.max(1)));
        pieces.push(head);
        rest = tail;
    }
    pieces
}

/// The best place from `from` on and before twice that many bytes; the end of a text that is shorter and has none.
fn boundary(text: &str, from: usize) -> usize {
    let end = text.len().min(from.saturating_mul(2));
    let mut places = [None; 3];
    for at in from..end {
        // All that is looked for is one byte, so both of its sides are borders of characters.
        let byte = text.as_bytes()[at];
        let (rank, place) = match byte {
            b'\n' => (0, at + 1),
            b' ' => (1, at),
            _ if byte.is_ascii_punctuation() => (2, at),
            _ => continue,
        };
        if places[rank].is_some() {
            continue;
        }
        let before = text[..at].chars().next_back();
        let after = text[at + 1..].chars().next();
        let apart = match rank {
            2 => before.is_some_and(char::is_alphabetic),
            _ => visible(before) && visible(after),
        };
        if apart {
            places[rank] = Some(place);
        }
        if places[0].is_some() {
            break;
        }
    }
    let found = places.into_iter().flatten().next();
    found.unwrap_or_else(|| match text.len() <= end {
        true => text.len(),
        false => (end..=text.len())
            .find(|at| text.is_char_boundary(*at))
            .unwrap_or(text.len()),
    })
}

fn visible(c: Option<char>) -> bool {
    c.is_some_and(|c| !c.is_whitespace() && !c.is_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_only_between_visible_lines() {
        let text = "ab\ncd\n\nef\n gh\r\nij \nkl\nmé\nno";
        let pieces = cut(text, 12);
        assert_eq!(pieces, ["ab\ncd\n\nef\n gh\r\nij \nkl\n", "mé\nno"]);
        assert_eq!(cut(text, 1000), [text]);
        assert!(cut("", 4).is_empty());
    }

    #[test]
    fn what_has_begun_is_cut_as_the_whole_is() {
        let text = "one two\nthree, four ".repeat(40) + &"日本\nx y".repeat(40);
        for piece in [1, 2, 7, 64] {
            let whole = cut(&text, piece);
            for at in (0..text.len()).filter(|at| text.is_char_boundary(*at)) {
                let begun = begun(&text[..at], piece);
                assert_eq!(begun, whole[..begun.len()], "{piece} {at}");
            }
            assert!(begun(&text, piece).len() > 1);
        }
    }

    #[test]
    fn long_lines_are_cut_before_words_then_marks_then_anywhere() {
        assert_eq!(cut("one two three four", 5), ["one two", " three", " four"]);
        assert_eq!(cut("longest,word.of", 5), ["longest", ",word", ".of"]);
        assert_eq!(cut("éééééééé", 3), ["ééé", "ééé", "éé"]);
        let line = "é x".repeat(1000) + &"日本".repeat(1000);
        for piece in [1, 2, 7, 64, 500] {
            let pieces = cut(&line, piece);
            assert_eq!(pieces.concat(), line);
            assert!(pieces.iter().all(|p| p.len() <= 2 * piece + 3), "{piece}");
        }
    }
}
