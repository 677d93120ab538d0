//! The tags `{% generation %}` and `{% endgeneration %}`, which Jinja does not know: each writes a character that occurs in no
//! text.

use super::RenderedConversation;

/// The characters at the beginning and end of an answer: two of the noncharacters that Unicode reserves for internal use of
/// programs (U+FDD0 to U+FDEF).
const BEGINS: char = '\u{FDD0}';
const ENDS: char = '\u{FDD1}';

pub(super) const MARKS: [char; 2] = [BEGINS, ENDS];

const NAMES: [(&str, char); 2] = [("generation", BEGINS), ("endgeneration", ENDS)];

/// A tag in a template.
struct Tag {
    from: usize,
    to: usize,
    writes: char,
    /// The sign after `{%` and before `%}`: `-`, `+` or none.
    trims: [&'static str; 2],
}

/// Whether a template has these tags.
pub(super) fn has_any(template: &str) -> bool {
    next(template, 0).is_some()
}

/// Replaces the tags of a template by plain Jinja. Each character is written between two assignments, so that white space is
/// trimmed as around any block.
pub(super) fn replace_tags(template: &str) -> String {
    let mut marked = String::with_capacity(template.len());
    let mut at = 0;
    while let Some(tag) = next(template, at) {
        let [left, right] = tag.trims;
        marked.push_str(&template[at..tag.from]);
        marked.push_str(&format!(
            "{{%{left} set _tag = 0 %}}{{{{ '{}' }}}}{{% set _tag = 0 {right}%}}",
            tag.writes
        ));
        at = tag.to;
    }
    marked.push_str(&template[at..]);
    marked
}

/// The first tag that begins at or after a byte.
fn next(template: &str, from: usize) -> Option<Tag> {
    let opened = template[from..].match_indices("{%");
    opened
        .map(|(at, _)| from + at)
        .find_map(|at| tag(template, at))
}

/// The tag that begins at a byte, if there is one.
fn tag(template: &str, from: usize) -> Option<Tag> {
    let rest = &template[from + 2..];
    let end = rest.find("%}")?;
    let inside = &rest[..end];
    let (left, inside) = trim(inside.strip_prefix('-'), inside.strip_prefix('+'), inside);
    let (right, inside) = trim(inside.strip_suffix('-'), inside.strip_suffix('+'), inside);
    let (_, writes) = NAMES.into_iter().find(|(name, _)| *name == inside.trim())?;
    Some(Tag {
        from,
        to: from + 2 + end + 2,
        writes,
        trims: [left, right],
    })
}

/// The sign at one side of a tag, and the rest.
fn trim<'a>(
    minus: Option<&'a str>,
    plus: Option<&'a str>,
    whole: &'a str,
) -> (&'static str, &'a str) {
    match (minus, plus) {
        (Some(rest), _) => ("-", rest),
        (None, Some(rest)) => ("+", rest),
        (None, None) => ("", whole),
    }
}

/// The text without the characters of tags, and the byte ranges between them.
pub(super) fn parts(text: &str) -> RenderedConversation {
    let mut written = RenderedConversation {
        text: String::with_capacity(text.len()),
        answers: Vec::new(),
    };
    let mut begun = None;
    for c in text.chars() {
        match c {
            BEGINS => begun = Some(written.text.len()),
            ENDS => {
                let from = begun.take();
                written
                    .answers
                    .extend(from.map(|from| from..written.text.len()));
            }
            _ => written.text.push(c),
        }
    }
    written
}
