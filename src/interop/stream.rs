//! Writing safetensors tensor by tensor: the header first, which needs shapes alone, then each tensor's numbers, so that
//! no more than a tensor or two are held beside the model.

use super::Parameters;
use super::rename::Table;
use super::rule::Rule;
use super::weights::Array;
use crate::error::{Error, Result};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// The maker of some tensors of a file.
enum Maker<'a> {
    /// A rule from parameters; each name with the number of its tensor.
    Rule(&'a Rule, Vec<(String, usize)>),
    /// What is at hand.
    Array(String, Array),
}

/// Writes a model's parameters as HF's file of weights; gives how many tensors it has. Counts of batches that a table
/// names are whole numbers, all 0.
///
/// # Errors
/// The disk's.
pub fn write_parameters(path: &Path, table: &Table, parameters: &Parameters) -> Result<usize> {
    let shapes = parameters.shapes();
    let mut owners: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let mut found: Vec<(&Rule, Vec<usize>)> = Vec::new();
    for rule in table.rules.iter().filter(|rule| !rule.read_only) {
        let ours = rule.ours.iter().map(|path| shapes.get(path).copied());
        let Some(ours) = ours.collect::<Option<Vec<&[usize]>>>() else {
            continue;
        };
        let number = found.len();
        let names = rule.theirs.iter().cloned().zip(0..);
        owners.extend(names.map(|(name, part)| (name, (number, part))));
        found.push((rule, rule.their_shape(&ours)));
    }
    for (copy, original) in &table.copies {
        if let Some(owner) = owners.get(original).copied() {
            owners.insert(copy.clone(), owner);
        }
    }
    let written = table.constants.iter().filter(|constant| constant.written);
    let constants: BTreeMap<String, Array> = written
        .map(|constant| (constant.name.clone(), constant.array()))
        .collect();
    owners.retain(|name, _| !constants.contains_key(name));
    // Idle rules have no counts: a shortcut that a block lacks.
    let counted = |name: &&String| {
        let weight = name.replace("num_batches_tracked", "weight");
        owners.contains_key(&weight) || constants.contains_key(&weight)
    };
    let counts: Vec<&String> = table.counts.iter().filter(counted).collect();
    let mut makers: Vec<(Maker, Vec<usize>)> = Vec::new();
    for (number, (rule, shape)) in found.into_iter().enumerate() {
        let names = owners.iter().filter(|(_, owner)| owner.0 == number);
        let names = names.map(|(name, owner)| (name.clone(), owner.1)).collect();
        makers.push((Maker::Rule(rule, names), shape));
    }
    for (name, array) in constants {
        let shape = array.shape.clone();
        makers.push((Maker::Array(name, array), shape));
    }
    write(path, &counts, &makers, parameters)?;
    Ok(owners.len() + table.constants.iter().filter(|c| c.written).count())
}

/// Writes tensors that are at hand.
///
/// # Errors
/// The disk's.
pub fn write_arrays(path: &Path, arrays: BTreeMap<String, Array>) -> Result<()> {
    let arrays = arrays.into_iter();
    let makers: Vec<(Maker, Vec<usize>)> = arrays
        .map(|(name, array)| {
            let shape = array.shape.clone();
            (Maker::Array(name, array), shape)
        })
        .collect();
    write(path, &[], &makers, &Parameters::default())
}

fn write(
    path: &Path,
    counts: &[&String],
    makers: &[(Maker, Vec<usize>)],
    parameters: &Parameters,
) -> Result<()> {
    let file = File::create(path).map_err(Error::io("create", path))?;
    let mut file = BufWriter::with_capacity(1 << 20, file);
    let io = Error::io("write", path);
    let mut body = || -> std::io::Result<()> {
        let header = header(counts, makers);
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(&header)?;
        for _ in counts {
            file.write_all(&0_i64.to_le_bytes())?;
        }
        for (maker, _) in makers {
            match maker {
                Maker::Array(_, array) => numbers(&mut file, array)?,
                Maker::Rule(rule, names) => {
                    let parts: Vec<Array> = rule
                        .ours
                        .iter()
                        .filter_map(|path| parameters.read(path))
                        .collect();
                    let made = rule.export(&parts.iter().collect::<Vec<_>>());
                    drop(parts);
                    for (_, part) in names {
                        numbers(&mut file, &made[*part])?;
                    }
                }
            }
        }
        file.flush()
    };
    body().map_err(io)
}

/// The header: whole numbers before 32-bit ones, so that each tensor is aligned; blanks fill up to a multiple of 8.
fn header(counts: &[&String], makers: &[(Maker, Vec<usize>)]) -> Vec<u8> {
    let mut entries = Map::new();
    entries.insert("__metadata__".into(), json!({ "format": "pt" }));
    let mut end = 0;
    let mut add = |name: &str, dtype: &str, shape: &[usize], bytes: usize| {
        let entry = json!({ "dtype": dtype, "shape": shape, "data_offsets": [end, end + bytes] });
        entries.insert(name.into(), entry);
        end += bytes;
    };
    for name in counts {
        add(name, "I64", &[], size_of::<i64>());
    }
    for (maker, shape) in makers {
        let bytes = shape.iter().product::<usize>() * size_of::<f32>();
        match maker {
            Maker::Array(name, _) => add(name, "F32", shape, bytes),
            Maker::Rule(_, names) => {
                for (name, _) in names {
                    add(name, "F32", shape, bytes);
                }
            }
        }
    }
    let mut text = Value::Object(entries).to_string().into_bytes();
    text.resize(text.len().next_multiple_of(8), b' ');
    text
}

fn numbers(file: &mut impl Write, array: &Array) -> std::io::Result<()> {
    for some in array.values.chunks(1 << 16) {
        let bytes: Vec<u8> = some.iter().flat_map(|x| x.to_le_bytes()).collect();
        file.write_all(&bytes)?;
    }
    Ok(())
}
