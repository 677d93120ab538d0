//! Faults of an arm, reported at the line of the setting that causes them.

use crate::error::{Error, Fault, Result};
use crate::experiment::{self, LoadedExperiment, Origin};

use super::prepared::{PreparedArm, Settings};

/// An arm whose faults are reported.
#[derive(Clone, Copy)]
pub struct ArmContext<'a> {
    /// The experiment with `[ablation]`.
    pub base: &'a LoadedExperiment,
    /// The arm's name.
    pub name: &'a str,
    /// Its settings.
    pub settings: &'a Settings,
}

impl<'a> ArmContext<'a> {
    /// Takes name and settings from a prepared arm.
    pub fn of(base: &'a LoadedExperiment, arm: &'a PreparedArm) -> Self {
        Self {
            base,
            name: &arm.name,
            settings: &arm.settings,
        }
    }

    /// Places a fault at the line where the arm sets the key, or else at the line of `[ablation]`. The message lacks
    /// the arm's name.
    fn located(self, fault: &Fault) -> Fault {
        let own = self.settings.iter().find_map(|(key, value)| {
            let told = fault
                .message
                .strip_prefix(&format!("--set {key}={value}: "))?;
            Some((self.value_origin(key)?, told))
        });
        let (origin, told) = own.unwrap_or((self.base.origin("ablation"), &fault.message));
        placed(origin, told.into())
    }

    /// Adds the arm's name to an error.
    pub fn error(self, error: Error) -> Error {
        match error {
            Error::Invalid(wrong) => {
                let mut faults = ArmFaults::default();
                faults.add(self, &wrong);
                Error::Invalid(faults.into_faults())
            }
            Error::Run(reason) => self.error(Error::Invalid(vec![Fault::new(reason)])),
            other => other,
        }
    }

    /// Returns the place in a file where the arm's value of a key is written: the arm's own table, an axis or a range.
    fn value_origin(self, key: &str) -> Option<&'a Origin> {
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

/// Faults of several arms; the same fault in many arms is reported once.
#[derive(Default)]
pub struct ArmFaults(Vec<(Fault, Vec<String>)>);

impl ArmFaults {
    /// Adds the faults of an arm.
    pub fn add(&mut self, arm: ArmContext, wrong: &[Fault]) {
        for fault in wrong.iter().map(|fault| arm.located(fault)) {
            match self.0.iter_mut().find(|(known, _)| *known == fault) {
                Some((_, names)) => names.push(arm.name.into()),
                None => self.0.push((fault, vec![arm.name.into()])),
            }
        }
    }

    /// Returns all faults, each with the name of the first arm that has it.
    pub fn into_faults(self) -> Vec<Fault> {
        let named = |(fault, names): (Fault, Vec<String>)| {
            let others = match names.len() {
                1 => String::new(),
                2 => " and one other".into(),
                all => format!(" and {} others", all - 1),
            };
            let told = fault.message;
            Fault {
                message: format!("[ablation] arm `{}`{others}: {told}", names[0]),
                ..fault
            }
        };
        self.0.into_iter().map(named).collect()
    }

    /// Succeeds if no arm has a fault.
    ///
    /// # Errors
    /// If an arm has a fault; the error lists the faults of all arms.
    pub fn into_result(self) -> Result<()> {
        match self.0.is_empty() {
            true => Ok(()),
            false => Err(Error::Invalid(self.into_faults())),
        }
    }
}

/// Returns a fault at the line of a key of `base`.
pub fn fault_at(base: &LoadedExperiment, key: &str, message: String) -> Fault {
    placed(base.origin(key), message)
}

fn placed(origin: &Origin, message: String) -> Fault {
    match origin {
        Origin::File { path, line } => Fault::at(path, *line, message),
        Origin::Set(_) | Origin::Preset { .. } | Origin::Default => Fault::new(message),
    }
}

/// Checks the arms again, now that their number of steps is known.
///
/// # Errors
/// If an arm has a fault; the error lists the faults of all arms.
pub fn check_steps(arms: &[PreparedArm], base: &LoadedExperiment) -> Result<()> {
    let mut faults = ArmFaults::default();
    for arm in arms {
        if let Err(Error::Invalid(wrong)) = experiment::check(&arm.loaded) {
            let said = |fault: &Fault| Fault {
                message: format!("{} (with {} steps)", fault.message, arm.cost.steps),
                ..fault.clone()
            };
            let wrong: Vec<Fault> = wrong.iter().map(said).collect();
            faults.add(ArmContext::of(base, arm), &wrong);
        }
    }
    faults.into_result()
}
