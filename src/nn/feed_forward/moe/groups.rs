//! Groups of experts, of which a token uses only some (DeepSeek-AI 2024, DeepSeek-V2, section 2.1.2).

use super::config::{MAX_EXPERTS, MoeConfig};
use crate::faults::TableFaults;

/// Default number of best scores of a group that are added up to rank it. Source: DeepSeek-AI 2024, DeepSeek-V3, section 2.1.2.
const DEFAULT_BEST: usize = 2;

/// Groups of consecutive experts, of which a token uses only some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpertGroups {
    /// Number of groups.
    pub number: usize,
    /// Number of groups that a token may use.
    pub top: usize,
    /// Number of best scores of a group that are added up to rank it.
    pub best: usize,
}

impl MoeConfig {
    /// Returns the groups of experts, if a token may not use all experts.
    pub fn groups(&self) -> Option<ExpertGroups> {
        Some(ExpertGroups {
            number: self.groups?,
            top: self.top_groups?,
            best: self.group_best.unwrap_or(DEFAULT_BEST),
        })
    }

    /// Reports invalid settings of groups of experts.
    pub(super) fn group_faults(&self, at: &mut TableFaults) {
        let (groups, top) = match (self.groups, self.top_groups) {
            (None, None) if self.group_best.is_some() => {
                let rule = "group_best has no effect without groups and top_groups; remove it";
                return at.fault(&["group_best"], rule);
            }
            (None, None) => return,
            (Some(groups), Some(top)) => (groups, top),
            (Some(_), None) => {
                let rule = "groups has no effect without top_groups, the number of groups that a token may use; set it, or remove \
                            groups";
                return at.fault(&["groups"], rule);
            }
            (None, Some(_)) => {
                let rule = "top_groups has no effect without groups; remove it";
                return at.fault(&["top_groups"], rule);
            }
        };
        let sound = at.count("groups", groups, MAX_EXPERTS);
        if !(at.count("top_groups", top, MAX_EXPERTS) && sound) {
            return;
        }
        if top >= groups {
            let rule = format!(
                "top_groups = {top} of groups = {groups} excludes no group; lower it, or remove both"
            );
            at.fault(&["top_groups", "groups"], rule);
        }
        let each = self.n_experts / groups;
        let best = self.group_best.unwrap_or(DEFAULT_BEST);
        if !at.count("group_best", best, MAX_EXPERTS) {
            return;
        }
        if !self.n_experts.is_multiple_of(groups) || each < best {
            let rule = format!(
                "n_experts = {} cannot be divided into groups = {groups} of {best} or more experts each",
                self.n_experts
            );
            at.fault(&["groups", "n_experts"], rule);
        } else if self.top_k > top.saturating_mul(each) && self.top_k <= self.n_experts {
            let rule = format!(
                "top_k = {} is more than the {} experts of top_groups = {top} groups",
                self.top_k,
                top * each
            );
            at.fault(&["top_k", "top_groups"], rule);
        }
    }
}
