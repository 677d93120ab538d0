//! `generate --beam`: the likeliest continuations instead of drawn ones.

use super::GenerateArgs;
use super::text::Text;
use crate::error::{Error, Result};
use crate::generate::beam::{AtLimit, AverageConfig, DoneWhen};
use crate::generate::decode::check_search;
use crate::generate::{BeamConfig, Hypothesis, LengthPenalty};
use clap::{Args, ValueEnum};

/// The flags of a search.
#[derive(Debug, Args)]
pub(super) struct BeamArgs {
    /// Search for the likeliest continuations with B hypotheses side by side instead of drawing; 1 takes the likeliest token
    /// each time. The defaults are those of transformers' `num_beams`.
    #[arg(long, visible_alias = "beams", value_name = "B")]
    beam: Option<usize>,
    /// Continuations of each prompt that a search gives, the best first; 1 when absent.
    #[arg(long, requires = "beam", value_name = "N")]
    n_best: Option<usize>,
    /// A search compares log-probabilities over the number of new tokens to the power of X: 0 compares sums, 1 means; the
    /// larger, the longer the texts. 1 when absent.
    #[arg(
        long,
        requires = "beam",
        value_name = "X",
        allow_negative_numbers = true
    )]
    length_penalty: Option<f64>,
    /// When a search is over (transformers' `early_stopping`); unlikely when absent.
    #[arg(long, requires = "beam", value_name = "WHEN")]
    done_when: Option<Stopping>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Stopping {
    /// No text that continues can get a better score (`early_stopping="never"`).
    Settled,
    /// B texts have ended, and the likeliest that continues has a worse score as it stands (`early_stopping=False`).
    Unlikely,
    /// B texts have ended (`early_stopping=True`).
    Full,
}

/// The search that the flags ask for, if they ask for one.
///
/// # Errors
/// Flags out of range; flags of draws beside those of a search.
pub(super) fn search(args: &GenerateArgs) -> Result<Option<BeamConfig>> {
    let flags = &args.beams;
    let Some(beam) = flags.beam else {
        return Ok(None);
    };
    check_search(flags.beam, flags.n_best)?;
    let alpha = flags.length_penalty.unwrap_or(1.0);
    if !(-10.0..=10.0).contains(&alpha) {
        return Err(Error::usage(format!(
            "--length-penalty {alpha} must be -10 to 10"
        )));
    }
    require_no_draws(args)?;
    if !args.stop.is_empty() {
        return Err(Error::usage(
            "--stop cannot end a text of --beam: texts are compared when a token ends them; leave --stop out, or draw",
        ));
    }
    Ok(Some(BeamConfig {
        beam,
        n_best: flags.n_best.unwrap_or(1),
        length_penalty: LengthPenalty::Average(AverageConfig { alpha }),
        at_limit: AtLimit::Any,
        done_when: match flags.done_when.unwrap_or(Stopping::Unlikely) {
            Stopping::Settled => DoneWhen::Settled,
            Stopping::Unlikely => DoneWhen::Unlikely,
            Stopping::Full => DoneWhen::Full,
        },
        ..BeamConfig::default()
    }))
}

/// An error for flags of draws, which a search has none of.
fn require_no_draws(args: &GenerateArgs) -> Result<()> {
    let further = [("--samples", args.samples != 1), ("--seed", args.seed != 0)];
    let mut drawn = args.sampling.of_draws().into_iter().chain(further);
    let Some((flag, _)) = drawn.find(|(_, given)| *given) else {
        return Ok(());
    };
    let several = match flag {
        "--samples" => "; --n-best gives several continuations",
        _ => "",
    };
    Err(Error::usage(format!(
        "{flag} has no effect: --beam searches for the likeliest continuations and draws nothing; leave one of them \
         out{several}"
    )))
}

/// A text with what was found behind it, of `most` tokens at most, not shown yet.
pub(super) fn text<'a>(mut text: Text<'a>, found: &Hypothesis, most: usize) -> Text<'a> {
    // A shorter one ended with a token.
    text.found(&found.tokens, most.min(found.tokens.len() + 1));
    text.score = Some(found.score);
    text
}
