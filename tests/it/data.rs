//! Tokenizers and data: ids against published ones, windows against tables, order as a function of the step number.

mod articles;
mod batches;
mod begun_pairs;
mod columnar;
mod denoised;
mod denoising;
mod empty_texts;
mod expressions;
mod found_files;
mod frames;
mod generators;
mod image_changes;
mod image_faults;
pub mod images;
mod label_faults;
mod labelled;
mod long_files;
mod long_tasks;
mod manifests;
mod many_labelled;
mod masked;
mod messages;
mod ngrams;
mod pair_generators;
mod pair_vocabularies;
mod pairs;
mod pairs_of_csv;
mod pairs_told;
mod pathfinder;
mod places;
pub mod recordings;
mod segments;
mod shares;
mod span_texts;
mod spans;
mod speech;
mod tables_of_images;
mod text;
mod tokenizers;
mod trained;
mod transcripts;
mod turned_images;
mod words;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use formwork::data::{
    Data, DataConfig, Request, SearchPath, Source, TextItem, Tokenizers, View, prepare,
};
use formwork::error::Result;
use formwork::tokenizer::TokenizerConfig;

/// Path of a file of the development data. Without FORMWORK_DATA, the test is skipped with a notice; with it, the file must
/// exist.
fn shared(path: &str) -> Option<PathBuf> {
    if std::env::var_os("FORMWORK_DATA").is_none() {
        eprintln!("left out: FORMWORK_DATA is not set, so {path} is not here");
        return None;
    }
    let places = SearchPath::new(None);
    Some(places.resolve(Path::new(path)).unwrap())
}

/// A temporary folder with files, and the places that data is read from.
struct Folder {
    dir: tempfile::TempDir,
}

impl Folder {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn with(files: &[(&str, &[u8])]) -> Self {
        let folder = Self::new();
        for (name, content) in files {
            folder.write(name, content);
        }
        folder
    }

    fn write(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    fn places(&self) -> SearchPath {
        SearchPath::with_folders(
            Some(self.dir.path()),
            vec![self.dir.path().join("data")],
            self.dir.path().join("cache"),
        )
    }

    /// Prepares data from this `[data]` and `[tokenizer]`.
    fn prepare(&self, data: &str, tokenizer: &str) -> Result<Data> {
        let tokenizer = tokenizer_config(tokenizer);
        prepared(data, Some(&tokenizer), &self.places(), 7)
    }
}

/// Prepares data from this `[data]`.
fn prepared(
    data: &str,
    tokenizer: Option<&TokenizerConfig>,
    places: &SearchPath,
    seed: u64,
) -> Result<Data> {
    let request = Request {
        run_shape: None,
        tokenizer,
        saved_tokenizers: &Tokenizers::default(),
        places,
        seed,
        view: &View::Plain,
        compares_answers: false,
        retrieval: None,
    };
    prepare(&data_config(data), &request)
}

/// Returns a text of a source.
fn get(source: &Arc<dyn Source>, sample: u64) -> TextItem {
    source.get(sample, sample).unwrap().text().unwrap()
}

fn data_config(text: &str) -> DataConfig {
    toml::from_str(text).unwrap()
}

fn tokenizer_config(text: &str) -> TokenizerConfig {
    toml::from_str(text).unwrap()
}

fn items(source: &Arc<dyn Source>) -> Vec<TextItem> {
    (0..source.len() as u64).map(|i| get(source, i)).collect()
}

/// Byte ids as text; `.` for positions that are not scored.
fn letters(ids: &[i32]) -> String {
    let letter = |id: &i32| u8::try_from(*id).map_or('.', char::from);
    ids.iter().map(letter).collect()
}

fn gzip(content: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gz.write_all(content).unwrap();
    gz.finish().unwrap()
}

/// A text of many different words, seeded and the same on every machine.
fn prose(lines: usize) -> String {
    use formwork::rng::{Purpose, Stream};
    let mut stream = Stream::new(1, Purpose::Split, (1, 2, 3));
    let syllables = ["ka", "lo", "mi", "ten", "su", "ra", "é", "böl", "shi", "x"];
    let mut text = String::new();
    for _ in 0..lines {
        for word in 0..1 + stream.below(9) {
            if word > 0 {
                text.push(' ');
            }
            for _ in 0..1 + stream.below(3) {
                text.push_str(syllables[stream.below(10).min(stream.below(10)) as usize]);
            }
        }
        text.push('\n');
    }
    text
}
