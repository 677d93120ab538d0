//! Arrow IPC, as a stream of messages (as in Hugging Face's caches) or as a file with an index at its end.
//!
//! A file is a stream after eight bytes, so both are read as streams (Arrow columnar format, section "IPC
//! File Format"). The library allocates as many bytes as a message claims to have, so lengths are checked
//! against the file first.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};

use arrow_ipc::reader::StreamReader;
use arrow_ipc::{Message, RecordBatch, root_as_message};

/// The first bytes of a file with an index.
const MAGIC: &[u8; 8] = b"ARROW1\0\0";
/// Marker before the length of a message.
const CONTINUATION_MARKER: u32 = u32::MAX;
/// Maximum unpacked size of a compressed buffer, as a multiple of the file's size, unless it is below
/// `ALWAYS`.
const MOST_UNPACKED: u64 = 100;
/// Unpacked size in bytes that any buffer may have.
const ALWAYS: u64 = 64 << 20;

/// Opens a reader of the record batches, from the first message on.
pub(super) fn reader(mut file: File) -> Result<StreamReader<BufReader<File>>, String> {
    let start = start(&mut file)?;
    file.seek(SeekFrom::Start(start)).map_err(text)?;
    StreamReader::try_new(BufReader::new(file), None).map_err(text)
}

fn text(e: impl std::fmt::Display) -> String {
    e.to_string()
}

/// Returns the position of the first message.
fn start(file: &mut File) -> Result<u64, String> {
    let mut first = [0; 8];
    file.seek(SeekFrom::Start(0)).map_err(text)?;
    file.read_exact(&mut first)
        .map_err(|_| "it is empty or truncated".to_owned())?;
    Ok(if &first == MAGIC { 8 } else { 0 })
}

/// Returns an error if a message claims to be longer than the file, or a buffer to unpack to more than
/// `MOST_UNPACKED` allows.
pub(super) fn check_lengths(file: &mut File) -> Result<(), String> {
    let length = file.metadata().map_err(text)?.len();
    let mut at = start(file)?;
    while let Some((body, message)) = message(file, at, length)? {
        let message = root_as_message(&message).map_err(text)?;
        let bytes = u64::try_from(message.bodyLength()).unwrap_or(u64::MAX);
        let end = body.checked_add(bytes).filter(|end| *end <= length);
        let Some(end) = end else {
            return Err(format!(
                "a message at byte {at} is longer than the file: cut short or damaged"
            ));
        };
        if let Some(batch) = batch(&message) {
            check_buffers(file, &batch, body, bytes, length)?;
        }
        at = end;
    }
    Ok(())
}

/// Returns the position of a message's body, and the message's metadata; `None` at the end.
fn message(file: &mut File, mut at: u64, length: u64) -> Result<Option<(u64, Vec<u8>)>, String> {
    let mut word = |at: &mut u64| -> Result<Option<u32>, String> {
        if *at + 4 > length {
            return Ok(None);
        }
        let mut bytes = [0; 4];
        file.seek(SeekFrom::Start(*at)).map_err(text)?;
        file.read_exact(&mut bytes).map_err(text)?;
        *at += 4;
        Ok(Some(u32::from_le_bytes(bytes)))
    };
    let first = word(&mut at)?;
    let size = match first {
        Some(CONTINUATION_MARKER) => word(&mut at)?,
        other => other,
    };
    let Some(size) = size.filter(|size| *size > 0) else {
        return Ok(None);
    };
    let size = u64::from(size);
    if at + size > length {
        return Err(format!(
            "a message at byte {at} is longer than the file: cut short or damaged"
        ));
    }
    let mut described = vec![0; size as usize];
    file.seek(SeekFrom::Start(at)).map_err(text)?;
    file.read_exact(&mut described).map_err(text)?;
    Ok(Some((at + size, described)))
}

fn batch<'a>(message: &Message<'a>) -> Option<RecordBatch<'a>> {
    let dictionary = || message.header_as_dictionary_batch()?.data();
    message.header_as_record_batch().or_else(dictionary)
}

fn check_buffers(
    file: &mut File,
    batch: &RecordBatch<'_>,
    body: u64,
    bytes: u64,
    length: u64,
) -> Result<(), String> {
    let most = length.saturating_mul(MOST_UNPACKED).max(ALWAYS);
    for buffer in batch.buffers().iter().flatten() {
        let (from, size) = (buffer.offset(), buffer.length());
        let (Ok(from), Ok(size)) = (u64::try_from(from), u64::try_from(size)) else {
            return Err("a buffer has a negative length: the file is damaged".into());
        };
        if from.checked_add(size).is_none_or(|end| end > bytes) {
            return Err("a buffer extends beyond its message: the file is damaged".into());
        }
        if batch.compression().is_some() && size >= 8 {
            let mut unpacked = [0; 8];
            file.seek(SeekFrom::Start(body + from)).map_err(text)?;
            file.read_exact(&mut unpacked).map_err(text)?;
            // −1 marks an uncompressed buffer.
            let unpacked = i64::from_le_bytes(unpacked);
            if unpacked != -1 && u64::try_from(unpacked).map_or(true, |n| n > most) {
                return Err(format!(
                    "a buffer would unpack to {unpacked} bytes, but at most {most} are allowed: the file is damaged"
                ));
            }
        }
    }
    Ok(())
}
