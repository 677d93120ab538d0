//! The encoder that embeds text chunks for nearest-neighbour retrieval (`[data.retrieval] compare`): another run, frozen, as
//! RETRO uses BERT (Borgeaud et al. 2022, section 2.3).
//!
//! A chunk is passed as text, so the retrieving model and the encoder may have different tokenizers. The chunk's embedding is
//! the output that the encoder was trained for, or else the mean of its last hidden states.

use super::Experiment;
use super::encode::{self, Request};
use super::open::{self, OpenedRun};
use super::run_contents::{self, CheckpointChoice};
use crate::data::batch::Item;
use crate::data::retrieval::ChunkEmbedder;
use crate::data::{Chunking, SearchPath};
use crate::digest;
use crate::error::{Error, Result};
use crate::tokenizer::Tokenizer;
use crate::train::run_dir;
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Chunks per forward pass.
const ROWS: usize = 32;

/// Returns the retrieval settings of an experiment's model, with the encoder if chunks are compared by embeddings.
///
/// # Errors
/// If the encoder's run does not exist, or makes no text embeddings.
pub(super) fn chunking(experiment: &Experiment, places: &SearchPath) -> Result<Option<Chunking>> {
    let Some(model) = experiment.model.retrieval() else {
        return Ok(None);
    };
    let run = experiment
        .data
        .data_set()
        .retrieval()
        .and_then(|c| c.compare.run());
    let open = |run: &Path| {
        let opened = Encoder::open(&places.anchored(run), &experiment.train.device);
        let said = |error| Error::usage(format!("[data.retrieval.compare] run = {run:?}: {error}"));
        opened
            .map_err(said)
            .map(|encoder| Arc::new(encoder) as Arc<dyn ChunkEmbedder>)
    };
    let embedder = run.map(open).transpose()?;
    Ok(Some(Chunking {
        chunk: model.chunk,
        neighbours: model.neighbours,
        embedder,
    }))
}

/// A run that embeds text chunks.
struct Encoder {
    opened: Mutex<OpenedRun>,
    tokenizer: Tokenizer,
    fingerprint: String,
}

impl Encoder {
    fn open(folder: &Path, device: &str) -> Result<Self> {
        run_dir::require_run(folder)?;
        let opened = open::open_companion(folder, CheckpointChoice::Best, device)?;
        let Some(tokenizer) = opened.tokenizers.text.clone() else {
            return Err(Error::usage("the run does not read texts"));
        };
        let pool = encode::default_pooling(&opened, None);
        encode::require(&opened, pool, None)?;
        let chosen = run_contents::find_checkpoints(folder, CheckpointChoice::Best)?;
        let Some(weights) = chosen
            .last()
            .map(|checkpoint| checkpoint.evaluated_weights())
        else {
            unreachable!("a name is that of one checkpoint at least")
        };
        let file = File::open(&weights).map_err(Error::io("read", &weights))?;
        let (sum, _) = digest::sha256(file).map_err(Error::io("read", &weights))?;
        Ok(Self {
            fingerprint: format!("{} {}", digest::hex(&sum), tokenizer.fingerprint()),
            opened: Mutex::new(opened),
            tokenizer,
        })
    }
}

impl ChunkEmbedder for Encoder {
    fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    fn embed(&self, texts: &[String]) -> Result<Vec<f32>> {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let read = |text: &String| -> Result<Item> {
            let data = &opened.experiment.data;
            Ok(Item::Text(data.read_single(text, &self.tokenizer)?.0))
        };
        let items = texts.iter().map(read).collect::<Result<Vec<Item>>>()?;
        let request = Request {
            layer: None,
            pool: encode::default_pooling(&opened, None),
            normalize: false,
            batch_size: ROWS,
        };
        let mut all = Vec::new();
        encode::encode(&opened, &items, &request, &mut |_, vectors| {
            all.extend(vectors.values);
            Ok(())
        })?;
        Ok(all)
    }
}
