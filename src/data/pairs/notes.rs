//! Messages about pairs that are left out, and about those with an empty side.

use super::PairsConfig;
use super::read::{Place, Texts};
use super::source::{DropReason, PairCount, PairSource};
use crate::data::Split;

/// The pairs of a split that messages are about.
pub(super) struct PairNotes<'a> {
    pub(super) config: &'a PairsConfig,
    pub(super) texts: &'a Texts,
    pub(super) split: Split,
}

impl<'a> PairNotes<'a> {
    fn place(&self, counted: &PairCount) -> Option<&'a Place> {
        let all = self.split == Split::Train && self.config.all_references;
        self.texts.place(counted.first, all)
    }

    /// Returns the message about pairs that are left out, with the reasons.
    pub(super) fn left_out(&self, source: &PairSource) -> Option<String> {
        let pairs: usize = source.left_out.iter().map(|counted| counted.pairs).sum();
        let (pairs, are) = match (pairs, self.split) {
            (0, _) => return None,
            (1, Split::Train) => ("1 training pair".to_owned(), "is"),
            (_, Split::Train) => (format!("{pairs} training pairs"), "are"),
            (1, split) => (format!("1 pair of the {} split", split.name()), "is"),
            (_, split) => (
                format!("{pairs} pairs of the {} split", split.name()),
                "are",
            ),
        };
        let reasons = reasons(self.config, source, |counted| self.place(counted));
        Some(format!("{pairs} {are} left out: {reasons}"))
    }

    /// Returns the message about used pairs with an empty side; only evaluations use such pairs.
    pub(super) fn empty(&self, source: &PairSource) -> Option<String> {
        let empty = &source.empty;
        let (pairs, have) = match empty.pairs {
            0 => return None,
            1 => ("1 pair".to_owned(), "has"),
            pairs => (format!("{pairs} pairs"), "have"),
        };
        Some(format!(
            "{pairs} of the {} split {have} an empty side{}: evaluations read and score empty sides as they are",
            self.split.name(),
            first(self.place(empty))
        ))
    }
}

/// Lists the reasons why pairs are left out, each with its number of pairs and the place of the first:
/// `7 too long (max_len = 64), the first at a.tsv:12; 2 with an empty side, the first at a.tsv:3`.
pub(super) fn reasons<'p>(
    config: &PairsConfig,
    source: &PairSource,
    place: impl Fn(&PairCount) -> Option<&'p Place>,
) -> String {
    let each = [DropReason::Long, DropReason::Unequal, DropReason::Empty].map(|reason| {
        let counted = &source.left_out[reason as usize];
        let why = match reason {
            DropReason::Empty => "with an empty side".to_owned(),
            DropReason::Long => format!("too long ({})", lengths(config)),
            DropReason::Unequal => format!(
                "too unequal in length (max_ratio = {})",
                config.max_ratio.unwrap_or_default()
            ),
        };
        let told = format!("{} {why}{}", counted.pairs, first(place(counted)));
        (counted.pairs > 0).then_some(told)
    });
    each.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn lengths(config: &PairsConfig) -> String {
    let target = config.max_target_len;
    let target = target.map_or_else(String::new, |most| format!(", max_target_len = {most}"));
    format!("[data] max_len = {}{target}", config.max_len)
}

fn first(place: Option<&Place>) -> String {
    place.map_or_else(String::new, |place| format!(", the first at {place}"))
}
