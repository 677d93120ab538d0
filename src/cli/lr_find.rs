//! `formwork lr-find`: measures the loss at rising learning rates, and suggests rates to try.

use super::flags::Keys;
use super::output;
use super::sweep::base_note;
use crate::device::DeviceName;
use crate::error::{Error, Result};
use crate::experiment::{self, lr_range};
use crate::files;
use crate::report::render::figure::lines::{Line, Plot, plot};
use crate::report::render::figure::png;
use crate::report::render::terminal::{loss, number};
use crate::train::lr_range::{RATES, RateRange, SuggestedRates, TestStep, suggest_rates};
use clap::Args;
use std::path::{Path, PathBuf};

/// `formwork lr-find`.
#[derive(Args, Debug)]
pub struct LrFindArgs {
    /// The experiment file
    file: PathBuf,
    #[command(flatten)]
    keys: Keys,
    /// Learning rate of the first step
    #[arg(long, default_value_t = 1e-6, value_parser = rate)]
    from: f64,
    /// Learning rate of the last step, unless the loss diverges earlier
    #[arg(long, default_value_t = 1.0, value_parser = rate)]
    to: f64,
    /// Number of steps
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(10..=100_000))]
    steps: u64,
    /// Folder to write lr_find.csv, lr_find.svg and lr_find.png to
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// flex, ndarray, wgpu[:i], vulkan[:i] or cuda[:i]
    #[arg(long, value_name = "DEVICE", value_parser = DeviceName::parse_flag)]
    device: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn rate(text: &str) -> std::result::Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| "not a number".to_string())?;
    match RATES.contains(&rate) {
        true => Ok(rate),
        false => Err(format!(
            "not between {:e} and {:e}",
            RATES.start(),
            RATES.end()
        )),
    }
}

/// Runs `formwork lr-find`.
///
/// # Errors
/// If the experiment is invalid, data is missing, or files cannot be written.
pub fn run(args: LrFindArgs) -> Result<()> {
    if args.from >= args.to {
        return Err(Error::usage(format!(
            "--from {} is not below --to {}",
            args.from, args.to
        )));
    }
    let mut sets = args.keys.sets();
    sets.extend(args.device.map(|device| format!("train.device={device}")));
    let loaded = experiment::load(&args.file, &sets)?;
    experiment::check::check_for_lr_search(&loaded)?;
    base_note::note_base(&loaded);
    let out = args.out.map(output::output_folder).transpose()?;
    let range = RateRange {
        from: args.from,
        to: args.to,
        steps: args.steps,
    };
    let tried =
        lr_range::test(&loaded, range).map_err(|error| experiment::locate_error(&loaded, error))?;
    let advice = suggest_rates(&tried);
    if let Some(folder) = &out {
        write(folder, &loaded.experiment.name, &tried)?;
    }
    let key = advice.map(|advice| lr_range::lr_for_peak(&loaded.experiment, advice.steepest));
    match args.json {
        true => output::line(json(&tried, advice.as_ref(), key).to_string()),
        false => show(&tried, advice.as_ref().zip(key), range),
    }
}

fn json(
    tried: &[TestStep],
    advice: Option<&SuggestedRates>,
    key: Option<f64>,
) -> serde_json::Value {
    let steps = tried.iter();
    let steps: Vec<_> = steps
        .map(|t| serde_json::json!({ "lr": t.lr, "loss": t.loss, "smooth": t.smooth }))
        .collect();
    serde_json::json!({
        "steps": steps,
        "steepest": advice.map(|a| a.steepest),
        "least": advice.map(|a| a.at_lowest_loss),
        "optimizer.lr": key,
    })
}

/// Prints about twenty lines of the test and the suggested rates, with the key that makes the schedule peak at the first of
/// them.
fn show(
    tried: &[TestStep],
    advice: Option<(&SuggestedRates, f64)>,
    range: RateRange,
) -> Result<()> {
    let every = tried.len().div_ceil(20).max(1);
    output::line(format!("{:>10}  {:>8}  {:>8}", "lr", "loss", "smooth"))?;
    for step in tried.iter().step_by(every) {
        output::line(format!(
            "{:>10.2e}  {:>8}  {:>8}",
            step.lr,
            loss(step.loss),
            loss(step.smooth)
        ))?;
    }
    if (tried.len() as u64) < range.steps {
        let at = tried.last().map_or(range.from, |step| step.lr);
        output::line(format!("the loss diverged at {at:.2e}"))?;
    }
    match advice {
        None => {
            output::line("the loss did not fall at any rate; use a wider range or more --steps")
        }
        Some((advice, key)) => {
            let factor = match key == advice.steepest {
                true => "",
                false => {
                    " (optimizer.lr scales the schedule, whose highest rate is then the first of them)"
                }
            };
            output::line(format!(
                "the loss falls fastest at {:.2e} and is least at {:.2e}; try: --set optimizer.lr={key:.1e}{factor}",
                advice.steepest, advice.at_lowest_loss
            ))
        }
    }
}

fn write(folder: &Path, name: &str, tried: &[TestStep]) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
    let mut csv = String::from("lr,loss,smooth\n");
    for step in tried {
        csv.push_str(&format!("{},{},{}\n", step.lr, step.loss, step.smooth));
    }
    let points = |value: fn(&TestStep) -> f64| tried.iter().map(|t| (t.lr, value(t))).collect();
    let figure = plot(&Plot {
        name: "lr_find".into(),
        title: format!("Loss of {name} at rising learning rates"),
        x: ("learning rate", true),
        y: "loss",
        lines: vec![
            Line {
                name: "each step".into(),
                points: points(|t| t.loss),
            },
            Line {
                name: "smoothed".into(),
                points: points(|t| t.smooth),
            },
        ],
    })?;
    let picture = png(&figure.svg)?;
    for (ending, bytes) in [
        ("csv", csv.as_bytes()),
        ("svg", figure.svg.as_bytes()),
        ("png", picture.as_slice()),
    ] {
        let path = folder.join(format!("lr_find.{ending}"));
        files::write_result(&path, bytes)?;
    }
    let most = tried.iter().map(|t| t.smooth).fold(0.0, f64::max);
    output::note(format!(
        "{}: {} steps, smoothed loss up to {}",
        folder.join("lr_find.svg").display(),
        tried.len(),
        number(most)
    ));
    Ok(())
}
