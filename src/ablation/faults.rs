//! Faults of an arm, at the line of the setting that they are about.

use crate::error::{Error, Fault, Result};
use crate::experiment::{self, Loaded, Origin};

use super::prepared::{Prepared, Settings};

/// An arm that a fault is told of.
#[derive(Clone, Copy)]
pub struct OfArm<'a> {
    /// The experiment with `[ablation]`.
    pub base: &'a Loaded,
    /// The arm's name.
    pub name: &'a str,
    /// Its settings.
    pub settings: &'a Settings,
}

impl<'a> OfArm<'a> {
    /// An arm that is ready.
    pub fn of(base: &'a Loaded, arm: &'a Prepared) -> Self {
        Self {
            base,
            name: &arm.name,
            settings: &arm.settings,
        }
    }

    /// A fault with the arm's name: at the line where the arm sets the key, or that of `[ablation]`.
    pub fn fault(self, fault: &Fault) -> Fault {
        let own = self.settings.iter().find_map(|(key, value)| {
            let told = fault
                .message
                .strip_prefix(&format!("--set {key}={value}: "))?;
            Some((self.written(key)?, told))
        });
        let (origin, told) = own.unwrap_or((self.base.origin("ablation"), &fault.message));
        placed(origin, format!("[ablation] arm `{}`: {told}", self.name))
    }

    /// An error with the arm's name.
    pub fn error(self, error: Error) -> Error {
        match error {
            Error::Invalid(wrong) => {
                Error::Invalid(wrong.iter().map(|fault| self.fault(fault)).collect())
            }
            Error::Run(reason) => Error::Invalid(vec![self.fault(&Fault::new(reason))]),
            other => other,
        }
    }

    /// Where a file has the arm's value of a key: in the arm's own table, an axis or a range.
    fn written(self, key: &str) -> Option<&'a Origin> {
        let named = self.base.experiment.ablation.as_ref().map(|c| &c.arms);
        let named = named.into_iter().flatten().enumerate();
        let own = named.filter(|(_, arm)| {
            let rest = self.name.strip_prefix(&arm.name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(", "))
        });
        let own = own.map(|(number, _)| format!("arms.{number}.set"));
        let tables = own.chain(["axes", "random.ranges"].map(String::from));
        tables
            .map(|table| format!("ablation.{table}.{key}"))
            .filter_map(|place| self.base.origins.get(&place))
            .find(|origin| matches!(origin, Origin::File { .. }))
    }
}

/// A fault at the line of a key of `base`.
pub fn at(base: &Loaded, key: &str, message: String) -> Fault {
    placed(base.origin(key), message)
}

fn placed(origin: &Origin, message: String) -> Fault {
    match origin {
        Origin::File { path, line } => Fault::at(path, *line, message),
        Origin::Set(_) | Origin::Preset { .. } | Origin::Default => Fault::new(message),
    }
}

/// Checks the arms again, now that they have their steps.
///
/// # Errors
/// The faults of all arms.
pub fn of_steps(arms: &[Prepared], base: &Loaded) -> Result<()> {
    let mut faults = Vec::new();
    for arm in arms {
        if let Err(Error::Invalid(wrong)) = experiment::check(&arm.loaded) {
            let said = |fault: &Fault| Fault {
                message: format!("{} (with {} steps)", fault.message, arm.cost.steps),
                ..fault.clone()
            };
            let of_arm = OfArm::of(base, arm);
            faults.extend(wrong.iter().map(|fault| of_arm.fault(&said(fault))));
        }
    }
    match faults.is_empty() {
        true => Ok(()),
        false => Err(Error::Invalid(faults)),
    }
}
