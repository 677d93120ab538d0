//! Text in UTF-16, as some Windows programs write it: without a byte order mark it passes as UTF-8,
//! with a NUL beside each letter.

use crate::error::{Error, Result};

/// Number of bytes at the beginning of a text that are checked.
const LOOKED_AT: usize = 4096;

/// Refuses a text with NUL bytes near its beginning; `named` is its name in messages.
///
/// # Errors
/// If there are NUL bytes.
pub fn refuse_utf16(named: impl std::fmt::Display, text: &[u8]) -> Result<()> {
    match text[..text.len().min(LOOKED_AT)].contains(&0) {
        true => Err(Error::usage(format!(
            "{named} contains NUL bytes and looks like UTF-16; save it as UTF-8"
        ))),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::refuse_utf16;

    #[test]
    fn a_text_of_two_bytes_a_character_is_refused() {
        let wide: Vec<u8> = "a tale\n"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        let told = refuse_utf16("t.txt", &wide).unwrap_err();
        assert_eq!(
            told.to_string(),
            "t.txt contains NUL bytes and looks like UTF-16; save it as UTF-8"
        );
        assert_eq!(told.exit_status(), 2);
        for text in ["", "a tale\n", "日本語\t\r\n"] {
            assert!(refuse_utf16("t.txt", text.as_bytes()).is_ok());
        }
    }
}
