//! Reads tables and LibriSpeech's lines as recordings with their transcripts.

use super::TranscribedSpeechConfig;
use crate::data::described::{Described, Example};
use crate::data::files::{columnar, discovery, json_line, packed};
use crate::data::labelled::column::Column;
use crate::data::labelled::tables::{self, Format, Layout};
use crate::data::speech::decode;
use crate::data::{SearchPath, Split};
use crate::error::{Error, Result};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Usual names of a column of recordings, and of one of transcripts.
const RECORDING: [&str; 3] = ["file_name", "audio_filepath", "path"];
const TRANSCRIPT: [&str; 4] = ["transcription", "text", "sentence", "transcript"];
/// Endings of LibriSpeech's files of transcripts, and of its recordings.
const TRANSCRIPT_ENDING: &str = ".trans.txt";
const RECORDING_ENDING: [&str; 2] = ["flac", "wav"];

/// A recording with its transcript, as read from a file.
struct Row {
    recording: PathBuf,
    place: String,
    transcript: String,
}

impl TranscribedSpeechConfig {
    /// Returns an error if a key for tables is set, since there are none.
    fn no_table(&self) -> Result<()> {
        let given = [
            ("format", self.format.is_some()),
            ("quoting", self.quoting.is_some()),
            ("recording", self.recording.is_some()),
            ("transcript", self.transcript.is_some()),
        ];
        match given.into_iter().find(|(_, given)| *given) {
            None => Ok(()),
            Some((key, _)) => Err(Error::usage(format!(
                "[data] {key} has no effect: all transcripts are in LibriSpeech's *{TRANSCRIPT_ENDING}, whose lines contain the name of a recording \
                 and its transcript; remove it"
            ))),
        }
    }

    /// Whether a file holds transcripts, judged by its name; a folder may also hold recordings and other
    /// texts. A file that the path itself names (`named`) holds them if `format` tells its format.
    pub(super) fn is_table(&self, file: &Path, named: bool) -> bool {
        match Format::of(file) {
            Some(Format::Csv | Format::Jsonl) => true,
            Some(Format::Tsv) if is_lines(file) => true,
            Some(Format::Tsv) if packed::plain_name(file).ends_with(".tsv") => true,
            Some(Format::Tsv) | None => {
                named && self.format.is_some() && !decode::is_recording(file)
            }
        }
    }

    fn of_rows(&self, path: &Path, folder: &Path) -> Result<Vec<Row>> {
        let format = self.format.or_else(|| Format::of(path));
        let format = format.unwrap_or(Format::Csv);
        let names = names(path, format)?;
        let column = |given: &Option<Column>, usual: &[&str]| {
            let there = usual.iter().find(|name| names.iter().any(|n| n == *name));
            let name = there.or(usual.first()).copied().unwrap_or_default();
            given.clone().unwrap_or_else(|| Column::Name(name.into()))
        };
        let layout = Layout {
            format: Some(format),
            quoting: self.quoting,
            header: true,
            text: column(&self.transcript, &TRANSCRIPT),
            pair: None,
            label: column(&self.recording, &RECORDING),
            answer: "recording",
            several: None,
        };
        let rows = tables::read(path, &layout)?.into_iter();
        let rows = rows.map(|row| Row {
            recording: folder.join(&row.label),
            place: format!("{}:{}", path.display(), row.line),
            transcript: row.text,
        });
        Ok(rows.collect())
    }
}

impl Described for TranscribedSpeechConfig {
    const KIND: &'static str = "transcribed_speech";
    const INPUTS: [&'static str; 2] = ["recordings", "recording"];

    fn folder(&self) -> Option<&Path> {
        self.recordings.as_deref()
    }

    fn tables(&self, places: &SearchPath, path: &Path) -> Result<Vec<PathBuf>> {
        let place = places.resolve(path)?;
        let named = !place.is_dir();
        let mut all = discovery::expand(&[place])?;
        if !self.transcripts {
            all.retain(|file| decode::is_recording(file));
            return match all.is_empty() {
                false => Ok(all),
                true => Err(Error::usage(format!(
                    "[data] path = {}: there are no recordings, WAV or FLAC files",
                    path.display()
                ))),
            };
        }
        let columns = all.iter().find(|file| columnar::is_columnar(file)).cloned();
        let is_table = |file: &PathBuf| self.is_table(file, named);
        let tables: Vec<PathBuf> = all.into_iter().filter(is_table).collect();
        if !tables.is_empty() {
            return Ok(tables);
        }
        let shown = path.display();
        Err(Error::usage(match columns {
            Some(file) => format!(
                "[data] path = {shown}: {} is Parquet or Arrow; transcripts are read from CSV, TSV, JSONL or LibriSpeech's *{TRANSCRIPT_ENDING}, \
                 beside the files of recordings",
                file.display()
            ),
            None => format!(
                "[data] path = {shown}: there are no transcripts; they must be in metadata.csv or metadata.jsonl with the columns file_name and \
                 transcription, or in LibriSpeech's *{TRANSCRIPT_ENDING}"
            ),
        }))
    }

    fn of_table(&self, _split: Split, path: &Path, folder: &Path) -> Result<Vec<Example>> {
        if !self.transcripts {
            return Ok(vec![Example {
                file: path.to_path_buf(),
                place: path.display().to_string(),
                texts: vec![String::new()],
            }]);
        }
        let rows = match is_lines(path) {
            true => of_lines(path, folder)?,
            false => self.of_rows(path, folder)?,
        };
        let example = |row: Row| {
            let Row {
                recording,
                place,
                transcript,
            } = row;
            if transcript.trim().is_empty() {
                return Err(Error::run(format!("{place}: the transcript is empty")));
            }
            if !recording.is_file() {
                return Err(Error::run(format!(
                    "{place}: there is no recording {}; set `recordings` to the folder of the recordings",
                    recording.display()
                )));
            }
            Ok(Example {
                file: recording,
                place,
                texts: vec![transcript],
            })
        };
        rows.into_iter().map(example).collect()
    }

    fn keys_have_effect(&self, tables: &HashSet<PathBuf>) -> Result<()> {
        match self.transcripts && tables.iter().all(|table| is_lines(table)) {
            true => self.no_table(),
            false => Ok(()),
        }
    }
}

/// Whether a file holds LibriSpeech's lines, judged by its name.
fn is_lines(file: &Path) -> bool {
    packed::plain_name(file).ends_with(TRANSCRIPT_ENDING)
}

/// Returns the names of the columns of a table; of JSON lines, the fields of the first line.
fn names(path: &Path, format: Format) -> Result<Vec<String>> {
    let text = packed::text(path)?;
    let first = text.lines().next().unwrap_or_default();
    Ok(match format {
        Format::Jsonl => {
            // Its faults are reported when all lines are read.
            let object = json_line::object(first).unwrap_or_default();
            object.keys().cloned().collect()
        }
        Format::Csv | Format::Tsv => {
            let delimiter = if format == Format::Csv { b',' } else { b'\t' };
            let mut reader = csv::ReaderBuilder::new()
                .delimiter(delimiter)
                .has_headers(false)
                .from_reader(first.as_bytes());
            let record = reader.records().next().and_then(std::result::Result::ok);
            let cells = record.unwrap_or_default();
            cells.iter().map(|name| name.trim().to_owned()).collect()
        }
    })
}

/// Reads the recordings of a LibriSpeech file: lines of `ID TRANSCRIPT`, beside `ID.flac`.
fn of_lines(path: &Path, folder: &Path) -> Result<Vec<Row>> {
    let text = packed::text(path)?;
    let mut all = Vec::new();
    for (line, number) in text.lines().zip(1u64..) {
        if line.trim().is_empty() {
            continue;
        }
        let place = format!("{}:{number}", path.display());
        let (id, transcript) = line.trim().split_once(char::is_whitespace).ok_or_else(|| {
            Error::run(format!(
                "{place}: a line must contain the name of a recording, a space and its transcript"
            ))
        })?;
        let named = |ending| folder.join(format!("{id}.{ending}"));
        let there = RECORDING_ENDING
            .into_iter()
            .map(named)
            .find(|file| file.is_file());
        all.push(Row {
            recording: there.unwrap_or_else(|| named(RECORDING_ENDING[0])),
            place,
            transcript: transcript.trim().to_owned(),
        });
    }
    if all.is_empty() {
        return Err(Error::run(format!("{} has no lines", path.display())));
    }
    Ok(all)
}
