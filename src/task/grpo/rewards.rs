//! `[task.reward]`: the reward of a completion, by the data's answer to its prompt or by a reward model.

use crate::faults::TableFaults;
use crate::one_table::word_or_number;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Reward of a completion.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum CompletionReward {
    /// 1 if the completion equals the data's answer.
    Exact(ExactReward),
    /// 1 if the completion contains the data's answer.
    Contains(ContainsReward),
    /// 1 if the completion's last number is that of the data's answer.
    Number(NumberReward),
    /// The number that a reward run predicts for prompt and completion.
    Run(RunReward),
}

/// 1 for a completion that ends and whose text equals the data's answer, ignoring surrounding white space; else 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ExactReward {}

/// 1 for a completion whose text contains the data's answer, else 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ContainsReward {}

/// 1 for a completion whose last number equals the last number of the data's answer, else 0; `1,200.0` equals `1200`.
/// Source: Cobbe et al., arXiv:2110.14168.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NumberReward {}

/// The number that a run of `[task] kind = "reward"` predicts for a prompt with its completion; the data's answers are
/// not used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunReward {
    /// Folder of the run.
    pub path: PathBuf,
    /// Checkpoint of the run: `best`, `latest` or the number of a step; the best one when absent.
    #[schemars(extend("type" = ["string", "integer"]))]
    #[serde(
        default,
        deserialize_with = "word_or_number",
        skip_serializing_if = "Option::is_none"
    )]
    pub checkpoint: Option<String>,
    /// Reward of a completion that is too long for the run to read with its prompt. It must be given if the context of
    /// the data leaves room for such a completion; 0 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub too_long: Option<f64>,
}

impl Default for CompletionReward {
    fn default() -> Self {
        Self::Exact(ExactReward {})
    }
}

impl CompletionReward {
    /// Returns the run that assigns rewards, if one does.
    pub fn run(&self) -> Option<&RunReward> {
        match self {
            Self::Run(run) => Some(run),
            Self::Exact(_) | Self::Contains(_) | Self::Number(_) => None,
        }
    }

    /// Checks the keys and reports faults.
    pub(super) fn faults(&self, at: &mut TableFaults) {
        if let Some(number) = self.run().and_then(|run| run.too_long)
            && !number.is_finite()
        {
            at.fault(
                &["too_long"],
                format!("too_long = {number} is not a finite number"),
            );
        }
    }

    /// Returns the reward of a text, given the right text and whether the text ends; `None` if a run assigns the
    /// reward.
    pub fn text_reward(&self, text: &str, ended: bool, right: &str) -> Option<f32> {
        let worth = match self {
            Self::Exact(_) => is_exact(text, ended, right),
            Self::Contains(_) => {
                let right = right.trim();
                !right.is_empty() && text.contains(right)
            }
            Self::Number(_) => {
                let right = last_number(right);
                right.is_some() && last_number(text) == right
            }
            Self::Run(_) => return None,
        };
        Some(f32::from(u8::from(worth)))
    }
}

/// Returns whether a text ends and equals the right one.
pub fn is_exact(text: &str, ended: bool, right: &str) -> bool {
    ended && text.trim() == right.trim()
}

/// Parses the last number of a text: digits with a point or commas among them. A sign before them counts unless a
/// letter or digit precedes it.
pub fn last_number(text: &str) -> Option<f64> {
    let symbols: Vec<char> = text.chars().collect();
    let last = symbols.iter().rposition(char::is_ascii_digit)?;
    let inside = |at: usize| {
        let symbol = symbols[at];
        // A point or a comma belongs to the number if a digit follows it.
        symbol.is_ascii_digit() || ".,".contains(symbol) && symbols[at + 1].is_ascii_digit()
    };
    let mut first = last;
    while first > 0 && inside(first - 1) {
        first -= 1;
    }
    let negative = first > 0
        && symbols[first - 1] == '-'
        && (first < 2 || !symbols[first - 2].is_alphanumeric());
    let digits: String = symbols[first..=last]
        .iter()
        .filter(|s| **s != ',')
        .collect();
    let number: f64 = digits.parse().ok()?;
    Some(if negative { -number } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_of_a_text() {
        for (text, wanted) in [
            ("046", Some(46.0)),
            ("#### 1,200", Some(1200.0)),
            ("it is 3.50.", Some(3.5)),
            ("12-7", Some(7.0)),
            ("x = -7 m", Some(-7.0)),
            ("5, 6", Some(6.0)),
            ("none", None),
            ("1.2.3", None),
        ] {
            assert_eq!(last_number(text), wanted, "{text}");
        }
    }

    #[test]
    fn rewards_by_the_right_answer() {
        let reward =
            |of: &CompletionReward, text, ended| of.text_reward(text, ended, "046").unwrap();
        let exact = CompletionReward::default();
        assert_eq!(reward(&exact, "046 ", true), 1.0);
        assert_eq!(reward(&exact, "046", false), 0.0);
        assert_eq!(reward(&exact, "46", true), 0.0);
        let contains = CompletionReward::Contains(ContainsReward {});
        assert_eq!(reward(&contains, "so 046!", false), 1.0);
        assert_eq!(reward(&contains, "so 04 6", false), 0.0);
        assert_eq!(contains.text_reward("any", true, " "), Some(0.0));
        let number = CompletionReward::Number(NumberReward {});
        assert_eq!(reward(&number, "3 and 46", false), 1.0);
        assert_eq!(reward(&number, "46 and 3", false), 0.0);
        assert_eq!(number.text_reward("7", true, "seven"), Some(0.0));
    }
}
