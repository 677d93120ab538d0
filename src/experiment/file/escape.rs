//! Texts on one line: strings as TOML quotes them, and the text of a message.

/// A one-line string: TOML's own writer breaks lines where the text does.
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

/// Control characters escaped: a fault is one line.
pub(super) fn one_line(text: &str) -> String {
    let escaped = text.chars().map(|c| match c {
        c if c.is_control() => c.escape_default().to_string(),
        c => c.to_string(),
    });
    escaped.collect()
}
