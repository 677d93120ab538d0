//! Articles in WikiText's form: a title, the paragraphs of the lead, and those of the sections.
//!
//! ` = Title = ` begins an article, ` = = Section = = ` a section of it, ` = = = Part = = = ` a part of one;
//! every other line that is not blank is a paragraph. Headings below the title are left out of the text.

use std::path::{Path, PathBuf};

use crate::data::files::documents::Beginnings;
use crate::data::files::paths::Paths;
use crate::data::text::TextConfig;
use crate::error::{Error, Result};
use crate::tokenizer::utf8;

/// An article.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::data) struct Article {
    /// Title without its `=` signs.
    pub(in crate::data) title: String,
    /// Paragraphs before the heading that ends the lead.
    pub(in crate::data) lead: Vec<String>,
    /// Paragraphs after it.
    pub(in crate::data) body: Vec<String>,
}

/// Depth of WikiText's deepest heading.
pub(in crate::data) const DEEPEST: usize = 6;

impl Article {
    /// Reads a document. Its lead ends at the first heading with at least `ends` signs on each side.
    ///
    /// # Errors
    /// If the bytes are not UTF-8, or the document does not begin with a title.
    pub(in crate::data) fn read(document: &[u8], ends: usize) -> Result<Self> {
        let text = utf8(document)?;
        let mut lines = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .peekable();
        let title = lines.next_if(|line| level(line) == 1).ok_or_else(|| {
            let line: String = text.trim().chars().take(40).collect();
            Error::run(format!(
                "an article begins with a line ` = Title = ` between blank lines, but this text begins with `{line}`"
            ))
        })?;
        let mut article = Self {
            title: title.trim_matches(['=', ' ']).to_owned(),
            ..Self::default()
        };
        let mut in_lead = true;
        for line in lines {
            match level(line) {
                0 | 1 if in_lead => article.lead.push(line.to_owned()),
                0 | 1 => article.body.push(line.to_owned()),
                marks => in_lead &= marks < ends,
            }
        }
        Ok(article)
    }

    /// Returns all paragraphs in order.
    pub(in crate::data) fn paragraphs(&self) -> impl Iterator<Item = &str> {
        self.lead.iter().chain(&self.body).map(String::as_str)
    }
}

/// Returns the number of `=` signs on each side of a heading; 0 for other lines.
fn level(line: &str) -> usize {
    let mut inside = line;
    let mut marks = 0;
    while let Some(rest) = inside.strip_prefix("= ").and_then(|l| l.strip_suffix(" =")) {
        (inside, marks) = (rest, marks + 1);
    }
    marks
}

/// Returns the keys that name files of articles as the configuration of a text, so that splits and fractions
/// are taken between articles.
pub(in crate::data) fn files(
    path: &Paths,
    [valid_path, test_path]: [&Option<Paths>; 2],
    [valid_fraction, test_fraction]: [Option<f64>; 2],
) -> TextConfig {
    TextConfig {
        path: path.clone(),
        valid_path: valid_path.clone(),
        test_path: test_path.clone(),
        valid_fraction,
        test_fraction,
        documents: Some(Beginnings::Wikitext),
        ..TextConfig::default()
    }
}

/// Returns the training, validation and test paths with the keys that name them.
pub(in crate::data) fn keyed<'a>(
    path: &'a Paths,
    [valid_path, test_path]: [&'a Option<Paths>; 2],
) -> Vec<(&'static str, &'a Path)> {
    let held_out = [("valid_path", valid_path), ("test_path", test_path)].into_iter();
    let held_out = held_out.flat_map(|(key, paths)| paths.iter().flat_map(move |p| p.keyed(key)));
    path.keyed("path").chain(held_out).collect()
}

/// Replaces each path, of training, validation and test, by `place(path)`.
pub(in crate::data) fn placed(
    path: &Paths,
    held_out: [&Option<Paths>; 2],
    place: impl Fn(&Path) -> PathBuf,
) -> (Paths, [Option<Paths>; 2]) {
    (
        path.placed(&place),
        held_out.map(|paths| paths.as_ref().map(|paths| paths.placed(&place))),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = " \n = A b = \n \n One . \n Two . \n \n = = C = = \n \n Three . \n \n = = = D = = = \n \n Four . \n";

    #[test]
    fn the_lead_ends_at_a_heading() {
        let read = |ends| {
            let article = Article::read(TEXT.as_bytes(), ends).unwrap();
            assert_eq!(article.title, "A b");
            (article.lead.join(" "), article.body.join(" "))
        };
        assert_eq!(read(2), ("One . Two .".into(), "Three . Four .".into()));
        assert_eq!(read(3), ("One . Two . Three .".into(), "Four .".into()));
        assert_eq!(
            read(4),
            ("One . Two . Three . Four .".into(), String::new())
        );
        assert!(Article::read(b"One .\n", 2).is_err());
    }

    #[test]
    fn lines_that_only_look_like_headings() {
        let levels = [" = A = ", "= = A = =", "= A", "a = b", "= = A =", "="];
        assert_eq!(levels.map(|line| level(line.trim())), [1, 2, 0, 0, 1, 0]);
    }
}
