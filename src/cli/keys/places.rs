//! The tables that stand at a path, as a person writes it.
//!
//! A section has the shortest place of its table and the other places of the table itself. What lies further inside is found at
//! the shortest place: `model.image.attention` is `model.attention`, since `model.image` is a `model`. The marks of a list may be
//! left out (`model.layers` for `model.layers[]`), and where a name is free any name is one (`expect.loss` for `expect.NAME`).

use crate::experiment::schema::Section;

/// A name that the author of a file chooses.
const NAME: &str = "NAME";

/// The mark of a list of tables.
const LIST: &str = "[]";

/// Places that a path is led through at most; a file is no deeper.
const DEEPEST: usize = 32;

/// The sections of the tables at a path, each with the path as it is shown.
pub(super) fn tables(all: &[Section], path: &str) -> Vec<(String, Section)> {
    let ways = std::iter::successors(Some(path.to_string()), |path| shorter(all, path));
    let mut found = ways.take(DEEPEST).map(|way| at(all, &way, path));
    found.find(|tables| !tables.is_empty()).unwrap_or_default()
}

/// The sections at a place, with the path that is asked for as their title.
fn at(all: &[Section], place: &str, path: &str) -> Vec<(String, Section)> {
    let shown = |section: &Section| {
        let end = places(section).find_map(|known| rest(known, place))?;
        Some((format!("{path}{end}"), section.clone()))
    };
    all.iter().filter_map(shown).collect()
}

/// The places of a table, the shortest first.
fn places(section: &Section) -> impl Iterator<Item = &String> {
    std::iter::once(&section.path).chain(&section.also)
}

/// The marks that a path lacks at its end to be a place of a table: none, `[]` or `.NAME`. Nothing for another place.
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

/// The path with the shortest place of a table in the place of a longer one in its front; none where no front is such a place.
fn shorter(all: &[Section], path: &str) -> Option<String> {
    // The longest front says most of where a table stands.
    path.rmatch_indices('.').find_map(|(dot, _)| {
        let (front, behind) = path.split_at(dot);
        let is_other = |section: &&Section| section.also.iter().any(|one| is_at(one, front));
        let section = all.iter().find(is_other)?;
        Some(format!("{}{behind}", section.path))
    })
}

/// Whether a path is a whole place of a table, but for marks of lists.
fn is_at(place: &str, path: &str) -> bool {
    rest(place, path).is_some_and(|end| end.is_empty() || end == LIST)
}
