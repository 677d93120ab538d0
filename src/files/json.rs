//! The JSON that Python writes, in which infinity is a bare word, which JSON does not allow.

/// Python's word for infinity, and the form that version 5 of Hugging Face Transformers writes.
const INFINITY: &[u8] = b"Infinity";
const ENCODED_INFINITY: &[u8] = br#"{"__float__":"Infinity"}"#;

/// Replaces each `Infinity` outside of strings by `{"__float__":"Infinity"}`; line breaks stay as they are.
pub fn encode_infinity(text: Vec<u8>) -> Vec<u8> {
    if !text.windows(INFINITY.len()).any(|part| part == INFINITY) {
        return text;
    }
    let mut plain = Vec::with_capacity(text.len() + ENCODED_INFINITY.len());
    let (mut rest, mut quoted) = (&text[..], false);
    while let Some((first, others)) = rest.split_first() {
        if let (false, Some(behind)) = (quoted, rest.strip_prefix(INFINITY)) {
            plain.extend_from_slice(ENCODED_INFINITY);
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
        assert_eq!(encode_infinity(text.to_vec()), wanted);
        assert_eq!(encode_infinity(b"{}".to_vec()), b"{}");
    }
}
