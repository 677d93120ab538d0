//! The JSON that Python writes, in which infinity is a bare word, which JSON does not allow.

/// Python's word for infinity, and the form that version 5 of Hugging Face Transformers writes.
const WORD: &[u8] = b"Infinity";
const FORM: &[u8] = br#"{"__float__":"Infinity"}"#;

/// Replaces each `Infinity` outside of strings by `{"__float__":"Infinity"}`; line breaks stay as they are.
pub fn plain(text: Vec<u8>) -> Vec<u8> {
    if !text.windows(WORD.len()).any(|part| part == WORD) {
        return text;
    }
    let mut plain = Vec::with_capacity(text.len() + FORM.len());
    let (mut rest, mut quoted) = (&text[..], false);
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

    #[test]
    fn infinity_is_a_word_outside_of_strings_alone() {
        let text = br#"{"a \" Infinity": [0.0, Infinity], "b": "Infinity"}"#;
        let wanted = br#"{"a \" Infinity": [0.0, {"__float__":"Infinity"}], "b": "Infinity"}"#;
        assert_eq!(plain(text.to_vec()), wanted);
        assert_eq!(plain(b"{}".to_vec()), b"{}");
    }
}
