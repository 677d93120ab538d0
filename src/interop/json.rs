//! The JSON of Python: files of transformers before version 5 have numbers without a limit as the bare word `Infinity`.

use serde_json::Value;

/// The word, and the form that later files have it in.
const WORD: &[u8] = b"Infinity";
const FORM: &[u8] = br#"{"__float__":"Infinity"}"#;

/// The value of a text, in which a bare `Infinity` is as `{"__float__": "Infinity"}`, which version 5 writes.
///
/// # Errors
/// Those of `serde_json`; places in them are in the text without such words.
pub(super) fn read(text: &[u8]) -> serde_json::Result<Value> {
    serde_json::from_slice(text).or_else(|fault| {
        let plain = without_words(text);
        serde_json::from_slice(&plain).map_err(|_| fault)
    })
}

/// The text with other forms in the place of words outside of strings.
fn without_words(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let (mut rest, mut quoted) = (text, false);
    while let Some((first, others)) = rest.split_first() {
        if let (false, Some(behind)) = (quoted, rest.strip_prefix(WORD)) {
            plain.extend_from_slice(FORM);
            rest = behind;
            continue;
        }
        plain.push(*first);
        rest = others;
        match first {
            b'"' => quoted = !quoted,
            b'\\' if quoted => {
                if let Some((escaped, others)) = rest.split_first() {
                    plain.push(*escaped);
                    rest = others;
                }
            }
            _ => {}
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn infinity_is_a_number_outside_of_strings_alone() {
        let text = br#"{"a \" Infinity": [0.0, Infinity], "b": "Infinity"}"#;
        let wanted =
            json!({ "a \" Infinity": [0.0, { "__float__": "Infinity" }], "b": "Infinity" });
        assert_eq!(read(text).unwrap(), wanted);
        assert!(read(b"[Infinity").is_err());
    }
}
