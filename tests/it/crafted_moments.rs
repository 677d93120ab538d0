//! Optimizer states made by hand: ids, ranks and shapes of no parameter, missing records. Burn assumes that records are valid;
//! each fault is one clear error before Burn reads it.

use crate::binary::{failure, output};
use burn::tensor::{Bytes, DType, Shape};
use burn_pack::{Reader, Scalar, Tensor, Writer};
use formwork::train::manifest;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Name, number format, shape, id of the parameter, bytes.
type Moment = (String, DType, Vec<usize>, Option<u64>, Vec<u8>);

/// The contents of a file of moments.
struct Parts {
    tensors: Vec<Moment>,
    scalars: BTreeMap<String, Scalar>,
    paths: BTreeMap<String, String>,
}

impl Parts {
    fn read(path: &Path) -> Self {
        let reader = Reader::from_bytes(Bytes::from_bytes_vec(fs::read(path).unwrap())).unwrap();
        let (scalars, paths) = (reader.scalars().clone(), reader.metadata().clone());
        let tensors = reader.into_tensors().unwrap().into_iter();
        let tensors = tensors.map(|tensor| {
            let (name, dtype, shape, id, bytes) = tensor.into_parts().unwrap();
            (name, dtype, shape.to_vec(), id, bytes.to_vec())
        });
        Self {
            tensors: tensors.collect(),
            scalars,
            paths,
        }
    }

    fn write(self, path: &Path) {
        let tensors = self.tensors.into_iter();
        let tensors = tensors.map(|(name, dtype, shape, id, bytes)| {
            Tensor::new(
                name,
                dtype,
                Shape::from(shape),
                id,
                Bytes::from_bytes_vec(bytes),
            )
        });
        let mut writer = Writer::new(tensors.collect()).overwrite(true);
        for (id, path) in &self.paths {
            writer = writer.with_metadata(id, path);
        }
        for (name, value) in self.scalars {
            writer = writer.with_scalar(&name, value);
        }
        writer.write_to_file(path).unwrap();
    }

    /// Returns the id of the first parameter that is a matrix.
    fn id(&self) -> String {
        let matrix = self.tensors.iter().find(|t| t.2.len() == 2 && t.2[0] > 1);
        matrix.unwrap().3.unwrap().to_string()
    }

    fn rename(&mut self, id: &str, to: &str) {
        for tensor in &mut self.tensors {
            if let Some(leaf) = tensor.0.strip_prefix(id) {
                tensor.0 = format!("{to}{leaf}");
                tensor.3 = to.parse().ok();
            }
        }
        let scalars = std::mem::take(&mut self.scalars).into_iter();
        self.scalars = scalars
            .map(|(name, value)| match name.strip_prefix(id) {
                Some(leaf) => (format!("{to}{leaf}"), value),
                None => (name, value),
            })
            .collect();
        let path = self.paths.remove(id).unwrap();
        self.paths.insert(to.into(), path);
    }
}

fn trained(folder: &Path, optimizer: &str) -> String {
    let run = folder.join("run").display().to_string();
    let kind = format!("optimizer={optimizer}");
    let words = [
        "train",
        "experiments/smoke/tiny.toml",
        "--quiet",
        "--run",
        &run,
    ];
    let sets = [
        "--set",
        "train.steps=5",
        "--set",
        "schedule.warmup_steps=1",
        "--set",
        &kind,
    ];
    output(&[&words[..], &sets].concat());
    run
}

type Craft = (&'static str, fn(&mut Parts, &str));

fn refused(run: &str, crafts: &[Craft]) {
    let folder = Path::new(run).join("steps/00000005");
    let file = folder.join("optimizer.bpk");
    let whole = fs::read(&file).unwrap();
    for (what, craft) in crafts {
        let mut parts = Parts::read(&file);
        let id = parts.id();
        craft(&mut parts, &id);
        parts.write(&file);
        let names: Value =
            serde_json::from_slice(&fs::read(folder.join("manifest.json")).unwrap()).unwrap();
        let names = names["files"].as_object().unwrap();
        let names: Vec<&str> = names.keys().map(String::as_str).collect();
        manifest::seal(&folder, &names).unwrap();
        let (status, said) = failure(&["resume", run, "--set", "train.steps=7"]);
        assert_eq!(status, 1, "{what}: {said}");
        assert!(said.contains("optimizer.bpk: "), "{what}: {said}");
        assert!(!said.contains("panicked"), "{what}: {said}");
        assert_eq!(said.trim().lines().count(), 1, "{what}: {said}");
        fs::write(&file, &whole).unwrap();
    }
}

#[test]
fn crafted_moments_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "{kind=\"adamw\",lr=0.001}");
    refused(
        &run,
        &[
            ("an id of no parameter", |p, id| p.rename(id, "12345")),
            ("an id that is no number", |p, id| p.rename(id, "x")),
            ("tensors without an id", |p, id| {
                let own = |t: &&mut Moment| t.0.starts_with(id);
                p.tensors.iter_mut().filter(own).for_each(|t| t.3 = None);
            }),
            ("tensors with the id of another", |p, id| {
                let own = |t: &&mut Moment| t.0.starts_with(id);
                p.tensors.iter_mut().filter(own).for_each(|t| t.3 = Some(7));
            }),
            ("a rank of 9", |p, id| {
                p.scalars
                    .insert(format!("{id}.__rank"), Scalar::from(9_usize));
            }),
            ("a rank below the tensor's", |p, id| {
                p.scalars
                    .insert(format!("{id}.__rank"), Scalar::from(1_usize));
            }),
            ("no rank", |p, id| {
                p.scalars.remove(&format!("{id}.__rank"));
            }),
            ("no path", |p, id| {
                p.paths.remove(id);
            }),
            ("a path of another", |p, id| {
                p.paths.insert(id.into(), "head.weight".into());
            }),
            ("one moment alone", |p, id| {
                let name = format!("{id}.second");
                p.tensors.retain(|t| t.0 != name);
            }),
            ("no tensor at all", |p, id| {
                p.tensors.retain(|t| !t.0.starts_with(id));
            }),
            ("a flat tensor", |p, id| {
                let own = |t: &&mut Moment| t.0.starts_with(id);
                let flat = |t: &mut Moment| t.2 = vec![t.2.iter().product()];
                p.tensors.iter_mut().filter(own).for_each(flat);
            }),
            ("sides exchanged", |p, _| {
                let uneven = |t: &&mut Moment| t.2.len() == 2 && t.2[0] != t.2[1];
                p.tensors
                    .iter_mut()
                    .filter(uneven)
                    .for_each(|t| t.2.reverse());
            }),
            ("a single value", |p, id| {
                let own = |t: &&mut Moment| t.0.starts_with(id);
                p.tensors.iter_mut().filter(own).for_each(|t| {
                    t.2 = vec![1, 1];
                    t.4.truncate(4);
                });
            }),
            ("whole numbers", |p, id| {
                let own = |t: &&mut Moment| t.0.starts_with(id);
                p.tensors
                    .iter_mut()
                    .filter(own)
                    .for_each(|t| t.1 = DType::I32);
            }),
            ("a record beside the others", |p, id| {
                p.scalars
                    .insert(format!("{id}.more"), Scalar::from(9_usize));
            }),
        ],
    );
    let (status, said) = {
        let file = Path::new(&run).join("steps/00000005/optimizer.bpk");
        fs::write(&file, "no moments").unwrap();
        failure(&["resume", &run, "--set", "train.steps=7"])
    };
    assert_eq!(status, 1, "{said}");
}

#[test]
fn moments_of_rows_and_columns_come_in_pairs() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "{kind=\"adafactor\",lr=0.001}");
    refused(
        &run,
        &[
            ("no columns", |p, id| {
                let name = format!("{id}.column_second_moment");
                p.tensors.retain(|t| t.0 != name);
            }),
            ("whole matrices for the rows", |p, id| {
                let columns = format!("{id}.column_second_moment");
                let of = |p: &Parts, name: &str| -> Vec<usize> {
                    p.tensors.iter().find(|t| t.0 == name).unwrap().2.clone()
                };
                let rows = format!("{id}.second_moment");
                let shape = vec![of(p, &rows)[0], of(p, &columns)[1]];
                let size: usize = 4 * shape.iter().product::<usize>();
                p.tensors.retain(|t| t.0 != columns);
                for tensor in p.tensors.iter_mut().filter(|t| t.0 == rows) {
                    tensor.2.clone_from(&shape);
                    tensor.4.resize(size, 0);
                }
            }),
        ],
    );
}
