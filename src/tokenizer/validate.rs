//! Checks a `tokenizer.json` beyond its syntax, so that the library that reads it cannot panic.
//!
//! The library trusts two tables without checking them: it copies the two sides of a merge into a buffer as long as the
//! longest token, and it follows the offsets of a compiled character map (a double-array trie, Aoe 1989, and replacements
//! that end with a zero byte) wherever they lead. Both are checked here in full, and so are the names in a template, which
//! it looks up when it puts tokens around a text.

use base64::Engine;
use serde_json::Value;

/// Returns the first fault of a file, if there is one.
pub fn fault(file: &Value) -> Option<String> {
    merges(&file["model"])
        .or_else(|| charsmaps(&file["normalizer"], 0))
        .or_else(|| template(&file["post_processor"], 0))
}

/// Finds a template that refers to a text or a token that it does not have.
fn template(processor: &Value, depth: usize) -> Option<String> {
    if depth > DEEPEST {
        return Some("its post-processors are nested too deep".into());
    }
    if let Some(list) = processor["processors"].as_array() {
        let inner = list.iter().find_map(|inner| template(inner, depth + 1));
        let two = templates(processor) > 1;
        return inner.or_else(|| two.then(|| "it has more than one template".into()));
    }
    if processor["type"] != "TemplateProcessing" {
        return None;
    }
    let tokens = processor["special_tokens"].as_object()?;
    for (key, texts) in [("single", &["A"][..]), ("pair", &["A", "B"][..])] {
        for part in processor[key].as_array().into_iter().flatten() {
            let text = part["Sequence"]["id"].as_str();
            if let Some(text) = text.filter(|text| !texts.contains(text)) {
                return Some(format!("its template `{key}` has no text `{text}`"));
            }
            let token = part["SpecialToken"]["id"].as_str();
            if let Some(token) = token.filter(|token| !tokens.contains_key(*token)) {
                return Some(format!(
                    "its template `{key}` has the token `{token}`, which is not in its `special_tokens`"
                ));
            }
        }
    }
    None
}

/// Finds a merge whose result is longer than every token of the vocabulary.
fn merges(model: &Value) -> Option<String> {
    let vocab = model["vocab"].as_object()?;
    let longest = vocab.keys().map(String::len).max().unwrap_or(0);
    let prefix = model["continuing_subword_prefix"].as_str().unwrap_or("");
    for merge in model["merges"].as_array()? {
        let sides = match merge {
            Value::String(both) => both.split_once(' '),
            pair => pair[0].as_str().zip(pair[1].as_str()),
        };
        // The library reports merges of any other form.
        let Some((left, right)) = sides else { continue };
        if !vocab.contains_key(left) || !vocab.contains_key(right) {
            continue;
        }
        let Some(rest) = right
            .len()
            .checked_sub(prefix.len())
            .filter(|_| right.is_char_boundary(prefix.len()))
        else {
            return Some(format!(
                "the merge of `{left}` and `{right}`: the second is shorter than the prefix `{prefix}`"
            ));
        };
        if left.len() + rest > longest {
            return Some(format!(
                "the merge of `{left}` and `{right}` makes a token that is not in the vocabulary"
            ));
        }
    }
    None
}

/// Counts the templates in a post-processor, which must not be nested too deep.
fn templates(processor: &Value) -> usize {
    match processor["processors"].as_array() {
        Some(list) => list.iter().map(templates).sum(),
        None => usize::from(processor["type"] == "TemplateProcessing"),
    }
}

/// Normalizers may be nested in sequences, but no real file nests them deeper than this.
const DEEPEST: usize = 16;

fn charsmaps(normalizer: &Value, depth: usize) -> Option<String> {
    if depth > DEEPEST {
        return Some("its normalizers are nested too deep".into());
    }
    if let Some(list) = normalizer["normalizers"].as_array() {
        return list.iter().find_map(|inner| charsmaps(inner, depth + 1));
    }
    if normalizer["type"] != "Precompiled" {
        return None;
    }
    let encoded = normalizer["precompiled_charsmap"].as_str()?;
    let damaged = |why: &str| Some(format!("its precompiled_charsmap is damaged: {why}"));
    let Ok(bytes) = base64::engine::general_purpose::STANDARD.decode(encoded) else {
        return damaged("it is not base64");
    };
    charsmap(&bytes).and_then(damaged)
}

/// Finds a fault of a character map: 4 bytes of length, a trie of 32-bit units, replacements.
pub fn charsmap(bytes: &[u8]) -> Option<&'static str> {
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else {
        return Some("it has no length");
    };
    let length = u32::from_le_bytes(*length) as usize;
    let Some((units, replacements)) = rest.split_at_checked(length / 4 * 4) else {
        return Some("it is shorter than its stated length");
    };
    let Ok(replacements) = std::str::from_utf8(replacements) else {
        return Some("its replacements are not UTF-8");
    };
    let units: Vec<usize> = units
        .as_chunks::<4>()
        .0
        .iter()
        .map(|u| u32::from_le_bytes(*u) as usize)
        .collect();
    trie(&units, replacements)
}

/// Visits every node of the trie that some text leads to, with every byte that may follow.
fn trie(units: &[usize], replacements: &str) -> Option<&'static str> {
    let offset = |unit: usize| (unit >> 10) << ((unit & (1 << 9)) >> 6);
    let Some(root) = units.first() else {
        return Some("its trie is empty");
    };
    let mut seen = vec![false; units.len()];
    let mut open = vec![offset(*root)];
    while let Some(place) = open.pop() {
        for byte in 1..=255 {
            let next = place ^ byte;
            let Some(unit) = units.get(next) else {
                return Some("its trie points beyond its end");
            };
            if unit & (1 << 31 | 0xFF) != byte || std::mem::replace(&mut seen[next], true) {
                continue;
            }
            let after = next ^ offset(*unit);
            if unit >> 8 & 1 == 1 {
                let value = units.get(after).map(|leaf| leaf & ((1 << 31) - 1));
                if !value.is_some_and(|at| replacements.is_char_boundary(at)) {
                    return Some("an entry points outside of its replacements");
                }
            }
            open.push(after);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn map(units: &[u32], replacements: &str) -> Vec<u8> {
        let mut bytes = (units.len() as u32 * 4).to_le_bytes().to_vec();
        bytes.extend(units.iter().flat_map(|u| u.to_le_bytes()));
        bytes.extend(replacements.as_bytes());
        bytes
    }

    #[test]
    fn tries_that_lead_out_are_found() {
        assert_eq!(charsmap(&[1, 0]), Some("it has no length"));
        assert_eq!(
            charsmap(&[8, 0, 0, 0, 1]),
            Some("it is shorter than its stated length")
        );
        assert_eq!(charsmap(&map(&[], "")), Some("its trie is empty"));
        assert_eq!(
            charsmap(&map(&[1 << 10], "")),
            Some("its trie points beyond its end")
        );
        // One letter: the root leads to node 256, where `a` has a leaf whose value is at 512 ^ 97.
        let mut units = vec![0u32; 1024];
        units[0] = 256 << 10;
        units[256 ^ 97] = 97 | 1 << 8 | (256 ^ 512) << 10;
        units[(256 ^ 97) ^ (256 ^ 512)] = 2;
        assert_eq!(charsmap(&map(&units, "x\0y")), None);
        assert_eq!(
            charsmap(&map(&units, "x")),
            Some("an entry points outside of its replacements")
        );
        assert_eq!(
            charsmap(&map(&units, "xé\0")),
            Some("an entry points outside of its replacements")
        );
    }

    #[test]
    fn merges_that_make_no_token_are_found() {
        let model =
            |vocab: Value, merges: Value| json!({"model": {"vocab": vocab, "merges": merges}});
        let vocab = json!({"ab": 0, "a": 1, "b": 2});
        assert_eq!(fault(&model(vocab.clone(), json!(["a b"]))), None);
        let message = fault(&model(vocab, json!([["ab", "a"]]))).unwrap_or_default();
        assert!(
            message.contains("makes a token that is not in the vocabulary"),
            "{message}"
        );
    }
}
