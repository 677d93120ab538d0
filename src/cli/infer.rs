//! `formwork infer`: runs a model as a function from one safetensors file to another.

use super::inputs::note_missing_neighbours;
use super::output;
use crate::error::{Error, Result};
use crate::experiment::infer::{self, GRADIENT, Outputs, Request};
use crate::experiment::run_contents::CheckpointChoice;
use crate::files;
use crate::model::ModelConfig;
use crate::nn::record::RecordSelection;
use clap::Args;
use std::path::PathBuf;

/// Help text that explains each array.
const ABOUT: &str = "\
Inputs, batch first, integers as I32 or I64:
  causal_lm             input_ids [attention_mask] [labels]
  masked_lm             input_ids [attention_mask] [token_type_ids] [labels] [next_sentence_label | sentence_order_label]
  permuted_lm           input_ids [attention_mask] [token_type_ids] [labels]
  replaced_token        input_ids [attention_mask] [token_type_ids] [labels]
  text_classification   input_ids [attention_mask] [token_type_ids] [labels: classes, one a row]
  multi_label_classification  input_ids [attention_mask] [token_type_ids] [labels: F32, for each class of a row 1 or 0]
  token_classification  input_ids [attention_mask] [token_type_ids] [labels: tags, one a token]
  regression            input_ids [attention_mask] [token_type_ids] [labels: F32 numbers, one a row]
  reward                input_ids [attention_mask] [token_type_ids]
  text_embedding        input_ids [attention_mask] [token_type_ids]
  question_answering    input_ids [attention_mask] [token_type_ids] [start_positions end_positions: one a row]
  translation           input_ids [attention_mask] decoder_input_ids [decoder_attention_mask] [labels]
  image_classification  pixel_values, F32 [rows, channels, height, width], normalised as in training [labels]
  image_text            input_ids [attention_mask] and pixel_values; the two rows n are a pair
  captioning            pixel_values and input_ids [attention_mask] [labels]; row n of input_ids belongs to image n
  transcription         input_features, F32 [rows, n_mels, frames] decoder_input_ids [labels]
  ctc                   input_values, F32 [rows, samples], normalised as in training [attention_mask] [labels: tokens, then -100]

attention_mask is 1 at the tokens of a row and 0 after them. token_type_ids are used if the model has segments.
labels of causal_lm are the input_ids themselves; the command shifts them; -100 is not scored. Without decoder_input_ids,
a decoder reads the labels, shifted right after the run's begin token. A decoder-only translation model reads a row of
input_ids, up to the end of its mask, followed by decoder_input_ids; its hidden states and attention weights are those of
such rows.

Outputs, F32, as far as the model has them: logits (question_answering: start_logits and end_logits; text_embedding:
sentence_embedding; image_text: image_embeds and text_embeds, of length 1), last_hidden_state, encoder_last_hidden_state,
pooler_output, seq_relationship_logits, sop_logits; and, if labels are given, loss, the mean cross-entropy (regression: the mean
squared error). Values at positions after a row's tokens are undefined. hidden_states.0 are the embeddings, hidden_states.N is the
output of block N; the last one is taken after the final norm, except in vision transformers and in reversible stacks that
concatenate their streams: there, all of them are the second stream. An encoder-decoder has encoder_hidden_states.N,
decoder_hidden_states.N, encoder_attentions.N, decoder_attentions.N and cross_attentions.N.

grad.PARAMETER is the gradient of loss with respect to each parameter, named as in the checkpoint, including frozen parameters,
without dropout; it is zero if loss does not depend on the parameter.";

/// `formwork infer`.
#[derive(Debug, Args)]
#[command(after_long_help = ABOUT)]
pub struct InferArgs {
    /// The run folder.
    #[arg(value_parser = super::flags::run_folder())]
    run: PathBuf,
    /// A safetensors file of arrays with the names of Hugging Face models; --help lists them.
    #[arg(long, value_name = "IN.safetensors")]
    inputs: PathBuf,
    /// Output file in safetensors format; written completely or not at all.
    #[arg(long, value_name = "OUT.safetensors")]
    outputs: PathBuf,
    /// Also write the hidden states of every layer: hidden_states.N.
    #[arg(long)]
    hidden_states: bool,
    /// Also write the attention weights of every layer: attentions.N, cross_attentions.N.
    #[arg(long)]
    attentions: bool,
    /// Also write the gradient of the mean cross-entropy against `labels` by every parameter: grad.PARAMETER.
    #[arg(long)]
    gradients: bool,
    /// Rows per forward pass; the run's evaluation batch size when absent.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    batch_size: Option<u32>,
    /// The checkpoint to use: best, latest, a step, or average:N for the mean of the newest N.
    #[arg(long, value_name = "WHICH", default_value = "best")]
    checkpoint: CheckpointChoice,
    /// Where to compute; the run's device when absent.
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
}

/// Runs `formwork infer`.
///
/// # Errors
/// If the run cannot be opened, its model cannot read the inputs, or outputs cannot be written.
pub fn run(args: InferArgs) -> Result<()> {
    files::require_distinct(("--outputs", &args.outputs), ("--inputs", &args.inputs))?;
    files::require_folder_of(&args.outputs)?;
    let device = args.device.as_deref();
    let opened = match args.gradients {
        true => super::open_run::open_tracked(&args.run, args.checkpoint, device)?,
        false => super::open_run::open(&args.run, args.checkpoint, device)?,
    };
    let model = &opened.experiment.model;
    if let (true, Some(why)) = (args.attentions, model.no_weights_reason()) {
        return Err(Error::usage(format!(
            "--attentions: the model (kind = \"{}\") {why}; remove it",
            model.kind()
        )));
    }
    if args.attentions {
        note_missing_attentions(model);
    }
    note_missing_neighbours(model);
    let inputs = infer::inputs(&opened, &args.inputs, None)?;
    let (tokens, trained) = (inputs.tokens(), opened.shape.context);
    if tokens > trained {
        output::note(format!(
            "rows of {tokens} tokens are longer than the {trained} that the model was trained on"
        ));
    }
    let request = Request {
        keep: RecordSelection {
            hidden_states: args.hidden_states,
            attentions: args.attentions,
            ..RecordSelection::default()
        },
        gradients: args.gradients,
        batch_size: args
            .batch_size
            .map_or(opened.experiment.train.eval_batch_size(), |n| n as usize),
    };
    let mut outputs = Outputs::create(&args.outputs)?;
    infer::infer_into(&opened, &inputs, &request, &mut outputs)?;
    let gradients = outputs
        .shapes()
        .filter(|(name, _)| name.starts_with(GRADIENT));
    let gradients = gradients.count();
    let mut lines: Vec<String> = outputs
        .shapes()
        .filter(|(name, _)| !name.starts_with(GRADIENT))
        .map(|(name, shape)| format!("{name} {shape:?}"))
        .collect();
    if gradients > 0 {
        lines.push(format!("{GRADIENT}* of {gradients} parameters"));
    }
    outputs.finish()?;
    lines.into_iter().try_for_each(output::line)
}

/// Notes networks within a model that have no attention weights to write, if the other network has some.
fn note_missing_attentions(model: &ModelConfig) {
    for (key, network) in model.parts().into_iter().flatten() {
        if let Some(why) = network.no_weights_reason() {
            output::note(format!(
                "--attentions: [model.{key}] (kind = \"{}\") {why}; only the other network's weights are written",
                network.kind()
            ));
        }
    }
}
