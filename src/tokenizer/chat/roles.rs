//! The roles of messages. Most templates write any role as they write others, and a misspelt one would never be learnt.

use crate::error::suggestion;
use serde_json::Value;

/// Roles that programs for chat templates have in common; `ipython` is Llama's and `environment` OLMo's.
const USUAL: [&str; 8] = [
    "system",
    "developer",
    "user",
    "assistant",
    "tool",
    "function",
    "ipython",
    "environment",
];

/// Roles as ShareGPT's files name them, and as templates do.
pub const OTHER_NAMES: [(&str, &str); 8] = [
    ("human", "user"),
    ("gpt", "assistant"),
    ("model", "assistant"),
    ("bot", "assistant"),
    ("bing", "assistant"),
    ("chatgpt", "assistant"),
    ("bard", "assistant"),
    ("observation", "tool"),
];

/// An error where a message has a role that is none of the usual ones and that the template does not name.
///
/// # Errors
/// A clause with the role and the nearest one.
pub(super) fn require_known(messages: &[Value], template: &str) -> Result<(), String> {
    let named = |role: &str| {
        let quoted = [format!("'{role}'"), format!("\"{role}\"")];
        quoted.iter().any(|word| template.contains(word))
    };
    let mut roles = messages
        .iter()
        .filter_map(|message| message["role"].as_str());
    let Some(unknown) = roles.find(|role| !USUAL.contains(role) && !named(role)) else {
        return Ok(());
    };
    let lower = unknown.to_lowercase();
    let other = OTHER_NAMES.into_iter().find(|(theirs, _)| *theirs == lower);
    let near = match other {
        Some((_, ours)) => format!("; did you mean `{ours}`?"),
        None => suggestion(&lower, USUAL),
    };
    Err(format!(
        "the role `{unknown}` is not known, and the chat template does not name it{near}"
    ))
}

#[cfg(test)]
mod tests {
    use super::require_known;
    use serde_json::json;

    #[test]
    fn a_role_is_usual_or_named_by_the_template() {
        let told = |role: &str| {
            let messages = [json!({ "role": "user" }), json!({ "role": role })];
            require_known(&messages, "{% if message.role == 'critic' %}").err()
        };
        for known in ["assistant", "tool", "critic"] {
            assert_eq!(told(known), None);
        }
        for (unknown, near) in [
            ("asistant", "did you mean `assistant`?"),
            ("User", "did you mean `user`?"),
            ("gpt", "did you mean `assistant`?"),
            ("narrator", "allowed: `system`, `developer`, `user`"),
        ] {
            let told = told(unknown).unwrap();
            assert!(told.starts_with(&format!("the role `{unknown}` is not known")));
            assert!(told.contains(near), "{told}");
        }
    }
}
