//! `[init] layers`: a model begins from some of the layers of a deeper run, in order (Sanh et al. 2019, section 3: a
//! student takes every other layer of its teacher). If blocks are in stages, each stage is a separate stack.

use super::TransferConfig;
use crate::error::{Error, Result};
use crate::train::parameters::Parameter;
use burn::tensor::TensorData;
use std::collections::BTreeMap;
use std::str::FromStr;

/// Layers of a deeper run, counted from 0, that a model's layers begin from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LayerSelection {
    /// 0, 2, 4 …
    EverySecond,
    /// These layers, ascending.
    Listed(Vec<usize>),
}

/// Rule for the key's value.
const RULE: &str =
    "use \"every_second\", or ascending layer numbers from 0, for example \"0,2,4,7,9,11\"";

impl FromStr for LayerSelection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "every_second" {
            return Ok(Self::EverySecond);
        }
        let numbers = text.split(',').map(|number| number.trim().parse().ok());
        let numbers: Option<Vec<usize>> = numbers.collect();
        let rising = |numbers: &Vec<usize>| numbers.windows(2).all(|pair| pair[0] < pair[1]);
        let found = numbers.filter(rising).map(Self::Listed);
        found.ok_or_else(|| format!("layers = {text:?} is not a list of layers; {RULE}"))
    }
}

impl LayerSelection {
    /// Returns the layers that a stack of `own` layers takes from one of `theirs`, or why it can take none.
    fn select(&self, own: usize, theirs: usize) -> Result<Vec<usize>, String> {
        match self {
            Self::EverySecond if theirs.div_ceil(2) != own || theirs == own => Err(format!(
                "every second layer makes {}: {RULE}",
                theirs.div_ceil(2)
            )),
            Self::EverySecond => Ok((0..own).map(|layer| 2 * layer).collect()),
            Self::Listed(list) if list.len() != own => Err(format!(
                "the key lists {}: list one for each layer of the model",
                list.len()
            )),
            Self::Listed(list) if list.last().is_some_and(|last| *last >= theirs) => Err(format!(
                "layers are numbered from 0 to {}",
                theirs.saturating_sub(1)
            )),
            Self::Listed(_) if own == theirs => {
                Err("without layers, all of them are used: remove it".into())
            }
            Self::Listed(list) => Ok(list.clone()),
        }
    }

    /// Renames the chosen layers of each stack in `stored` to their numbers in the model. The parameters of the other
    /// layers are removed, and their paths returned.
    ///
    /// # Errors
    /// If the numbers do not fit the depths of the two models.
    pub fn select_and_renumber(
        &self,
        stored: &mut BTreeMap<String, TensorData>,
        own: &[Parameter],
    ) -> Result<Vec<String>> {
        let mut depths: BTreeMap<String, [usize; 2]> = BTreeMap::new();
        let names = [
            own.iter().map(|p| p.path.clone()).collect::<Vec<_>>(),
            stored.keys().cloned().collect(),
        ];
        for (which, names) in names.iter().enumerate() {
            for (stack, layer, _) in names.iter().filter_map(|path| split_block_path(path)) {
                let depth = &mut depths.entry(stack.into()).or_default()[which];
                *depth = (*depth).max(layer + 1);
            }
        }
        let mut places: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (stack, [own, theirs]) in depths {
            if own > 0 && theirs > 0 {
                let chosen = self.select(own, theirs).map_err(|reason| {
                    let (here, there) = match stage(&stack) {
                        Some(stage) => (
                            format!("stage {stage} of the model"),
                            "that of the other run",
                        ),
                        None => ("the model".into(), "the other run"),
                    };
                    Error::usage(format!(
                        "[init] layers: {here} has {own} layers and {there} {theirs}; {reason}"
                    ))
                })?;
                places.insert(stack, chosen);
            }
        }
        if places.is_empty() {
            return Err(Error::usage(
                "[init] layers has no effect: the model and the other run have no stack in common; remove it",
            ));
        }
        let mut left = Vec::new();
        for (path, data) in std::mem::take(stored) {
            let found =
                split_block_path(&path).and_then(|place| Some((place, places.get(place.0)?)));
            let Some(((stack, layer, rest), chosen)) = found else {
                stored.insert(path, data);
                continue;
            };
            match chosen.iter().position(|theirs| *theirs == layer) {
                Some(own) => {
                    stored.insert(format!("{stack}.{own}.{rest}"), data);
                }
                None => left.push(path),
            }
        }
        Ok(left)
    }
}

impl TransferConfig {
    /// Returns the layers of a stack of `theirs` layers that those of a stack of `own` begin from; `None` without
    /// `layers`, or if they do not fit.
    pub fn chosen_layers(&self, own: usize, theirs: usize) -> Option<Vec<usize>> {
        let layers: LayerSelection = self.layers.as_ref()?.parse().ok()?;
        layers.select(own, theirs).ok()
    }
}

/// Splits the path of a parameter in a block into stack, block number and rest: `model.stack.blocks`, 3, `norm.gain`.
fn split_block_path(path: &str) -> Option<(&str, usize, &str)> {
    const BLOCKS: &str = "blocks.";
    let at = path.find(BLOCKS)? + BLOCKS.len();
    let (number, rest) = path[at..].split_once('.')?;
    Some((&path[..at - 1], number.parse().ok()?, rest))
}

/// Returns the number of the stage whose blocks form a stack, for a network with stages.
fn stage(stack: &str) -> Option<usize> {
    let (stages, _) = stack.rsplit_once(".blocks")?;
    let (stages, number) = stages.rsplit_once('.')?;
    let of_stages = stages == "stages" || stages.ends_with(".stages");
    of_stages.then(|| number.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::role::Role;
    use burn::module::ParamId;

    #[test]
    fn values() {
        assert_eq!("every_second".parse(), Ok(LayerSelection::EverySecond));
        assert_eq!("0, 2,5".parse(), Ok(LayerSelection::Listed(vec![0, 2, 5])));
        for wrong in ["", "2,1", "1,1", "first", "-1"] {
            assert!(wrong.parse::<LayerSelection>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn layers_of_a_deeper_run() {
        let every = LayerSelection::EverySecond;
        assert_eq!(every.select(6, 12).unwrap(), [0, 2, 4, 6, 8, 10]);
        assert_eq!(every.select(3, 5).unwrap(), [0, 2, 4]);
        for (own, theirs) in [(6, 6), (5, 12), (1, 1), (12, 6)] {
            assert!(every.select(own, theirs).is_err(), "{own} of {theirs}");
        }
        let these = LayerSelection::Listed(vec![0, 2, 3]);
        assert_eq!(these.select(3, 4).unwrap(), [0, 2, 3]);
        for (own, theirs) in [(2, 4), (3, 3), (4, 8)] {
            assert!(these.select(own, theirs).is_err(), "{own} of {theirs}");
        }
    }

    #[test]
    fn paths_of_blocks() {
        let path = "model.stack.blocks.11.mixer.query.weight";
        let found = ("model.stack.blocks", 11, "mixer.query.weight");
        assert_eq!(split_block_path(path), Some(found));
        assert_eq!(split_block_path("model.embedding.weight"), None);
        assert_eq!(stage("model.stages.2.blocks"), Some(2));
        assert_eq!(stage("model.stack.blocks"), None);
    }

    /// Each stage has its own depth.
    #[test]
    fn layers_of_a_stage_are_named_by_it() {
        let paths = |blocks: [usize; 2]| {
            let each = blocks.into_iter().enumerate();
            each.flat_map(|(stage, blocks)| {
                (0..blocks)
                    .map(move |block| format!("model.stages.{stage}.blocks.{block}.up.weight"))
            })
        };
        let stored = |blocks| {
            let data = |path| (path, TensorData::from([1.0_f32]));
            paths(blocks).map(data).collect::<BTreeMap<_, _>>()
        };
        let wanted = |blocks| {
            let parameter = |path: String| Parameter {
                old_path: path.clone(),
                path,
                id: ParamId::new(),
                shape: vec![1],
                role: Role::default(),
            };
            paths(blocks).map(parameter).collect::<Vec<_>>()
        };
        let mut theirs = stored([4, 6]);
        let left = LayerSelection::EverySecond.select_and_renumber(&mut theirs, &wanted([2, 3]));
        assert_eq!(left.unwrap().len(), 5);
        assert!(theirs.into_keys().eq(paths([2, 3])));
        let fault =
            LayerSelection::EverySecond.select_and_renumber(&mut stored([4, 6]), &wanted([2, 6]));
        assert_eq!(
            fault.unwrap_err().to_string(),
            format!(
                "[init] layers: stage 1 of the model has 6 layers and that of the other run 6; every second layer makes 3: {RULE}"
            )
        );
    }
}
