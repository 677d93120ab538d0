//! Finds the weight files of a folder: a single file, or the shards that an index names.

use super::weights::invalid;
use crate::error::{Error, Result};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The weight files of a folder.
#[derive(Debug)]
pub(super) struct Files {
    /// Paths, in the order in which the files are read.
    pub files: Vec<PathBuf>,
    /// The path of the index, and its map from tensor names to shards, if there is one.
    pub index: Option<(PathBuf, BTreeMap<String, String>)>,
}

/// Finds the weight files of a folder, or their index, by the first of `names` that is there.
pub(super) fn files(dir: &Path, names: [&str; 2]) -> Result<Files> {
    for single in names {
        let (stem, end) = single.rsplit_once('.').unwrap_or((single, ""));
        let index = dir.join(format!("{stem}.{end}.index.json"));
        if index.is_file() {
            return shards(dir, &index);
        }
        let file = dir.join(single);
        if file.is_file() {
            return Ok(Files {
                files: vec![file],
                index: None,
            });
        }
    }
    let [first, second] = names;
    let message = format!("contains neither {first} nor {second}, nor a shard index of either");
    Err(invalid(dir, message))
}

/// Finds the shards that an index names.
fn shards(dir: &Path, index: &Path) -> Result<Files> {
    let text = std::fs::read_to_string(index).map_err(Error::io("read", index))?;
    let value: Value =
        serde_json::from_str(&text).map_err(|e| invalid(index, format!("is not JSON: {e}")))?;
    let map = value["weight_map"].as_object().ok_or_else(|| {
        let message = "has no `weight_map`, the object from tensor names to files".into();
        invalid(index, message)
    })?;
    if map.is_empty() {
        let message = "has a `weight_map` that names no tensor".into();
        return Err(invalid(index, message));
    }
    let pairs = map.iter();
    let map: Option<BTreeMap<String, String>> = pairs
        .map(|(name, shard)| Some((name.clone(), shard.as_str()?.to_string())))
        .collect();
    let map = map.ok_or_else(|| {
        let message = "has a `weight_map` whose values are not all file names".into();
        invalid(index, message)
    })?;
    let place = |shard: &String| match plain(shard).then(|| dir.join(shard)) {
        Some(path) if path.is_file() => Ok(path),
        _ => {
            let message = format!("names the shard `{shard}`, which is not in the folder");
            Err(invalid(index, message))
        }
    };
    let shards: BTreeSet<&String> = map.values().collect();
    let files = shards.into_iter().map(place).collect::<Result<_>>()?;
    Ok(Files {
        files,
        index: Some((index.to_path_buf(), map)),
    })
}

/// Whether a shard's name is a plain file name, without folders.
fn plain(name: &str) -> bool {
    Path::new(name).file_name().is_some_and(|f| f == name)
}
