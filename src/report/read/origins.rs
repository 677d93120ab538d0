//! What a run was made from beside its settings: the files of its data (`files.json`), the weights that it began from
//! (`init.json`), its teacher or reference (`teacher.json`), the run that rewards it (`reward.json`). Each is known by the SHA-256 of its content, wherever it lies.
//! Of a file whose content changed while the run was on its way (`resume --other-data`) each content is one.

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

/// The keys of a run that stands frozen beside another one, each with that of its checkpoint.
const FROZEN: [(&str, &str); 2] = [
    ("task.teacher", "task.teacher_checkpoint"),
    ("task.reference", "task.reference_checkpoint"),
];
/// Those of a run that gives rewards.
const REWARDING: [(&str, &str); 1] = [("task.reward.path", "task.reward.checkpoint")];

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The key that names it: `data.path`, `init.from`, `task.teacher`. A key that names several files has as many.
    pub key: String,
    /// Where it lay; of weights also the checkpoint that was asked for.
    pub place: String,
    /// SHA-256 of its content, in hexadecimal.
    pub sha256: String,
    /// Whether each seed has one of its own, as runs that begin from the run of their seed.
    pub of_seed: bool,
    /// The last step that was taken with it; none of what the run reads now.
    pub until: Option<u64>,
    /// Its name with the beginning of its sum.
    shown: String,
}

impl Origin {
    fn new(key: String, place: String, sha256: &str, name: &str) -> Self {
        Self {
            shown: format!("{name} ({})", short(sha256)),
            sha256: sha256.to_string(),
            of_seed: false,
            until: None,
            key,
            place,
        }
    }
}

/// The beginning of a sum, enough to tell it from others.
pub fn short(sha256: &str) -> &str {
    sha256.get(..8).unwrap_or(sha256)
}

/// Reads those of the run in a folder; a run of an earlier version lacks some.
///
/// # Errors
/// A file that cannot be read.
pub fn read(folder: &Path, settings: &[(String, String)]) -> Result<Vec<Origin>> {
    let (files, weights) = (
        optional_json(&folder.join(FILES))?,
        optional_json(&folder.join(INIT))?,
    );
    let files = files.as_array().into_iter().flatten().flat_map(file);
    let weights = weights.as_array().into_iter().flatten();
    let weights = weights.filter_map(|begun| beginning(folder, begun));
    let mut all: Vec<Origin> = files.chain(weights).collect();
    for (file, keys) in [(TEACHER, &FROZEN[..]), (REWARD, &REWARDING[..])] {
        let print = optional_json(&folder.join(file))?;
        all.extend(frozen(folder, &print, settings, keys));
    }
    Ok(all)
}

fn text<'v>(value: &'v Value, name: &str) -> Option<&'v str> {
    value.get(name)?.as_str()
}

/// The contents of a file, the one that the run reads now last.
fn file(file: &Value) -> Vec<Origin> {
    let content = |print: &Value| {
        let (key, path, sum) = (
            text(file, "key")?,
            text(print, "path")?,
            text(print, "sha256")?,
        );
        let name = packed::stripped(&name_of(path)).to_string();
        Some(Origin {
            until: print.get("until").and_then(Value::as_u64),
            ..Origin::new(format!("data.{key}"), path.into(), sum, &name)
        })
    };
    let earlier = file.get("earlier").and_then(Value::as_array);
    let all = earlier.into_iter().flatten().chain([file]);
    all.filter_map(content).collect()
}

fn beginning(folder: &Path, begun: &Value) -> Option<Origin> {
    let (key, run, sum) = (
        text(begun, "key")?,
        text(begun, "run")?,
        text(begun, "sha256")?,
    );
    let run = whole(folder, run);
    let place = format!("{run} {}", text(begun, "checkpoint")?);
    let name = format!("{} step {}", name_of(&run), begun.get("step")?);
    Some(Origin {
        of_seed: begun.get("of_seed")?.as_bool()?,
        ..Origin::new(key.into(), place, sum, &name)
    })
}

/// The run that stood frozen beside another one, by the first of these keys that names it; each with the key of its checkpoint.
fn frozen(
    folder: &Path,
    print: &Value,
    settings: &[(String, String)],
    keys: &[(&'static str, &'static str)],
) -> Option<Origin> {
    let setting = |key: &str| settings.iter().find(|(k, _)| k == key).map(|(_, v)| v);
    let mut named = keys.iter();
    let (key, checkpoint, run) = named.find_map(|(key, at)| Some((*key, *at, setting(key)?)))?;
    let whole = whole(folder, run);
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

/// The whole path of a run that the run in a folder names; as it is named where it is gone.
fn whole(folder: &Path, run: &str) -> String {
    let whole = folder.join(run).canonicalize();
    whole.map_or(run.to_string(), |whole| whole.display().to_string())
}

fn name_of(path: &str) -> String {
    let name = Path::new(path).file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Puts the names and the sums of contents in the place of paths: the same content is the same wherever it lies, and runs in
/// folders of another depth write another path to it. Of what each seed has one of its own the path stays.
pub fn known_by_content(origins: &[Origin], settings: &mut [(String, String)]) {
    for (key, value) in settings {
        let now = |o: &&Origin| o.key == *key && !o.of_seed && o.until.is_none();
        let own = origins.iter().filter(now);
        let content: Vec<&str> = own.map(|origin| origin.shown.as_str()).collect();
        if !content.is_empty() {
            *value = content.join(", ");
        }
    }
}

/// The contents that changed while the run in a folder was on its way, as changes of the keys that name them.
pub fn changes(folder: &Path, origins: &[Origin]) -> Vec<Change> {
    let newest = checkpoint::steps(folder).pop().unwrap_or(0);
    let changed: BTreeSet<(u64, &str)> = origins
        .iter()
        .filter_map(|o| Some((o.until?, o.key.as_str())))
        .collect();
    let change = |(step, key): (u64, &str)| {
        let own: Vec<&Origin> = origins.iter().filter(|o| o.key == key).collect();
        // Each file of the key ends with what the run reads now.
        let content = |is_read: fn(u64, u64) -> bool| {
            let read = |o: &&&Origin| o.until.is_none_or(|until| is_read(until, step));
            let files = own.split_inclusive(|o| o.until.is_none());
            let read = files.filter_map(|file| file.iter().find(read));
            let read: Vec<&str> = read.map(|o| o.shown.as_str()).collect();
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
