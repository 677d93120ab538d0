//! The rungs of a sweep with successive halving as reports read them: what was planned (`sweep.json`), and which arms
//! were promoted from each rung (`ledger/rung-N.json`).

use super::sweep::{LEDGER, SweepFolder};
use crate::error::{Error, Fault, Result};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::PathBuf;

/// The planned rungs of successive halving.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rungs {
    /// Reduction factor: one of `eta` arms is promoted.
    pub eta: u64,
    /// Rungs in order; the arms that pass the last one train to their last step.
    pub rungs: Vec<Rung>,
}

/// A step at which arms wait for each other and the best are promoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rung {
    /// Training step of the rung.
    pub step: u64,
    /// Maximum number of promoted arms.
    pub keep: usize,
}

/// The decision at a rung.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// Number of the rung, from 1.
    pub rung: usize,
    /// Training step of the rung.
    pub step: u64,
    /// Arms that reached the rung, the best first.
    pub arms: Vec<RankedArm>,
}

/// An arm's result at a rung.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RankedArm {
    /// Folder of the arm.
    pub arm: String,
    /// Value at the rung, averaged over seeds; `None` if one of the runs diverged or failed before it.
    pub value: Option<f64>,
    /// Whether the arm is promoted.
    pub stays: bool,
}

impl Decision {
    /// Returns the rank of an arm, from 0; `None` if it did not reach this rung.
    pub fn rank(&self, arm: &str) -> Option<usize> {
        self.arms.iter().position(|ranked| ranked.arm == arm)
    }

    /// Whether an arm is promoted.
    pub fn promotes(&self, arm: &str) -> bool {
        self.arms.iter().any(|r| r.arm == arm && r.stays)
    }

    /// Returns the number of promoted arms.
    pub fn promoted_count(&self) -> usize {
        self.arms.iter().filter(|ranked| ranked.stays).count()
    }
}

impl SweepFolder {
    /// Returns the path of the file with the decision at a rung.
    pub fn decision_file(&self, rung: usize) -> PathBuf {
        self.path.join(LEDGER).join(format!("rung-{rung}.json"))
    }

    /// Reads the decision at a rung; `None` if it is not decided yet.
    ///
    /// # Errors
    /// If the file cannot be read or is not a decision.
    pub fn decision(&self, rung: usize) -> Result<Option<Decision>> {
        let file = self.decision_file(rung);
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("read", &file)(error)),
        };
        serde_json::from_str(&text).map(Some).map_err(|e| {
            let reason =
                format!("not the decision at a rung: {e}; start the sweep over with --fresh");
            Error::Invalid(vec![Fault::at(&file, e.line(), reason)])
        })
    }

    /// Reads the decisions so far, by rung.
    ///
    /// # Errors
    /// As for [`decision`](Self::decision).
    pub fn decisions(&self) -> Result<Vec<Decision>> {
        let rungs = self.plan.halving.as_ref().map_or(0, |h| h.rungs.len());
        let mut decided = Vec::new();
        for rung in 1..=rungs {
            match self.decision(rung)? {
                Some(decision) => decided.push(decision),
                None => break,
            }
        }
        Ok(decided)
    }
}
