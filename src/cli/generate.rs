//! `formwork generate`: a trained model continues a text.

use super::output;
use crate::error::{Error, Result};
use crate::experiment::used;
use crate::generate::{Generator, Sampling};
use clap::Args;
use std::path::PathBuf;
use std::time::Instant;

/// `formwork generate`.
#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// The run folder.
    run: PathBuf,
    /// The text to continue; \n is a line break.
    #[arg(long)]
    prompt: String,
    /// Tokens to generate at the most.
    #[arg(long, default_value_t = 200)]
    tokens: usize,
    /// Divides the logits; 0 takes the likeliest token.
    #[arg(long, default_value_t = 0.8)]
    temperature: f64,
    /// Draw among the K likeliest tokens.
    #[arg(long, value_name = "K")]
    top_k: Option<usize>,
    /// Draw among the likeliest tokens that together reach probability P.
    #[arg(long, value_name = "P")]
    top_p: Option<f64>,
    /// Above 1: tokens that are already there become less likely.
    #[arg(long, default_value_t = 1.0, value_name = "X")]
    repetition_penalty: f64,
    /// Stop before this text; may be given several times.
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// Seed of the draws.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Where to compute; the run's device when absent.
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
}

/// Runs `formwork generate`.
pub fn run(args: GenerateArgs) -> Result<()> {
    let sampling = sampling(&args)?;
    let opened = used::open(&args.run, args.device.as_deref())?;
    let Some(tokenizer) = &opened.tokenizer else {
        return Err(Error::usage(format!(
            "{} was trained on token numbers, not text: there is nothing to write out",
            args.run.display()
        )));
    };
    let prompt = tokenizer.encode(&args.prompt.replace("\\n", "\n"))?;
    let began = Instant::now();
    let mut generator = Generator::new(&opened.model.model, opened.context, &prompt)?;
    let mut shown = Shown::default();
    shown.write(&tokenizer.decode(generator.tokens()), false);
    let mut generated = 0;
    while generated < args.tokens {
        let token = generator.next(&sampling);
        generated += 1;
        if tokenizer.end_of_text() == Some(token) {
            break;
        }
        let text = tokenizer.decode(generator.tokens());
        let new = &text[shown.text.len().min(text.len())..];
        let cut = args.stop.iter().filter_map(|s| new.find(s.as_str())).min();
        if let Some(cut) = cut {
            let end = text.len() - new.len() + cut;
            shown.write(&text[..end], true);
            break;
        }
        let held = longest_stop(&args.stop);
        shown.write_holding(&text, held);
    }
    shown.write(&shown.pending.clone(), true);
    output::part("\n");
    let speed = generated as f64 / began.elapsed().as_secs_f64();
    output::note(format!("{generated} tokens, {speed:.0} tokens/s"));
    Ok(())
}

fn sampling(args: &GenerateArgs) -> Result<Sampling> {
    let wrong = |message: String| Err(Error::usage(message));
    if args.temperature.is_nan() || args.temperature < 0.0 {
        return wrong(format!("--temperature {} is below 0", args.temperature));
    }
    if args.top_k == Some(0) {
        return wrong("--top-k 0 leaves no token; give at least 1".into());
    }
    if let Some(p) = args.top_p.filter(|p| !(*p > 0.0 && *p <= 1.0)) {
        return wrong(format!("--top-p {p} is not in (0, 1]"));
    }
    if args.repetition_penalty.is_nan() || args.repetition_penalty <= 0.0 {
        return wrong(format!(
            "--repetition-penalty {} is not above 0; 1 switches it off",
            args.repetition_penalty
        ));
    }
    Ok(Sampling {
        temperature: args.temperature,
        top_k: args.top_k,
        top_p: args.top_p,
        repetition_penalty: args.repetition_penalty,
        seed: args.seed,
    })
}

fn longest_stop(stops: &[String]) -> usize {
    stops
        .iter()
        .map(|s| s.len().saturating_sub(1))
        .max()
        .unwrap_or(0)
}

/// The text that is on the screen already, and what waits for the rest of a character or of a stop text.
#[derive(Default)]
struct Shown {
    text: String,
    pending: String,
}

impl Shown {
    /// Shows what `text` adds; an unfinished character (U+FFFD at the end) waits unless this is the last.
    fn write(&mut self, text: &str, last: bool) {
        if text.ends_with('\u{FFFD}') && !last {
            self.pending = text.to_string();
            return;
        }
        if let Some(new) = text.strip_prefix(self.text.as_str()) {
            output::part(new);
            self.text = text.to_string();
        }
        self.pending = self.text.clone();
    }

    /// As `write`, keeping back the last `held` bytes, in which a stop text may have begun.
    fn write_holding(&mut self, text: &str, held: usize) {
        let mut end = text
            .len()
            .saturating_sub(held)
            .max(self.text.len().min(text.len()));
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.write(&text[..end], false);
        self.pending = text.to_string();
    }
}
