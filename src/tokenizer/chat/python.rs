//! JSON as written by Python's `json.dumps`: blanks after commas and colons, non-ASCII characters unescaped unless asked for.

use serde_json::Value;

/// The options of `json.dumps`.
#[derive(Clone, Debug, Default)]
pub(super) struct Style {
    pub(super) indent: Option<usize>,
    pub(super) ensure_ascii: bool,
    pub(super) sort_keys: bool,
    /// Separators between elements, and between a key and its value.
    pub(super) separators: Option<Vec<String>>,
}

impl Style {
    /// Writes a value as a text.
    pub(super) fn dumps(&self, value: &Value) -> String {
        let mut out = String::new();
        self.write(value, 1, &mut out);
        out
    }

    fn write(&self, value: &Value, depth: usize, out: &mut String) {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => out.push_str(&value.to_string()),
            Value::String(text) => self.text(text, out),
            Value::Array(all) => {
                let each = all.iter().map(|value| (None, value));
                self.write_sequence(['[', ']'], each, depth, out);
            }
            Value::Object(all) => {
                let mut each: Vec<_> = all.iter().map(|(key, value)| (Some(key), value)).collect();
                if self.sort_keys {
                    each.sort_by_key(|(key, _)| *key);
                }
                self.write_sequence(['{', '}'], each.into_iter(), depth, out);
            }
        }
    }

    fn write_sequence<'a>(
        &self,
        [open, close]: [char; 2],
        each: impl ExactSizeIterator<Item = (Option<&'a String>, &'a Value)>,
        depth: usize,
        out: &mut String,
    ) {
        out.push(open);
        let empty = each.len() == 0;
        for (number, (key, value)) in each.enumerate() {
            if number > 0 {
                out.push_str(self.separator(0));
            }
            self.line(depth, out);
            if let Some(key) = key {
                self.text(key, out);
                out.push_str(self.separator(1));
            }
            self.write(value, depth + 1, out);
        }
        if !empty {
            self.line(depth - 1, out);
        }
        out.push(close);
    }

    fn separator(&self, number: usize) -> &str {
        let usual = match (number, self.indent) {
            (0, None) => ", ",
            (0, Some(_)) => ",",
            _ => ": ",
        };
        let given = self.separators.as_ref().and_then(|all| all.get(number));
        given.map_or(usual, String::as_str)
    }

    fn line(&self, depth: usize, out: &mut String) {
        if let Some(indent) = self.indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent * depth));
        }
    }

    fn text(&self, text: &str, out: &mut String) {
        let quoted = Value::from(text).to_string();
        if !self.ensure_ascii {
            out.push_str(&quoted);
            return;
        }
        for c in quoted.chars() {
            if c.is_ascii() {
                out.push(c);
                continue;
            }
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn it_writes_as_python_does() {
        let value = json!({"b": [1, 2.5, null, true], "a": {"é\"": "x\ny"}, "e": [], "o": {}});
        let plain = Style::default();
        let wanted =
            "{\"b\": [1, 2.5, null, true], \"a\": {\"é\\\"\": \"x\\ny\"}, \"e\": [], \"o\": {}}";
        assert_eq!(plain.dumps(&value), wanted);
        let other = Style {
            indent: Some(2),
            ensure_ascii: true,
            sort_keys: true,
            separators: None,
        };
        let wanted = "{\n  \"a\": {\n    \"\\u00e9\\\"\": \"x\\ny\"\n  },\n  \"b\": [\n    1,\n    2.5,\n    null,\n    true\n  ],\n  \
                      \"e\": [],\n  \"o\": {}\n}";
        assert_eq!(other.dumps(&value), wanted);
    }
}
