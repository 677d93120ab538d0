//! The inputs of a run beside its settings: its data files (`files.json`), the weights it began from (`init.json`), its teacher
//! or reference (`teacher.json`) and the run that rewards it (`reward.json`). Each is identified by the SHA-256 of its content,
//! wherever it is stored. If a file's content changed during the run (`resume --other-data`), each content is a separate origin.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::changes::Change;
use super::run::optional_json;
use crate::data::files::packed;
use crate::error::Result;
use crate::train::checkpoint;
use crate::train::run_dir::{FILES, REWARD, TEACHER};
use crate::train::transfer::INIT;

/// Keys that name a frozen run (teacher or reference), each with the key of its checkpoint.
const FROZEN_KEYS: [(&str, &str); 2] = [
    ("task.teacher", "task.teacher_checkpoint"),
    ("task.reference", "task.reference_checkpoint"),
];
/// Key that names the run of the reward model, with the key of its checkpoint.
const REWARD_KEYS: [(&str, &str); 1] = [("task.reward.path", "task.reward.checkpoint")];

/// One input of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Key that names the input: `data.path`, `init.from`, `task.teacher`. A key that names several files has several origins.
    pub key: String,
    /// Path of the input; for weights followed by the requested checkpoint.
    pub path: String,
    /// SHA-256 of the content, in hexadecimal.
    pub sha256: String,
    /// Whether each seed has its own content, as for runs that begin from the run of their seed.
    pub is_per_seed: bool,
    /// Last step that used this content; `None` if the run still uses it.
    pub last_step: Option<u64>,
    /// Name followed by the first digits of the hash.
    label: String,
}

impl Origin {
    fn new(key: String, place: String, sha256: &str, name: &str) -> Self {
        Self {
            label: format!("{name} ({})", short(sha256)),
            sha256: sha256.to_string(),
            is_per_seed: false,
            last_step: None,
            key,
            path: place,
        }
    }
}

/// Returns the first eight digits of a hash, enough to tell it from others.
pub fn short(sha256: &str) -> &str {
    sha256.get(..8).unwrap_or(sha256)
}

/// Reads the origins of the run in a folder; runs of earlier versions lack some.
///
/// # Errors
/// If a file cannot be read.
pub fn read(folder: &Path, settings: &[(String, String)]) -> Result<Vec<Origin>> {
    let (files, weights) = (
        optional_json(&folder.join(FILES))?,
        optional_json(&folder.join(INIT))?,
    );
    let files = files.as_array().into_iter().flatten().flat_map(file);
    let weights = weights.as_array().into_iter().flatten();
    let weights = weights.filter_map(|begun| initial_origin(folder, begun));
    let mut all: Vec<Origin> = files.chain(weights).collect();
    for (file, keys) in [(TEACHER, &FROZEN_KEYS[..]), (REWARD, &REWARD_KEYS[..])] {
        let print = optional_json(&folder.join(file))?;
        all.extend(frozen_origin(folder, &print, settings, keys));
    }
    Ok(all)
}

fn text<'v>(value: &'v Value, name: &str) -> Option<&'v str> {
    value.get(name)?.as_str()
}

/// Returns the contents that a file had during the run, the current one last.
fn file(file: &Value) -> Vec<Origin> {
    let content = |print: &Value| {
        let (key, path, sum) = (
            text(file, "key")?,
            text(print, "path")?,
            text(print, "sha256")?,
        );
        let name = packed::strip_ending(&name_of(path)).to_string();
        Some(Origin {
            last_step: print.get("until").and_then(Value::as_u64),
            ..Origin::new(format!("data.{key}"), path.into(), sum, &name)
        })
    };
    let earlier = file.get("earlier").and_then(Value::as_array);
    let all = earlier.into_iter().flatten().chain([file]);
    all.filter_map(content).collect()
}

fn initial_origin(folder: &Path, begun: &Value) -> Option<Origin> {
    let (key, run, sum) = (
        text(begun, "key")?,
        text(begun, "run")?,
        text(begun, "sha256")?,
    );
    let run = absolute_path(folder, run);
    let place = format!("{run} {}", text(begun, "checkpoint")?);
    let name = format!("{} step {}", name_of(&run), begun.get("step")?);
    Some(Origin {
        is_per_seed: begun.get("of_seed")?.as_bool()?,
        ..Origin::new(key.into(), place, sum, &name)
    })
}

/// Returns the frozen run that the first of these keys in the settings names; each key comes with the key of its checkpoint.
fn frozen_origin(
    folder: &Path,
    print: &Value,
    settings: &[(String, String)],
    keys: &[(&'static str, &'static str)],
) -> Option<Origin> {
    let setting = |key: &str| settings.iter().find(|(k, _)| k == key).map(|(_, v)| v);
    let mut named = keys.iter();
    let (key, checkpoint, run) = named.find_map(|(key, at)| Some((*key, *at, setting(key)?)))?;
    let whole = absolute_path(folder, run);
    let asked = setting(checkpoint).map_or("best", String::as_str);
    let name = format!("{} step {}", name_of(run), print.get("step")?);
    let place = format!("{whole} {asked}");
    Some(Origin::new(
        key.into(),
        place,
        text(print, "sha256")?,
        &name,
    ))
}

/// Returns the absolute path of a run named by the run in `folder`, or the name itself if that run is gone.
fn absolute_path(folder: &Path, run: &str) -> String {
    let whole = folder.join(run).canonicalize();
    whole.map_or(run.to_string(), |whole| whole.display().to_string())
}

fn name_of(path: &str) -> String {
    let name = Path::new(path).file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Replaces paths in the settings by names and hashes of the contents. The same content counts as equal wherever it is
/// stored, and runs at different folder depths write different relative paths to it. If each seed has its own content, the
/// path is kept.
pub fn identify_by_content(origins: &[Origin], settings: &mut [(String, String)]) {
    for (key, value) in settings {
        let now = |o: &&Origin| o.key == *key && !o.is_per_seed && o.last_step.is_none();
        let own = origins.iter().filter(now);
        let content: Vec<&str> = own.map(|origin| origin.label.as_str()).collect();
        if !content.is_empty() {
            *value = content.join(", ");
        }
    }
}

/// Returns the contents that changed during the run in a folder, as changes of the keys that name them.
pub fn changes(folder: &Path, origins: &[Origin]) -> Vec<Change> {
    let newest = checkpoint::steps(folder).pop().unwrap_or(0);
    let changed: BTreeSet<(u64, &str)> = origins
        .iter()
        .filter_map(|o| Some((o.last_step?, o.key.as_str())))
        .collect();
    let change = |(step, key): (u64, &str)| {
        let own: Vec<&Origin> = origins.iter().filter(|o| o.key == key).collect();
        // The origins of each file of the key end with its current content.
        let content = |is_read: fn(u64, u64) -> bool| {
            let read = |o: &&&Origin| o.last_step.is_none_or(|until| is_read(until, step));
            let files = own.split_inclusive(|o| o.last_step.is_none());
            let read = files.filter_map(|file| file.iter().find(read));
            let read: Vec<&str> = read.map(|o| o.label.as_str()).collect();
            read.join(", ")
        };
        Change {
            step,
            key: key.to_string(),
            from: Some(content(|until, step| until >= step)),
            to: Some(content(|until, step| until > step)),
            saved: newest > step,
        }
    };
    changed.into_iter().map(change).collect()
}
