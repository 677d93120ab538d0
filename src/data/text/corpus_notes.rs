//! Notes about the documents of several corpora.

use super::texts::TextCorpus;

/// Returns the notes about the files of corpora, each once.
pub(super) fn notes(corpora: &[TextCorpus]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for note in corpora.iter().flat_map(|texts| &texts.notes) {
        if !all.contains(note) {
            all.push(note.clone());
        }
    }
    all
}
