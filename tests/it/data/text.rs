//! Text: splits, windows, packed documents, readers and the cache.

use super::{Folder, get, gzip, items, letters, prepared, shared};
use formwork::data::{NOT_SCORED, Request, Tokenizers, View};

const BYTES: &str = "kind = \"byte\"";

#[test]
fn windows_side_by_side() {
    let folder = Folder::with(&[("t.txt", b"abcdefghijk"), ("v.txt", b"ABCDEF")]);
    let data = "kind = \"text\"\npath = \"t.txt\"\nvalid_path = \"v.txt\"\ncontext = 4\nwindows = \"contiguous\"";
    let data = folder.prepare(data, BYTES).unwrap();
    // Training has whole windows; evaluation covers every token except the first.
    let train: Vec<_> = items(&data.train)
        .iter()
        .map(|i| (letters(&i.inputs), letters(&i.targets)))
        .collect();
    assert_eq!(
        train,
        [
            ("abcd".into(), "bcde".into()),
            ("efgh".into(), "fghi".into())
        ]
    );
    let valid = items(&data.valid.unwrap());
    assert_eq!(letters(&valid[0].inputs), "ABCD");
    assert_eq!(letters(&valid[1].inputs), "E\0\0\0");
    assert_eq!(letters(&valid[1].targets), "F...");
    assert_eq!(valid[1].targets[1], NOT_SCORED);
    assert!(data.test.is_none());
    assert_eq!((data.tokens.train, data.tokens.valid), (11, 6));
    assert_eq!(data.bytes_per_token.valid, Some(1.0));
}

#[test]
fn random_windows_reach_every_start_and_no_further() {
    let folder = Folder::with(&[("t.txt", b"abcdefgh")]);
    let data = "kind = \"text\"\npath = \"t.txt\"\nvalid_fraction = 0.0\ncontext = 4";
    let data = folder.prepare(data, BYTES).unwrap();
    assert!(data.valid.is_none() && data.train.is_endless());
    let starts: std::collections::BTreeSet<String> = (0..500)
        .map(|s| letters(&get(&data.train, s).inputs))
        .collect();
    assert_eq!(
        starts.into_iter().collect::<Vec<_>>(),
        ["abcd", "bcde", "cdef", "defg"]
    );
    for sample in 0..100 {
        let item = get(&data.train, sample);
        assert_eq!(item, get(&data.train, sample));
        assert!(
            item.inputs
                .iter()
                .zip(&item.targets)
                .all(|(i, t)| i + 1 == *t)
        );
    }
}

const DOCUMENTS: &str = "kind = \"text\"\npath = \"t.txt\"\nvalid_fraction = 0.0\ncontext = 4\n\
                         windows = \"documents\"\ndocument_separator = \"--\"";
const BYTES_END: &str = "kind = \"byte\"\nend_of_text = \"<|e|>\"";

#[test]
fn documents_are_packed_across() {
    let folder = Folder::with(&[("t.txt", b"abc--de--fghijk--")]);
    let data = folder.prepare(DOCUMENTS, BYTES_END).unwrap();
    // abc. de. fghijk., where `.` is the end-of-text token (256)
    let train: Vec<_> = items(&data.train)
        .iter()
        .map(|i| (letters(&i.inputs), letters(&i.targets)))
        .collect();
    assert_eq!(
        train,
        [
            ("abc.".into(), "bc.d".into()),
            ("de.f".into(), "e.fg".into()),
            ("ghij".into(), "hijk".into())
        ]
    );
    let first = &items(&data.train)[0];
    assert_eq!(
        (first.inputs[3], first.targets[2], first.documents.clone()),
        (256, 256, None)
    );
    assert_eq!(data.tokens.train, 14);
    // 13 tokens are scored: all except the first `a`, with the 10 bytes of text after it.
    assert!((data.bytes_per_token.train.unwrap() - 10.0 / 13.0).abs() < 1e-12);
}

#[test]
fn documents_are_packed_apart() {
    let folder = Folder::with(&[("t.txt", b"abc--de--fghijk--"), ("v.txt", b"x--yz")]);
    let valid = "\nvalid_path = \"v.txt\"\nacross_documents = false";
    let data = DOCUMENTS.replace("valid_fraction = 0.0\n", "") + valid;
    let data = folder.prepare(&data, BYTES_END).unwrap();
    let train: Vec<_> = items(&data.train)
        .into_iter()
        .map(|i| (i.targets, i.documents.unwrap()))
        .collect();
    let e = 256;
    let b = |c: char| c as i32;
    // A document's first token has nothing before it, so it is not scored.
    assert_eq!(
        train[0],
        (vec![b('b'), b('c'), e, NOT_SCORED], vec![0, 0, 0, 0])
    );
    assert_eq!(
        train[1],
        // The window begins with its own document: number 0 would be the one before.
        (vec![b('e'), e, NOT_SCORED, b('g')], vec![1, 1, 1, 2])
    );
    assert_eq!(train[2].1, [0, 0, 0, 0]);
    // x. yz.: one whole window; the rest is padded.
    let valid = items(&data.valid.unwrap());
    assert_eq!(valid[0].targets, [e, NOT_SCORED, b('z'), e]);
    assert_eq!(valid[0].documents.as_deref(), Some(&[0, 0, 1, 1][..]));
    assert_eq!(valid.len(), 1);
    // In `abc. de. fghijk.`, `a`, `d` and `f` are not scored; 8 bytes and 3 end tokens are. In `x. yz.`, `x` and `y` are not.
    assert!((data.bytes_per_token.train.unwrap() - 8.0 / 11.0).abs() < 1e-12);
    assert!((data.bytes_per_token.valid.unwrap() - 1.0 / 3.0).abs() < 1e-12);
}

#[test]
fn readers_give_the_same_documents() {
    let lines = b"{\"text\": \"abc\", \"n\": 1}\n\n{\"text\": [\"d\", \"e\"]}\n";
    let bom = b"\xEF\xBB\xBFabc";
    let folder = Folder::with(&[
        ("lines.jsonl", lines),
        ("lines.jsonl.gz", &gzip(lines)),
        ("blocks.txt", b"abc--d e"),
        ("folder/1/a.txt", bom),
        ("folder/2.txt.gz", &gzip(b"d e")),
        ("folder/.hidden", b"no"),
        ("one.txt", b"abc"),
        ("two.txt", b"d e"),
    ]);
    let base = "kind = \"text\"\nvalid_fraction = 0.0\ncontext = 3\nwindows = \"documents\"\n";
    for path in [
        "path = \"lines.jsonl\"",
        "path = \"lines.jsonl.gz\"",
        "path = \"blocks.txt\"\ndocument_separator = \"--\"",
        "path = \"folder\"",
        "path = [\"one.txt\", \"two.txt\"]",
    ] {
        let data = folder.prepare(&format!("{base}{path}"), BYTES_END).unwrap();
        let inputs: Vec<_> = items(&data.train)
            .iter()
            .map(|i| letters(&i.inputs))
            .collect();
        assert_eq!(inputs, ["abc", ".d "], "{path}");
    }
    // Without an end-of-text token, documents end with a line break.
    let plain = format!(
        "{}path = \"lines.jsonl\"",
        base.replace("documents", "contiguous")
    );
    let data = folder.prepare(&plain, "kind = \"char\"").unwrap();
    let ids = items(&data.train)
        .iter()
        .flat_map(|i| i.inputs.clone())
        .map(|i| i as u32)
        .collect::<Vec<_>>();
    assert_eq!(data.tokenizers.text.unwrap().decode(&ids), "abc\nd ");
}

#[test]
fn gzip_is_plain() {
    let text = super::prose(200);
    let folder = Folder::with(&[
        ("t.txt", text.as_bytes()),
        ("z.txt.gz", &gzip(text.as_bytes())),
    ]);
    let of = |path: &str| {
        let data =
            format!("kind = \"text\"\npath = {path:?}\ncontext = 8\nwindows = \"contiguous\"");
        let data = folder.prepare(&data, "kind = \"char\"").unwrap();
        (items(&data.train), items(&data.valid.unwrap()))
    };
    assert_eq!(of("t.txt"), of("z.txt.gz"));
    // The ending `.gz` may be added or left out.
    assert_eq!(of("t.txt.gz"), of("z.txt"));
}

#[test]
fn a_damaged_cache_is_made_again() {
    let text = super::prose(200);
    let folder = Folder::with(&[("t.txt", text.as_bytes())]);
    let config = "kind = \"text\"\npath = \"t.txt\"\ncontext = 8\nwindows = \"contiguous\"";
    let bpe = "kind = \"bpe\"\nvocab_size = 300";
    let read = || items(&folder.prepare(config, bpe).unwrap().train);
    let expected = read();
    let caches = || -> Vec<std::path::PathBuf> {
        let entries = std::fs::read_dir(folder.dir.path().join("cache")).unwrap();
        // Next to a token cache lies the lock of the process that writes it.
        let is_cache = |path: &std::path::PathBuf| path.extension().is_none_or(|e| e != "lock");
        let paths = entries.map(|e| e.unwrap().path());
        paths.filter(is_cache).collect()
    };
    assert_eq!(caches().len(), 3, "two splits and the trained tokenizer");
    for path in caches() {
        let good = std::fs::read(&path).unwrap();
        let middle = good.len() / 2;
        let mut flipped = good.clone();
        flipped[middle] ^= 1;
        for bad in [flipped, good[..middle].to_vec(), b"{}".to_vec(), Vec::new()] {
            // A tokenizer file with a flipped bit may be another valid tokenizer; since a run keeps its own copy, only
            // truncated files are tried for it.
            if path.extension().is_some_and(|e| e == "json") && bad.len() == good.len() {
                continue;
            }
            std::fs::write(&path, &bad).unwrap();
            assert_eq!(read(), expected, "{}", path.display());
            assert_eq!(std::fs::read(&path).unwrap(), good, "{}", path.display());
        }
    }
    assert_eq!(caches().len(), 3, "nothing half-written stays");
    // Another text gets another cache.
    folder.write("t.txt", text.replace("ka", "lo").as_bytes());
    assert_ne!(read(), expected);
}

#[test]
fn a_trained_tokenizer_sees_only_the_training_part() {
    let folder = Folder::with(&[("t.txt", b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab")]);
    let config = "kind = \"text\"\npath = \"t.txt\"\ncontext = 4";
    let error = folder
        .prepare(config, "kind = \"char\"")
        .err()
        .unwrap()
        .to_string();
    let place = folder.dir.path().join("t.txt").display().to_string();
    let wanted = format!("{place}:1: in the valid text, the character 'b' (U+0062) does not occur");
    assert!(error.starts_with(&wanted), "{error}");
    let data = folder
        .prepare(config, "kind = \"char\"\nunknown = \"?!\"")
        .unwrap();
    assert_eq!(data.shape.vocab_size, 2);
}

/// A character missing from the training text is reported with its file, its line and the keys that allow it.
#[test]
fn an_unknown_character_has_a_place() {
    let train = "a b\n".repeat(20);
    let folder = Folder::with(&[
        ("t.txt", train.as_bytes()),
        ("plain/one.txt", b"a\nb\n"),
        ("plain/two.txt", "b\na\nb € a\n".as_bytes()),
        (
            "lines.jsonl",
            b"{\"text\": \"a\"}\n\n{\"text\": \"b \\u20ac\"}\n",
        ),
    ]);
    let remedy = "does not occur in the text that the tokenizer was trained on; remove it, or train with [tokenizer] unknown = \
                  \"<unk>\" or kind = \"byte\"";
    for (path, file, line) in [
        ("plain", "plain/two.txt", 3),
        ("lines.jsonl", "lines.jsonl", 3),
    ] {
        let config =
            format!("kind = \"text\"\npath = \"t.txt\"\nvalid_path = \"{path}\"\ncontext = 4");
        let error = folder.prepare(&config, "kind = \"char\"").err().unwrap();
        let place = folder.dir.path().join(file).display().to_string();
        assert_eq!(
            error.to_string(),
            format!("{place}:{line}: in the valid text, the character '€' (U+20AC) {remedy}")
        );
    }
}

#[test]
fn a_saved_tokenizer_is_not_trained_again() {
    let folder = Folder::with(&[("t.txt", b"abcabcabcabcabcabcabc")]);
    let config = super::data_config("kind = \"text\"\npath = \"t.txt\"\ncontext = 4");
    let saved = formwork::tokenizer::Tokenizer::of_characters("cbaz", None).unwrap();
    let request = Request {
        run_shape: None,
        tokenizer: None,
        saved_tokenizers: &Tokenizers::single(saved.clone()),
        places: &folder.places(),
        seed: 7,
        view: &View::Plain,
        compares_answers: false,
        retrieval: None,
    };
    let data = formwork::data::prepare(&config, &request).unwrap();
    assert_eq!(data.shape.vocab_size, 4);
    assert_eq!(
        data.tokenizers.text.unwrap().fingerprint(),
        saved.fingerprint()
    );
}

#[test]
fn real_sets_split_as_published() {
    if shared("tinyshakespeare").is_none() {
        return;
    }
    let folder = Folder::new();
    let places = formwork::data::SearchPath::new(None);
    let places = formwork::data::SearchPath::with_folders(
        None,
        places.roots().to_vec(),
        folder.dir.path().to_path_buf(),
    );
    let prepare = |data: &str, tokenizer: &str| {
        let tokenizer = super::tokenizer_config(tokenizer);
        prepared(data, Some(&tokenizer), &places, 1).unwrap()
    };
    let data = "kind = \"text\"\npath = \"tinyshakespeare/input.txt\"";
    let data = prepare(data, "kind = \"char\"");
    assert_eq!(
        (data.shape.vocab_size, data.tokens.train, data.tokens.valid),
        (65, 1_003_854, 111_540)
    );
    // Every token of the validation part except the first is scored once.
    let valid = data.valid.unwrap();
    let scored: usize = items(&valid)
        .iter()
        .map(|i| i.targets.iter().filter(|t| **t >= 0).count())
        .sum();
    assert_eq!(scored, 111_539);
    let data = "kind = \"text\"\npath = \"enwik8_4m/enwik8_first_4000000\"\nvalid_fraction = 0.05\ntest_fraction = 0.05";
    let data = prepare(data, BYTES);
    assert_eq!(
        (data.tokens.train, data.tokens.valid, data.tokens.test),
        (3_600_000, 200_000, 200_000)
    );
    let data = "kind = \"text\"\npath = \"scitldr/train.jsonl\"\nvalid_path = \"scitldr/dev.jsonl\"\n\
                field = \"source\"\nwindows = \"documents\"\nacross_documents = false";
    let data = prepare(data, BYTES_END);
    let documents: i32 = 1 + items(&data.valid.unwrap())
        .iter()
        .map(|i| i.documents.as_ref().map_or(0, |d| d[255] - d[0]))
        .sum::<i32>();
    assert!((600..=619).contains(&documents), "{documents}");
    let data = "kind = \"text\"\npath = \"wikitext2/train.txt\"\nvalid_path = \"wikitext2/valid.txt\"\n\
                test_path = \"wikitext2/test.txt\"";
    let data = prepare(data, BYTES);
    assert_eq!(
        (data.tokens.train, data.tokens.valid, data.tokens.test),
        (10_797_148, 1_121_681, 1_256_449)
    );
}
