//! The arms of a sweep in their folders, and a sweep's folder that grows: arms that did not change keep the folder
//! that they have, whatever they are called since another axis was added.

use crate::ablation::ledger::put_whole;
use crate::ablation::planner::{Prepared, Sweep};
use crate::error::{Error, Result};
use crate::experiment::{resolved_toml, run};
use crate::report::sweep::{CELLS, PLAN, PlannedArm, SweepFolder, SweepPlan};
use std::fs;
use std::path::Path;

/// The arms in their folders: those of `earlier` that have not changed keep theirs, under whatever name they have now.
///
/// # Errors
/// An arm whose cells were trained as something else; `stored` is the experiment that a folder holds.
fn plan(
    sweep: &Sweep,
    earlier: Option<&SweepPlan>,
    stored: &dyn Fn(&str) -> Option<String>,
) -> Result<(SweepPlan, Vec<(String, String)>)> {
    let known: &[PlannedArm] = earlier.map_or(&[], |plan| &plan.arms);
    let mut taken: Vec<String> = Vec::new();
    let mut files = Vec::new();
    let mut arms = Vec::new();
    for arm in &sweep.arms {
        let same = |folder: &str| -> Result<bool> {
            Ok(stored(folder)
                .is_some_and(|text| arm_toml(arm, folder).is_ok_and(|own| own == text)))
        };
        let named = known.iter().find(|a| a.name == arm.name);
        let mut folder = None;
        for candidate in named.into_iter().chain(known) {
            if !taken.contains(&candidate.folder) && same(&candidate.folder)? {
                folder = Some(candidate.folder.clone());
                break;
            }
        }
        let folder = match (folder, named) {
            (Some(folder), _) => folder,
            (None, Some(named)) => return Err(changed(arm, &named.folder, stored)),
            (None, None) => fresh_folder(&arm.name, &taken, known),
        };
        files.push((folder.clone(), arm_toml(arm, &folder)?));
        taken.push(folder.clone());
        arms.push(PlannedArm {
            name: arm.name.clone(),
            folder,
            settings: arm.settings.clone(),
            steps: arm.cost.steps,
            params: arm.cost.params,
            flops_per_item: arm.cost.flops_per_item,
        });
    }
    let config = &sweep.config;
    let mut axes: Vec<String> = config.axes.keys().cloned().collect();
    let arm_keys = config.arms.iter().flat_map(|arm| arm.set.keys());
    let drawn = config.random.iter().flat_map(|random| random.ranges.keys());
    for key in arm_keys.chain(drawn) {
        if !axes.contains(key) {
            axes.push(key.clone());
        }
    }
    let plan = SweepPlan {
        name: sweep.name.clone(),
        metric: config.metric.clone(),
        baseline: sweep.baseline.clone(),
        axes,
        seeds: (0..config.seeds).map(|i| sweep.first_seed + i).collect(),
        arms,
    };
    Ok((plan, files))
}

/// An arm's experiment as its folder holds it.
fn arm_toml(arm: &Prepared, folder: &str) -> Result<String> {
    let mut experiment = run::anchored(&arm.loaded.experiment, &run::places(&arm.loaded))?;
    experiment.name = folder.into();
    Ok(resolved_toml(&experiment))
}

/// Why an arm cannot go on under its name.
fn changed(arm: &Prepared, folder: &str, stored: &dyn Fn(&str) -> Option<String>) -> Error {
    let (was, now) = (
        stored(folder).unwrap_or_default(),
        arm_toml(arm, folder).unwrap_or_default(),
    );
    let differs = was.lines().find(|line| !now.lines().any(|l| l == *line));
    let added = now.lines().find(|line| !was.lines().any(|l| l == *line));
    let said = |line: Option<&str>| line.map_or("nothing".to_string(), |l| format!("`{l}`"));
    Error::usage(format!(
        "arm `{}` was trained with {} and has {} now; give the sweep another name, or start it over with --fresh",
        arm.name,
        said(differs),
        said(added)
    ))
}

/// A folder for an arm's name: what paths can hold of it, with a number where that is not enough.
fn fresh_folder(name: &str, taken: &[String], known: &[PlannedArm]) -> String {
    const LONGEST: usize = 60;
    let plain = |c: char| match c {
        c if c.is_ascii_alphanumeric() || "-_+".contains(c) => c,
        '=' => '_',
        _ => '-',
    };
    let text: String = name.chars().map(plain).take(LONGEST).collect();
    let mut stem = String::new();
    for c in text.trim_matches('-').chars() {
        if !(c == '-' && stem.ends_with('-')) {
            stem.push(c);
        }
    }
    if stem.is_empty() {
        stem = "arm".into();
    }
    let free =
        |folder: &String| !taken.contains(folder) && known.iter().all(|a| a.folder != *folder);
    let numbered = (2u64..).map(|n| format!("{stem}-{n}"));
    std::iter::once(stem.clone())
        .chain(numbered)
        .find(free)
        .unwrap_or(stem)
}

/// The experiment of an arm in a sweep's folder.
pub const ARM: &str = "arm.toml";

/// Plans a sweep in a folder, beside what is there; nothing is written.
///
/// # Errors
/// A folder that holds something else; an arm whose cells were trained as something else.
pub fn planned(sweep: &Sweep, folder: &Path) -> Result<(SweepPlan, Vec<(String, String)>)> {
    let stored = |arm: &str| fs::read_to_string(folder.join(CELLS).join(arm).join(ARM)).ok();
    plan(sweep, earlier(folder)?.as_ref(), &stored)
}

/// The plan that a folder holds already.
///
/// # Errors
/// A folder that holds something else than a sweep.
pub fn earlier(folder: &Path) -> Result<Option<SweepPlan>> {
    if SweepFolder::is_one(folder) {
        return Ok(Some(SweepFolder::read(folder)?.plan));
    }
    let holds = match fs::read_dir(folder) {
        Ok(mut entries) => entries.any(|entry| entry.is_ok_and(|e| e.file_name() != CELLS)),
        Err(_) => folder.exists(),
    };
    match holds {
        false => Ok(None),
        true => Err(Error::usage(format!(
            "{} holds something else than a sweep; name another folder with --run DIR",
            folder.display()
        ))),
    }
}

/// Writes a plan into its folder, what is there already left as it is; the plan itself last, in one step.
///
/// # Errors
/// Files that cannot be written.
pub fn write(folder: &Path, plan: &SweepPlan, files: &[(String, String)]) -> Result<SweepFolder> {
    for (arm, text) in files {
        let arm = folder.join(CELLS).join(arm);
        fs::create_dir_all(&arm).map_err(Error::io("create", &arm))?;
        put_whole(&arm.join(ARM), text)?;
    }
    let text = serde_json::to_string_pretty(plan)
        .map_err(|e| Error::run(format!("cannot write the plan of a sweep: {e}")))?;
    put_whole(&folder.join(PLAN), &format!("{text}\n"))?;
    SweepFolder::read(folder)
}
