//! Checks the roles of messages: most templates accept any role, so a misspelt one would silently never be learnt.

use crate::error::nearest;
use serde_json::Value;

/// Roles that chat templates have in common; `ipython` is Llama's and `environment` OLMo's.
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

/// Roles by their names in ShareGPT's files, and in templates.
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

/// Checks that no message has a role that resembles a usual one without being one, unless the template names it. Other roles
/// pass.
///
/// # Errors
/// If there is such a role; the message suggests the nearest one.
pub(super) fn require_known(messages: &[Value], template: &str) -> Result<(), String> {
    let named = |role: &str| {
        let quoted = [format!("'{role}'"), format!("\"{role}\"")];
        quoted.iter().any(|word| template.contains(word))
    };
    let roles = messages
        .iter()
        .filter_map(|message| message["role"].as_str());
    for role in roles {
        if USUAL.contains(&role) || named(role) {
            continue;
        }
        let lower = role.to_lowercase();
        let other = OTHER_NAMES.into_iter().find(|(theirs, _)| *theirs == lower);
        let meant = other.map_or_else(|| nearest(&lower, USUAL), |(_, ours)| Some(ours));
        if let Some(meant) = meant {
            return Err(format!(
                "the role `{role}` is not known, and the chat template does not name it; did you mean `{meant}`?"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::require_known;
    use serde_json::json;

    #[test]
    fn a_role_that_looks_like_a_usual_one_is_told() {
        let told = |role: &str| {
            let messages = [json!({ "role": "user" }), json!({ "role": role })];
            require_known(&messages, "{% if message.role == 'critic' %}").err()
        };
        for known in ["assistant", "tool", "critic", "narrator"] {
            assert_eq!(told(known), None);
        }
        for (unknown, near) in [
            ("asistant", "did you mean `assistant`?"),
            ("User", "did you mean `user`?"),
            ("gpt", "did you mean `assistant`?"),
        ] {
            let told = told(unknown).unwrap();
            assert!(told.starts_with(&format!("the role `{unknown}` is not known")));
            assert!(told.contains(near), "{told}");
        }
    }
}
