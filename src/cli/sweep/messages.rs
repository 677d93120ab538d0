//! Output of a sweep: its plan and cost before it starts, a line for each event of a cell, its table at the end.

use super::{SweepArgs, array};
use crate::ablation::arm_costs;
use crate::ablation::ledger::cells;
use crate::ablation::prepared::Sweep;
use crate::ablation::runner::Event;
use crate::ablation::{cell, halving, slurm};
use crate::cli::compare::{terminal_width, unicode, view};
use crate::cli::output;
use crate::error::{Error, Result, shell_word};
use crate::experiment::cost;
use crate::report::analyse::comparison::compare;
use crate::report::analyse::selection::Selection;
use crate::report::read::run::read;
use crate::report::read::rungs::Decision;
use crate::report::read::sweep::{EndState, Ending, PlannedArm, SweepFolder, SweepPlan};
use crate::report::render::terminal::{count, duration, number, table};

/// Size of the sweep: `3 arms × 5 seeds`.
pub(super) fn summary(plan: &SweepPlan) -> String {
    let many = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let (arms, seeds) = (plan.arms.len(), plan.seeds.len());
    format!("{} × {}", many(arms, "arm"), many(seeds, "seed"))
}

/// Notes which previously trained arms and seeds are no longer part of the sweep.
pub(super) fn note_removed(before: Option<&SweepPlan>, now: &SweepFolder) {
    let Some(before) = before else { return };
    let kept = |folder: &String| now.plan.arms.iter().any(|a| a.folder == *folder);
    let arms = before.arms.iter().filter(|a| !kept(&a.folder)).count();
    let seeds = before
        .seeds
        .iter()
        .filter(|s| !now.plan.seeds.contains(s))
        .count();
    if arms + seeds > 0 {
        output::note(format!(
            "{arms} arms and {seeds} seeds are no longer part of the sweep; their runs stay in {}/cells",
            now.path.display()
        ));
    }
}

/// Prints one line for an event of a cell; `failed` says whether a cell has failed before, since only the first failure
/// suggests a remedy.
pub(super) fn follow(sweep: &SweepFolder, event: &Event, failed: &mut bool) {
    output::note(match event {
        Event::Started(cell, 1) => format!("{cell}: started"),
        Event::Started(cell, attempt) => format!("{cell}: resumed, attempt {attempt}"),
        Event::Ended(cell, ending) => {
            let is_over = |(arm, seed): &(&PlannedArm, u64)| sweep.ending_file(arm, *seed).exists();
            let (over, all) = (sweep.cells().filter(is_over).count(), sweep.cells().count());
            let fails = ending.state == EndState::Failed;
            let retry = match fails && !*failed {
                true => "; the same command with --retry trains failed cells again",
                false => "",
            };
            *failed |= fails;
            format!(
                "{cell}: {} ({over} of {all}){retry}",
                ended(sweep, cell, ending)
            )
        }
        Event::Paused(cell, goal) => {
            format!("{cell}: at step {} (rung {})", goal.step, goal.number)
        }
        Event::Decided(decision) => rung(&sweep.plan, decision),
        Event::Killed(cell, why) => format!("{cell}: its process was killed ({why})"),
        Event::TakenOver(cell) => format!("{cell}: taken over by another process"),
        Event::Blocked(cell, lock) => format!(
            "{cell}: waiting for the process that locks {}; if its machine died, NFS releases the lock after the server's lease, \
             and NFSv3 once the machine is back; delete the file if the process is certainly dead",
            lock.display()
        ),
        Event::Waiting(n) => format!("waiting for {} of other processes", cells_text(*n)),
    });
}

/// Line about a rung: `rung 1 at step 100: 9 of 27 arms go on, loss 2.31 to 2.44`.
fn rung(plan: &SweepPlan, decision: &Decision) -> String {
    let kept = decision.arms.iter().filter(|arm| arm.stays);
    let values: Vec<f64> = kept.filter_map(|arm| arm.value).collect();
    let values = match values.as_slice() {
        [] => format!(", since none has a value of {}", plan.metric),
        [one] => format!(", {} {}", plan.metric, number(*one)),
        [first, .., last] => {
            let (first, last) = (number(*first), number(*last));
            format!(", {} {first} to {last}", plan.metric)
        }
    };
    format!(
        "rung {} at step {}: {} of {} arms continue{values}",
        decision.rung,
        decision.step,
        decision.promoted_count(),
        decision.arms.len()
    )
}

fn ended(sweep: &SweepFolder, cell: &str, ending: &Ending) -> String {
    let metric = &sweep.plan.metric;
    let score = || {
        let all = cells(sweep);
        let (arm, seed, _) = all.iter().find(|(_, _, name)| name == cell)?;
        let run = read(&sweep.run(&sweep.plan.arms[*arm], *seed)).ok()?;
        let value = run.scores.get("valid")?.get(metric).copied()?;
        let time = run
            .elapsed_s()
            .map_or(String::new(), |s| format!(" in {}", duration(s)));
        Some(format!("{metric} {}{time}", number(value)))
    };
    match ending.state {
        EndState::Done => score().map_or("done".into(), |score| format!("done, {score}")),
        EndState::Diverged => format!("diverged: {}", ending.reason),
        EndState::Failed => format!("failed: {}", ending.reason),
        EndState::Stopped => format!("stopped at {}", ending.reason),
    }
}

/// Prints the arms that a sweep would train, with their cost.
pub(super) fn dry_run(args: &SweepArgs, folder: &SweepFolder, sweep: Option<&Sweep>) -> Result<()> {
    let plan = &folder.plan;
    let mut rows = vec![
        [
            "arm",
            "steps",
            "parameters",
            "FLOPs",
            "cells left",
            "time left",
        ]
        .map(String::from)
        .to_vec(),
    ];
    let (mut cells_left, mut seconds, mut cut) = (0, Some(0.0), 0);
    let share = halving_cost(plan).map_or(1.0, |(steps, all)| steps as f64 / all as f64);
    for (i, arm) in plan.arms.iter().enumerate() {
        let mut left = 0;
        for seed in &plan.seeds {
            // With --fresh, existing results would be deleted first.
            let open = args.fresh
                || folder.ending(arm, *seed)?.is_none()
                || folder.is_deleted(arm, *seed)?;
            left += usize::from(open);
        }
        let prepared = sweep.map(|s| &s.arms[i]);
        let known = prepared.and_then(|p| p.cost.step_ms);
        let ms = match (known, prepared) {
            (Some(ms), _) => Some(ms),
            (None, Some(prepared)) if !args.no_probe && left > 0 => {
                let time = arm_costs::step_ms(prepared)?;
                cut += usize::from(time.hit_time_limit);
                Some(time.ms)
            }
            _ => None,
        };
        let time = ms.map(|ms| ms / 1e3 * arm.steps as f64 * left as f64);
        seconds = match (seconds, time, left) {
            (sum, _, 0) => sum,
            (Some(sum), Some(time), _) => Some(sum + time),
            _ => None,
        };
        cells_left += left;
        let flops = prepared.map(|p| p.cost.flops_per_step() * arm.steps as f64);
        rows.push(vec![
            arm.name.clone(),
            count(arm.steps),
            count(arm.params as u64),
            flops.map_or("–".into(), number),
            format!("{left} of {}", plan.seeds.len()),
            time.map_or("–".into(), duration),
        ]);
    }
    output::line(format!("{}: {}", folder.path.display(), summary(plan)))?;
    output::line_part(table(&rows, None))?;
    if let Some(text) = rungs(plan) {
        output::line(text)?;
    }
    // It is not known which arms will be promoted, so the mean over all is used.
    let time = seconds.map(|s| s * share).map_or(String::new(), |s| {
        format!(
            ": {} of training one after the other, without evaluations",
            duration(s)
        )
    });
    output::line(format!("{} left{time}", cells_text(cells_left)))?;
    if cut > 0 {
        output::line(format!(
            "{cut} of the probes were stopped after {}, before they had timed all of their steps",
            duration(cost::PROBE_LIMIT.as_secs_f64())
        ))?;
    }
    if args.slurm.is_some() {
        output::line_part(slurm::script(
            &folder.path,
            &array(args, plan.halving.is_some()),
        )?)?;
    }
    Ok(())
}

/// Prints that no cell of a sweep is left for a job to train.
pub(super) fn nothing_left(sweep: &SweepFolder) -> Result<()> {
    let mut failed = 0;
    for (arm, seed) in sweep.cells() {
        let ending = sweep.ending(arm, seed)?;
        failed += usize::from(ending.is_some_and(|ending| ending.state == EndState::Failed));
    }
    let path = shell_word(&sweep.path);
    let retry = match failed {
        0 => String::new(),
        n => format!(
            "; {} failed, and --retry trains failed cells again",
            cells_text(n)
        ),
    };
    output::line(format!(
        "no cell is left to train, and nothing was submitted{retry}; the table: formwork compare {path}"
    ))
}

/// The number of steps of a sweep with halving, and that of training all its arms to the end.
fn halving_cost(plan: &SweepPlan) -> Option<(u64, u64)> {
    let last = plan.arms.first()?.steps;
    let halving = plan.halving.as_ref()?;
    Some(halving::total_steps(
        halving,
        plan.arms.len(),
        plan.seeds.len(),
        last,
    ))
}

/// Line about the rungs: `halving: 27 arms to step 100, 9 to 300, 3 to 900: 6,300 steps in all, 26 % of the 24,300 of all arms
/// to their end`.
fn rungs(plan: &SweepPlan) -> Option<String> {
    let (steps, all) = halving_cost(plan)?;
    let halving = plan.halving.as_ref()?;
    let last = plan.arms.first()?.steps;
    let goals = halving.rungs.iter().map(|rung| rung.step).chain([last]);
    let kept = halving.rungs.iter().map(|rung| rung.keep);
    let parts = std::iter::once(plan.arms.len()).chain(kept).zip(goals);
    let parts = parts.enumerate().map(|(i, (arms, step))| match i {
        0 => format!("{arms} arms to step {}", count(step)),
        _ => format!("{arms} to {}", count(step)),
    });
    let parts: Vec<String> = parts.collect();
    let percent = (100.0 * steps as f64 / all as f64).round();
    Some(format!(
        "halving: {}: {} steps in total, {percent} % of the {} for training all arms to the end",
        parts.join(", "),
        count(steps),
        count(all)
    ))
}

/// A number of cells, in words.
fn cells_text(count: usize) -> String {
    format!("{count} cell{}", if count == 1 { "" } else { "s" })
}

/// Prints the results of the sweep; `plain` uses only ASCII.
///
/// # Errors
/// If cells failed; if no cell finished; if no table can be made of the results.
pub(super) fn finish(sweep: &SweepFolder, plain: bool) -> Result<()> {
    let mut ends = [0usize; 4];
    let (mut first_failed, mut first_diverged) = (None, None);
    let mut open = 0;
    for (arm, seed) in sweep.cells() {
        let Some(ending) = sweep.ending(arm, seed)? else {
            open += 1;
            continue;
        };
        ends[ending.state as usize] += 1;
        let first = match ending.state {
            EndState::Failed => &mut first_failed,
            EndState::Diverged => &mut first_diverged,
            EndState::Done | EndState::Stopped => continue,
        };
        first.get_or_insert_with(|| (cell::log_file(sweep, arm, seed), ending.reason));
    }
    let [done, diverged, failed, stopped] = ends;
    let path = shell_word(&sweep.path);
    output::line(format!(
        "{} done, {diverged} diverged, {failed} failed, {open} with other processes{}",
        cells_text(done),
        match &sweep.plan.halving {
            Some(_) => format!(", {stopped} stopped at rungs"),
            None => String::new(),
        }
    ))?;
    match results(sweep, plain) {
        Ok(table) if done > 0 => output::line_part(table)?,
        Ok(_) => {}
        Err(error) if done > 0 && failed == 0 && open == 0 => {
            return Err(Error::run(format!("there is no table: {error}")));
        }
        // The errors below matter more, or other processes are not done.
        Err(error) => output::note(format!("there is no table: {error}")),
    }
    if done > 0 {
        output::line(format!("next: formwork report {path}"))?;
    }
    if let Some((log, reason)) = first_failed {
        return Err(Error::run(format!(
            "{} failed, the first with: {reason} ({}); train them again with: formwork sweep {path} --retry",
            cells_text(failed),
            log.display()
        )));
    }
    if done > 0 || open > 0 {
        return Ok(());
    }
    let none = format!("no cell finished: {}", dead_end_text(sweep)?);
    Err(Error::run(match first_diverged {
        Some((log, reason)) => format!(
            "{none}{} diverged, the first with: {reason} ({})",
            cells_text(diverged),
            log.display()
        ),
        None => format!("{none}{} stopped", cells_text(stopped)),
    }))
}

/// The table of a sweep's results.
fn results(sweep: &SweepFolder, plain: bool) -> Result<String> {
    let selection = Selection::read(std::slice::from_ref(&sweep.path))?;
    let comparison = compare(selection, &Default::default())?;
    let table = view(&comparison, !plain && unicode(), Some(terminal_width()));
    Ok(format!("\n{table}\n"))
}

/// The first rung that no arm passed, as a clause; empty if there is none.
fn dead_end_text(sweep: &SweepFolder) -> Result<String> {
    let decisions = sweep.decisions()?;
    let found = decisions
        .iter()
        .find(|decision| decision.promoted_count() == 0);
    Ok(found.map_or_else(String::new, |decision| {
        format!(
            "at rung {} (step {}) no arm has a value of {}, so none continues; ",
            decision.rung, decision.step, sweep.plan.metric
        )
    }))
}
