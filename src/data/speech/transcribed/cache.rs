//! Inputs of recordings, computed at first use and cached while there is room.

use crate::data::batch::{SpeechItem, SpeechShape};
use crate::data::speech::{HOP, SpeechInput, SpeechInputs, decode};
use crate::error::Result;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Maximum size in bytes of the inputs that a split caches: about 20 h of speech with 80 bands.
const MAX_CACHE_BYTES: usize = 2 << 30;

/// The recordings of a split. The result does not depend on what is cached.
pub(super) struct RecordingCache {
    recordings: Vec<(PathBuf, OnceLock<Arc<SpeechInput>>)>,
    inputs: SpeechInputs,
    used_bytes: AtomicUsize,
}

impl RecordingCache {
    pub(super) fn new(recordings: impl Iterator<Item = PathBuf>, shape: SpeechShape) -> Self {
        Self {
            recordings: recordings.map(|path| (path, OnceLock::new())).collect(),
            inputs: SpeechInputs::new(shape),
            used_bytes: AtomicUsize::new(0),
        }
    }

    /// Returns the input for a converted recording.
    pub(super) fn input(&self, heard: &SpeechInput) -> SpeechItem {
        self.inputs.input(heard)
    }

    /// Returns a converted recording, without the silence after it.
    pub(super) fn get(&self, number: usize) -> Result<Arc<SpeechInput>> {
        let (path, place) = &self.recordings[number];
        if let Some(kept) = place.get() {
            return Ok(Arc::clone(kept));
        }
        let most = self.inputs.shape().n_frames * HOP;
        let made = Arc::new(self.inputs.convert(&decode::leading_samples(path, most)?));
        let bytes = made.bytes();
        let fits = self.used_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes <= MAX_CACHE_BYTES;
        // Another thread may have cached the same recording.
        if !fits || place.set(Arc::clone(&made)).is_err() {
            self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        Ok(made)
    }
}
