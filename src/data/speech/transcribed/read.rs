//! Tables and LibriSpeech's lines as recordings with their transcripts.

use super::TranscribedSpeechConfig;
use crate::data::files::{columnar, found, json_line, packed};
use crate::data::labelled::column::Column;
use crate::data::labelled::examples;
use crate::data::labelled::tables::{self, Format, Layout};
use crate::data::speech::decode;
use crate::data::{PerSplit, Places, Request};
use crate::error::{Error, Result};
use crate::tokenizer::Tokenizer;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// The usual names of a column of recordings, and of one of transcripts.
const RECORDING: [&str; 3] = ["file_name", "audio_filepath", "path"];
const TRANSCRIPT: [&str; 4] = ["transcription", "text", "sentence", "transcript"];
/// How LibriSpeech's files of transcripts end, and its recordings.
const LINES: &str = ".trans.txt";
const BESIDE: [&str; 2] = ["flac", "wav"];

/// A recording with its transcript.
#[derive(Clone, Debug)]
pub(super) struct Example {
    pub(super) recording: PathBuf,
    /// The file and the line that name it, for messages.
    pub(super) place: String,
    pub(super) transcript: String,
}

impl TranscribedSpeechConfig {
    /// The recordings of each split with their transcripts.
    pub(super) fn examples(&self, request: &Request) -> Result<PerSplit<Vec<Example>>> {
        let folder = self.recordings.as_ref();
        let folder = folder.map(|f| request.places.resolve(f)).transpose()?;
        let parts = self.parts();
        let mut tables = HashSet::new();
        for (_, path) in parts.paths() {
            tables.extend(self.tables(request.places, path)?);
        }
        // Keys of a run may be for other files than are evaluated.
        if request.run.is_none() && tables.iter().all(|table| is_lines(table)) {
            self.no_table()?;
        }
        parts.read(
            request,
            ["recordings", "recording"],
            |_, path| match tables.contains(path) {
                true => self.of_file(path, folder.as_deref()),
                false => Ok(Vec::new()),
            },
        )
    }

    /// An error for a key of tables where there are none.
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
                "[data] {key} has no effect: all transcripts stand in LibriSpeech's *{LINES}, whose lines have the name of a recording \
                 and its transcript; leave it out"
            ))),
        }
    }

    /// The folder of each file of transcripts with the recordings that it names, where they lie beside it.
    pub(super) fn beside(&self, places: &Places) -> Result<Vec<(PathBuf, Vec<PathBuf>)>> {
        let mut all = Vec::new();
        if self.recordings.is_some() {
            return Ok(all);
        }
        for (_, path) in self.parts().paths() {
            for table in self.tables(places, path)? {
                let examples = self.of_file(&table, None)?.into_iter();
                let recordings = examples.map(|example| example.recording);
                let folder = table.parent().unwrap_or(Path::new(""));
                all.push((folder.to_path_buf(), recordings.collect()));
            }
        }
        Ok(all)
    }

    /// The files of transcripts that a path stands for.
    fn tables(&self, places: &Places, path: &Path) -> Result<Vec<PathBuf>> {
        let place = places.resolve(path)?;
        let named = !place.is_dir();
        let all = found::listed(&[place])?;
        let columns = all.iter().find(|file| columnar::is_columnar(file)).cloned();
        let is_table = |file: &PathBuf| self.is_table(file, named);
        let tables: Vec<PathBuf> = all.into_iter().filter(is_table).collect();
        if !tables.is_empty() {
            return Ok(tables);
        }
        let shown = path.display();
        Err(Error::usage(match columns {
            Some(file) => format!(
                "[data] path = {shown}: {} is a table of columns; transcripts are read from CSV, TSV or JSONL, or LibriSpeech's \
                 *{LINES}, beside the files of recordings",
                file.display()
            ),
            None => format!(
                "[data] path = {shown}: no transcripts; they stand in metadata.csv or metadata.jsonl with the columns file_name and \
                 transcription, or in LibriSpeech's *{LINES}"
            ),
        }))
    }

    /// Whether a file holds transcripts by its name; in a folder recordings and other texts lie beside it. One that the path names
    /// itself does where `format` says how it is written.
    fn is_table(&self, file: &Path, named: bool) -> bool {
        match Format::of(file) {
            Some(Format::Csv | Format::Jsonl) => true,
            Some(Format::Tsv) if is_lines(file) => true,
            Some(Format::Tsv) if packed::plain_name(file).ends_with(".tsv") => true,
            Some(Format::Tsv) | None => {
                named && self.format.is_some() && !decode::is_recording(file)
            }
        }
    }

    fn of_file(&self, path: &Path, folder: Option<&Path>) -> Result<Vec<Example>> {
        let own = path.parent().unwrap_or(Path::new(""));
        let folder = folder.unwrap_or(own);
        let examples = match is_lines(path) {
            true => of_lines(path, folder)?,
            false => self.of_table(path, folder)?,
        };
        for example in &examples {
            let Example {
                recording,
                place,
                transcript,
            } = example;
            if transcript.trim().is_empty() {
                return Err(Error::run(format!("{place}: the transcript is empty")));
            }
            if !recording.is_file() {
                return Err(Error::run(format!(
                    "{place}: there is no recording {}; `recordings` names the folder in which they lie",
                    recording.display()
                )));
            }
        }
        Ok(examples)
    }

    fn of_table(&self, path: &Path, folder: &Path) -> Result<Vec<Example>> {
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
        let rows = rows.map(|row| Example {
            recording: folder.join(&row.label),
            place: format!("{}:{}", path.display(), row.line),
            transcript: row.text,
        });
        Ok(rows.collect())
    }

    /// The tokenizer of the run, or one that is made for the transcripts of training.
    pub(super) fn tokenizer(&self, request: &Request, training: &[Example]) -> Result<Tokenizer> {
        let texts = training.iter().map(|example| example.transcript.as_str());
        // With a frame, whose end stands for a transcript.
        examples::tokenizer("transcribed_speech", request, true, texts)
    }
}

/// Whether a file holds LibriSpeech's lines by its name.
fn is_lines(file: &Path) -> bool {
    packed::plain_name(file).ends_with(LINES)
}

/// The names of the columns of a table, of JSON lines those of the first.
fn names(path: &Path, format: Format) -> Result<Vec<String>> {
    let content = packed::content(path)?;
    let content = content.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&content);
    let end = content.iter().position(|byte| *byte == b'\n');
    let first = &content[..end.unwrap_or(content.len())];
    let first = std::str::from_utf8(first).map_err(|e| packed::not_text(path, content, e))?;
    Ok(match format {
        Format::Jsonl => {
            // What is wrong with it is said where all lines are read.
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

/// The recordings of a file of LibriSpeech: `ID TRANSCRIPT` a line, beside `ID.flac`.
fn of_lines(path: &Path, folder: &Path) -> Result<Vec<Example>> {
    let content = packed::content(path)?;
    let text = std::str::from_utf8(&content).map_err(|e| packed::not_text(path, &content, e))?;
    let mut all = Vec::new();
    for (line, number) in text.lines().zip(1u64..) {
        if line.trim().is_empty() {
            continue;
        }
        let place = format!("{}:{number}", path.display());
        let (id, transcript) = line.trim().split_once(char::is_whitespace).ok_or_else(|| {
            Error::run(format!(
                "{place}: a line has the name of a recording, a blank and its transcript"
            ))
        })?;
        let named = |ending| folder.join(format!("{id}.{ending}"));
        let there = BESIDE.into_iter().map(named).find(|file| file.is_file());
        all.push(Example {
            recording: there.unwrap_or_else(|| named(BESIDE[0])),
            place,
            transcript: transcript.trim().to_owned(),
        });
    }
    if all.is_empty() {
        return Err(Error::run(format!("{} has no lines", path.display())));
    }
    Ok(all)
}
