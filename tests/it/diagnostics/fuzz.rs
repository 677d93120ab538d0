//! Thousands of broken experiment files: any bytes give an experiment or a fault, never a panic.

use super::{RIGHT, judged, judged_at};
use burn::module::ModuleVisitor;
use burn::tensor::Device;
use formwork::data::Shape;
use formwork::error::Error;
use formwork::experiment::{LoadedExperiment, annotated_toml, load_text, resolved_toml};
use formwork::model::{BuildContext, Transformer, preset};
use formwork::nn::{Kind, attention, feed_forward, norm, position, vocabulary};
use formwork::rng::{Purpose, Stream};
use formwork::{data, task, tokenizer, train};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

const CASES: u64 = 40_000;

/// Values that cause a fault at some key.
const VALUES: &[&str] = &[
    "0",
    "1",
    "-1",
    "3",
    "7",
    "1e308",
    "-0.0",
    "1e-320",
    "0.5",
    "1.0",
    "9223372036854775807",
    "4294967296",
    "-9223372036854775808",
    "nan",
    "inf",
    "\"\"",
    "\"x\"",
    "\"\\u0000\"",
    "true",
    "false",
    "[]",
    "[1, 2]",
    "[[]]",
    "{}",
    "{ kind = \"none\" }",
    "{ kind = 1 }",
    "{ kind = \"linear\", factor = 2.0 }",
    "1979-05-27",
    "\"\"\"\na\n\"\"\"",
    "'",
    "{",
    "=",
    "\"é☃\"",
];

/// Keys that exist in some table.
const KEYS: &[&str] = &[
    "kind",
    "preset",
    "extends",
    "n_heads",
    "n_kv_heads",
    "d_head",
    "d_model",
    "n_layers",
    "eps",
    "dropout",
    "max_len",
    "scaling",
    "fraction",
    "steps",
    "warmup_steps",
    "batch_size",
    "micro_batch_size",
    "context",
    "path",
    "groups",
    "betas",
    "sample",
    "ema",
    "digits",
    "length",
    "symbols",
    "final_norm",
    "norm",
    "qk_norm",
    "shared_parallel_norm",
    "softcap",
    "vocab_size",
    "x.y",
    "\"a b\"",
];

/// A text, and the path it belongs to.
type Seed = (PathBuf, String);

fn seeds() -> Vec<Seed> {
    let mut seeds = vec![(PathBuf::from("x.toml"), RIGHT.to_string())];
    let head = RIGHT.split("[tokenizer]").nth(1).unwrap();
    for name in preset::names() {
        let model = preset::text(name).unwrap().split("[model]").nth(1).unwrap();
        let text = format!("name = \"x\"\n[model]{model}\n[tokenizer]{head}");
        seeds.push(("x.toml".into(), text));
    }
    shipped(Path::new("experiments"), &mut seeds);
    seeds
}

/// Reads the text of every experiment in a folder.
fn shipped(folder: &Path, seeds: &mut Vec<Seed>) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|e| e.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            shipped(&path, seeds);
        } else if path.extension().is_some_and(|e| e == "toml") {
            let text = std::fs::read_to_string(&path).unwrap();
            seeds.push((path, text));
        }
    }
}

fn kinds() -> Vec<&'static str> {
    let tables: [&[Kind]; 8] = [
        norm::KINDS,
        vocabulary::KINDS,
        position::KINDS,
        attention::KINDS,
        feed_forward::KINDS,
        task::KINDS,
        train::optim::KINDS,
        train::schedule::KINDS,
    ];
    let own = tokenizer::KINDS.iter().chain(data::KINDS).map(|k| k.kind);
    tables
        .iter()
        .flat_map(|t| t.iter())
        .map(|k| k.kind)
        .chain(own)
        .collect()
}

/// Random draws of one case.
struct Dice(Stream);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0.below(n.max(1) as u64) as usize
    }

    fn of<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> &'a T {
        items[self.below(items.len())]
    }

    /// Replaces a number or a string in the text by another value.
    fn value(&mut self, text: &str, kinds: &[&str]) -> String {
        let mut lines: Vec<String> = text.lines().map(String::from).collect();
        let at = self.below(lines.len());
        let kind = format!("\"{}\"", self.of(kinds));
        let value = if self.below(2) == 0 {
            kind.as_str()
        } else {
            self.of(VALUES)
        };
        let Some(line) = lines.get_mut(at) else {
            return text.into();
        };
        let equals: Vec<usize> = line.match_indices('=').map(|(i, _)| i).collect();
        if let Some(from) = equals.get(self.below(equals.len())) {
            let rest = &line[from + 1..];
            let to = rest.find([',', '}']).map_or(line.len(), |i| from + 1 + i);
            line.replace_range(from + 1..to, &format!(" {value} "));
        }
        lines.join("\n")
    }

    fn lines(&mut self, text: &str) -> String {
        let mut lines: Vec<&str> = text.lines().collect();
        let (a, b) = (self.below(lines.len()), self.below(lines.len()));
        let added = format!("{} = {}", self.of(KEYS), self.of(VALUES));
        match self.below(4) {
            0 => drop(lines.remove(a)),
            1 => lines.insert(b, lines[a]),
            2 => lines.swap(a, b),
            _ => lines.insert(a, &added),
        }
        lines.join("\n")
    }

    fn bytes(&mut self, text: &str) -> String {
        let mut bytes = text.as_bytes().to_vec();
        let at = self.below(bytes.len());
        let byte = self.below(256) as u8;
        match self.below(5) {
            0 => bytes[at] = byte,
            1 => bytes.insert(at, byte),
            2 => drop(bytes.remove(at)),
            3 => bytes.truncate(at),
            _ => bytes[at] = b"\"'[]{}=.,#\n\\-0"[self.below(14)],
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn set(&mut self, kinds: &[&str]) -> String {
        let table = self.of(&[
            "model",
            "model.position",
            "model.attention",
            "data",
            "train",
            "optimizer",
            "schedule",
            "x",
            "",
        ]);
        let value = if self.below(2) == 0 {
            self.of(kinds)
        } else {
            self.of(VALUES)
        };
        format!("{table}.{}={value}", self.of(KEYS))
    }
}

/// Visits every parameter of a model without initialising any.
struct Seen;

impl ModuleVisitor for Seen {}

/// Checks what must hold for an accepted experiment.
fn sound(loaded: &LoadedExperiment) {
    let text = resolved_toml(&loaded.experiment);
    for text in [text, annotated_toml(loaded)] {
        let again = judged(&text, &[]).unwrap_or_else(|e| panic!("resolved, it says: {e}\n{text}"));
        assert_eq!(again.experiment, loaded.experiment);
    }
    let model = &loaded.experiment.model;
    let few = |model: Transformer| model.depths().all(|depth| depth.blocks() < 100);
    if model.transformer().is_none_or(few) && loaded.experiment.data.context() < 10_000 {
        let inputs = BuildContext {
            shape: &Shape::of_text(loaded.experiment.data.context(), 10),
            seed: 1,
            device: &Device::default(),
        };
        model.visit(&inputs, &mut Seen);
    }
}

#[test]
fn shipped_experiments_make_sense() {
    let mut seeds = Vec::new();
    shipped(Path::new("experiments"), &mut seeds);
    assert!(!seeds.is_empty());
    for (path, text) in seeds {
        let loaded = judged_at(&path, &text, &[]);
        sound(&loaded.unwrap_or_else(|e| panic!("{e}")));
    }
}

/// Checks what must hold for a refusal.
fn clear(error: &Error) {
    assert_eq!(error.exit_status(), 2, "{error}");
    let Error::Invalid(faults) = error else {
        panic!("not a fault: {error}");
    };
    assert!(!faults.is_empty());
    for fault in faults {
        let text = fault.to_string();
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(
            fault.file.is_some() || text.starts_with("--set"),
            "no place: {text}"
        );
        assert!(
            !text.contains("Unfit") && !text.contains("internally tagged"),
            "{text}"
        );
    }
}

#[test]
fn no_file_makes_it_panic() {
    let (seeds, kinds) = (seeds(), kinds());
    let mut accepted = 0;
    for case in 0..CASES {
        let mut dice = Dice(Stream::new(1, Purpose::Split, (case, 0, 0)));
        let right = dice.below(3) == 0;
        let at = if right { 0 } else { dice.below(seeds.len()) };
        let (path, mut text) = seeds[at].clone();
        for _ in 0..=dice.below(3) {
            text = match dice.below(4) {
                0 => dice.lines(&text),
                1 => dice.bytes(&text),
                _ => dice.value(&text, &kinds),
            };
            if text.is_empty() {
                text.push('\n');
            }
        }
        let sets: Vec<String> = (0..dice.below(3) / 2).map(|_| dice.set(&kinds)).collect();
        let outcome = catch_unwind(AssertUnwindSafe(|| match judged_at(&path, &text, &sets) {
            Ok(loaded) => {
                sound(&loaded);
                true
            }
            Err(error) => {
                clear(&error);
                false
            }
        }));
        match outcome {
            Ok(fine) => accepted += u64::from(fine),
            Err(_) => panic!("case {case} with {sets:?}:\n{text}"),
        }
    }
    // Both outcomes occurred.
    assert!(
        (CASES / 50..CASES * 9 / 10).contains(&accepted),
        "{accepted} of {CASES} accepted"
    );
}

#[test]
fn deep_and_long_files_are_refused() {
    let deep =
        |open: &str, close: &str| format!("x = {}1{}", open.repeat(100_000), close.repeat(100_000));
    for text in [
        deep("[", "]"),
        deep("{ a = ", "}"),
        format!("{} = 1", vec!["a"; 100_000].join(".")),
        format!("[{}]", vec!["a"; 100_000].join(".")),
        format!("name = \"{}\"", "x".repeat(1 << 20)),
    ] {
        assert!(load_text(Path::new("x.toml"), text, &[]).is_err());
    }
    let set = format!("{}=1", vec!["a"; 100_000].join("."));
    let error = load_text(Path::new("x.toml"), RIGHT.into(), &[set]).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("a key has at most 32 words, not 100000")
    );
}
