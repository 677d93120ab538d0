//! The features of files, made as they are first asked for and kept while there is room.

use crate::data::batch::SpeechShape;
use crate::data::speech::{HOP, LogMel, Spectrum, decode};
use crate::error::Result;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Bytes of features that the recordings of a split keep at most: some 20 h of speech with 80 bands.
const ROOM: usize = 2 << 30;

/// Recordings of one split. What one is does not depend on what is kept.
pub(super) struct Kept {
    recordings: Vec<(PathBuf, OnceLock<Arc<Spectrum>>)>,
    log_mel: LogMel,
    shape: SpeechShape,
    taken: AtomicUsize,
}

impl Kept {
    pub(super) fn new(recordings: impl Iterator<Item = PathBuf>, shape: SpeechShape) -> Self {
        Self {
            recordings: recordings.map(|path| (path, OnceLock::new())).collect(),
            log_mel: LogMel::new(shape.n_mels),
            shape,
            taken: AtomicUsize::new(0),
        }
    }

    pub(super) fn shape(&self) -> SpeechShape {
        self.shape
    }

    /// The features of a recording without the silence behind it.
    pub(super) fn get(&self, number: usize) -> Result<Arc<Spectrum>> {
        let (path, place) = &self.recordings[number];
        if let Some(kept) = place.get() {
            return Ok(Arc::clone(kept));
        }
        let n_frames = self.shape.n_frames;
        let samples = decode::begun(path, n_frames * HOP)?;
        let made = Arc::new(self.log_mel.spectrum(&samples, n_frames));
        let bytes = made.bytes();
        let fits = self.taken.fetch_add(bytes, Ordering::Relaxed) + bytes <= ROOM;
        // Another thread may have made the same.
        if !fits || place.set(Arc::clone(&made)).is_err() {
            self.taken.fetch_sub(bytes, Ordering::Relaxed);
        }
        Ok(made)
    }
}
