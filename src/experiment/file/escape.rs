//! Escapes texts to one line: strings in TOML syntax, and messages.

/// A TOML string on one line; TOML's own writer breaks lines where the text does.
pub(super) fn basic(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", c as u32)),
            c => out.push(c),
        }
    }
    out + "\""
}

/// Escapes control characters, since a message must be one line.
pub(super) fn one_line(text: &str) -> String {
    let escaped = text.chars().map(|c| match c {
        c if c.is_control() => c.escape_default().to_string(),
        c => c.to_string(),
    });
    escaped.collect()
}
