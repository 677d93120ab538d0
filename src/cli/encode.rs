//! `formwork encode`: computes embeddings of texts, images or recordings from the hidden states of a run.

use super::inputs::{InputLines, note_missing_neighbours, to_text};
use super::output;
use crate::data::batch::Item;
use crate::data::{images, speech};
use crate::device::DeviceName;
use crate::error::{Error, Fault, Result};
use crate::experiment::encode::{self, Format, Pool, Request, VectorsFile};
use crate::experiment::example;
use crate::experiment::open::OpenedRun;
use crate::experiment::run_contents::CheckpointChoice;
use crate::files;
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};

/// Help text on how inputs are read and embeddings are written.
const ABOUT: &str = "\
A run on texts reads text files with one text per line; a run on images reads PNG and JPEG files, and a run on samples of recordings
WAV and FLAC files. Texts get the special tokens of the run's tokenizer (for a language model, none); texts and recordings are
truncated to the length that the run was trained on. A run that compares
two texts (task.towers) encodes each text separately. In an encoder-decoder, the encoder is read. A run of text_embedding returns
the embeddings that it was trained to make, of length 1 unless normalize = false. A run of image_text reads images (.png, .jpg,
.jpeg) and text files, and returns the embeddings that it compares.

cls   the state of the class token, or of the special token at the beginning of a text (`first` in [task] pooling);
mean  the mean over all tokens, including special tokens, over all patches, or over all frames of a recording;
max   the maximum of each component over all tokens, patches or frames;
last  the state of the last token or frame;
none  the states of all positions.

X.safetensors contains `embeddings` [inputs, width], X.npy the same array, X.jsonl one line {\"input\": …, \"vector\": […]} per input.
With --pool none, `embeddings` has the shape [inputs, positions, width], with zeros after the positions of an input; `lengths`
contains the number of positions of each input; a JSON line has \"vectors\".";

/// `formwork encode`.
#[derive(Debug, Args)]
#[command(after_long_help = ABOUT)]
pub struct EncodeArgs {
    /// The run folder.
    #[arg(value_parser = super::flags::run_folder())]
    run: PathBuf,
    /// Files of texts, one per line, - for standard input; or images: PNG or JPEG; or recordings: WAV or FLAC.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Index of the hidden states, as in `infer`: 0 for the embeddings, then one after each block (in a Swin Transformer after
    /// each stage and its patch merging). When absent, the output of the final norm, which in text models equals the last
    /// index.
    #[arg(long, value_name = "L")]
    layer: Option<usize>,
    /// How hidden states are reduced to an embedding; when absent, the embedding that a run of text_embedding or image_text
    /// produces, the class token for images, otherwise the mean.
    #[arg(long, value_enum)]
    pool: Option<PoolName>,
    /// Normalise each vector to length 1, so that products of two are cosines.
    #[arg(long)]
    normalize: bool,
    /// Output file: .safetensors, .npy or .jsonl; written completely or not at all.
    #[arg(long, value_name = "X.safetensors|.jsonl|.npy")]
    out: PathBuf,
    /// Inputs per forward pass; the run's evaluation batch size when absent.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    batch_size: Option<u32>,
    /// The checkpoint to use: best, latest, a step, or average:N for the mean of the newest N.
    #[arg(long, value_name = "WHICH", default_value = "best")]
    checkpoint: CheckpointChoice,
    /// Where to compute; the run's device when absent.
    #[arg(long, value_name = "DEVICE", value_parser = DeviceName::parse_flag)]
    device: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PoolName {
    // The alias is its name in [task] pooling.
    #[value(alias = "first")]
    Cls,
    Mean,
    Max,
    Last,
    None,
}

impl From<PoolName> for Pool {
    fn from(name: PoolName) -> Self {
        match name {
            PoolName::Cls => Self::Class,
            PoolName::Mean => Self::Mean,
            PoolName::Max => Self::Max,
            PoolName::Last => Self::Last,
            PoolName::None => Self::None,
        }
    }
}

/// An input with its name.
type NamedInput = (String, Item);

/// Runs `formwork encode`.
///
/// # Errors
/// If the run reads none of the files; if a text cannot be encoded; if there is no such layer; if the output cannot be written.
pub fn run(args: EncodeArgs) -> Result<()> {
    let format = Format::of(&args.out)?;
    files::require_folder_of(&args.out)?;
    for file in &args.files {
        files::require_distinct(("--out", &args.out), ("FILE", file))?;
    }
    let opened = super::open_run::open(&args.run, args.checkpoint, args.device.as_deref())?;
    note_missing_neighbours(&opened.experiment.model);
    let pool = args
        .pool
        .map_or_else(|| encode::default_pooling(&opened, args.layer), Into::into);
    encode::require(&opened, pool, args.layer)?;
    let (names, items): (Vec<String>, Vec<Item>) = inputs(&args, &opened)?.into_iter().unzip();
    let request = Request {
        layer: args.layer,
        pool,
        normalize: args.normalize || (args.pool.is_none() && encode::normalizes(&opened)),
        batch_size: args
            .batch_size
            .map_or(opened.experiment.train.eval_batch_size(), |n| n as usize),
    };
    let positions = items.iter().map(|item| encode::positions(&opened, item));
    let lengths = (pool == Pool::None).then(|| positions.collect());
    let mut file = VectorsFile::create(&args.out, format, items.len(), lengths)?;
    let mut width = 0;
    encode::encode(&opened, &items, &request, &mut |number, vectors| {
        width = vectors.width;
        file.add(&names[number], &vectors)
    })?;
    file.finish()?;
    output::line(format!(
        "{}: vectors of {width} numbers for inputs 1 to {}",
        args.out.display(),
        items.len()
    ))
}

/// Reads all inputs before the first pass.
fn inputs(args: &EncodeArgs, opened: &OpenedRun) -> Result<Vec<NamedInput>> {
    let mut all = Vec::new();
    let mut cut = 0;
    for file in &args.files {
        if let Some(item) = image(opened, file).map_err(Error::into_usage_error)? {
            all.push((file.display().to_string(), item));
            continue;
        }
        let recording = example::from_recording(opened, file).map_err(Error::into_usage_error)?;
        if let Some((item, is_cut)) = recording {
            cut += usize::from(is_cut);
            all.push((file.display().to_string(), item));
            continue;
        }
        require_texts(file)?;
        let lines = InputLines::open(file).map_err(Error::into_usage_error)?;
        let name = lines.name();
        for (line, number) in lines.zip(1..) {
            let at = |error: Error| fault(Path::new(&name), number, error.to_string());
            let line = to_text(line.map_err(Error::into_usage_error)?).map_err(at)?;
            let (item, is_cut) = example::from_single_text(opened, &line).map_err(at)?;
            cut += usize::from(is_cut);
            all.push((line, item));
        }
    }
    if all.is_empty() {
        return Err(Error::usage("the files contain no lines"));
    }
    if cut > 0 {
        note_truncated(opened, cut);
    }
    Ok(all)
}

/// Notes that inputs are longer than the run reads.
fn note_truncated(opened: &OpenedRun, count: usize) {
    let (inputs, most) = match opened.shape.speech {
        Some(speech) => ("recordings", format!("{} s", speech::seconds(speech))),
        None => ("texts", format!("{} tokens", opened.shape.context)),
    };
    let which = match count {
        1 => format!("1 of the {inputs} is truncated: it has"),
        _ => format!("{count} of the {inputs} are truncated: they have"),
    };
    output::note(format!(
        "{which} more than {most}, the maximum that the model was trained on"
    ));
}

/// Returns an error for a file that contains JSON according to its name, packed or not: braces and quotes would be encoded,
/// too.
fn require_texts(file: &Path) -> Result<()> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let mut endings = name.split('.').skip(1);
    match endings.any(|part| ["jsonl", "ndjson", "json"].contains(&part)) {
        false => Ok(()),
        true => Err(Error::usage(format!(
            "{}: encode reads one text per line, but the lines of this file are JSON; extract the texts into a separate file, \
             for example with jq -r .text",
            file.display()
        ))),
    }
}

fn fault(file: &Path, line: usize, message: impl Into<String>) -> Error {
    Error::Invalid(vec![Fault::at(file, line, message)])
}

/// Reads the image in a file, for a run of images, or of sequences of grey values (which has no tokenizer).
fn image(opened: &OpenedRun, file: &Path) -> Result<Option<Item>> {
    let both = opened.model.networks().image_text.is_some();
    if opened.shape.image.is_some() && (!both || images::is_image(file)) {
        return example::from_image(opened, file).map(Some);
    }
    if both && images::is_other_image(file) {
        return Err(Error::usage(format!(
            "{} is not a PNG or JPEG file; convert it",
            file.display()
        )));
    }
    match opened.tokenizers.text {
        Some(_) => Ok(None),
        None => Ok(opened.experiment.data.read_sequence(file)?.map(Item::Text)),
    }
}
