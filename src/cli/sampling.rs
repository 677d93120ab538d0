//! Sampling flags of commands that continue texts: checks them, and merges them with the run's settings.

use crate::error::{Error, Result};
use crate::generate::SamplingConfig;
use clap::Args;

/// Sampling settings.
#[derive(Debug, Args)]
pub(super) struct SamplingArgs {
    /// Maximum number of tokens to generate. The run's when absent, from [decode.sampling] of its experiment; usually 200.
    #[arg(long)]
    pub(super) tokens: Option<usize>,
    /// Divides the logits; 0 takes the most likely token. The run's when absent, usually 0.8.
    #[arg(long, allow_negative_numbers = true)]
    pub(super) temperature: Option<f64>,
    /// Sample from the K most likely tokens. The run's when absent, usually all.
    #[arg(long, value_name = "K")]
    pub(super) top_k: Option<usize>,
    /// Sample from the most likely tokens that together reach probability P. The run's when absent, usually 1.
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub(super) top_p: Option<f64>,
    /// Sample from the tokens at least P times as likely as the most likely one. The run's when absent, usually 0: all.
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub(super) min_p: Option<f64>,
    /// Above 1: makes tokens that already occurred less likely. The run's when absent, usually 1.
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub(super) repetition_penalty: Option<f64>,
    /// Never repeat an n-gram of N tokens of the prompt or the text; 0 allows it. The run's when absent, usually 0.
    #[arg(long, value_name = "N")]
    pub(super) no_repeat_ngram_size: Option<usize>,
}

impl SamplingArgs {
    /// The flags that only affect sampling, and whether they were given.
    pub(super) fn sampling_flags(&self) -> [(&'static str, bool); 4] {
        [
            ("--temperature", self.temperature.is_some()),
            ("--top-k", self.top_k.is_some()),
            ("--top-p", self.top_p.is_some()),
            ("--min-p", self.min_p.is_some()),
        ]
    }

    /// Merges the flags with the run's settings.
    ///
    /// # Errors
    /// If sampling flags are given although nothing is sampled.
    pub(super) fn settings(&self, run: &SamplingConfig) -> Result<SamplingConfig> {
        let temperature = self.temperature.unwrap_or(run.temperature);
        let [_, drawn @ ..] = self.sampling_flags();
        if let Some((flag, _)) = drawn.iter().find(|(_, given)| *given && temperature == 0.0) {
            let whose = match self.temperature {
                Some(_) => "--temperature 0",
                None => "the run's temperature of 0",
            };
            return Err(Error::usage(format!(
                "{flag} has no effect: {whose} selects the most likely token; set --temperature above 0, or remove {flag}"
            )));
        }
        Ok(SamplingConfig {
            tokens: self.tokens.or(run.tokens),
            max_length: run.max_length.filter(|_| self.tokens.is_none()),
            temperature,
            top_k: self.top_k.or(run.top_k),
            top_p: self.top_p.or(run.top_p),
            min_p: self.min_p.or(run.min_p),
            repetition_penalty: self.repetition_penalty.unwrap_or(run.repetition_penalty),
            no_repeat_ngram_size: self
                .no_repeat_ngram_size
                .unwrap_or(run.no_repeat_ngram_size),
            end: run.end.clone(),
        })
    }

    /// Checks the values of the flags.
    ///
    /// # Errors
    /// The first invalid value.
    pub(super) fn check(&self) -> Result<()> {
        let wrong = |message: String| Err(Error::usage(message));
        if self.tokens == Some(0) {
            return wrong("--tokens 0 generates nothing; give at least 1".into());
        }
        if let Some(t) = self.temperature.filter(|t| !(*t >= 0.0 && t.is_finite())) {
            return wrong(format!(
                "--temperature {t} must be 0 (the most likely token) or more"
            ));
        }
        if self.top_k == Some(0) {
            return wrong("--top-k 0 leaves no token; give at least 1".into());
        }
        if let Some(p) = self.top_p.filter(|p| !(*p > 0.0 && *p <= 1.0)) {
            return wrong(format!("--top-p {p} is not in (0, 1]"));
        }
        if let Some(p) = self.min_p.filter(|p| !(0.0..=1.0).contains(p)) {
            return wrong(format!("--min-p {p} must be between 0 and 1"));
        }
        let penalty = self.repetition_penalty;
        match penalty.filter(|x| !(*x > 0.0 && x.is_finite())) {
            Some(x) => wrong(format!(
                "--repetition-penalty {x} is not a number above 0; 1 switches it off"
            )),
            None => Ok(()),
        }
    }
}
