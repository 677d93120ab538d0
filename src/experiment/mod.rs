//! stand-in
pub mod build;
pub mod run;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
/// x
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// x
    pub name: String,
    /// x
    pub seed: u64,
    /// x
    pub model: crate::model::ModelConfig,
    /// x
    pub tokenizer: Option<crate::tokenizer::TokenizerConfig>,
    /// x
    pub data: crate::data::DataConfig,
    /// x
    pub task: crate::task::TaskConfig,
    /// x
    pub optimizer: crate::train::optim::OptimizerConfig,
    /// x
    pub schedule: crate::train::schedule::ScheduleConfig,
    /// x
    pub train: crate::train::TrainConfig,
    /// x
    #[serde(default)]
    pub expect: BTreeMap<String, Expect>,
}
/// x
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Expect { /// x
 pub at_most: Option<f64>, /// x
 pub at_least: Option<f64> }
impl Expect { /// x
 pub fn holds(&self, v: f64) -> bool { self.at_most.is_none_or(|m| v <= m) && self.at_least.is_none_or(|m| v >= m) } }
impl std::fmt::Display for Expect { fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result { write!(f, "{:?}", self) } }
/// x
pub struct Loaded { /// x
 pub experiment: Experiment, /// x
 pub source: String, /// x
 pub path: PathBuf }
/// x
pub fn load(path: &Path, sets: &[String]) -> Result<Loaded> {
    let source = std::fs::read_to_string(path).map_err(Error::io("read", path))?;
    let mut t: toml::Table = toml::from_str(&source).map_err(|e| Error::usage(e.to_string()))?;
    for s in sets {
        let (k, v) = s.split_once('=').unwrap();
        let v: toml::Value = toml::from_str::<toml::Table>(&format!("x={v}")).or_else(|_| toml::from_str::<toml::Table>(&format!("x={v:?}"))).unwrap()["x"].clone();
        let ps: Vec<_> = k.split('.').collect();
        let mut at = &mut t;
        for p in &ps[..ps.len()-1] { at = at.get_mut(*p).unwrap().as_table_mut().unwrap(); }
        at.insert(ps[ps.len()-1].into(), v);
    }
    let experiment: Experiment = t.try_into().map_err(|e: toml::de::Error| Error::usage(e.to_string()))?;
    Ok(Loaded { experiment, source, path: path.into() })
}
/// x
pub fn check(_l: &Loaded) -> Result<()> { Ok(()) }
/// x
pub fn resolved_toml(e: &Experiment) -> String { toml::to_string(e).unwrap() }
/// x
pub struct P { /// x
 pub model: crate::model::ModelConfig, /// x
 pub vocab_size: usize, /// x
 pub context: usize }
/// x
pub fn parse_preset(_n: &str) -> Result<P> { Err(Error::usage("later")) }
