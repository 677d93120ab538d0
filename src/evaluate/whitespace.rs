//! Whitespace as Python defines it, since the reference implementations are Python programs.
//!
//! `str.split()` and `str.rstrip()` split and strip at Unicode's White_Space and at the four information separators
//! U+001C to U+001F, which Rust's `char::is_whitespace` does not include.

/// Returns whether Python's `str.isspace` counts a character as whitespace.
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{1c}'..='\u{1f}')
}

/// Returns the parts of a text between runs of whitespace; none for blank text.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_space).filter(|word| !word.is_empty())
}

/// Returns the text without whitespace at its end.
pub(super) fn trim_end(text: &str) -> &str {
    text.trim_end_matches(is_space)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_and_wide_spaces_cut() {
        let text = " a\u{1c}b\u{a0}c\u{3000}\td\u{85}e\u{200b}f \n";
        let found: Vec<&str> = words(text).collect();
        assert_eq!(found, ["a", "b", "c", "d", "e\u{200b}f"]);
        assert_eq!(trim_end("a b\u{1f}\r\n"), "a b");
        assert_eq!(words(" \n").count(), 0);
    }
}
