//! The command line: parses arguments, runs commands and returns an exit status. Results go to standard output, everything else
//! to standard error. Only this layer prints.

mod answer;
pub mod bench;
pub mod caption;
pub mod chat;
pub mod check;
pub mod class_names;
mod classify;
pub mod compare;
pub mod data;
pub mod encode;
pub mod eval;
pub mod export;
pub mod fill;
mod flags;
pub mod generate;
pub mod import;
pub mod infer;
mod inputs;
pub mod inspect;
mod keys;
mod line_printer;
pub mod list;
mod live;
mod lr_find;
mod open_run;
mod other_tools;
pub mod output;
pub mod plan;
mod ranks;
pub mod report;
pub mod runs;
mod sampling;
pub mod shell;
pub mod submit;
pub mod sweep;
pub mod tokenize;
pub mod train;
pub mod transcribe;
pub mod translate;
pub mod verify;
pub mod watch;

use crate::error::{Error, Result};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::process::ExitCode;

/// A training framework for every transformer.
#[derive(Debug, Parser)]
#[command(
    name = "formwork",
    version,
    about,
    max_term_width = 110,
    infer_subcommands = false
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Train the model of an experiment file.
    Train(train::TrainArgs),
    /// Resume a run from its newest complete checkpoint.
    Resume(train::ResumeArgs),
    /// Write a Slurm job that trains an experiment, or resumes a run, on one machine or many, and submit it.
    Submit(submit::SubmitArgs),
    /// Check an experiment file; print it resolved, with the origin of each value.
    Check(check::CheckArgs),
    /// Evaluate a run on a split.
    Eval(eval::EvalArgs),
    /// Continue a text with a trained model.
    Generate(generate::GenerateArgs),
    /// Chat with a model that was trained on conversations.
    Chat(chat::ChatArgs),
    /// Generate a text for each input line: translate, summarise.
    Translate(translate::TranslateArgs),
    /// Generate captions of images.
    Caption(caption::CaptionArgs),
    /// Transcribe recordings.
    Transcribe(transcribe::TranscribeArgs),
    /// Fill the masks of a text with a masked language model, or mark the tokens that were probably replaced.
    Fill(fill::FillArgs),
    /// Classify images or texts; predict numbers for texts and tags for words.
    Classify(classify::ClassifyArgs),
    /// Answer questions about a text.
    Answer(answer::AnswerArgs),
    /// Run a model on arrays, with the names of Hugging Face models: logits, hidden states, attention, gradients.
    Infer(infer::InferArgs),
    /// Compute embeddings of texts or images from the hidden states of a run.
    Encode(encode::EncodeArgs),
    /// Look inside a trained model: attention, its rollout, filters, positions, gradients, the use of context.
    Inspect(inspect::InspectArgs),
    /// Import a Hugging Face folder as a run.
    Import(import::ImportArgs),
    /// Export a run as a Hugging Face folder.
    Export(export::ExportArgs),
    /// List kinds and presets by family, and the keys of experiment files.
    List(list::ListArgs),
    /// Print the JSON Schema of experiment files, for editors.
    Schema(keys::SchemaArgs),
    /// List the runs below a folder: state, step, best score, age.
    Runs(runs::RunsArgs),
    /// Show all runs of a folder on a local web page that follows them.
    Watch(watch::WatchArgs),
    /// Compare runs: their differences, results and curves.
    Compare(compare::CompareArgs),
    /// Write tables, figures and a web page for a paper from a sweep or from runs.
    Report(report::ReportArgs),
    /// Train an ablation, every arm with every seed; resumes an existing sweep.
    Sweep(sweep::SweepArgs),
    /// Public data sets: list, show, pull.
    Data(data::DataArgs),
    /// Show the tokens of a text and their ids.
    Tokenize(tokenize::TokenizeArgs),
    /// Show parameters, FLOPs and memory of a model before training.
    Plan(plan::PlanArgs),
    /// Measure the loss at rising learning rates, and suggest rates to try.
    LrFind(lr_find::LrFindArgs),
    /// Measure speed: training, attention, evaluation, generation.
    Bench(bench::BenchArgs),
    /// Train, then check the result against the file's [expect].
    Verify(verify::VerifyArgs),
    /// Print completions for a shell.
    Completions(shell::CompletionsArgs),
    /// Write the manual pages.
    Man(shell::ManArgs),
}

/// Checks whether words are a valid command line, without running it.
///
/// # Errors
/// The message that a user sees about an invalid one.
pub fn check_words(words: &[String]) -> std::result::Result<(), String> {
    match read(words) {
        Ok(_) => Ok(()),
        Err(error) => Err(flags::number_message(&error).unwrap_or_else(|| error.to_string())),
    }
}

/// Parses the words of a command line.
fn read<W: Into<OsString> + Clone>(
    words: impl IntoIterator<Item = W>,
) -> std::result::Result<Arguments, clap::Error> {
    let words: Vec<OsString> = words.into_iter().map(Into::into).collect();
    let mut command = flags::with_negative_numbers(Arguments::command());
    let matches = command.try_get_matches_from_mut(&words);
    let mut matches = matches.map_err(|error| other_tools::with_tip(error, &words))?;
    Arguments::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

/// Prints what is wrong with the command line; returns the exit status.
fn print_usage_error(error: &clap::Error) -> ExitCode {
    if let Some(text) = flags::number_message(error) {
        output::note_part(text);
        return ExitCode::from(2);
    }
    let printed = error.print();
    let lost = printed.is_err_and(|e| e.kind() != ErrorKind::BrokenPipe);
    ExitCode::from(match (error.use_stderr(), lost) {
        (true, _) => 2,
        (false, true) => 1,
        (false, false) => 0,
    })
}

/// Runs the process's command line.
pub fn main() -> ExitCode {
    crate::stop::file_size_limit_as_error();
    let arguments = match read(std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(error) => return print_usage_error(&error),
    };
    match environment().and_then(|()| run(arguments.command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if output::is_closed_pipe(&error) => ExitCode::SUCCESS,
        // Another process of the run reports the error.
        Err(Error::OtherRank { status, .. }) => ExitCode::from(status),
        Err(error) => {
            output::error(&error);
            ExitCode::from(error.exit_status())
        }
    }
}

/// Returns an error if an environment variable has an unknown value.
fn environment() -> Result<(), Error> {
    for (variable, known) in crate::kernel::SWITCHES {
        let given = std::env::var_os(variable).unwrap_or_default();
        let given = given.to_string_lossy();
        if given.is_empty() || known.contains(&given.as_ref()) {
            continue;
        }
        let hint = crate::error::suggestion(&given, known.iter().copied());
        return Err(Error::usage(format!(
            "the variable {variable} does not accept `{given}`{hint}"
        )));
    }
    let folders = std::env::var_os("FORMWORK_DATA").unwrap_or_default();
    for folder in std::env::split_paths(&folders) {
        if !folder.as_os_str().is_empty() && !folder.is_dir() {
            let shown = folder.display();
            output::note(format!(
                "the variable FORMWORK_DATA names {shown}, which is not a folder"
            ));
        }
    }
    Ok(())
}

fn run(command: Command) -> Result<(), Error> {
    match command {
        Command::Train(args) => train::train(args),
        Command::Resume(args) => train::resume(args),
        Command::Submit(args) => submit::run(args),
        Command::Check(args) => check::run(args),
        Command::Eval(args) => eval::run(args),
        Command::Generate(args) => generate::run(args),
        Command::Chat(args) => chat::run(&args),
        Command::Translate(args) => translate::run(args),
        Command::Caption(args) => caption::run(args),
        Command::Transcribe(args) => transcribe::run(args),
        Command::Fill(args) => fill::run(args),
        Command::Classify(args) => classify::run(args),
        Command::Answer(args) => answer::run(args),
        Command::Infer(args) => infer::run(args),
        Command::Encode(args) => encode::run(args),
        Command::Inspect(args) => inspect::run(args),
        Command::Import(args) => import::run(args),
        Command::Export(args) => export::run(args),
        Command::List(args) => list::run(args),
        Command::Schema(args) => keys::print_schema(&args),
        Command::Runs(args) => runs::run(args),
        Command::Watch(args) => watch::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Report(args) => report::run(args),
        Command::Sweep(args) => ranks::require_alone("sweep").and_then(|()| sweep::run(args)),
        Command::Data(args) => data::run(args),
        Command::Tokenize(args) => tokenize::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Completions(args) => shell::completions(&args, Arguments::command()),
        Command::Man(args) => shell::man(args, Arguments::command()),
        Command::LrFind(args) => lr_find::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Verify(args) => ranks::require_alone("verify").and_then(|()| verify::run(args)),
    }
}
