//! Parameter paths: the field names from the root of a module, joined by dots.
//!
//! Names of enum variants are left out, so that a path says which part of a model a parameter belongs to and not which kind of
//! part it is: `stack.blocks.0.attention.query.weight`, whatever the attention. In Burn's traversals the container of a variant's
//! name is `Enum:` followed by the name of the enum.

use super::role::{Role, Roles};

/// The current position of a traversal of a module.
#[derive(Clone, Debug, Default)]
pub struct Path {
    fields: Vec<String>,
    /// The container of each field.
    holders: Vec<String>,
    /// The field names together with the variant names.
    all: Vec<String>,
}

impl Path {
    /// Enters a field; takes the arguments of `enter_module`.
    pub fn enter(&mut self, name: &str, container: &str) {
        // Enums added after version 1 are not in its paths; the empty name keeps the depth.
        let later = LATER_ENUMS.contains(&container);
        self.all.push(if later { "" } else { name }.to_string());
        if !is_enum(container) {
            self.fields.push(name.to_string());
            self.holders.push(container.to_string());
        }
    }

    /// Leaves a field; takes the container that `exit_module` is given.
    pub fn exit(&mut self, container: &str) {
        self.all.pop();
        if !is_enum(container) {
            self.fields.pop();
            self.holders.pop();
        }
    }

    /// Returns the path of the current parameter.
    pub fn joined(&self) -> String {
        self.fields.join(".")
    }

    /// Returns the path with variant names included: the parameter's name in checkpoints of version 1.
    pub fn with_variants(&self) -> String {
        let names = self.all.iter().map(String::as_str);
        names
            .filter(|name| !name.is_empty())
            .collect::<Vec<_>>()
            .join(".")
    }

    /// Returns the role of the current parameter by these declarations.
    pub fn role(&self, roles: &[&'static [Roles]]) -> Role {
        let fields = self.fields.iter().map(String::as_str);
        let holders = self.holders.iter().map(String::as_str);
        Role::of(fields.zip(holders), roles)
    }

    /// Returns the field names from the root.
    pub fn names(&self) -> &[String] {
        &self.fields
    }
}

/// Enums of networks that checkpoints of version 1 did not know.
const LATER_ENUMS: [&str; 5] = [
    "Enum:AnyLanguageModel",
    "Enum:PairModel",
    "Enum:TextModel",
    "Enum:TokenHead",
    "Enum:TokenVectors",
];

fn is_enum(container: &str) -> bool {
    container.starts_with("Enum:")
}
