//! `formwork eval`: metrics of a run on a split.

use super::output;
use crate::data;
use crate::error::Result;
use crate::experiment::{build, used};
use crate::report::terminal::number;
use crate::train::evaluation::{Split, evaluate};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// `formwork eval`.
#[derive(Debug, Args)]
pub struct EvalArgs {
    /// The run folder.
    run: PathBuf,
    /// Which part of the data.
    #[arg(long, value_enum, default_value = "valid")]
    split: SplitName,
    /// Where to compute; the run's device when absent.
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SplitName {
    Train,
    Valid,
    Test,
}

/// Runs `formwork eval`.
pub fn run(args: EvalArgs) -> Result<()> {
    let opened = used::open(&args.run, args.device.as_deref())?;
    let prepared = build::data(
        &opened.experiment,
        &opened.places,
        opened.tokenizer.as_ref(),
    )?;
    let which = match args.split {
        SplitName::Train => data::Split::Train,
        SplitName::Valid => data::Split::Valid,
        SplitName::Test => data::Split::Test,
    };
    let name = which.name();
    let split = Split {
        source: prepared.source(which)?.clone(),
        bytes_per_token: *prepared.bytes_per_token.get(which),
    };
    let batch_size = opened.experiment.train.eval_batch_size();
    let scores = evaluate(&opened.model, &split, batch_size)?;
    used::write_scores(&args.run, name, &scores)?;
    if args.json {
        let mut object = serde_json::json!({ "run": args.run, "split": name, "step": opened.step });
        if let (Some(object), serde_json::Value::Object(scores)) =
            (object.as_object_mut(), used::scores_json(&scores))
        {
            object.extend(scores);
        }
        output::line(object.to_string());
    } else {
        output::line(format!(
            "{name} loss {:.4} at step {}",
            scores.loss, opened.step
        ));
        for (metric, value) in &scores.metrics {
            output::line(format!("{metric} {}", number(*value)));
        }
    }
    Ok(())
}
