//! Writes our adapters as a folder of `peft`.

use super::experts;
use super::factors::{Factors, is_matrix, is_transposed, joined};
use super::{CONFIG, FACTORS, PREFIX};
use crate::error::{Error, Result};
use crate::interop::rename::{Rule, Table};
use crate::interop::stream::write_arrays;
use crate::interop::weights::Array;
use crate::train::lora::{self, LoraConfig};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Number of paths that a message lists before it only counts the rest.
const LISTED: usize = 3;

/// The contents of the folder, as they are collected.
#[derive(Default)]
struct Folder {
    tensors: BTreeMap<String, Array>,
    /// The rank of each module that has an adapter.
    ranks: BTreeMap<String, usize>,
    /// Modules that were trained in full.
    saved: BTreeSet<String>,
    transposed: bool,
    /// Our paths that have been placed in a tensor.
    written_paths: BTreeSet<String>,
}

/// Writes the adapters among `arrays` (the parameters of a model of a family, by their paths) and the parameters trained in full
/// into the folder `dir`; `task_type` is `peft`'s name of the task. Returns the number of tensors.
///
/// # Errors
/// If `peft` has no LoRA for the module of a weight, or loses its factors; if only part of a module was trained in full; if a
/// file cannot be written.
pub fn write(
    dir: &Path,
    arrays: &BTreeMap<String, Array>,
    lora: &LoraConfig,
    (family, table): (&str, &Table),
    task_type: Option<&str>,
) -> Result<usize> {
    let in_full = arrays
        .keys()
        .map(String::as_str)
        .filter(|p| !lora::is_adapter(p));
    let in_full = lora.in_full(in_full)?;
    if let Some(tied) = in_full.iter().find(|path| table.is_tied(path)) {
        return Err(Error::usage(format!(
            "`{tied}` was trained in full and is tied to the head, for which `peft` would keep the old values: the adapter \
             would compute different outputs; export the merged model without --adapter"
        )));
    }
    let mut folder = Folder::default();
    for rule in table.rules.iter().filter(|rule| !rule.read_only) {
        folder.add_adapter(rule, arrays);
        folder.add_in_full(rule, arrays, &in_full);
    }
    folder.require_whole_modules(table, arrays)?;
    let adapters = arrays.keys().filter(|path| lora::is_adapter(path));
    let wanted = adapters.map(String::as_str).chain(in_full.iter().copied());
    let lost: Vec<&str> = wanted
        .filter(|path| !folder.written_paths.contains(*path))
        .collect();
    if !lost.is_empty() {
        let some: Vec<String> = lost
            .iter()
            .take(LISTED)
            .map(|path| format!("`{path}`"))
            .collect();
        return Err(Error::usage(format!(
            "{} of {} trained parameters have no place in an adapter of peft ({}): HF has no separate matrix for them; export \
             the merged model without --adapter",
            lost.len(),
            lost.len() + folder.written_paths.len(),
            some.join(", ")
        )));
    }
    let moved = experts::lost_modules(family, &folder.ranks);
    if let Some(first) = moved.first() {
        return Err(Error::usage(format!(
            "{} of {} modules with adapters have no place in an adapter of peft (`{first}`): for {family}, peft turns modules \
             with such names into parameters of experts, and their adapters are lost; export the merged model without --adapter",
            moved.len(),
            folder.ranks.len()
        )));
    }
    let path = dir.join(CONFIG);
    let config = folder.config(lora, task_type);
    std::fs::write(&path, format!("{config:#}\n")).map_err(Error::io("write", &path))?;
    write_arrays(&dir.join(super::WEIGHTS[0]), &folder.tensors)?;
    Ok(folder.tensors.len())
}

impl Folder {
    /// Adds the adapter of the module of a rule, joined from those of our weights.
    fn add_adapter(&mut self, rule: &Rule, arrays: &BTreeMap<String, Array>) {
        if !is_matrix(rule) {
            return;
        }
        let parts: Vec<Option<Factors>> = rule
            .ours
            .iter()
            .map(|path| {
                let [b, a] = lora::factors_of(path).map(|path| arrays.get(&path).cloned());
                Some(Factors { a: a?, b: b? })
            })
            .collect();
        let rows: Option<Vec<usize>> = rule
            .ours
            .iter()
            .map(|path| arrays.get(path)?.shape.first().copied())
            .collect();
        let (Some(factors), Some(module)) = (
            rows.and_then(|rows| joined(rule, &parts, &rows)),
            rule.theirs[0].strip_suffix(".weight"),
        ) else {
            return;
        };
        let adapted = rule.ours.iter().zip(&parts);
        let adapted = adapted.filter(|(_, part)| part.is_some());
        self.written_paths
            .extend(adapted.flat_map(|(path, _)| lora::factors_of(path)));
        self.transposed |= is_transposed(rule);
        self.ranks.insert(module.to_string(), factors.rank());
        for (ending, array) in FACTORS.iter().zip([factors.a, factors.b]) {
            self.tensors
                .insert(format!("{PREFIX}{module}{ending}"), array);
        }
    }

    /// Adds the tensors of a rule if all of its parameters were trained in full.
    fn add_in_full(
        &mut self,
        rule: &Rule,
        arrays: &BTreeMap<String, Array>,
        in_full: &BTreeSet<&str>,
    ) {
        let parts = rule.ours.iter().map(|path| {
            let array = arrays.get(path)?;
            in_full.contains(path.as_str()).then_some(array)
        });
        let Some(parts) = parts.collect::<Option<Vec<&Array>>>() else {
            return;
        };
        for (name, array) in rule.theirs.iter().zip(rule.export(&parts)) {
            let (module, _) = name.rsplit_once('.').unwrap_or((name, ""));
            self.saved.insert(module.to_string());
            self.tensors.insert(format!("{PREFIX}{name}"), array);
        }
        self.written_paths.extend(rule.ours.iter().cloned());
    }

    /// Checks that no module was trained in full only in part: `peft` saves whole modules.
    fn require_whole_modules(&self, table: &Table, arrays: &BTreeMap<String, Array>) -> Result<()> {
        let rules = table.rules.iter().filter(|rule| !rule.read_only);
        let there = rules.filter(|rule| rule.ours.iter().all(|path| arrays.contains_key(path)));
        for name in there.flat_map(|rule| &rule.theirs) {
            let (module, field) = name.rsplit_once('.').unwrap_or((name, ""));
            if self.saved.contains(module) && !self.tensors.contains_key(&format!("{PREFIX}{name}"))
            {
                return Err(Error::usage(format!(
                    "an adapter of peft contains whole modules, but `{field}` of `{module}` was not trained in full; add it to \
                     [lora] in_full, or export the merged model without --adapter"
                )));
            }
        }
        Ok(())
    }

    fn config(&self, lora: &LoraConfig, task_type: Option<&str>) -> Value {
        let usual = experts::default_rank(&self.ranks).unwrap_or(lora.rank);
        let alpha = |rank: usize| number(lora.scale() * rank as f64);
        let others = || self.ranks.iter().filter(|(_, rank)| **rank != usual);
        let ranks: Map<String, Value> = others().map(|(m, r)| (m.clone(), json!(r))).collect();
        let alphas: Map<String, Value> = others().map(|(m, r)| (m.clone(), alpha(*r))).collect();
        json!({
            "peft_type": "LORA",
            "task_type": task_type,
            "base_model_name_or_path": null,
            "revision": null,
            "inference_mode": true,
            "r": usual,
            "lora_alpha": alpha(usual),
            "lora_dropout": 0.0,
            "rank_pattern": ranks,
            "alpha_pattern": alphas,
            "target_modules": self.ranks.keys().collect::<Vec<_>>(),
            "modules_to_save": (!self.saved.is_empty()).then_some(&self.saved),
            "bias": "none",
            "fan_in_fan_out": self.transposed,
            "init_lora_weights": true,
            "use_rslora": false,
            "use_dora": false,
        })
    }
}

/// A JSON number, written as an integer if it is whole.
fn number(x: f64) -> Value {
    match x.fract() == 0.0 && x.abs() < 1e15 {
        true => json!(x as i64),
        false => json!(x),
    }
}
