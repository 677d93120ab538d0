//! The row of a run, as the list shows it.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::report::read::listing::RunListing;
use crate::report::render::terminal::plain;
use crate::train::metrics::higher_is_better;

/// Maximum number of characters of a name or an error.
const LONGEST: usize = 400;

/// Returns the row of a run.
pub fn row(id: &str, run: &RunListing) -> Value {
    let written = run.written.map(seconds);
    let heading = match &run.heading {
        Ok(heading) => heading,
        Err(why) => {
            return json!({ "id": id, "name": id, "state": "unreadable", "error": shortened(why), "written": written });
        }
    };
    let standing = &run.progress;
    let train = |name: &str| standing.train.get(name).copied();
    let loss = standing.last("loss");
    json!({
        "id": id,
        "name": shortened(&heading.name),
        "seed": heading.seed,
        "task": heading.task,
        "state": run.state(),
        "error": run.ending.as_ref().map(|e| shortened(&e.reason)).filter(|reason| !reason.is_empty()),
        "step": standing.last_step,
        "steps": heading.steps,
        "left_s": run.remaining_s(),
        "written": written,
        "train_loss": train("loss"),
        "valid_loss": loss.map(|last| last.value),
        "valid_step": loss.map(|last| last.step),
        "metric": run.own_metric().map(|name| metric(run, name)),
        "best_by": run.score().map(|(name, best)| json!({
            "name": name, "higher": higher_is_better(name), "value": best.value, "step": best.step,
        })),
        "lr": train("lr"),
        "grad_norm": train("grad_norm"),
        "items_per_s": train("items_per_s"),
        "items": train("items"),
        "elapsed_s": train("elapsed_s"),
        "skipped": standing.skipped,
        "unreadable_lines": standing.unreadable,
    })
}

fn metric(run: &RunListing, name: &str) -> Value {
    let (last, best) = (run.progress.last(name), run.progress.best(name));
    json!({
        "name": name,
        "higher": higher_is_better(name),
        "last": last.map(|last| last.value),
        "best": best.map(|best| best.value),
        "best_step": best.map(|best| best.step),
    })
}

/// Returns the seconds since 1970, rounded to tenths.
pub fn seconds(time: SystemTime) -> f64 {
    let since = time.duration_since(UNIX_EPOCH);
    since.map_or(0.0, |since| (since.as_secs_f64() * 10.0).round() / 10.0)
}

/// Returns a text without control characters, cut to a maximum length.
pub fn shortened(text: &str) -> String {
    let text = plain(text);
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}
