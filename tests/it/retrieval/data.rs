//! The database: its search against brute force, neighbours that it never returns, and the lists on disk.

use formwork::data::{
    Chunking, Data, DataConfig, Request, SearchPath, Source, Tokenizers, View, prepare,
};
use formwork::error::Result;
use formwork::nn::neighbours::{Neighbours, Retriever};
use formwork::tokenizer::TokenizerConfig;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const M: usize = 8;
const K: usize = 3;

/// Documents over few letters, so that chunks have much in common.
fn documents(count: usize, salt: usize) -> Vec<String> {
    let letter = |at: usize| b"abcdefgh "[(at * at + 3 * at + salt * 5 + at / 11) % 9] as char;
    let document = |number: usize| -> String {
        let length = 11 + 7 * (number % 5);
        (0..length).map(|at| letter(at + 13 * number)).collect()
    };
    (0..count).map(document).collect()
}

fn places(folder: &Path) -> SearchPath {
    SearchPath::with_folders(
        Some(folder),
        vec![folder.to_path_buf()],
        folder.join("cache"),
    )
}

fn prepared(folder: &Path, data: &str, chunking: Option<Chunking>) -> Result<Data> {
    let config: DataConfig = toml::from_str(data).unwrap();
    let tokenizer: TokenizerConfig =
        toml::from_str("kind = \"char\"\nend_of_text = \"<|endoftext|>\"").unwrap();
    let request = Request {
        run_shape: None,
        tokenizer: Some(&tokenizer),
        saved_tokenizers: &Tokenizers::default(),
        places: &places(folder),
        seed: 7,
        view: &View::Plain,
        compares_answers: false,
        retrieval: chunking,
    };
    prepare(&config, &request)
}

fn chunking() -> Chunking {
    Chunking {
        chunk: M,
        neighbours: K,
        embedder: None,
    }
}

const KEYS: &str = "kind = \"text\"\npath = \"train.txt\"\nvalid_path = \"valid.txt\"\ndocument_separator = \"\\n\"\n\
                    context = 16\nwindows = \"documents\"\n";

fn written(folder: &Path) -> Vec<[Vec<String>; 2]> {
    let both = [documents(30, 1), documents(6, 4)];
    std::fs::write(folder.join("train.txt"), both[0].join("\n")).unwrap();
    std::fs::write(folder.join("valid.txt"), both[1].join("\n")).unwrap();
    vec![both]
}

/// Reads every window of a source: its tokens and its neighbours.
fn windows(source: &Arc<dyn Source>) -> Vec<(Vec<i32>, Neighbours)> {
    let each = (0..source.len() as u64).map(|number| {
        let item = source.get(number, number).unwrap().text().unwrap();
        (item.inputs, item.neighbours.unwrap())
    });
    each.collect()
}

/// The database by brute force, as its documentation defines it.
struct Brute {
    /// Tokens of each document, with its end token.
    documents: Vec<Vec<i32>>,
    /// Document and first token of each chunk.
    chunks: Vec<(usize, usize)>,
}

impl Brute {
    fn new(documents: Vec<Vec<i32>>) -> Self {
        let numbered = documents.iter().enumerate();
        let chunks =
            numbered.flat_map(|(number, d)| (0..d.len()).step_by(M).map(move |at| (number, at)));
        Self {
            chunks: chunks.collect(),
            documents,
        }
    }

    fn chunk(&self, (document, at): (usize, usize), length: usize) -> &[i32] {
        let tokens = &self.documents[document];
        &tokens[at..tokens.len().min(at + length)]
    }

    fn weights(&self, tokens: &[i32]) -> BTreeMap<i32, f64> {
        let mut counts: BTreeMap<i32, f64> = BTreeMap::new();
        tokens
            .iter()
            .for_each(|id| *counts.entry(*id).or_default() += 1.0);
        let chunks = self.chunks.len() as f64;
        for (id, count) in &mut counts {
            let having = self
                .chunks
                .iter()
                .filter(|c| self.chunk(**c, M).contains(id))
                .count();
            *count *= ((1.0 + chunks) / (1.0 + having as f64)).ln();
        }
        counts
    }

    fn cosine(&self, a: &[i32], b: &[i32]) -> f64 {
        let (a, b) = (self.weights(a), self.weights(b));
        let length = |v: &BTreeMap<i32, f64>| v.values().map(|x| x * x).sum::<f64>().sqrt();
        let product: f64 = a.iter().map(|(id, x)| x * b.get(id).unwrap_or(&0.0)).sum();
        product / (length(&a) * length(&b)).max(1e-30)
    }

    /// Returns the best scores over all chunks except those of the documents `own`.
    fn best(&self, query: &[i32], own: &[usize]) -> Vec<f64> {
        let others = self
            .chunks
            .iter()
            .filter(|(document, _)| !own.contains(document));
        let mut scores: Vec<f64> = others
            .map(|c| self.cosine(query, self.chunk(*c, M)))
            .collect();
        scores.sort_by(|a, b| b.total_cmp(a));
        scores.truncate(K);
        scores
    }
}

/// Returns the end token, and the tokens of documents with it.
fn encoded(data: &Data, documents: &[String]) -> (i32, Vec<Vec<i32>>) {
    let tokenizer = data.tokenizers.text.as_ref().unwrap();
    let end = tokenizer.end_of_text().unwrap() as i32;
    let tokens = |text: &String| -> Vec<i32> {
        let ids = tokenizer.encode(text).unwrap().into_iter();
        ids.map(|id| id as i32).chain([end]).collect()
    };
    (end, documents.iter().map(tokens).collect())
}

/// Splits a stream of windows into documents, each with its end token.
fn cut(windows: &[(Vec<i32>, Neighbours)], end: i32) -> (Vec<i32>, Vec<Vec<i32>>) {
    let stream: Vec<i32> = windows.iter().flat_map(|(ids, _)| ids.clone()).collect();
    let documents = stream.split_inclusive(|id| *id == end).map(<[i32]>::to_vec);
    (stream.clone(), documents.collect())
}

#[test]
fn neighbours_are_the_nearest_of_other_documents() {
    let folder = tempfile::tempdir().unwrap();
    let texts = written(folder.path());
    let keys = format!("{KEYS}[retrieval]\n");
    let data = prepared(folder.path(), &keys, Some(chunking())).unwrap();
    let (end, of_training) = encoded(&data, &texts[0][0]);
    let brute = Brute::new(of_training.clone());
    let mut compared = 0;
    for (source, is_training) in [(&data.train, true), (data.valid.as_ref().unwrap(), false)] {
        let windows = windows(source);
        let (stream, documents) = cut(&windows, end);
        for (number, (_, found)) in windows.iter().enumerate() {
            assert_eq!((found.chunk, found.count, found.width), (M, K, 2 * M));
            assert_eq!(found.lengths.len(), 2 * K);
            for chunk in 0..2 {
                let at = number * 2 * M + chunk * M;
                let query = &stream[at..at + M];
                if !is_training && at + M > data.tokens.valid as usize {
                    assert!(found.lengths[chunk * K..].iter().all(|length| *length == 0));
                    continue;
                }
                // In training, the documents that the chunk overlaps are excluded.
                let before = |at: usize| stream[..at].iter().filter(|id| **id == end).count();
                let own: Vec<usize> = match is_training {
                    true => (before(at)..=before(at + M - 1)).collect(),
                    false => Vec::new(),
                };
                let best = brute.best(query, &own);
                for (place, best) in best.iter().enumerate() {
                    let row = chunk * K + place;
                    let length = found.lengths[row];
                    let ids = &found.ids[row * 2 * M..row * 2 * M + length];
                    if *best <= 0.0 {
                        assert_eq!(length, 0, "window {number}: nothing in common");
                        continue;
                    }
                    let of = brute
                        .chunks
                        .iter()
                        .find(|c| brute.chunk(**c, 2 * M) == ids && !own.contains(&c.0));
                    let of = of.unwrap_or_else(|| panic!("window {number}: no such chunk"));
                    let score = brute.cosine(query, brute.chunk(*of, M));
                    assert!(
                        (score - best).abs() < 1e-5,
                        "window {number}: {score} of {best}"
                    );
                    compared += 1;
                }
            }
        }
        assert!(!documents.is_empty());
    }
    assert!(compared > 100);
    // Generation gets the same neighbours as a held-out text.
    let (ids, given) = windows(data.valid.as_ref().unwrap()).remove(0);
    let database = data.database.as_ref().unwrap();
    let mut asked = Neighbours::empty(M, K);
    database.retrieve(&ids[..M], &mut asked);
    database.retrieve(&ids[M..], &mut asked);
    assert_eq!(asked, given);
}

#[test]
fn a_copy_of_a_document_is_the_same_document() {
    let folder = tempfile::tempdir().unwrap();
    let document = documents(1, 2).remove(0);
    let others = documents(4, 3);
    let all = [vec![document.clone(), document.clone()], others].concat();
    std::fs::write(folder.path().join("train.txt"), all.join("\n")).unwrap();
    std::fs::write(
        folder.path().join("valid.txt"),
        format!("{document}\n{document}"),
    )
    .unwrap();
    let keys = format!("{KEYS}[retrieval]\n");
    let data = prepared(folder.path(), &keys, Some(chunking())).unwrap();
    let tokenizer = data.tokenizers.text.as_ref().unwrap();
    let copy: Vec<i32> = tokenizer
        .encode(&document)
        .unwrap()
        .into_iter()
        .map(|id| id as i32)
        .collect();
    for (_, found) in windows(&data.train)
        .iter()
        .take(1)
        .chain(&windows(data.valid.as_ref().unwrap()))
    {
        for (place, length) in found.lengths.iter().enumerate() {
            let ids = &found.ids[place * 2 * M..place * 2 * M + length.min(&M)];
            let in_copy = copy.windows(M).step_by(M).any(|chunk| chunk == ids);
            assert!(!in_copy, "a text finds a copy of itself");
        }
    }
}

#[test]
fn lists_are_made_once_and_made_again_when_they_are_damaged() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path());
    let keys = format!("{KEYS}[retrieval]\n");
    let read = |keys: &str| {
        let data = prepared(folder.path(), keys, Some(chunking())).unwrap();
        windows(&data.train)
    };
    let lists = || -> BTreeMap<_, _> {
        let files = std::fs::read_dir(folder.path().join("cache")).unwrap();
        let files = files.map(|file| file.unwrap().path());
        let files = files.filter(|path| path.extension().is_some_and(|e| e == "neighbours"));
        files
            .map(|path| {
                (
                    path.clone(),
                    std::fs::metadata(path).unwrap().modified().unwrap(),
                )
            })
            .collect()
    };
    let first = read(&keys);
    let made = lists();
    // One for the training text and one for the validation text.
    assert_eq!(made.len(), 2);
    assert!(
        read(&keys) == first && lists() == made,
        "they are read again"
    );
    for path in made.keys() {
        let mut bytes = std::fs::read(path).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        std::fs::write(path, bytes).unwrap();
    }
    assert!(read(&keys) == first);
    let other = read(&format!(
        "{KEYS}[retrieval]\ncompare = {{ kind = \"tf_idf\", ngram = 2 }}\n"
    ));
    assert!(
        other != first && lists().len() == 4,
        "another comparison has lists of its own"
    );
}

#[test]
fn a_database_of_other_files_is_searched_instead() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path());
    std::fs::write(folder.path().join("more.txt"), documents(12, 8).join("\n")).unwrap();
    let keys = format!("{KEYS}[retrieval]\npath = \"more.txt\"\n");
    let data = prepared(folder.path(), &keys, Some(chunking())).unwrap();
    let (_, more) = encoded(&data, &documents(12, 8));
    for (_, found) in windows(&data.train) {
        for (place, length) in found.lengths.iter().enumerate() {
            let ids = &found.ids[place * 2 * M..place * 2 * M + length.min(&M)];
            let of_more = more
                .iter()
                .any(|text| text.windows(ids.len()).any(|part| part == ids));
            assert!(of_more || ids.len() < M, "{ids:?}");
        }
    }
}

#[test]
fn one_document_alone_is_no_database() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path());
    let keys = "kind = \"text\"\npath = \"train.txt\"\nvalid_fraction = 0.2\ncontext = 16\nwindows = \"contiguous\"\n[retrieval]\n";
    let error = prepared(folder.path(), keys, Some(chunking()))
        .map(drop)
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("the database is a single document"),
        "{error}"
    );
    // Without a model that reads them, there are no neighbours.
    let data = prepared(folder.path(), &format!("{KEYS}[retrieval]\n"), None).unwrap();
    let item = data.train.get(0, 0).unwrap().text().unwrap();
    assert!(item.neighbours.is_none() && data.database.is_none());
}
