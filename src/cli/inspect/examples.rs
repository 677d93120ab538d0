//! A run of any task and the examples to inspect it with: those of its validation split, or a given one.

use super::{InspectArgs, output};
use crate::data::batch::{Batch, Item};
use crate::data::{Source, Split, loader};
use crate::error::{Error, Result};
use crate::experiment::data_files::{self, ChangedFiles};
use crate::experiment::example::{self, SecondText};
use crate::experiment::open::{self, OpenedRun};
use crate::inspect::weights::Layout;
use crate::task::InferenceTask;
use crate::tokenizer::Tokenizer;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A run under inspection.
pub(super) struct InspectedRun {
    pub folder: PathBuf,
    pub opened: OpenedRun,
}

/// A single example for inspection.
pub(super) struct Example {
    /// Name of the example in results.
    pub name: String,
    pub item: Item,
}

impl InspectedRun {
    /// Opens the only run that an aspect inspects.
    pub fn open(args: &InspectArgs, runs: &[PathBuf], aspect: &str) -> Result<Self> {
        let folder = only_run(runs, aspect)?;
        let opened = open::open(folder, args.checkpoint, args.device.as_deref())?;
        let towers = opened.experiment.model.parts();
        // Filters belong to the one network that reads images.
        if let Some(towers) = towers.filter(|_| aspect != "filters") {
            let [(image, _), (text, _)] = towers;
            return Err(Error::usage(format!(
                "inspect {aspect}: {} reads {image}s and {text}s with separate networks, but this aspect needs a single network; \
                 `inspect filters` shows the filters of its image network",
                folder.display()
            )));
        }
        Ok(Self {
            folder: folder.to_path_buf(),
            opened,
        })
    }

    /// The network as a function of arrays.
    pub fn network(&self) -> Result<&dyn InferenceTask> {
        let networks = self.opened.model.networks();
        networks.infers.ok_or_else(|| {
            let (folder, task) = (self.folder.display(), &self.opened.experiment.task);
            Error::usage(match task.facts().has_towers() {
                true => format!(
                    "{folder} reads two texts separately (task.towers); inspect needs a network that reads one input"
                ),
                false => format!(
                    "{folder} was trained for {}, which computes no scores for an input; inspect needs a network that does",
                    task.kind()
                ),
            })
        })
    }

    /// The layout of the positions of its examples.
    pub fn layout(&self) -> Layout {
        let image = self.opened.shape.image;
        let image = image.map(|[_, height, width]| [height, width]);
        Layout::of(&self.opened.experiment.model, image)
    }

    /// The indices, from 0, of a network's layers that mix positions; empty for a network that is part of another one.
    pub fn mixing_layers(&self, network: &str) -> Vec<usize> {
        let Some(transformer) = self.opened.experiment.model.transformer() else {
            return Vec::new();
        };
        let [first, second] = transformer.stacks;
        let depth = match network {
            "" | "encoder" => first,
            "decoder" => second,
            _ => None,
        };
        let Some(depth) = depth else {
            return Vec::new();
        };
        let mixes = |layer: &usize| {
            let block = transformer.stack.block(&depth, *layer);
            block.attention.is_some() || block.mixer.is_some()
        };
        (0..depth.blocks()).filter(mixes).collect()
    }

    /// The validation split, unchanged since the run began.
    pub fn source(&self) -> Result<Arc<dyn Source>> {
        let notice = |text: &str| output::note(text);
        let (folder, opened) = (&self.folder, &self.opened);
        let data = data_files::read_run_data(folder, opened, ChangedFiles::REFUSED, notice, Ok)?;
        Ok(data.source(Split::Valid)?.clone())
    }

    /// Examples spread evenly over the validation split, named by their numbers.
    pub fn examples(&self, count: usize) -> Result<Vec<Example>> {
        let source = self.source()?;
        let one = |number: u64| -> Result<Example> {
            Ok(Example {
                name: number.to_string(),
                item: longest_document(source.get(number, number)?),
            })
        };
        let all = spread(source.len(), count).map(one);
        let all = all.collect::<Result<Vec<_>>>()?;
        match all.is_empty() {
            true => Err(empty_split()),
            false => Ok(all),
        }
    }

    /// As [`Self::examples`], as batches of one.
    pub fn batches(&self, count: usize) -> Result<Vec<Batch>> {
        let source = self.source()?;
        let numbers = spread(source.len(), count);
        numbers
            .map(|number| {
                let mut one = loader::eval_share(
                    source.clone(),
                    loader::EvalSize::of(1),
                    number as usize,
                    usize::MAX,
                );
                one.next().unwrap_or_else(|| Err(empty_split()))
            })
            .collect()
    }

    /// The example that the flags name, if any.
    pub fn flag_example(&self, args: &InspectArgs) -> Result<Option<Example>> {
        let (name, item) = match (args.example, &args.text, &args.image) {
            (Some(number), _, _) => {
                let source = self.source()?;
                if number >= source.len() as u64 {
                    return Err(Error::usage(format!(
                        "--example {number}: the validation split has the examples 0 to {}",
                        source.len().saturating_sub(1)
                    )));
                }
                (
                    number.to_string(),
                    longest_document(source.get(number, number)?),
                )
            }
            (None, Some(text), _) => {
                let beside = args
                    .pair
                    .as_deref()
                    .map_or(SecondText::Own, SecondText::Given);
                let read = example::from_text(&self.opened, text, beside);
                let (item, is_cut) = read.map_err(Error::into_usage_error)?;
                if is_cut {
                    output::note(format!(
                        "the text is truncated: it has more than the {} tokens that the model was trained on",
                        self.opened.shape.context
                    ));
                }
                (text.clone(), item)
            }
            (None, None, Some(path)) => {
                let item = example::from_image(&self.opened, path);
                (
                    path.display().to_string(),
                    item.map_err(Error::into_usage_error)?,
                )
            }
            (None, None, None) => return Ok(None),
        };
        Ok(Some(Example { name, item }))
    }

    /// The tokens of an example: of the single input that a network reads, or of both sides of a pair.
    pub fn tokens(&self, item: &Item) -> [Vec<String>; 2] {
        let names = |ids: &[i32], tokenizer: Option<&Tokenizer>| -> Vec<String> {
            ids.iter().map(|id| name(*id, tokenizer)).collect()
        };
        let tokenizers = &self.opened.tokenizers;
        match item {
            Item::Text(text) => [names(&text.inputs, tokenizers.text.as_ref()), Vec::new()],
            Item::Pair(pair) => {
                let read = pair.target.len().saturating_sub(1);
                [
                    names(&pair.source, tokenizers.text.as_ref()),
                    names(&pair.target[..read], tokenizers.target_tokenizer()),
                ]
            }
            Item::Captioned(both) => [names(&both.caption, tokenizers.text.as_ref()), Vec::new()],
            Item::Spoken(both) => [
                names(&both.transcript, tokenizers.text.as_ref()),
                Vec::new(),
            ],
            Item::Image(_) => [self.positions(), Vec::new()],
        }
    }

    /// The names of an image's positions: the tokens before the patches, then each patch by its row and column, from 0.
    fn positions(&self) -> Vec<String> {
        let Layout::Grid { rows, cols, .. } = self.layout() else {
            return Vec::new();
        };
        let before = self.opened.experiment.model.prefix_token_names();
        let patches = (0..rows * cols).map(|at| format!("{},{}", at / cols, at % cols));
        before.into_iter().chain(patches).collect()
    }
}

/// The only run that an aspect inspects.
pub(super) fn only_run<'a>(runs: &'a [PathBuf], aspect: &str) -> Result<&'a Path> {
    match runs {
        [one] => Ok(one),
        _ => Err(Error::usage(format!(
            "inspect {aspect} accepts one run, not {}",
            runs.len()
        ))),
    }
}

fn spread(len: usize, count: usize) -> impl Iterator<Item = u64> {
    let count = count.min(len);
    (0..count).map(move |number| (number * len / count) as u64)
}

/// The error that the validation split is empty.
pub(super) fn empty_split() -> Error {
    Error::usage("the validation split has no examples")
}

/// Reduces a packed text to a single document: the longest one.
fn longest_document(item: Item) -> Item {
    let Item::Text(mut text) = item else {
        return item;
    };
    if let Some(documents) = text.documents.take() {
        let runs = documents.chunk_by(|a, b| a == b);
        let (mut from, mut longest) = (0, 0..0);
        for run in runs {
            if run.len() > longest.len() {
                longest = from..from + run.len();
            }
            from += run.len();
        }
        text.segments = text.segments.map(|all| all[longest.clone()].to_vec());
        text.inputs = text.inputs[longest].to_vec();
    }
    Item::Text(text)
}

/// A token, or its id if it stands for no text.
fn name(id: i32, tokenizer: Option<&Tokenizer>) -> String {
    let known = tokenizer.and_then(|tokenizer| tokenizer.token(u32::try_from(id).ok()?));
    known.unwrap_or_else(|| id.to_string())
}

/// A token as shown in figures and tables: a word's beginning as `_`, line breaks written out.
pub(super) fn printable(token: &str) -> String {
    let shown = token.replace(['Ġ', '▁'], "_").replace(['Ċ', '\n'], "\\n");
    match shown.trim().is_empty() {
        true => "_".into(),
        false => shown,
    }
}

/// Tokens as shown in figures.
pub(super) fn printable_tokens(tokens: &[String]) -> Vec<String> {
    tokens.iter().map(|token| printable(token)).collect()
}
