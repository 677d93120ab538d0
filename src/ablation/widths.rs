//! `match = "parameters"`: the feed-forward width of each arm that gives it the baseline's number of parameters.

use crate::ablation::arm_costs::Costs;
use crate::ablation::faults::fault_at;
use crate::ablation::matching::{self, WIDTH};
use crate::ablation::planner::arm_experiment;
use crate::ablation::prepared::PreparedArm;
use crate::error::{Error, Result};
use crate::experiment::{self, LoadedExperiment};

/// Sets the feed-forward width of every arm so that its parameter count comes nearest to that of arm `baseline`.
pub(super) fn widen(
    arms: &mut [PreparedArm],
    baseline: usize,
    base: &LoadedExperiment,
    sets: &[String],
    costs: &mut Costs,
) -> Result<()> {
    const WIDTHS: [usize; 2] = [64, 128];
    let target = arms[baseline].cost.params;
    for (i, arm) in arms.iter_mut().enumerate() {
        if i == baseline || arm.cost.params == target {
            continue;
        }
        let fault = |reason: &str| {
            let message = format!(
                "[ablation] match = \"parameters\": arm `{}` {reason}",
                arm.name
            );
            Error::Invalid(vec![fault_at(base, "ablation.match", message)])
        };
        let as_set = |(key, value): (&String, &String)| format!("{key}={value}");
        let own: Vec<String> = arm.settings.iter().map(as_set).collect();
        if let Some((key, value)) = matching::width_setting(&arm.settings) {
            let by = match key {
                WIDTH => String::new(),
                table => format!(" (in `{table}`)"),
            };
            return Err(fault(&format!(
                "sets {WIDTH} = {value}{by}, but match computes the value of this key; remove d_ff from the arm, or remove match"
            )));
        }
        let with = |width: usize| {
            let set = format!("{WIDTH}={width}");
            let all = [sets, &own, std::slice::from_ref(&set)].concat();
            // A width that no file sets must not be reported as a fault of a line in a file.
            arm_experiment(&base.path, &all, experiment::check).map_err(|error| match error {
                Error::Invalid(wrong) => {
                    let told = wrong.first().map_or("", |fault| fault.message.as_str());
                    let told = told.strip_prefix(&format!("--set {set}: ")).unwrap_or(told);
                    let told = told.split(';').next().unwrap_or(told);
                    fault(&format!(
                        "does not accept {WIDTH}, the key with which match adjusts the number of parameters ({told}); remove the \
                         arm or match, or set match = \"flops\""
                    ))
                }
                other => other,
            })
        };
        let mut points = [(0, 0); 2];
        for (point, width) in points.iter_mut().zip(WIDTHS) {
            *point = (width, costs.cost_of(&with(width)?)?.params);
        }
        let width = matching::matching_width(target, points).ok_or_else(|| {
            fault("cannot reach the baseline's number of parameters with any feed-forward width")
        })?;
        arm.loaded = with(width)?;
        arm.cost = costs.cost_of(&arm.loaded)?;
        arm.settings.insert(WIDTH.into(), width.to_string());
    }
    Ok(())
}
