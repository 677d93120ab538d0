//! Selects the runs of a comparison: run folders in the order given, or the cells of one sweep in the order of its plan
//! or, if arms were stopped at rungs, by how far they got.

use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::arms::{Arm, Cost, LastRung, MissingCell};
use super::metrics::more_is_better;
use super::names;
use crate::error::{Error, Result};
use crate::report::read::find::locate_sweep;
use crate::report::read::run::{self, Run};
use crate::report::read::rungs::Decision;
use crate::report::read::sweep::{EndState, PlannedArm, SweepFolder};

/// Runs, and the sweep they belong to.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Runs that were started. For a sweep, arm by arm in table order.
    pub runs: Vec<Run>,
    /// The sweep and its arms, if the runs belong to one.
    pub sweep: Option<(SweepFolder, Vec<Arm>)>,
}

impl From<Vec<Run>> for Selection {
    fn from(runs: Vec<Run>) -> Self {
        Self { runs, sweep: None }
    }
}

impl Selection {
    /// Reads one sweep, or all the given run folders.
    ///
    /// # Errors
    /// If a folder holds no run, if a sweep is given together with other arguments, or if files cannot be read.
    pub fn read(paths: &[PathBuf]) -> Result<Self> {
        let sweeps: Vec<(&PathBuf, PathBuf)> = paths
            .iter()
            .filter_map(|path| Some((path, locate_sweep(path)?)))
            .collect();
        match (sweeps.as_slice(), paths) {
            ([], _) => Ok(run::read_all(paths)?.into()),
            ([(_, folder)], [_]) => Self::sweep(folder),
            ([(named, _), ..], _) => {
                let named = named.display();
                Err(Error::usage(format!(
                    "{named} is a sweep: compare it alone, or name its runs, for example {named}/cells/*/seed-*/"
                )))
            }
        }
    }

    /// Reads the plan, the end state of every cell and every run that was started.
    fn sweep(path: &Path) -> Result<Self> {
        let folder = SweepFolder::read(path)?;
        if folder.plan.arms.is_empty() || folder.plan.seeds.is_empty() {
            let shown = path.display();
            return Err(Error::usage(format!("{shown}: its plan has no cell")));
        }
        let rungs = RungDecisions::read(&folder)?;
        let ordered = arms_in_table_order(&folder, &rungs)?;
        let cells: Vec<(usize, u64)> = (0..ordered.len())
            .flat_map(|arm| folder.plan.seeds.iter().map(move |seed| (arm, *seed)))
            .collect();
        let read: Vec<Cell> = cells
            .par_iter()
            .map(|(arm, seed)| cell(&folder, ordered[*arm], *seed))
            .collect::<Result<_>>()?;
        let mut runs = Vec::new();
        let mut members: Vec<(Vec<usize>, Vec<MissingCell>)> =
            vec![Default::default(); ordered.len()];
        for ((arm, _), cell) in cells.iter().zip(read) {
            match cell {
                Cell::Run(run) => {
                    members[*arm].0.push(runs.len());
                    runs.push(*run);
                }
                Cell::Absent(absent) => members[*arm].1.push(absent),
            }
        }
        let arm = |(n, (members, absent)): (usize, (Vec<usize>, Vec<MissingCell>))| Arm {
            id: names::letters(n),
            label: ordered[n].name.clone(),
            name: String::new(),
            counted: members
                .iter()
                .copied()
                .filter(|&m| runs[m].is_done())
                .collect(),
            members,
            repeated: Vec::new(),
            absent,
            cost: Some(Cost {
                params: ordered[n].params,
                flops_per_item: ordered[n].flops_per_item,
            }),
            rung: rungs.of(&ordered[n].folder),
        };
        let arms = members.into_iter().enumerate().map(arm).collect();
        Ok(Self {
            runs,
            sweep: Some((folder, arms)),
        })
    }
}

/// Decisions at the rungs of successive halving, the last one first.
struct RungDecisions(Vec<Decision>);

impl RungDecisions {
    fn read(folder: &SweepFolder) -> Result<Self> {
        let mut decisions = folder.decisions()?;
        decisions.reverse();
        Ok(Self(decisions))
    }

    /// Returns the last decided rung that an arm reached.
    fn of(&self, arm: &str) -> Option<LastRung> {
        let (decision, place) = self.0.iter().find_map(|d| Some((d, d.rank(arm)?)))?;
        let ranked = &decision.arms[place];
        Some(LastRung {
            number: decision.rung,
            step: decision.step,
            value: ranked.value,
            passed: ranked.stays,
        })
    }
}

/// Returns the arms in table order: the baseline first. In successive halving, the arms that got furthest come first, the best of
/// them leading.
fn arms_in_table_order<'a>(
    folder: &'a SweepFolder,
    rungs: &RungDecisions,
) -> Result<Vec<&'a PlannedArm>> {
    let plan = &folder.plan;
    let mut ordered: Vec<&PlannedArm> = plan.arms.iter().collect();
    if plan.halving.is_none() {
        ordered.sort_by_key(|arm| arm.name != plan.baseline);
        return Ok(ordered);
    }
    let sign = if more_is_better(&plan.metric) {
        -1.0
    } else {
        1.0
    };
    let mut keyed = Vec::new();
    for arm in ordered {
        let at = rungs.of(&arm.folder);
        let came = at.map_or(0, |at| at.number + usize::from(at.passed));
        let passed = at.is_none_or(|at| at.passed);
        let last = if passed {
            last_value(folder, arm)?
        } else {
            None
        };
        let value = last.or(at.and_then(|at| at.value));
        keyed.push((
            std::cmp::Reverse(came),
            value.map_or(f64::INFINITY, |v| sign * v),
            arm,
        ));
    }
    keyed.sort_by(|(a, x, _), (b, y, _)| a.cmp(b).then(x.total_cmp(y)));
    Ok(keyed.into_iter().map(|(_, _, arm)| arm).collect())
}

/// Returns the last value of an arm that trains to the end, averaged over its finished seeds.
fn last_value(folder: &SweepFolder, arm: &PlannedArm) -> Result<Option<f64>> {
    let mut values = Vec::new();
    for &seed in &folder.plan.seeds {
        let path = folder.run(arm, seed);
        if !path.join("resolved.toml").is_file() {
            continue;
        }
        let run = run::read(&path)?;
        let last = run
            .series("valid", &folder.plan.metric)
            .last()
            .map(|p| p.value);
        values.extend(last.filter(|v| run.is_done() && v.is_finite()));
    }
    let n = values.len() as f64;
    Ok((n > 0.0).then(|| values.iter().sum::<f64>() / n))
}

/// A cell of a sweep: its run, or why there is none.
enum Cell {
    Run(Box<Run>),
    Absent(MissingCell),
}

fn cell(folder: &SweepFolder, arm: &PlannedArm, seed: u64) -> Result<Cell> {
    let path = folder.run(arm, seed);
    let ending = folder.ending(arm, seed)?;
    if !path.join("resolved.toml").is_file() {
        let failure = ending.map(|end| match end.state {
            EndState::Failed => end.reason,
            EndState::Done | EndState::Diverged | EndState::Stopped => {
                "its run folder is gone".into()
            }
        });
        return Ok(Cell::Absent(MissingCell { seed, failure }));
    }
    let mut run = run::read(&path)?;
    let within = path.strip_prefix(&folder.path).unwrap_or(&path);
    run.title = within.display().to_string();
    run.seed = Some(seed.to_string());
    run.ending = ending;
    Ok(Cell::Run(Box::new(run)))
}
