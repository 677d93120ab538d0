//! The message about a key or a table that occurs twice in a TOML document, with the name of the table and the line of the
//! first occurrence.

use crate::faults;
use std::ops::Range;
use toml::de::DeTable;

const QUOTES: [char; 2] = ['"', '\''];

/// Returns the message about the key at `span`, the second one of its name.
pub(super) fn duplicate_message(text: &str, span: Range<usize>) -> String {
    let begin = text[..span.start].rfind('\n').map_or(0, |at| at + 1);
    let before = text[begin..span.start].trim_start();
    let before = before.trim_end_matches(QUOTES);
    let found = text[span].trim_matches(QUOTES);
    let of_header = before.strip_prefix('[');
    if let Some(parents) = of_header.filter(|parents| !parents.contains(['=', '{'])) {
        let parents = parents.trim_start_matches('[').trim_start();
        return format!("there are two tables [{parents}{found}]");
    }
    // Inside a multi-line value, the table of the key is unknown.
    if DeTable::parse(&text[..begin]).is_err() {
        return format!("duplicate key `{found}`");
    }
    let mut header = Header::find_above(text, begin);
    // Inline tables and the first parts of dotted keys also belong to the table's name.
    if let Some((key, _)) = before.split_once('=') {
        header.table.push(key.trim().to_owned());
    }
    let own = before.rsplit(['{', ',']).next().unwrap_or(before);
    let dotted = own
        .split('.')
        .map(str::trim)
        .filter(|part| !part.is_empty());
    if !own.contains('=') && own.trim_end().ends_with('.') {
        header.table.extend(dotted.map(str::to_owned));
    }
    let first = header.first(text, begin, found);
    let first = first.filter(|_| before.is_empty());
    let first = first.map_or(String::new(), |line| {
        format!("; line {line} already sets it; remove one of them")
    });
    let message = format!("duplicate key `{found}`{first}");
    faults::prefix_with_table(&header.table.join("."), &message)
}

/// The table header that a line belongs to.
#[derive(Default)]
struct Header {
    table: Vec<String>,
    /// Byte offset of the line after the header.
    body_start: usize,
}

impl Header {
    /// Finds the last table header before the line that begins at byte `end`. A line inside a list can look like a header, but
    /// the text before it is then not a complete document.
    fn find_above(text: &str, end: usize) -> Self {
        let mut at = 0;
        let mut headers: Vec<(usize, usize, &str)> = Vec::new();
        for line in text[..end].split_inclusive('\n') {
            let name = line.split('#').next().unwrap_or(line).trim();
            if name.starts_with('[') && name.ends_with(']') {
                headers.push((at, at + line.len(), name));
            }
            at += line.len();
        }
        let is_whole = |from: usize| DeTable::parse(&text[..from]).is_ok();
        let found = headers.iter().rposition(|(from, ..)| is_whole(*from));
        let Some((_, behind, name)) = found.map(|at| headers[at]) else {
            return Self::default();
        };
        let inside = name.trim_matches(['[', ']']);
        let mut table: Vec<String> = inside
            .split('.')
            .map(|part| part.trim().to_owned())
            .collect();
        if name.starts_with("[[") {
            let of_list = headers.iter().filter(|(.., other)| *other == name);
            table.push((of_list.count() - 1).to_string());
        }
        Self {
            table,
            body_start: behind,
        }
    }

    /// The line, counted from 1, that sets a key of the table before byte `end`.
    fn first(&self, text: &str, end: usize, key: &str) -> Option<usize> {
        let before = text[..self.body_start].matches('\n').count();
        let mut lines = text[self.body_start..end].lines();
        let begins = |line: &str| {
            let rest = line.trim_start().strip_prefix(key);
            rest.is_some_and(|rest| rest.trim_start().starts_with('='))
        };
        lines.position(begins).map(|at| before + at + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> String {
        let error = DeTable::parse(text).unwrap_err();
        assert_eq!(error.message(), "duplicate key", "{text}");
        duplicate_message(text, error.span().unwrap())
    }

    #[test]
    fn a_second_key_is_told_with_its_table() {
        let first = "; line 1 already sets it; remove one of them";
        assert_eq!(of("a = 1\na = 2\n"), format!("duplicate key `a`{first}"));
        assert_eq!(
            of("[x]\nb = [\n[1]\n]\na = 1\n# [y]\n\"a\" = 2\n"),
            "[x] duplicate key `a`; line 5 already sets it; remove one of them"
        );
        assert_eq!(
            of("[x.y]\nb = [\n[1]\n]\na = 1\na = 2\n"),
            "[x.y] duplicate key `a`; line 5 already sets it; remove one of them"
        );
        assert_eq!(
            of("[[x.y]]\na = 1\n[[x.y]] # two\na = 1\nb = 2\na = 2\n"),
            "[[x.y]] 2: duplicate key `a`; line 4 already sets it; remove one of them"
        );
        assert_eq!(of("[x]\nz = { a = 1, a = 2 }\n"), "[x.z] duplicate key `a`");
        assert_eq!(of("[x]\nz.a = 1\nz.a = 2\n"), "[x.z] duplicate key `a`");
        assert_eq!(
            of("[x]\na = 1\nz = {\n  a = 1,\n  a = 2,\n}\n"),
            "duplicate key `a`"
        );
    }

    #[test]
    fn a_second_table_is_told_with_its_whole_name() {
        assert_eq!(of("[x]\n[y]\n[x]\n"), "there are two tables [x]");
        assert_eq!(of("[x.z]\n[y]\n[x.z]\n"), "there are two tables [x.z]");
    }
}
