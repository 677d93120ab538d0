//! Checks that the arms of a search can be ranked: halving keeps the arms with the best values, so these must measure
//! the same quantity on the same examples.

use toml::{Table, Value};

use crate::ablation::faults::fault_at;
use crate::ablation::prepared::PreparedArm;
use crate::error::{Error, Result};
use crate::experiment::LoadedExperiment;
use crate::report::analyse::examples::{self, RunInputs};
use crate::report::analyse::measures;
use crate::report::read::resolved::flatten;

/// The split on whose values arms are ranked.
const SPLIT: &str = "valid";

/// Compares the arms of a halving with each other.
///
/// # Errors
/// If the metric measures different quantities or uses different examples in some arms; the error names the keys that
/// make the difference.
pub(super) fn require(base: &LoadedExperiment, arms: &[PreparedArm], metric: &str) -> Result<()> {
    let settings = arms.iter().map(settings).collect::<Result<Vec<_>>>()?;
    let made = settings.iter().map(|settings| RunInputs {
        settings,
        origins: None,
    });
    let made: Vec<RunInputs> = made.collect();
    let mut differing = measures::differing_keys(&made, metric);
    differing.extend(examples::differing_examples(&made, SPLIT));
    if differing.is_empty() {
        return Ok(());
    }
    let message = format!(
        "[ablation.halving] cannot rank the arms by {metric}: they measure it differently or on different examples, because they \
         differ in {}; remove halving, or rank by a metric that does not depend on these keys",
        differing.join("; ")
    );
    Err(Error::Invalid(vec![fault_at(
        base,
        "ablation.halving.first",
        message,
    )]))
}

/// Returns all settings of an arm by dotted key, as its runs record them.
fn settings(arm: &PreparedArm) -> Result<Vec<(String, String)>> {
    let table = Table::try_from(&arm.loaded.experiment)
        .map_err(|e| Error::run(format!("cannot serialize an arm of the sweep: {e}")))?;
    let mut settings = Vec::new();
    flatten("", &Value::Table(table), &mut settings);
    Ok(settings)
}
