//! Reads a folder of `peft` as our adapters.

use super::config::{Config, faults_error};
use super::factors::{Factors, is_matrix, split};
use super::{Adapter, FACTORS, PREFIX, WEIGHTS};
use crate::error::Result;
use crate::interop::rename::{Rule, Table};
use crate::interop::weights::{Array, Weights};
use crate::train::lora::{self, LoraConfig};
use burn::module::{ParamGroup, ParamId};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Number of faults that a message lists before it only counts the rest.
const LISTED: usize = 8;

/// The model that the adapter belongs to.
#[derive(Clone, Copy, Debug)]
pub struct Base<'a> {
    /// The table between HF's names and our parameter paths.
    pub table: &'a Table,
    /// The shape of each parameter, by its path.
    pub shapes: &'a BTreeMap<String, Vec<usize>>,
    /// The paths of the weights of linear layers.
    pub linear: &'a BTreeSet<String>,
    /// The model's tensors under HF's names.
    pub weights: &'a Weights,
}

/// The name ending of a module's unchanged weight, which `peft` saves beside the factors for heads with an adapter.
const BASE_LAYER: &str = ".base_layer.weight";

/// Whether two numbers are equal up to the rounding of a 16-bit format: bfloat16 has 8 significant bits, float16 resolves
/// nothing below 6e-8.
fn equal_up_to_rounding(a: f32, b: f32) -> bool {
    let within = a.abs().max(b.abs()) / 256.0 + 1e-7;
    within.is_finite() && (a - b).abs() <= within
}

/// Reads the adapter in the folder `dir`.
///
/// # Errors
/// If a file is missing or damaged, or the adapter is not a LoRA adapter; and for every tensor that has no place in the model
/// or another shape.
pub fn read(dir: &Path, base: &Base) -> Result<Adapter> {
    let config = Config::read(dir)?;
    let weights = Weights::open_named(dir, WEIGHTS)?;
    let mut reader = Reader {
        base,
        weights: &weights,
        config: &config,
        found: Vec::new(),
        arrays: BTreeMap::new(),
        faults: Vec::new(),
    };
    let modules = reader.take_full_parameters()?;
    for module in &modules {
        reader.add(module)?;
    }
    if reader.found.is_empty() && reader.faults.is_empty() {
        reader.faults.push("contains no LoRA factors".into());
    }
    let mut faults = reader.faults;
    if !faults.is_empty() {
        if faults.len() > LISTED {
            let more = faults.len() - LISTED;
            faults.truncate(LISTED);
            faults.push(format!("and {more} more"));
        }
        return Err(faults_error(dir, faults));
    }
    let lora = lora_config(base, &reader.found, &reader.arrays);
    let mut arrays = reader.arrays;
    for (path, scale, factors) in reader.found {
        let factors = factors.padded_to_rank(lora.rank, (scale / lora.scale()) as f32);
        if !factors.b.values.iter().all(|x| x.is_finite()) || !(scale as f32).is_normal() {
            let fault = format!(
                "the scale {scale} of the adapter of `{path}` is outside the range of 32-bit floats"
            );
            return Err(faults_error(config.file(), vec![fault]));
        }
        let [b, a] = lora::factors_of(&path);
        arrays.insert(b, factors.b);
        arrays.insert(a, factors.a);
    }
    Ok(Adapter {
        lora,
        arrays,
        unsupported: config.unsupported,
    })
}

struct Reader<'a> {
    base: &'a Base<'a>,
    weights: &'a Weights,
    config: &'a Config,
    /// The factors of our weights: path, scale, factors.
    found: Vec<(String, f64, Factors)>,
    /// Parameters that were trained in full.
    arrays: BTreeMap<String, Array>,
    faults: Vec<String>,
}

impl Reader<'_> {
    /// Takes the tensors that are whole parameters, and returns the modules that have factors.
    fn take_full_parameters(&mut self) -> Result<BTreeSet<String>> {
        let mut modules = BTreeSet::new();
        for name in self.weights.names() {
            let Some(short) = name.strip_prefix(PREFIX) else {
                let fault = format!("tensor `{name}` does not begin with `{PREFIX}`");
                self.faults.push(fault);
                continue;
            };
            let factor = FACTORS.iter().find_map(|end| short.strip_suffix(end));
            match (factor, short.strip_suffix(BASE_LAYER)) {
                (Some(module), _) => drop(modules.insert(module.to_string())),
                (None, Some(module)) => self.compare(name, module)?,
                (None, None) => self.add_in_full(name, short)?,
            }
        }
        Ok(modules)
    }

    /// Finds the rule of an HF tensor by its full name, or by its name in files of the body only.
    fn rule(&self, name: &str) -> Option<&Rule> {
        let table = self.base.table;
        let is = |theirs: &String| {
            theirs == name || theirs.strip_prefix(table.prefix).is_some_and(|t| t == name)
        };
        let known = |rule: &&Rule| {
            let mut ours = rule.ours.iter();
            rule.theirs.len() == 1 && ours.all(|path| self.base.shapes.contains_key(path))
        };
        let mut rules = table.rules.iter().filter(known);
        rules.find(|rule| is(&rule.theirs[0]))
    }

    fn shapes(&self, rule: &Rule) -> Vec<&[usize]> {
        let paths = rule.ours.iter();
        paths
            .map(|path| self.base.shapes[path].as_slice())
            .collect()
    }

    /// Compares the weight of a module, saved below its factors, with that of the model.
    fn compare(&mut self, name: &str, module: &str) -> Result<()> {
        let Some(rule) = self.rule(&format!("{module}.weight")) else {
            // The fault is reported with the module's factors.
            return Ok(());
        };
        let theirs = self.base.weights;
        let Some(own) = theirs.find(self.base.table.prefix, &rule.theirs[0]) else {
            let fault = format!("tensor `{name}` has no counterpart in the folder of the model");
            self.faults.push(fault);
            return Ok(());
        };
        let place = theirs.place(own).display().to_string();
        let same = theirs.shape(own) == self.weights.shape(name) && {
            let (ours, own) = (self.weights.read(name)?, theirs.read(own)?);
            let mut pairs = ours.values.iter().zip(&own.values);
            pairs.all(|(a, b)| equal_up_to_rounding(*a, *b))
        };
        if !same {
            let fault = format!(
                "tensor `{name}` differs from `{own}` of {place}: the factors belong to another model or to changed weights; \
                 merge them in peft (merge_and_unload()) and import the folder that save_pretrained writes of the merged model"
            );
            self.faults.push(fault);
        }
        Ok(())
    }

    fn add_in_full(&mut self, name: &str, short: &str) -> Result<()> {
        let Some(rule) = self.rule(short).cloned() else {
            let fault = format!("tensor `{name}` has no place in the model");
            self.faults.push(fault);
            return Ok(());
        };
        if rule.ours.iter().any(|path| self.base.table.is_tied(path)) {
            let fault = format!(
                "tensor `{name}` is an embedding table that `peft` trained separately from the tied head; here they are one parameter"
            );
            self.faults.push(fault);
            return Ok(());
        }
        let shapes = self.shapes(&rule);
        let (expected, found) = (rule.their_shape(&shapes), self.weights.shape(name));
        if found != Some(&expected[..]) || !rule.fits(shapes[0]) {
            let found = found.unwrap_or_default();
            let fault =
                format!("tensor `{name}` has the shape {found:?}; the model requires {expected:?}");
            self.faults.push(fault);
            return Ok(());
        }
        let theirs = [self.finite(name)?];
        for (part, path) in rule.ours.iter().enumerate() {
            let array = rule.import(&theirs, part, &self.base.shapes[path]);
            self.arrays.insert(path.clone(), array);
        }
        Ok(())
    }

    /// Adds the factors of an HF module.
    fn add(&mut self, module: &str) -> Result<()> {
        let names = FACTORS.map(|ending| format!("{PREFIX}{module}{ending}"));
        if let Some(lacking) = names.iter().find(|n| self.weights.shape(n).is_none()) {
            self.faults.push(format!("tensor `{lacking}` is missing"));
            return Ok(());
        }
        let rule = self.rule(&format!("{module}.weight")).cloned();
        let linear = |rule: &Rule| {
            is_matrix(rule) && rule.ours.iter().all(|path| self.base.linear.contains(path))
        };
        let Some(rule) = rule.filter(linear) else {
            let fault =
                format!("module `{module}` is not a matrix of the model that can have an adapter");
            self.faults.push(fault);
            return Ok(());
        };
        let shapes = self.shapes(&rule);
        let (rank, scale) = self.config.rank_and_scale(module);
        let outputs: usize = shapes.iter().map(|shape| shape[0]).sum();
        let expected = [[rank, shapes[0][1]], [outputs, rank]];
        for (name, expected) in names.iter().zip(expected) {
            let found = self.weights.shape(name).unwrap_or_default();
            if found != expected {
                let file = self.config.file().display();
                let fault = format!(
                    "tensor `{name}` has the shape {found:?}; {file} and the model require {expected:?}"
                );
                self.faults.push(fault);
                return Ok(());
            }
        }
        let [a, b] = [self.finite(&names[0])?, self.finite(&names[1])?];
        let parts = split(&rule, &Factors { a, b });
        if self.found.iter().any(|(path, ..)| rule.ours.contains(path)) {
            let fault = format!("module `{module}` has two adapters, under different names");
            self.faults.push(fault);
            return Ok(());
        }
        for (path, factors) in rule.ours.iter().zip(parts) {
            self.found.push((path.clone(), scale, factors));
        }
        Ok(())
    }

    /// Reads a tensor; infinite values and NaN are a fault.
    fn finite(&mut self, name: &str) -> Result<Array> {
        let array = self.weights.read(name)?;
        if !array.values.iter().all(|x| x.is_finite()) {
            let fault = format!("tensor `{name}` contains values that are infinite or not numbers");
            self.faults.push(fault);
        }
        Ok(array)
    }
}

/// The `[lora]` table of these factors: the maximum rank, and the scale of the first; all factors are converted to these.
fn lora_config(
    base: &Base,
    found: &[(String, f64, Factors)],
    in_full: &BTreeMap<String, Array>,
) -> LoraConfig {
    let rank = found.iter().map(|(_, _, f)| f.rank()).max().unwrap_or(1);
    let scale = found.first().map_or(1.0, |(_, scale, _)| *scale);
    let targets = found.iter().map(|(path, ..)| path.as_str()).collect();
    let linear = base.linear.iter().map(String::as_str).collect();
    let all = base.shapes.keys().map(String::as_str).collect();
    LoraConfig {
        rank,
        alpha: scale * rank as f64,
        targets: patterns(&targets, &linear),
        in_full: patterns(&in_full.keys().map(String::as_str).collect(), &all),
    }
}

/// Regular expressions that match exactly `wanted` among `all`; one pattern covers all blocks if that is exact.
fn patterns(wanted: &BTreeSet<&str>, all: &BTreeSet<&str>) -> Vec<String> {
    let pattern = |path: &str, number: &dyn Fn(&str) -> String| {
        let names = path.split('.').map(|name| match name.parse::<usize>() {
            Ok(_) => number(name),
            Err(_) => name.to_string(),
        });
        format!("^{}$", names.collect::<Vec<_>>().join(r"\."))
    };
    let short = wanted.iter().map(|path| pattern(path, &|_| r"\d+".into()));
    let short: BTreeSet<String> = short.collect();
    let groups = short.iter().flat_map(ParamGroup::from_regex);
    let groups: Vec<ParamGroup> = groups.collect();
    let id = ParamId::from(0);
    let hit = |path: &&&str| groups.iter().any(|group| group.matches(&id, Some(path)));
    match all.iter().filter(hit).eq(wanted.iter()) {
        true => short.into_iter().collect(),
        false => {
            let exact = wanted.iter().map(|path| pattern(path, &|n| n.into()));
            exact.collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{equal_up_to_rounding, patterns};
    use std::collections::BTreeSet;

    #[test]
    fn rounding_is_no_difference() {
        for x in [1.0f32, -0.337, 1e-3, 0.0] {
            let half = f32::from_bits((x.to_bits() + 0x8000) & 0xffff_0000);
            assert!(equal_up_to_rounding(x, half), "{x} and {half}");
        }
        assert!(!equal_up_to_rounding(0.1, 0.11) && !equal_up_to_rounding(0.0, 1e-4));
        assert!(!equal_up_to_rounding(f32::NAN, 1.0) && !equal_up_to_rounding(f32::INFINITY, 1.0));
    }

    #[test]
    fn patterns_match_nothing_else() {
        let all = ["b.0.q.weight", "b.1.q.weight", "b.0.k.weight"];
        let all = BTreeSet::from(all);
        let both = BTreeSet::from(["b.0.q.weight", "b.1.q.weight"]);
        assert_eq!(patterns(&both, &all), [r"^b\.\d+\.q\.weight$"]);
        let one = BTreeSet::from(["b.1.q.weight"]);
        assert_eq!(patterns(&one, &all), [r"^b\.1\.q\.weight$"]);
        assert!(patterns(&BTreeSet::new(), &all).is_empty());
    }
}
