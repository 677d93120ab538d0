//! Rewards of an answer to a prompt, of a single text, or of a line of a file, which may be a conversation in JSON.

use super::input_json;
use crate::cli::output;
use crate::data::RewardInput;
use crate::data::batch::TextBatch;
use crate::error::{Error, Result};
use crate::experiment::open::OpenedRun;
use crate::nn::pass::Pass;
use crate::task::Reward;
use serde_json::Value;

/// Prints the reward of an answer to a prompt, or of a text without one.
///
/// # Errors
/// If the run cannot read the text; if only a prompt is given to a run with a chat template.
pub(super) fn show(
    model: &Reward,
    opened: &OpenedRun,
    (text, answer): (&str, Option<&str>),
    json: bool,
) -> Result<()> {
    let (prompt, said) = match answer {
        Some(answer) => (text, answer),
        None if is_templated(opened) => {
            return Err(Error::usage(
                "the run reads conversations; give a prompt with --text and its answer with --pair, or both in one line of \
                 --input, separated by a tab",
            ));
        }
        None => ("", text),
    };
    let reward = reward_of(
        model,
        opened,
        &RewardInput::Answer {
            prompt,
            answer: said,
        },
    )?;
    if json {
        let mut line = input_json((text, answer));
        line["reward"] = output::number(reward);
        return output::line(line.to_string());
    }
    let between = match is_templated(opened) {
        true => " ",
        false => "",
    };
    output::line(format!("{prompt}{between}{said}: {reward:.3}"))
}

/// Prints the reward of a line: a JSON object with the messages of a conversation, a prompt and its answer separated by a tab,
/// or a text.
///
/// # Errors
/// As [`show`].
pub(super) fn show_line(model: &Reward, opened: &OpenedRun, line: &str, json: bool) -> Result<()> {
    let Some(messages) = messages(line) else {
        return match line.split_once('\t') {
            Some((prompt, answer)) => show(model, opened, (prompt, Some(answer)), json),
            None => show(model, opened, (line, None), json),
        };
    };
    let reward = reward_of(model, opened, &RewardInput::Messages(&messages))?;
    if json {
        let told = serde_json::json!({ "messages": messages, "reward": output::number(reward) });
        return output::line(told.to_string());
    }
    let last = messages
        .last()
        .and_then(|message| message["content"].as_str());
    output::line(format!("{}: {reward:.3}", last.unwrap_or_default()))
}

/// The messages of a line, if it is a JSON object with messages.
fn messages(line: &str) -> Option<Vec<Value>> {
    let Value::Object(mut fields) = serde_json::from_str(line).ok()? else {
        return None;
    };
    match fields.remove("messages") {
        Some(Value::Array(messages)) => Some(messages),
        Some(_) | None => None,
    }
}

/// Whether the run reads texts rendered by a chat template.
fn is_templated(opened: &OpenedRun) -> bool {
    let data = &opened.experiment.data;
    data.template(&opened.shape, &opened.tokenizers).is_some()
}

/// Computes the reward of an answer.
///
/// # Errors
/// If the run cannot read the answer.
pub(in crate::cli) fn reward_of(
    model: &Reward,
    opened: &OpenedRun,
    said: &RewardInput,
) -> Result<f32> {
    let data = &opened.experiment.data;
    let read = data.encode_answer(said, &opened.shape, &opened.tokenizers);
    let texts = TextBatch::single(read.map_err(Error::into_usage_error)?);
    let rewards = model.rewards(&texts, &Pass::evaluation()).into_data();
    Ok(rewards.iter::<f32>().next().unwrap_or(f32::NAN))
}
