//! Cuts a long text where no tokenizer joins across the cut: after a line break between two visible
//! characters.
//!
//! Byte-level splitting rules look at most one run of blanks ahead, and BERT's rule splits at every
//! blank, so both have a boundary at a single line break with a visible character on each side. The
//! cuts depend only on the text, never on the number of cores.
//!
//! A line may be as long as a file, and the library needs about thirty times the size of a text it encodes. If no such
//! line break comes soon, a text is therefore cut before a single space between two visible characters, which both
//! rules keep apart from what precedes it. Failing that, it is cut between a letter and a punctuation mark, which both
//! rules also keep apart; and within a word of megabytes at the next character. Only in that last case, and with rules
//! that join words across spaces, can the tokens beside a cut differ from those of the whole line.

/// Number of bytes after which a piece ends at the next good position.
pub const PIECE: usize = 1 << 20;

/// Cuts `text` into pieces, in order; their concatenation is `text`. No piece is longer than twice `piece` plus a
/// character.
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

/// The leading pieces that [`cut`] makes of any text that begins with `text`.
pub fn stable_pieces(text: &str, piece: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    // A cut depends on at most this many bytes and the character after them.
    while rest.len() > 2 * piece.max(1) + 8 {
        let (head, tail) = rest.split_at(boundary(rest, piece.max(1)));
        pieces.push(head);
        rest = tail;
    }
    pieces
}

/// The best position to cut, from `from` bytes on and before twice that; the end of a shorter text that has no good
/// position.
fn boundary(text: &str, from: usize) -> usize {
    let end = text.len().min(from.saturating_mul(2));
    let mut places = [None; 3];
    for at in from..end {
        // Each of these characters is one byte, so both of its sides are character boundaries.
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
                let begun = stable_pieces(&text[..at], piece);
                assert_eq!(begun, whole[..begun.len()], "{piece} {at}");
            }
            assert!(stable_pieces(&text, piece).len() > 1);
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
