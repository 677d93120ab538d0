//! The flags of draws: what is wrong with them, and what they leave of the run's settings.

use super::GenerateArgs;
use crate::error::{Error, Result};
use crate::generate::SamplingConfig;
use crate::generate::decode::MOST;

/// The run's settings where no flag says otherwise.
///
/// # Errors
/// Flags of draws where nothing is drawn.
pub(super) fn settings(args: &GenerateArgs, run: &SamplingConfig) -> Result<SamplingConfig> {
    let temperature = args.temperature.unwrap_or(run.temperature);
    let drawn = [
        ("--top-k", args.top_k.is_some()),
        ("--top-p", args.top_p.is_some()),
        ("--min-p", args.min_p.is_some()),
    ];
    if let Some((flag, _)) = drawn.iter().find(|(_, given)| *given && temperature == 0.0) {
        let whose = match args.temperature {
            Some(_) => "--temperature 0",
            None => "the run's temperature of 0",
        };
        return Err(Error::usage(format!(
            "{flag} has no effect: {whose} takes the likeliest token; give a --temperature above 0, or leave {flag} out"
        )));
    }
    Ok(SamplingConfig {
        tokens: args.tokens.or(run.tokens),
        max_length: run.max_length.filter(|_| args.tokens.is_none()),
        temperature,
        top_k: args.top_k.or(run.top_k),
        top_p: args.top_p.or(run.top_p),
        min_p: args.min_p.or(run.min_p),
        repetition_penalty: args.repetition_penalty.unwrap_or(run.repetition_penalty),
        end: run.end.clone(),
    })
}

/// Faults of the flags.
///
/// # Errors
/// The first of them.
pub(super) fn check(args: &GenerateArgs) -> Result<()> {
    let wrong = |message: String| Err(Error::usage(message));
    if let Some(t) = args.temperature.filter(|t| !(*t >= 0.0 && t.is_finite())) {
        return wrong(format!(
            "--temperature {t} must be 0 (the likeliest token) or more"
        ));
    }
    if args.samples == 0 {
        return wrong("--samples 0 generates nothing; give at least 1".into());
    }
    if args.samples > MOST {
        return wrong(format!(
            "--samples {} is more than {MOST}, the most that are made side by side; make others with another --seed",
            args.samples
        ));
    }
    if args.top_k == Some(0) {
        return wrong("--top-k 0 leaves no token; give at least 1".into());
    }
    if let Some(p) = args.top_p.filter(|p| !(*p > 0.0 && *p <= 1.0)) {
        return wrong(format!("--top-p {p} is not in (0, 1]"));
    }
    if let Some(p) = args.min_p.filter(|p| !(0.0..=1.0).contains(p)) {
        return wrong(format!("--min-p {p} must be 0 to 1"));
    }
    let penalty = args.repetition_penalty;
    if let Some(x) = penalty.filter(|x| !(*x > 0.0 && x.is_finite())) {
        return wrong(format!(
            "--repetition-penalty {x} is not a number above 0; 1 switches it off"
        ));
    }
    if args.stop.iter().any(String::is_empty) {
        return wrong("--stop \"\" stops before anything is generated; give a text".into());
    }
    Ok(())
}
