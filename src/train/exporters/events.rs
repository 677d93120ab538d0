//! TensorBoard's event file: scalars `train/loss`, `valid/loss`, `gradient_norm/blocks.0` by step.
//!
//! A file is a sequence of records in TFRecord format: the length in 8 bytes, its masked CRC-32C, the data, its masked
//! CRC-32C. The data of each record is a protocol buffer `Event` (tensorflow/core/util/event.proto): wall time, step
//! and one of: the file's version, the start of a session, a summary of scalars. These few fields are encoded here: the
//! crates that write event files were last released in 2022, and bring a code generator's output for all of TensorBoard.
//!
//! A resumed run begins a new file from its journals and empties the old one. The new file opens with the start of a
//! session at step 0, which makes a running TensorBoard discard what it read of the old one. The old file stays, empty,
//! until the next time, since a reader whose file disappears never looks for another. Wall times are those of an
//! uninterrupted run that is at this point now.

use super::{Entry, Exporter};
use crate::error::{Error, Result};
use crate::train::{run_dir, symlinks};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The content of a record besides its time and step.
#[derive(Clone, Debug, PartialEq)]
pub enum RecordContent {
    /// Version of the format; the first record of a file.
    Version,
    /// A session starts; everything recorded before for this step and later ones is void.
    Start,
    /// Values by tag.
    Scalars(Vec<(String, f32)>),
}

/// Encodes a record as it is stored in the file; `wall_time` is in seconds since 1970.
pub fn record(wall_time: f64, step: u64, what: &RecordContent) -> Vec<u8> {
    let event = event(wall_time, step, what);
    let length = (event.len() as u64).to_le_bytes();
    let mut record = length.to_vec();
    record.extend(masked_crc(&length).to_le_bytes());
    record.extend(&event);
    record.extend(masked_crc(&event).to_le_bytes());
    record
}

/// Computes TFRecord's masked checksum, which may itself be stored in checksummed data.
fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
        .rotate_right(15)
        .wrapping_add(0xa282_ead8)
}

/// Field numbers of the messages, combined with the wire types of their values.
mod field {
    /// Integer with 7 bits per byte.
    const VARINT: u64 = 0;
    /// 8 bytes.
    const FIXED64: u64 = 1;
    /// A length followed by that many bytes.
    const BYTES: u64 = 2;
    /// 4 bytes.
    const FIXED32: u64 = 5;

    pub const EVENT_WALL_TIME: u64 = 1 << 3 | FIXED64;
    pub const EVENT_STEP: u64 = 2 << 3 | VARINT;
    pub const EVENT_FILE_VERSION: u64 = 3 << 3 | BYTES;
    pub const EVENT_SUMMARY: u64 = 5 << 3 | BYTES;
    pub const EVENT_SESSION_LOG: u64 = 7 << 3 | BYTES;
    pub const SESSION_LOG_STATUS: u64 = 1 << 3 | VARINT;
    pub const SUMMARY_VALUE: u64 = 1 << 3 | BYTES;
    pub const VALUE_TAG: u64 = 1 << 3 | BYTES;
    pub const VALUE_SIMPLE: u64 = 2 << 3 | FIXED32;
}

/// `SessionLog.SessionStatus.START`.
const START: u64 = 1;

fn event(wall_time: f64, step: u64, what: &RecordContent) -> Vec<u8> {
    let mut event = Vec::new();
    varint(&mut event, field::EVENT_WALL_TIME);
    event.extend(wall_time.to_le_bytes());
    if step > 0 {
        // Protocol buffers omit zeros.
        varint(&mut event, field::EVENT_STEP);
        varint(&mut event, step);
    }
    match what {
        RecordContent::Version => bytes(&mut event, field::EVENT_FILE_VERSION, b"brain.Event:2"),
        RecordContent::Start => {
            let mut log = Vec::new();
            varint(&mut log, field::SESSION_LOG_STATUS);
            varint(&mut log, START);
            bytes(&mut event, field::EVENT_SESSION_LOG, &log);
        }
        RecordContent::Scalars(values) => {
            let mut summary = Vec::new();
            for (tag, value) in values {
                let mut one = Vec::new();
                bytes(&mut one, field::VALUE_TAG, tag.as_bytes());
                varint(&mut one, field::VALUE_SIMPLE);
                one.extend(value.to_le_bytes());
                bytes(&mut summary, field::SUMMARY_VALUE, &one);
            }
            bytes(&mut event, field::EVENT_SUMMARY, &summary);
        }
    }
    event
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    varint(out, field);
    varint(out, value.len() as u64);
    out.extend(value);
}

/// The open file.
pub(super) struct EventFile {
    path: PathBuf,
    file: BufWriter<File>,
    /// Time at which training would have begun, had it never been interrupted, in seconds since 1970.
    began: f64,
    elapsed_s: f64,
}

impl EventFile {
    /// Creates a new file in a run folder, retiring the existing one; `elapsed_s` is the seconds of training so far.
    pub(super) fn create(root: &Path, elapsed_s: f64) -> Result<Self> {
        for old in run_dir::event_files(root)? {
            retire(&old)?;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default();
        let (seconds, nanos) = (now.as_secs(), now.subsec_nanos());
        // A name that sorts after those of earlier files: TensorBoard reads a folder's files in this order.
        let path = root.join(format!("{}{seconds:010}.{nanos:09}", run_dir::EVENTS));
        let file = File::create_new(&path).map_err(Error::io("create", &path))?;
        let mut events = Self {
            path,
            file: BufWriter::new(file),
            began: now.as_secs_f64() - elapsed_s,
            elapsed_s: 0.0,
        };
        events.append_record(0, &RecordContent::Version)?;
        events.append_record(0, &RecordContent::Start)?;
        Ok(events)
    }

    fn append_record(&mut self, step: u64, what: &RecordContent) -> Result<()> {
        let record = record(self.began + self.elapsed_s, step, what);
        let written = self.file.write_all(&record);
        written.map_err(Error::io("write", &self.path))
    }
}

/// Empties a file that a reader may have open, or deletes it if it is already empty.
fn retire(path: &Path) -> Result<()> {
    let file = symlinks::open_refusing_symlink(path)?;
    if file.metadata().map_err(Error::io("read", path))?.len() == 0 {
        return std::fs::remove_file(path).map_err(Error::io("delete", path));
    }
    file.set_len(0).map_err(Error::io("truncate", path))
}

impl Exporter for EventFile {
    fn write(&mut self, entry: &Entry) -> Result<()> {
        // A line without a time (of diagnostics) takes the time of the one before it.
        self.elapsed_s = entry.elapsed_s.unwrap_or(self.elapsed_s);
        let tag = |name: &String| match &entry.split {
            Some(split) => format!("{split}/{name}"),
            None => name.clone(),
        };
        let values = entry.values.iter();
        let scalars = values.map(|(name, value)| (tag(name), *value as f32));
        self.append_record(entry.step, &RecordContent::Scalars(scalars.collect()))
    }

    fn flush(&mut self) -> Result<()> {
        self.file.flush().map_err(Error::io("write", &self.path))
    }
}
