//! The rungs of a sweep with successive halving as reports read them: what was planned (`sweep.json`), and which arms
//! were promoted from each rung (`ledger/rung-N.json`).

use super::sweep::{LEDGER, SweepFolder};
use crate::error::{Error, Fault, Result};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::PathBuf;

/// The rungs of a plan, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rungs {
    /// Of so many arms one is promoted.
    pub eta: u64,
    /// The rungs; the arms that pass the last one train to their last step.
    pub rungs: Vec<Rung>,
}

/// A step at which arms wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rung {
    /// The step.
    pub step: u64,
    /// How many arms are promoted, at most.
    pub keep: usize,
}

/// How a rung was decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// Its number, from 1.
    pub rung: usize,
    /// Its step.
    pub step: u64,
    /// The arms that came to it, the best first.
    pub arms: Vec<Ranked>,
}

/// An arm at a rung.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ranked {
    /// Its folder.
    pub arm: String,
    /// Its value there, the mean over its seeds; none when one of its runs diverged or failed on the way.
    pub value: Option<f64>,
    /// Whether it is promoted.
    pub stays: bool,
}

impl Decision {
    /// The place of an arm, from 0; none of one that did not come to this rung.
    pub fn place(&self, arm: &str) -> Option<usize> {
        self.arms.iter().position(|ranked| ranked.arm == arm)
    }

    /// Whether an arm is promoted.
    pub fn keeps(&self, arm: &str) -> bool {
        self.arms.iter().any(|r| r.arm == arm && r.stays)
    }

    /// How many are promoted.
    pub fn kept(&self) -> usize {
        self.arms.iter().filter(|ranked| ranked.stays).count()
    }
}

impl SweepFolder {
    /// The file of the decision at a rung.
    pub fn decision_file(&self, rung: usize) -> PathBuf {
        self.path.join(LEDGER).join(format!("rung-{rung}.json"))
    }

    /// How a rung was decided; none while it is not.
    ///
    /// # Errors
    /// A file that cannot be read or is none.
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

    /// The decisions so far, by rung.
    ///
    /// # Errors
    /// As [`decision`](Self::decision).
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
