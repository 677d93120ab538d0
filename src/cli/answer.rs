//! `formwork answer`: answers questions about a text.

use super::output;
use crate::data::batch::{Content, ContextWindow, Item, QuestionAnswer};
use crate::data::questions::{self, Query, Windowing};
use crate::device::DeviceName;
use crate::error::{Error, Result};
use crate::experiment::open::OpenedRun;
use crate::experiment::run_contents::CheckpointChoice;
use crate::files;
use crate::nn::pass::Pass;
use crate::task::QuestionAnswering;
use crate::task::question_answering::Span;
use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;

/// `formwork answer`.
#[derive(Debug, Args)]
pub struct AnswerArgs {
    /// The run folder.
    #[arg(value_parser = super::flags::run_folder())]
    run: PathBuf,
    /// A question; may be given several times.
    #[arg(long, allow_hyphen_values = true, required = true)]
    question: Vec<String>,
    /// The text that contains the answers.
    #[arg(
        long,
        allow_hyphen_values = true,
        conflicts_with = "context_file",
        required_unless_present = "context_file"
    )]
    context: Option<String>,
    /// A file with that text, in UTF-8.
    #[arg(long, value_name = "FILE")]
    context_file: Option<PathBuf>,
    /// Give no answer if the score of "no answer" is higher.
    #[arg(long)]
    or_none: bool,
    /// Print one JSON object for each question.
    #[arg(long)]
    json: bool,
    /// The checkpoint to use: best, latest, a step, or average:N for the mean of the newest N.
    #[arg(long, value_name = "WHICH", default_value = "best")]
    checkpoint: CheckpointChoice,
    /// Where to compute; the run's device when absent.
    #[arg(long, value_name = "DEVICE", value_parser = DeviceName::parse_flag)]
    device: Option<String>,
}

/// Runs `formwork answer`.
///
/// # Errors
/// If the run answers no questions; if a text cannot be read, or its tokenizer produces no tokens from it.
pub fn run(args: AnswerArgs) -> Result<()> {
    let opened = super::open_run::open(&args.run, args.checkpoint, args.device.as_deref())?;
    let Some(model) = opened.model.networks().answerer else {
        return Err(Error::usage(format!(
            "{} was trained for {}, which does not answer questions",
            args.run.display(),
            opened.experiment.task.kind()
        )));
    };
    let context: Arc<str> = match (&args.context, &args.context_file) {
        (Some(text), _) => text.as_str().into(),
        (None, Some(file)) => {
            let bytes = files::read(file).map_err(Error::into_usage_error)?;
            files::refuse_utf16(file.display(), &bytes)?;
            let text = String::from_utf8(bytes)
                .map_err(|e| Error::usage(format!("{} is not UTF-8: {e}", file.display())))?;
            text.into()
        }
        (None, None) => unreachable!("clap asks for one of them"),
    };
    for question in &args.question {
        let span = answer(model, &opened, question, &context).map_err(Error::into_usage_error)?;
        show(&args, question, &context, span)?;
    }
    Ok(())
}

/// The best answer span over all windows of the context, with the lowest "no answer" score.
fn answer(
    model: &QuestionAnswering,
    opened: &OpenedRun,
    question: &str,
    context: &Arc<str>,
) -> Result<Span> {
    let Some(tokenizer) = &opened.tokenizers.text else {
        return Err(Error::usage(
            "the run has no tokenizer, so it cannot read text",
        ));
    };
    let query = Query {
        number: 0,
        id: Arc::from(""),
        question,
        context: context.clone(),
        answer_bytes: None,
        accepted_answers: Arc::from([]),
        may_have_no_answer: true,
    };
    let cut = opened.experiment.data.question_windowing();
    let cut = cut.unwrap_or_else(|| Windowing::with_default_overlap(opened.shape.context));
    let rows = questions::read(&query, cut, tokenizer, &tokenizer.offsets()?)?;
    let windows: Vec<Item> = rows.into_iter().map(Item::Text).collect();
    let mut spans = Vec::with_capacity(windows.len());
    for some in windows.chunks(opened.experiment.train.eval_batch_size().max(1)) {
        let Content::Text(texts) = Content::of(some) else {
            continue;
        };
        let asked: &[QuestionAnswer] = texts.asked.as_deref().unwrap_or_default();
        let windows: Vec<&ContextWindow> =
            asked.iter().map(|asked| asked.window.as_ref()).collect();
        spans.extend(model.spans(&texts, &windows, &Pass::evaluation()));
    }
    let best = spans.into_iter().reduce(Span::better_of);
    best.ok_or_else(|| Error::usage("the context is empty"))
}

fn show(args: &AnswerArgs, question: &str, context: &str, span: Span) -> Result<()> {
    let none = args.or_none && span.none > span.score;
    let [from, to] = span.bytes;
    let text = if none { "" } else { &context[from..to] };
    if !args.json {
        return output::line(text);
    }
    let characters = |bytes: usize| context[..bytes].chars().count();
    let mut answer = match none {
        true => json!({ "question": question, "answer": null }),
        false => json!({
            "question": question, "answer": text, "from": characters(from), "to": characters(to),
        }),
    };
    answer["score"] = output::number(span.score);
    answer["no_answer_score"] = output::number(span.none);
    output::line(answer.to_string())
}
