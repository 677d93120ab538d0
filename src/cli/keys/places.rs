//! Finds the tables at a path as a user writes it.
//!
//! A section stores the shortest place of its table and the table's other places. Anything deeper inside is found through the
//! shortest place: `model.image.attention` is `model.attention`, since `model.image` is a `model`. The marks of a list may be
//! omitted (`model.layers` for `model.layers[]`), and where names are free, any name is accepted (`expect.loss` for
//! `expect.NAME`).

use crate::experiment::schema::Section;

/// Stands for a name that the author of a file chooses.
const NAME: &str = "NAME";

/// Marks a list of tables.
const LIST: &str = "[]";

/// Maximum number of replacements in a path; files are not nested that deeply.
const DEEPEST: usize = 32;

/// Returns the sections of the tables at a path, each with the path to display.
pub(super) fn tables(all: &[Section], path: &str) -> Vec<(String, Section)> {
    let ways = std::iter::successors(Some(path.to_string()), |path| shorter(all, path));
    let mut found = ways.take(DEEPEST).map(|way| at(all, &way, path));
    found.find(|tables| !tables.is_empty()).unwrap_or_default()
}

/// The sections at a place, titled by the requested path.
fn at(all: &[Section], place: &str, path: &str) -> Vec<(String, Section)> {
    let shown = |section: &Section| {
        let end = places(section).find_map(|known| rest(known, place))?;
        Some((format!("{path}{end}"), section.clone()))
    };
    all.iter().filter_map(shown).collect()
}

/// The places of a table, the shortest first.
fn places(section: &Section) -> impl Iterator<Item = &String> {
    std::iter::once(&section.path).chain(&section.other_paths)
}

/// The marks that a path lacks at its end to be a place of a table: none, `[]` or `.NAME`. `None` if it is not such a place.
fn rest(place: &str, path: &str) -> Option<String> {
    let (mut theirs, mut ours) = (place.split('.'), path.split('.'));
    let mut last = (NAME, NAME);
    loop {
        last = match (theirs.next(), ours.next()) {
            (Some(NAME), Some(own)) => (NAME, own),
            (Some(part), Some(own)) if bare(part) == bare(own) => (part, own),
            (Some(NAME), None) if theirs.next().is_none() => return Some(format!(".{NAME}")),
            (None, None) if last.0.ends_with(LIST) && !last.1.ends_with(LIST) => {
                return Some(LIST.into());
            }
            (None, None) => return Some(String::new()),
            _ => return None,
        };
    }
}

fn bare(part: &str) -> &str {
    part.strip_suffix(LIST).unwrap_or(part)
}

/// Replaces a longer place of a table at the beginning of a path by its shortest one; none if the path begins with no such
/// place.
fn shorter(all: &[Section], path: &str) -> Option<String> {
    // The longest matching beginning is the most specific one.
    path.rmatch_indices('.').find_map(|(dot, _)| {
        let (front, behind) = path.split_at(dot);
        let is_other = |section: &&Section| section.other_paths.iter().any(|one| is_at(one, front));
        let section = all.iter().find(is_other)?;
        Some(format!("{}{behind}", section.path))
    })
}

/// Whether a path is a complete place of a table, apart from list marks.
fn is_at(place: &str, path: &str) -> bool {
    rest(place, path).is_some_and(|end| end.is_empty() || end == LIST)
}
