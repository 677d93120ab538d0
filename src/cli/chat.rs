//! `formwork chat`: lets a model that was trained on conversations answer messages.
//!
//! Messages come from `--message`, or line by line from standard input, where an empty line begins a new conversation. The
//! run's chat template renders the conversation up to the beginning of an answer. The model continues it until the token that
//! ends an answer in the template.

use super::generate::text::{Text, sample_texts};
use super::inputs::{InputLines, to_text};
use super::output;
use super::sampling::SamplingArgs;
use crate::device::DeviceName;
use crate::error::{Error, Result};
use crate::experiment::open::OpenedRun;
use crate::experiment::run_contents::CheckpointChoice;
use crate::generate::{SamplingConfig, TextGenerator};
use crate::model::LanguageModel;
use crate::nn::linear::repacked_for_decoding;
use crate::tokenizer::chat::{ASSISTANT, Conversation, Ending};
use crate::tokenizer::{ChatTemplate, Tokenizer};
use clap::Args;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// `formwork chat`.
#[derive(Debug, Args)]
pub struct ChatArgs {
    /// The run folder.
    #[arg(value_parser = super::flags::run_folder())]
    run: PathBuf,
    /// A user message; may be given several times, in the order of one conversation. Without it, each line of standard input is
    /// a message, and an empty line begins a new conversation.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    message: Vec<String>,
    /// A system message at the beginning of each conversation.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    system: Option<String>,
    /// A chat template in Jinja, in place of the run's.
    #[arg(long, value_name = "FILE")]
    template: Option<PathBuf>,
    /// Date for a template that asks for today's, such as 2024-07-26. That of the run's data when absent.
    #[arg(long, value_name = "DATE")]
    date: Option<String>,
    #[command(flatten)]
    sampling: SamplingArgs,
    /// Print one JSON object for each answer, including the text that the model continued.
    #[arg(long)]
    json: bool,
    /// Seed of the sampling.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The checkpoint to use: best, latest, a step, or average:N for the mean of the newest N.
    #[arg(long, value_name = "WHICH", default_value = "best")]
    checkpoint: CheckpointChoice,
    /// Where to compute; the run's device when absent.
    #[arg(long, value_name = "DEVICE", value_parser = DeviceName::parse_flag)]
    device: Option<String>,
}

/// Generates the answers.
struct Assistant<'a> {
    args: &'a ChatArgs,
    decoder: &'a dyn LanguageModel,
    context: usize,
    tokenizer: &'a Tokenizer,
    template: &'a ChatTemplate,
    config: SamplingConfig,
    /// Tokens that end an answer.
    ends: Vec<u32>,
    /// Texts that end an answer if no token does.
    stops: Vec<String>,
}

/// Runs `formwork chat`.
///
/// # Errors
/// If flags are out of range; if the run cannot be opened or has no chat template; if its template refuses a message.
pub fn run(args: &ChatArgs) -> Result<()> {
    args.sampling.check()?;
    let opened = super::open_run::open(&args.run, args.checkpoint, args.device.as_deref())?;
    let config = args.sampling.settings(&opened.experiment.decode.sampling)?;
    let (tokenizer, template) = tokenizer_and_template(args, &opened)?;
    let (ends, stops) = stop_conditions(&config, &tokenizer, &template);
    let model = repacked_for_decoding(opened.model);
    let Some(decoder) = model.networks().language_model else {
        return Err(Error::usage(format!(
            "{} was trained for {}, which does not continue text",
            args.run.display(),
            opened.experiment.task.kind()
        )));
    };
    let assistant = Assistant {
        args,
        decoder,
        context: opened.shape.context,
        tokenizer: &tokenizer,
        template: &template,
        config,
        ends,
        stops,
    };
    match args.message.is_empty() {
        true => assistant.answer_stdin(),
        false => {
            let mut conversation = assistant.new_conversation();
            let mut messages = args.message.iter();
            messages.try_for_each(|message| assistant.answer(&mut conversation, message))
        }
    }
}

/// The run's tokenizer, and the template from the flag or from the run.
fn tokenizer_and_template(
    args: &ChatArgs,
    opened: &OpenedRun,
) -> Result<(Tokenizer, ChatTemplate)> {
    let (run, tokenizers) = (args.run.display(), &opened.tokenizers);
    let Some(tokenizer) = &tokenizers.text else {
        return Err(Error::usage(format!(
            "{run} has no tokenizer, so it cannot read messages"
        )));
    };
    let template = match (&args.template, &tokenizers.chat) {
        (Some(path), own) => {
            let tokens = own.as_ref().map(|own| own.tokens().clone());
            ChatTemplate::read(path, tokens.unwrap_or_default())?
        }
        (None, Some(own)) => own.clone(),
        (None, None) => {
            return Err(Error::usage(format!(
                "{run} has no chat template: it was neither trained on conversations nor imported with a template; give one with \
                 --template FILE, or continue a text with: formwork generate {run} --prompt TEXT"
            )));
        }
    };
    let template = match &args.date {
        Some(date) => {
            let dated = template.with_date(date);
            let dated = dated.map_err(|why| Error::usage(format!("--date: {why}")))?;
            if dated.has_unused_date() {
                let whose = match &args.template {
                    Some(path) => path.display().to_string(),
                    None => format!("the chat template of {run}"),
                };
                return Err(Error::usage(format!(
                    "--date {date} has no effect: {whose} does not use a date (strftime_now); remove --date, or give a template \
                     that uses one with --template FILE"
                )));
            }
            dated
        }
        None => template,
    };
    Ok((tokenizer.clone(), template))
}

/// Returns the tokens that end an answer: those of the run, the end-of-text token, and the special token that the template
/// writes after an answer. If it writes a text instead, that text is returned as a stop text.
fn stop_conditions(
    config: &SamplingConfig,
    tokenizer: &Tokenizer,
    template: &ChatTemplate,
) -> (Vec<u32>, Vec<String>) {
    let mut ends = config.end.clone();
    ends.extend(tokenizer.end_of_text());
    let mut stops = Vec::new();
    match template.ending(tokenizer) {
        Ok(Ending::Token(end)) => ends.push(end),
        Ok(Ending::Text(text)) => stops.push(text),
        Ok(Ending::NoEnd) => {}
        // The run's own end tokens still apply.
        Err(why) => output::note(format!("cannot determine the end of an answer: {why}")),
    }
    (ends, stops)
}

impl Assistant<'_> {
    /// A conversation before the first user message.
    fn new_conversation(&self) -> Conversation {
        let mut conversation = Conversation::default();
        if let Some(system) = &self.args.system {
            conversation.push("system", system);
        }
        conversation
    }

    /// Answers the lines of standard input.
    fn answer_stdin(&self) -> Result<()> {
        let asks = std::io::stdin().is_terminal();
        let begins = || {
            if asks {
                output::note_part("> ");
            }
        };
        let mut conversation = self.new_conversation();
        begins();
        for (number, line) in (1..).zip(InputLines::open(Path::new("-"))?) {
            let line = to_text(line?)
                .map_err(|e| Error::usage(format!("standard input:{number}: {e}")))?;
            match line.trim().is_empty() {
                true => conversation = self.new_conversation(),
                false => self.answer(&mut conversation, &line)?,
            }
            begins();
        }
        Ok(())
    }

    /// Generates the answer to a message, and adds both to the conversation.
    fn answer(&self, conversation: &mut Conversation, message: &str) -> Result<()> {
        conversation.push("user", message);
        let prompt = self
            .template
            .render(conversation, true)
            .map_err(Error::usage)?;
        let tokens = self.tokenizer.encode(&prompt)?;
        if tokens.len() > self.context {
            output::note(format!(
                "the conversation has {} tokens, but the run reads at most {}: the beginning is cut off; an empty line starts a \
                 new conversation",
                tokens.len(),
                self.context
            ));
        }
        let most = self.config.tokens_after(tokens.len())?;
        let sampling = self.config.rules(self.args.seed);
        let mut generator = TextGenerator::new(self.decoder, self.context, &[tokens.as_slice()])?;
        generator.reserve(most);
        let empty = Text::new(self.tokenizer, &tokens, &self.stops);
        let grows = |new: &str| self.print_new(new);
        let texts = sample_texts(generator, &[sampling], most, &self.ends, vec![empty], grows)?;
        for mut text in texts {
            self.print_new(&text.finish())?;
            self.finish_output(&prompt, message, &text)?;
            conversation.push(ASSISTANT, &text.whole);
        }
        Ok(())
    }

    /// Ends the output of an answer.
    fn finish_output(&self, prompt: &str, message: &str, text: &Text) -> Result<()> {
        let line = serde_json::json!({
            "message": message, "prompt": prompt, "text": text.whole, "tokens": text.tokens,
        });
        output::line(match self.args.json {
            true => line.to_string(),
            false => String::new(),
        })
    }

    /// Prints newly generated text of an answer.
    fn print_new(&self, new: &str) -> Result<()> {
        match self.args.json {
            true => Ok(()),
            false => output::line_part(new),
        }
    }
}
