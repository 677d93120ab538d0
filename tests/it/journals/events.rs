//! TensorBoard's event files: byte for byte as TensorBoard's own writer makes them, and the scalars that a run writes.

use super::{lines, train};
use formwork::train::exporters::events::{RecordContent, record};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn records_are_those_of_tensorboard() {
    let scalars = |values: &[(&str, f32)]| {
        let values = values.iter().map(|(tag, x)| ((*tag).into(), *x));
        RecordContent::Scalars(values.collect())
    };
    let long = format!("update_ratio/{}", "decoder.blocks.0".repeat(10));
    let written: Vec<u8> = [
        (1_700_000_000.5, 0, RecordContent::Version),
        (1_700_000_000.5, 0, RecordContent::Start),
        (
            1_700_000_001.25,
            10,
            scalars(&[("train/loss", 2.5), ("train/lr", 1e-3)]),
        ),
        (1_700_000_002.0, 300, scalars(&[(&long, -0.0)])),
        (
            1_700_000_003.0,
            5_000_000_000,
            scalars(&[("a", f32::NAN), ("b", f32::INFINITY)]),
        ),
        (1_700_000_004.0, 127, scalars(&[])),
    ]
    .iter()
    .flat_map(|(wall_time, step, what)| record(*wall_time, *step, what))
    .collect();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/events.tfevents");
    assert!(written == fs::read(golden).unwrap());
}

/// Returns the only non-empty event file of a run.
pub fn file(run: &Path) -> PathBuf {
    let files = fs::read_dir(run)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let is_events = |path: &PathBuf| {
        let named = path.to_string_lossy().contains("events.out.tfevents.");
        named && path.metadata().unwrap().len() > 0
    };
    let found: Vec<PathBuf> = files.filter(is_events).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].clone()
}

/// Reads the scalars of a file in order: tag, step, value.
pub fn scalars(file: &Path) -> Vec<(String, u64, f32)> {
    let bytes = fs::read(file).unwrap();
    let (mut rest, mut found) = (&bytes[..], Vec::new());
    while !rest.is_empty() {
        let length = u64::from_le_bytes(rest[..8].try_into().unwrap()) as usize;
        let (event, next) = (&rest[12..12 + length], &rest[12 + length + 4..]);
        rest = next;
        let fields = fields(event);
        let step = fields.iter().find(|(number, _)| *number == 2);
        let step = step.map_or(0, |(_, value)| value.number());
        let summaries = fields.iter().filter(|(number, _)| *number == 5);
        for (_, value) in summaries.flat_map(|(_, summary)| self::fields(summary.bytes())) {
            let value: BTreeMap<u64, Field> = self::fields(value.bytes()).into_iter().collect();
            let tag = String::from_utf8(value[&1].bytes().to_vec()).unwrap();
            let number = f32::from_le_bytes(value[&2].bytes().try_into().unwrap());
            found.push((tag, step, number));
        }
    }
    found
}

/// A value of a protocol buffer.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl Field<'_> {
    fn number(&self) -> u64 {
        match self {
            Self::Number(number) => *number,
            Self::Bytes(_) => panic!("bytes in the place of a number"),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Number(_) => panic!("a number in the place of bytes"),
        }
    }
}

/// Returns the fields of a message with their numbers.
fn fields(mut message: &[u8]) -> Vec<(u64, Field<'_>)> {
    fn varint(message: &mut &[u8]) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = message[0];
            *message = &message[1..];
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return value;
            }
        }
    }
    let mut fields = Vec::new();
    while !message.is_empty() {
        let key = varint(&mut message);
        let length = match key & 7 {
            0 => {
                fields.push((key >> 3, Field::Number(varint(&mut message))));
                continue;
            }
            1 => 8,
            2 => varint(&mut message) as usize,
            5 => 4,
            other => panic!("wire type {other}"),
        };
        fields.push((key >> 3, Field::Bytes(&message[..length])));
        message = &message[length..];
    }
    fields
}

#[test]
fn a_run_shows_its_losses_and_diagnostics() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    train(&run, &["journal.tensorboard=true", "diagnostics.every=20"]);
    let scalars = scalars(&file(&run));
    let of = |wanted: &str| -> Vec<(u64, f32)> {
        let own = scalars.iter().filter(|(tag, _, _)| tag == wanted);
        own.map(|(_, step, value)| (*step, *value)).collect()
    };
    let metrics = lines(&run.join("metrics.jsonl"));
    for split in ["train", "valid"] {
        let own = metrics.iter().filter(|line| line["split"] == split);
        let losses = own.map(|line| {
            let loss = line["loss"].as_f64().unwrap();
            (line["step"].as_u64().unwrap(), loss as f32)
        });
        assert_eq!(of(&format!("{split}/loss")), losses.collect::<Vec<_>>());
    }
    let diagnostics = lines(&run.join("diagnostics.jsonl"));
    let norms = diagnostics.iter().map(|line| {
        let norm = line["gradient_norm"]["blocks.1"].as_f64().unwrap();
        (line["step"].as_u64().unwrap(), norm as f32)
    });
    assert_eq!(of("gradient_norm/blocks.1"), norms.collect::<Vec<_>>());
    let steps: Vec<u64> = scalars.iter().map(|(_, step, _)| *step).collect();
    assert!(steps.is_sorted(), "{steps:?}");
}
