//! Parquet, Arrow and Zstandard files as other programs write them (tests/goldens/make_columnar.py), file patterns, mixtures.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Folder, get, letters, pairs};
use formwork::data::files::columnar::{self, Cell};
use formwork::data::files::documents::{self, DocumentFormat};

const TABLES: [&str; 7] = [
    "snappy.parquet",
    "zstd.parquet",
    "gzip_v1.parquet",
    "lz4_v2.parquet",
    "brotli.parquet",
    "stream.arrow",
    "file.arrow",
];

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/goldens/columnar")
        .join(name)
}

/// Rows that all golden tables contain.
fn rows() -> Vec<Value> {
    let lines = std::fs::read_to_string(golden("rows.jsonl")).unwrap();
    let lines = lines.lines();
    lines.map(|l| serde_json::from_str(l).unwrap()).collect()
}

fn column(name: &str) -> Vec<Option<String>> {
    let cell = |row: &Value| row[name].as_str().map(str::to_owned);
    rows().iter().map(cell).collect()
}

fn read(path: &Path, wanted: &str) -> formwork::error::Result<Vec<Option<String>>> {
    let mut all = Vec::new();
    columnar::rows(path, &[(wanted, "field")], |row, mut cells| {
        all.push(cells.pop().and_then(Cell::joined));
        assert_eq!(row as usize, all.len());
        Ok(())
    })?;
    Ok(all)
}

fn texts(path: &Path, field: Option<&str>) -> formwork::error::Result<Vec<String>> {
    let reading = DocumentFormat {
        field: field.map(str::to_owned),
        ..DocumentFormat::default()
    };
    let mut all = Vec::new();
    documents::each(&[path.to_path_buf()], &reading, |document| {
        all.push(String::from_utf8(document).unwrap());
        Ok(())
    })?;
    Ok(all)
}

#[test]
fn columns_of_every_codec() {
    for table in TABLES {
        let path = golden(table);
        for name in ["text", "label", "parts"] {
            assert_eq!(read(&path, name).unwrap(), column(name), "{table} {name}");
        }
        for side in ["en", "de"] {
            let inside = format!("translation.{side}");
            assert_eq!(
                read(&path, &inside).unwrap(),
                column(side),
                "{table} {side}"
            );
        }
        let kinds = read(&path, "kind").unwrap();
        assert_eq!(kinds[..2], [Some("prose".into()), Some("news".into())]);
        assert_eq!(read(&path, "good").unwrap()[0], Some("true".into()));
    }
    let views = golden("views.feather");
    assert_eq!(read(&views, "text").unwrap(), column("text"));
}

#[test]
fn columns_that_are_not_there_or_hold_no_text() {
    for table in TABLES {
        let path = golden(table);
        let refused = |name: &str| read(&path, name).unwrap_err().to_string();
        assert!(
            refused("txt").ends_with(
                "no column `txt`; did you mean `text`?; the columns are `id`, `text`, `label`, `score`, `kind`, \
                 `translation.en`, `translation.de`, `parts`, `good`, `when`; set [data] field"
            ),
            "{}",
            refused("txt")
        );
        assert!(refused("when").contains("column `when` contains Timestamp"));
        assert!(refused("translation").contains("not texts or numbers"));
    }
}

#[test]
fn documents_of_tables_and_of_zstandard() {
    let expected: Vec<String> = column("text").into_iter().flatten().collect();
    assert_eq!(expected.len(), 39);
    for table in TABLES {
        assert_eq!(texts(&golden(table), None).unwrap(), expected, "{table}");
    }
    let german: Vec<String> = column("de").into_iter().flatten().collect();
    for lines in ["rows.jsonl", "rows.jsonl.zst"] {
        assert_eq!(
            texts(&golden(lines), Some("de")).unwrap(),
            german,
            "{lines}"
        );
    }
    let plain = texts(&golden("plain.txt.zst"), None).unwrap();
    assert_eq!(plain, [expected.join("\n") + "\n"]);
}

/// Files with a flipped byte, and truncated files, at positions in steps of a prime.
#[test]
fn damaged_tables_are_refused_or_read_without_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let mut refused = 0;
    for table in TABLES.iter().copied().chain(["views.feather"]) {
        let whole = std::fs::read(golden(table)).unwrap();
        let path = folder.path().join(table);
        let mut tried = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            for name in ["text", "label"] {
                let result = read(&path, name);
                refused += usize::from(result.is_err());
            }
        };
        for at in (0..whole.len()).step_by(7) {
            tried(&whole[..at]);
            for flipped in [0x01, 0x80, 0xFF] {
                let mut bytes = whole.clone();
                bytes[at] ^= flipped;
                tried(&bytes);
            }
        }
    }
    assert!(refused > 4000, "{refused}");
}

#[test]
fn a_table_of_classes_and_one_of_pairs() {
    let folder = Folder::new();
    for table in ["snappy.parquet", "stream.arrow"] {
        std::fs::copy(golden(table), folder.dir.path().join(table)).unwrap();
        let data = format!(
            "kind = \"labelled_text\"\npath = \"{table}\"\ntext = \"translation.en\"\nvalid_fraction = 0.0"
        );
        let data = folder.prepare(&data, "kind = \"char\"").unwrap();
        assert_eq!(data.shape.classes, ["0", "1", "2"]);
        assert_eq!(data.train.len(), 40);
        let classes: Vec<_> = (0..4).map(|at| get(&data.train, at).label).collect();
        assert_eq!(classes, [Some(0), Some(1), Some(2), Some(0)]);
        let keys = format!(
            "kind = \"pairs\"\npath = \"{table}\"\nsource_field = \"translation.en\"\n\
             target_field = \"translation.de\"\nvalid_fraction = 0.0"
        );
        let data = folder.prepare(&keys, pairs::CHAR).unwrap();
        let read = pairs::texts(&data, &data.train);
        assert_eq!(read[3], ("house 3".to_owned(), "Haus 3".to_owned()));
        assert_eq!(read.len(), 40);
        let numbered = format!("kind = \"labelled_text\"\npath = \"{table}\"\ntext = \"text\"");
        let missing = folder.prepare(&numbered, "kind = \"char\"").err().unwrap();
        assert!(
            missing
                .to_string()
                .ends_with("row 8 has an empty column `text`"),
            "{missing}"
        );
    }
}

#[test]
fn a_pattern_stands_for_its_files() {
    let folder = Folder::with(&[
        ("c/b.txt", b"bbbbb"),
        ("c/a.txt", b"aaaaa"),
        ("c/.hidden.txt", b"x"),
        ("c/a.md", b"x"),
        ("[1].txt", b"1111111"),
    ]);
    let read = |path: &str| {
        let keys = format!(
            "kind = \"text\"\npath = \"{path}\"\nvalid_fraction = 0.0\ncontext = 4\nwindows = \"contiguous\""
        );
        folder.prepare(&keys, "kind = \"byte\"")
    };
    let data = read("c/*.txt").unwrap();
    // Each document ends with a line break: aaaaa⏎bbbbb⏎.
    assert_eq!(data.tokens.train, 12);
    assert_eq!(letters(&get(&data.train, 0).inputs), "aaaa");
    assert_eq!(letters(&get(&data.train, 1).inputs), "a\nbb");
    // A file with exactly that name takes precedence over the pattern.
    assert_eq!(read("[1].txt").unwrap().tokens.train, 7);
    let none = read("c/*.csv").err().unwrap().to_string();
    assert!(
        none.starts_with("[data] no file or folder `c/*.csv`"),
        "{none}"
    );
}

#[test]
fn corpora_are_drawn_by_their_weights() {
    let folder = Folder::with(&[
        ("a.txt", &[b'a'; 60]),
        ("b.txt", &[b'b'; 600]),
        ("c.txt", &[b'c'; 600]),
    ]);
    let keys = |weights: &str| {
        format!(
            "kind = \"text\"\npath = [\"a.txt\", \"b.txt\", \"c.txt\"]\nweights = {weights}\ncontext = 8\n\
             valid_fraction = 0.1"
        )
    };
    let data = folder
        .prepare(&keys("[6, 3, 1.0]"), "kind = \"byte\"")
        .unwrap();
    let mut counts = [0.0; 3];
    for sample in 0..4000 {
        let item = get(&data.train, sample);
        assert_eq!(item, get(&data.train, sample));
        let first = item.inputs[0];
        assert!(
            item.inputs
                .iter()
                .chain(&item.targets)
                .all(|id| *id == first)
        );
        counts[(first - i32::from(b'a')) as usize] += 1.0 / 4000.0;
    }
    // Within four standard deviations of a binomial share.
    for (share, wanted) in counts.iter().zip([0.6_f64, 0.3, 0.1]) {
        let deviation = (wanted * (1.0 - wanted) / 4000.0).sqrt();
        assert!((share - wanted).abs() < 4.0 * deviation, "{counts:?}");
    }
    // Each corpus holds out its own tenth, which is read once.
    assert_eq!(
        (data.tokens.train, data.tokens.valid),
        (54 + 540 + 540, 6 + 1 + 60 + 1 + 60 + 1)
    );
    let refused = |weights: &str| {
        let config = super::data_config(&keys(weights));
        config.faults(Some(&super::tokenizer_config("kind = \"byte\"")))
    };
    assert_eq!(
        refused("[1, 2]"),
        ["[data] weights has 2 number(s), but path has 3 entries; give one weight for each entry"]
    );
    assert_eq!(refused("[1, -2, 0]").len(), 1);
    assert_eq!(refused("[1, 2, 3]\nwindows = \"contiguous\"").len(), 1);
}
