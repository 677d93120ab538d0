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
  image_text            input_ids [attention_mask] and pixel_values, of which row n is a pair
  captioning            pixel_values and input_ids [attention_mask] [labels]; row n of input_ids is read with image n
  transcription         input_features, F32 [rows, n_mels, frames] decoder_input_ids [labels]
  ctc                   input_values, F32 [rows, samples], normalised as in training [attention_mask] [labels: tokens, -100 behind them]

attention_mask is 1 at the tokens of a row and 0 behind them. token_type_ids are read where the model has segments.
labels of causal_lm are the input_ids themselves, shifted by the command; -100 is not scored. Without decoder_input_ids,
a decoder reads labels shifted right behind the run's token of the beginning. A decoder that translates alone reads a row
of input_ids, up to the end of its mask, and then decoder_input_ids; its hidden states and attention weights are those of
such rows.

Outputs, F32: logits (of question_answering start_logits and end_logits, of text_embedding sentence_embedding, of image_text image_embeds and text_embeds, of length 1), last_hidden_state, encoder_last_hidden_state, pooler_output, seq_relationship_logits, sop_logits, as
the model has them, and loss, the mean cross-entropy against labels (of regression the mean squared distance), when they
are given. Positions behind a row's tokens
hold numbers without meaning. hidden_states.0 are the embeddings, hidden_states.N what block N gives; the last of them is
behind the last norm, but not in vision transformers and not where a reversible stack puts its streams side by side: there
all are the second stream. An encoder-decoder has encoder_hidden_states.N, decoder_hidden_states.N,
encoder_attentions.N, decoder_attentions.N and cross_attentions.N.

grad.PARAMETER is the gradient of loss by each parameter, named as in the checkpoint, frozen ones included, without dropout;
it is zero where loss does not depend on the parameter.";

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
            "--attentions: the model (kind = \"{}\") {why}; leave it out",
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
                "--attentions: [model.{key}] (kind = \"{}\") {why}: the other network's weights alone are written",
                network.kind()
            ));
        }
    }
}
