//! `generate --beam`, or `[decode.beam_search]` of the run: searches for the most likely continuations instead of sampling.

use super::GenerateArgs;
use super::text::Text;
use crate::error::{Error, Result};
use crate::generate::beam::{AverageConfig, DoneWhen};
use crate::generate::decode::check_search;
use crate::generate::{BeamConfig, ContinuationConfig, Hypothesis, LengthPenalty};
use clap::{Args, ValueEnum};

/// Flags of the beam search.
#[derive(Debug, Args)]
pub(super) struct BeamArgs {
    /// Search for the most likely continuations with B beams instead of sampling; 1 takes the most likely token each time. The
    /// run's [decode.beam_search] when absent, if it has one; the defaults are those of transformers' `num_beams`.
    #[arg(long, visible_alias = "beams", value_name = "B")]
    beam: Option<usize>,
    /// Number of continuations of each prompt that a search returns, the best first. The run's when absent, usually 1.
    #[arg(long, value_name = "N")]
    n_best: Option<usize>,
    /// The search compares log-probabilities divided by the number of new tokens to the power of X: 0 compares sums, 1 means;
    /// the larger X, the longer the texts. The run's when absent, usually 1.
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    length_penalty: Option<f64>,
    /// When the search ends (transformers' `early_stopping`). The run's when absent, usually unlikely.
    #[arg(long, value_name = "WHEN")]
    done_when: Option<SearchEnd>,
}

impl BeamArgs {
    /// The first search flag given other than `--beam`.
    fn other_search_flag(&self) -> Option<&'static str> {
        let all = [
            ("--n-best", self.n_best.is_some()),
            ("--length-penalty", self.length_penalty.is_some()),
            ("--done-when", self.done_when.is_some()),
        ];
        let mut given = all.into_iter().filter(|(_, given)| *given);
        given.next().map(|(flag, _)| flag)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SearchEnd {
    /// No unfinished text can reach a better score (`early_stopping="never"`).
    Settled,
    /// B texts have ended, and the most likely unfinished one has a worse score as it stands (`early_stopping=False`).
    Unlikely,
    /// B texts have ended (`early_stopping=True`).
    Full,
}

/// Checks the values and combinations of the flags.
///
/// # Errors
/// If a value is out of range; if sampling flags or stop texts are combined with `--beam`.
pub(super) fn check(args: &GenerateArgs) -> Result<()> {
    let flags = &args.beams;
    check_search(flags.beam, flags.n_best)?;
    if let Some(alpha) = flags.length_penalty.filter(|x| !(-10.0..=10.0).contains(x)) {
        return Err(Error::usage(format!(
            "--length-penalty {alpha} must be between -10 and 10"
        )));
    }
    match (flags.beam, sampling_flag(args)) {
        (Some(_), Some(flag)) => {
            let several = match flag {
                "--samples" => "; for several continuations use --n-best",
                _ => "",
            };
            Err(Error::usage(format!(
                "{flag} has no effect: --beam searches for the most likely continuations and does not sample; remove one of \
                 them{several}"
            )))
        }
        (Some(_), None) => require_no_stops(args, "--beam", ", or sample"),
        (None, _) => Ok(()),
    }
}

/// Returns the search that the flags ask for, or the run's if no flag asks for sampling.
///
/// # Errors
/// If search flags are given without a search; if stop texts are combined with a search.
pub(super) fn search(
    args: &GenerateArgs,
    run: Option<&ContinuationConfig>,
) -> Result<Option<BeamConfig>> {
    let flags = &args.beams;
    let draws = sampling_flag(args);
    if flags.beam.is_none() && (run.is_none() || draws.is_some()) {
        return match (flags.other_search_flag(), draws) {
            (None, _) => Ok(None),
            (Some(flag), Some(drawn)) => Err(Error::usage(format!(
                "{flag} has no effect with {drawn}, which selects sampling; remove one of them"
            ))),
            (Some(flag), None) => Err(Error::usage(format!(
                "{flag} has no effect without a search: add --beam <B>, since the run has no [decode.beam_search]"
            ))),
        };
    }
    if flags.beam.is_none() {
        let remedy = ", or sample with --temperature";
        require_no_stops(args, "the search of the run ([decode.beam_search])", remedy)?;
    }
    let own = run.cloned().unwrap_or_default();
    let n_best = match (flags.n_best, flags.beam) {
        (Some(n_best), _) => n_best,
        (None, Some(beam)) => own.n_best.min(beam),
        (None, None) => own.n_best,
    };
    let alpha = flags.length_penalty.map(|alpha| AverageConfig { alpha });
    let asked = ContinuationConfig {
        beam: flags.beam.unwrap_or(own.beam.max(n_best)),
        n_best,
        length_penalty: alpha.map_or(own.length_penalty, LengthPenalty::Average),
        done_when: match flags.done_when {
            Some(SearchEnd::Settled) => DoneWhen::Settled,
            Some(SearchEnd::Unlikely) => DoneWhen::Unlikely,
            Some(SearchEnd::Full) => DoneWhen::Full,
            None => own.done_when,
        },
    };
    Ok(Some(asked.search()))
}

/// The first flag that asks for sampling.
fn sampling_flag(args: &GenerateArgs) -> Option<&'static str> {
    let further = [
        ("--samples", args.samples != 1),
        ("--seed", args.seed != 0),
        ("--best-of", args.best_of.is_given()),
    ];
    let all = args.sampling.sampling_flags().into_iter().chain(further);
    let mut given = all.filter(|(_, given)| *given);
    given.next().map(|(flag, _)| flag)
}

/// Returns an error for stop texts, which a search does not support.
fn require_no_stops(args: &GenerateArgs, search: &str, remedy: &str) -> Result<()> {
    match args.stop.is_empty() {
        true => Ok(()),
        false => Err(Error::usage(format!(
            "--stop does not work with {search}, which compares texts that end with an end token; remove --stop{remedy}"
        ))),
    }
}

/// Completes a text with a found continuation of at most `most` tokens; it is not shown yet.
pub(super) fn text<'a>(mut text: Text<'a>, found: &Hypothesis, most: usize) -> Text<'a> {
    // A shorter continuation was ended by a token, which counts.
    text.push_found(&found.tokens, most.min(found.tokens.len() + 1));
    text.score = Some(found.score);
    text
}
