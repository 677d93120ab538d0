//! `[lora]`: low-rank adapters on frozen weights (Hu et al. 2022, LoRA, section 4.1): W + (α/r)·B·A, where A is `[r,
//! d_in]`, B is `[d_out, r]` and W never changes.
//!
//! The adapter, its place in a parameter, the effective weight and the merge are Burn's (`LoraAdapter`, `Param::val`,
//! `Module::materialize`). Burn computes W + s·a·b for the matrix as it is stored; here it is stored as `[d_out,
//! d_in]`, so that Burn's `a` is the paper's B and its `b` the paper's A. There is no dropout on the adapter's input:
//! the effective weight is one matrix. Burn's `Lora`, which attaches adapters, cannot be used: it draws from the
//! device's generator instead of the run's seed, materialises every parameter (a plan materialises none), and would
//! here begin with B random and A zero.

use super::checkpoint::weights::converted;
use super::parameters::{self, Parameter, id_of, name_parameters};
use super::patterns::Patterns;
use crate::device;
use crate::error::{Error, Result};
use crate::faults::TableFaults;
use crate::kernel;
use crate::nn::linear;
use crate::nn::role::ParameterKind;
use crate::rng::{self, Purpose, Stream};
use burn::module::{LoraAdapter, Module, Param, ParamId, Reparameterizer};
use burn::tensor::{DType, Device, Tensor, TensorData};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Largest rank: beyond it an adapter is larger than the weights of any known model.
pub const MAX_RANK: usize = 1 << 16;

/// `[lora]`: adapters that are trained while all other parameters are frozen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LoraConfig {
    /// r: rows of A and columns of B. Source: Hu et al. 2022, section 4.1.
    #[schemars(range(min = 1, max = MAX_RANK))]
    pub rank: usize,
    /// α: the adapter's product is multiplied by α/r. Source: Hu et al. 2022, section 4.1.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub alpha: f64,
    /// Regular expressions: weights of linear maps that get an adapter. When absent, the query and value projections,
    /// as in the paper. Source: Hu et al. 2022, section 4.2.
    pub targets: Vec<String>,
    /// Regular expressions: parameters that are trained in full besides the adapters, such as a new head.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub in_full: Vec<String>,
}

impl Default for LoraConfig {
    fn default() -> Self {
        Self {
            rank: 8,
            alpha: 16.0,
            targets: vec![r"attention\.(query|value)\.weight$".into()],
            in_full: Vec::new(),
        }
    }
}

/// Suffixes of the paths of B and A, after the path of the weight.
const FACTOR_SUFFIXES: [&str; 2] = [".lora.a", ".lora.b"];

/// Returns whether a path belongs to an adapter's factor.
pub fn is_adapter(path: &str) -> bool {
    base_of(path).is_some()
}

/// Returns the path of the weight that a factor belongs to; `None` for any other parameter.
pub fn base_of(path: &str) -> Option<&str> {
    FACTOR_SUFFIXES
        .iter()
        .find_map(|ending| path.strip_suffix(ending))
}

/// Returns the paths of a weight's factors B and A.
pub fn factors_of(weight: &str) -> [String; 2] {
    FACTOR_SUFFIXES.map(|ending| format!("{weight}{ending}"))
}

impl LoraConfig {
    /// Returns the scale α/r.
    pub fn scale(&self) -> f64 {
        self.alpha / self.rank.max(1) as f64
    }

    /// Reports invalid values of the keys.
    pub fn faults(&self, at: &mut TableFaults) {
        at.count("rank", self.rank, MAX_RANK);
        at.positive("alpha", self.alpha);
        if self.targets.is_empty() {
            let rule = "targets = [] selects no weights, so there are no adapters; remove targets to adapt queries and values";
            at.fault(&["targets"], rule);
        }
        for (key, patterns) in [("targets", &self.targets), ("in_full", &self.in_full)] {
            if let Err(error) = Patterns::of("lora", key, patterns) {
                let message = error.to_string();
                at.fault(&[key], message.strip_prefix("[lora] ").unwrap_or(&message));
            }
        }
    }

    /// Attaches adapters to the weights of `targets` and freezes every other parameter except those of `in_full`. A is
    /// uniform within ±1/√d_in (as in `peft`: Kaiming uniform with a = √5), from the random stream of the weight's
    /// path; B is zero, so that the model computes the same as without adapters. No parameter is drawn here.
    ///
    /// The ids of the parameters must come from their paths ([`name_parameters`]).
    ///
    /// # Errors
    /// If a pattern matches nothing, a weight is both a target and trained in full, or norms keep running averages.
    pub fn attach<M: Module>(&self, model: M, seed: u64) -> Result<M> {
        let all = parameters::list_with_state(&model);
        if let Some(kept) = all
            .iter()
            .find(|p| p.role.kind == Some(ParameterKind::State))
        {
            return Err(Error::usage(format!(
                "[lora] `{}` is a running average that a norm updates in every step, so the frozen model would change; use \
                 norms without running averages (`layer`, `rms`), or remove [lora]",
                kept.path
            )));
        }
        let linear = linear::weight_paths(&model);
        let weights = all.iter().filter(|p| linear.contains(&p.path));
        let weights: Vec<Parameter> = weights.cloned().collect();
        if weights.is_empty() {
            return Err(Error::usage(
                "[lora] the model has no linear layers that could get adapters; remove [lora]",
            ));
        }
        let found = Patterns::of("lora", "targets", &self.targets)?.matching(&weights)?;
        let targets = weights.iter().zip(found).filter(|(_, found)| *found);
        let targets: HashMap<ParamId, String> =
            targets.map(|(p, _)| (p.id, p.path.clone())).collect();
        let found = Patterns::of("lora", "in_full", &self.in_full)?.matching(&all)?;
        let in_full = all.iter().zip(found).filter(|(_, found)| *found);
        let in_full: HashSet<ParamId> = in_full.map(|(p, _)| p.id).collect();
        if let Some(both) = targets.keys().find(|id| in_full.contains(id)) {
            return Err(Error::usage(format!(
                "[lora] `{}` matches both targets and in_full, but a weight either has an adapter or is trained in full; change \
                 one of them",
                targets[both]
            )));
        }
        let attach = Attach {
            rank: self.rank,
            scale: self.scale(),
            seed,
            targets,
            in_full,
        };
        Ok(name_parameters(model.apply_reparameterization(attach)))
    }

    /// Removes the patterns that match nothing in a model: a model in use lacks the parts that only training needs.
    ///
    /// # Errors
    /// If a pattern is not a regular expression.
    pub fn drop_unmatched<M: Module>(&mut self, model: &M) -> Result<()> {
        let all = parameters::list(model);
        let linear = linear::weight_paths(model);
        for (key, patterns) in [
            ("targets", &mut self.targets),
            ("in_full", &mut self.in_full),
        ] {
            let fits = |p: &&Parameter| key == "in_full" || linear.contains(&p.path);
            let is_found = |pattern: &String| -> Result<bool> {
                let one = Patterns::of("lora", key, std::slice::from_ref(pattern))?;
                Ok(all.iter().filter(fits).any(|p| one.match_path(&p.path)))
            };
            let found = patterns.iter().map(is_found).collect::<Result<Vec<_>>>()?;
            let mut found = found.into_iter();
            patterns.retain(|_| found.next().unwrap_or(true));
        }
        Ok(())
    }

    /// Returns the trainable parameters.
    ///
    /// # Errors
    /// If a pattern is not a regular expression.
    pub fn trainable(&self, all: Vec<Parameter>) -> Result<Vec<Parameter>> {
        let in_full = Patterns::of("lora", "in_full", &self.in_full)?;
        let learns = |p: &Parameter| is_adapter(&p.path) || in_full.match_path(&p.path);
        Ok(all.into_iter().filter(learns).collect())
    }

    /// Returns the paths of parameters that are trained in full.
    ///
    /// # Errors
    /// If a pattern is not a regular expression.
    pub fn in_full<'p>(&self, paths: impl Iterator<Item = &'p str>) -> Result<BTreeSet<&'p str>> {
        let in_full = Patterns::of("lora", "in_full", &self.in_full)?;
        Ok(paths.filter(|path| in_full.match_path(path)).collect())
    }

    /// Merges the adapters among weights keyed by path: W + (α/r)·B·A replaces W, and the factors are removed.
    ///
    /// # Errors
    /// If a factor lacks the other one or its weight, or shapes do not fit each other.
    pub fn merge(&self, weights: &mut BTreeMap<String, TensorData>) -> Result<()> {
        let bases = weights.keys().filter_map(|path| base_of(path));
        let bases: BTreeSet<String> = bases.map(String::from).collect();
        for base in bases {
            let [b, a] = factors_of(&base).map(|path| weights.remove(&path));
            let merged = match (b, a, weights.get(&base)) {
                (Some(b), Some(a), Some(w)) => merge_factors(w, b, a, self.scale()),
                _ => None,
            };
            let merged = merged.ok_or_else(|| {
                Error::run(format!(
                    "the adapter of `{base}` does not fit: it needs `{base}` [d_out, d_in], `lora.a` [d_out, r] and \
                     `lora.b` [r, d_in]"
                ))
            })?;
            weights.insert(base, merged);
        }
        Ok(())
    }
}

/// Computes W + s·B·A in W's number format, or in 32 bits if that overflows the format; `None` if the shapes do not fit.
fn merge_factors(w: &TensorData, b: TensorData, a: TensorData, scale: f64) -> Option<TensorData> {
    let dims = |data: &TensorData| <[usize; 2]>::try_from(data.shape().to_vec()).ok();
    let ([d_out, d_in], [rows, rank], [inner, columns]) = (dims(w)?, dims(&b)?, dims(&a)?);
    if rows != d_out || columns != d_in || inner != rank {
        return None;
    }
    let device = device::host();
    let tensor = |data: TensorData| {
        let data = data.convert_dtype(DType::F32);
        Tensor::<2>::from_data(data, (&device, DType::F32))
    };
    let delta = tensor(b).matmul(tensor(a)).mul_scalar(scale);
    let sum = kernel::read(tensor(w.clone()) + delta);
    Some(converted(sum.clone(), w.dtype()).unwrap_or(sum))
}

/// Freezes every parameter and attaches the adapters.
struct Attach {
    rank: usize,
    scale: f64,
    seed: u64,
    /// Paths of the weights that get an adapter.
    targets: HashMap<ParamId, String>,
    in_full: HashSet<ParamId>,
}

impl Reparameterizer for Attach {
    type Reparam = LoraAdapter;

    fn reparameterize<const D: usize>(
        &mut self,
        _path: &str,
        param: Param<Tensor<D>>,
    ) -> (Param<Tensor<D>>, Option<LoraAdapter>) {
        if self.in_full.contains(&param.id) {
            return (param, None);
        }
        let (device, shape) = (param.lazy_device(), param.lazy_shape().to_vec());
        let adapter = match (self.targets.get(&param.id), shape.as_slice()) {
            (Some(path), &[d_out, d_in]) => {
                let [b, a] = factors_of(path);
                let bound = 1.0 / (d_in.max(1) as f32).sqrt();
                let part = rng::part_coordinate(rng::part_coordinate(0, "lora"), path);
                let stream = Stream::new(self.seed, Purpose::Init, (0, part, 0));
                Some(LoraAdapter {
                    a: factor(&b, [d_out, self.rank], &device, |n| vec![0.0; n]),
                    b: factor(&a, [self.rank, d_in], &device, move |n| {
                        let mut stream = stream.clone();
                        let drawn = std::iter::repeat_with(|| stream.uniform() * 2.0 - 1.0);
                        drawn.take(n).map(|x| x * bound).collect()
                    }),
                    scale: self.scale,
                })
            }
            _ => None,
        };
        (param.set_require_grad(false), adapter)
    }
}

/// Builds a factor whose values are computed when it is first used.
fn factor(
    path: &str,
    shape: [usize; 2],
    device: &Device,
    values: impl Fn(usize) -> Vec<f32> + Send + Sync + 'static,
) -> Param<Tensor<2>> {
    Param::uninitialized(
        id_of(path),
        move |device, require_grad| {
            let data = TensorData::new(values(shape.iter().product()), shape);
            Tensor::<2>::from_data(data, device).set_require_grad(require_grad)
        },
        device.clone(),
        true,
        shape.into(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_adds_the_scaled_product() {
        let lora = LoraConfig {
            rank: 1,
            alpha: 2.0,
            ..LoraConfig::default()
        };
        let data = |values: &[f32], shape: [usize; 2]| TensorData::new(values.to_vec(), shape);
        let mut weights = BTreeMap::from([
            ("w".to_string(), data(&[1.0, 2.0, 3.0, 4.0], [2, 2])),
            ("w.lora.a".to_string(), data(&[1.0, 10.0], [2, 1])),
            ("w.lora.b".to_string(), data(&[0.5, 1.0], [1, 2])),
        ]);
        lora.merge(&mut weights).unwrap();
        assert_eq!(weights.len(), 1);
        let merged: Vec<f32> = weights["w"].iter::<f32>().collect();
        assert_eq!(merged, [2.0, 4.0, 13.0, 24.0]);
        let mut lone = BTreeMap::from([("w.lora.a".to_string(), data(&[1.0], [1, 1]))]);
        assert!(lora.merge(&mut lone).is_err());
        // A sum that overflows 16 bits keeps its value in 32 bits.
        let half = data(&[60_000.0, 1.0], [2, 1]).convert_dtype(DType::F16);
        let mut weights = BTreeMap::from([
            ("w".to_string(), half),
            ("w.lora.a".to_string(), data(&[5_000.0, 1.0], [2, 1])),
            ("w.lora.b".to_string(), data(&[1.0], [1, 1])),
        ]);
        lora.merge(&mut weights).unwrap();
        let merged: Vec<f32> = weights["w"].iter::<f32>().collect();
        assert_eq!(merged, [70_000.0, 3.0]);
    }
}
