//! The features of files, made as they are first asked for and kept while there is room.

use crate::data::batch::{SpeechItem, SpeechShape};
use crate::data::speech::{HOP, Heard, Hearing, decode};
use crate::error::Result;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Bytes of features that the recordings of a split keep at most: some 20 h of speech with 80 bands.
const ROOM: usize = 2 << 30;

/// Recordings of one split. What one is does not depend on what is kept.
pub(super) struct Kept {
    recordings: Vec<(PathBuf, OnceLock<Arc<Heard>>)>,
    hearing: Hearing,
    taken: AtomicUsize,
}

impl Kept {
    pub(super) fn new(recordings: impl Iterator<Item = PathBuf>, shape: SpeechShape) -> Self {
        Self {
            recordings: recordings.map(|path| (path, OnceLock::new())).collect(),
            hearing: Hearing::new(shape),
            taken: AtomicUsize::new(0),
        }
    }

    /// The input for what was heard of a recording.
    pub(super) fn input(&self, heard: &Heard) -> SpeechItem {
        self.hearing.input(heard)
    }

    /// What a network hears of a recording, without the silence behind it.
    pub(super) fn get(&self, number: usize) -> Result<Arc<Heard>> {
        let (path, place) = &self.recordings[number];
        if let Some(kept) = place.get() {
            return Ok(Arc::clone(kept));
        }
        let most = self.hearing.shape().n_frames * HOP;
        let made = Arc::new(self.hearing.heard(&decode::begun(path, most)?));
        let bytes = made.bytes();
        let fits = self.taken.fetch_add(bytes, Ordering::Relaxed) + bytes <= ROOM;
        // Another thread may have made the same.
        if !fits || place.set(Arc::clone(&made)).is_err() {
            self.taken.fetch_sub(bytes, Ordering::Relaxed);
        }
        Ok(made)
    }
}
