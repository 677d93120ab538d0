//! Paths of parameters: the names of the fields from the root of a module, joined by dots.
//!
//! Variants of enums are no part of a path, so that a path says which part of a model a parameter belongs to and not
//! which kind of part it is: `stack.blocks.0.attention.query.weight`, whatever the attention. In Burn's traversals the
//! container of a variant's name is `Enum:` and the name of the enum.

use super::role::{Role, Roles};

/// Where a traversal of a module stands.
#[derive(Clone, Debug, Default)]
pub struct Path {
    fields: Vec<String>,
    /// The holder of each of them.
    holders: Vec<String>,
    /// With the names of variants among them.
    all: Vec<String>,
}

impl Path {
    /// A traversal goes into a field, with the arguments of `enter_module`.
    pub fn enter(&mut self, name: &str, container: &str) {
        // What came after version 1 is not in its paths; the empty name keeps the depth.
        let later = LATER.contains(&container);
        self.all.push(if later { "" } else { name }.to_string());
        if !is_enum(container) {
            self.fields.push(name.to_string());
            self.holders.push(container.to_string());
        }
    }

    /// A traversal leaves a field, with the arguments of `exit_module`.
    pub fn exit(&mut self, container: &str) {
        self.all.pop();
        if !is_enum(container) {
            self.fields.pop();
            self.holders.pop();
        }
    }

    /// The path of the parameter that is visited.
    pub fn joined(&self) -> String {
        self.fields.join(".")
    }

    /// The path with the names of variants in it: what checkpoints of version 1 called the parameter.
    pub fn with_variants(&self) -> String {
        let names = self.all.iter().map(String::as_str);
        names
            .filter(|name| !name.is_empty())
            .collect::<Vec<_>>()
            .join(".")
    }

    /// The role of the parameter that is visited, by these declarations.
    pub fn role(&self, roles: &[&'static [Roles]]) -> Role {
        let fields = self.fields.iter().map(String::as_str);
        let holders = self.holders.iter().map(String::as_str);
        Role::of(fields.zip(holders), roles)
    }

    /// The names from the root.
    pub fn names(&self) -> &[String] {
        &self.fields
    }
}

/// Enums of networks that checkpoints of version 1 did not have.
const LATER: [&str; 5] = [
    "Enum:AnyLanguageModel",
    "Enum:PairModel",
    "Enum:TextModel",
    "Enum:TokenHead",
    "Enum:TokenVectors",
];

fn is_enum(container: &str) -> bool {
    container.starts_with("Enum:")
}
