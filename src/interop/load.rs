//! Moving weights between HF's files and the parameters of a decoder, by dotted paths.

use super::HfModel;
use super::rename::{Rule, Table};
use super::weights::{Array, Weights};
use crate::data::Shape;
use crate::error::{Error, Fault, Result};
use crate::model::{Decoder, ModelInputs};
use crate::nn::path::Path;
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Device, Tensor, TensorData};
use std::collections::{BTreeMap, BTreeSet};

/// The network of an opened folder.
pub(super) fn decoder(model: &HfModel, device: &Device) -> Result<Decoder> {
    // A block has several tensors: config.json cannot make us build more blocks than there are tensors.
    let (layers, tensors) = (model.config.n_layers(), model.weights.names().count());
    if layers > tensors {
        let message =
            format!("holds {tensors} tensors, too few for the {layers} layers of config.json");
        return Err(Error::Invalid(vec![Fault {
            file: Some(model.dir.clone()),
            line: None,
            message,
        }]));
    }
    let inputs = ModelInputs {
        shape: &Shape::of_text(model.context, model.vocab_size),
        seed: 0,
        device,
    };
    let decoder = model.config.init(&inputs);
    let table = model.table();
    let sources = plan(model, &table, &shapes(&decoder))?;
    let mut loader = Loader {
        path: Path::default(),
        weights: &model.weights,
        sources,
        last: None,
        failure: None,
    };
    let decoder = decoder.map(&mut loader);
    match loader.failure {
        Some(error) => Err(error),
        None => Ok(decoder),
    }
}

/// The weights of `decoder` under HF's names.
pub fn to_hf(decoder: &Decoder, table: &Table) -> BTreeMap<String, Array> {
    struct Values {
        path: Path,
        found: BTreeMap<String, Array>,
    }
    impl ModuleVisitor for Values {
        fn enter_module(&mut self, name: &str, container: &str) {
            self.path.enter(name, container);
        }
        fn exit_module(&mut self, _name: &str, container: &str) {
            self.path.exit(container);
        }
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let tensor = param.val();
            let shape = tensor.dims().to_vec();
            let values = tensor.into_data().iter::<f32>().collect();
            self.found
                .insert(self.path.joined(), Array { shape, values });
        }
    }
    let mut visitor = Values {
        path: Path::default(),
        found: BTreeMap::new(),
    };
    decoder.visit(&mut visitor);
    table.export(&visitor.found)
}

/// The shape of every parameter, by dotted path, without making one.
fn shapes(decoder: &Decoder) -> BTreeMap<String, Vec<usize>> {
    struct Shapes {
        path: Path,
        found: BTreeMap<String, Vec<usize>>,
    }
    impl ModuleVisitor for Shapes {
        fn enter_module(&mut self, name: &str, container: &str) {
            self.path.enter(name, container);
        }
        fn exit_module(&mut self, _name: &str, container: &str) {
            self.path.exit(container);
        }
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.found
                .insert(self.path.joined(), param.lazy_shape().to_vec());
        }
    }
    let mut visitor = Shapes {
        path: Path::default(),
        found: BTreeMap::new(),
    };
    decoder.visit(&mut visitor);
    visitor.found
}

/// Where a parameter of ours comes from.
struct TheirTensor<'a> {
    rule: &'a Rule,
    name: String,
    part: usize,
}

/// The source of every parameter; all that is missing, unused or of another shape as one error.
fn plan<'a>(
    model: &HfModel,
    table: &'a Table,
    shapes: &BTreeMap<String, Vec<usize>>,
) -> Result<BTreeMap<String, TheirTensor<'a>>> {
    let (mut sources, mut used, mut faults) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
    for rule in &table.rules {
        let ours: Option<Vec<&[usize]>> = rule
            .ours
            .iter()
            .map(|path| shapes.get(path).map(Vec::as_slice))
            .collect();
        let Some(ours) = ours else { continue };
        let expected = rule.their_shape(&ours);
        match find(&model.weights, table.prefix, &rule.theirs) {
            None => faults.push(format!("tensor `{}` {expected:?} is missing", rule.theirs)),
            Some((name, found)) if found != expected => faults.push(format!(
                "tensor `{name}` has the shape {found:?}; config.json makes it {expected:?}"
            )),
            Some((name, _)) => {
                used.insert(name.to_string());
                for (part, path) in rule.ours.iter().enumerate() {
                    let name = name.to_string();
                    sources.insert(path.clone(), TheirTensor { rule, name, part });
                }
            }
        }
    }
    if faults.is_empty() {
        let without = shapes.keys().filter(|path| !sources.contains_key(*path));
        faults.extend(without.map(|path| {
            let family = model.family.model_type;
            format!("our parameter `{path}` has no counterpart in the family {family}")
        }));
        let unused = model.weights.names().filter(|name| !used.contains(*name));
        let unused = unused.filter(|name| !table.ignores(name));
        faults.extend(unused.map(|name| format!("tensor `{name}` has no place in the model")));
    }
    if faults.is_empty() {
        return Ok(sources);
    }
    let faults = faults.into_iter().map(|message| Fault {
        file: Some(model.dir.clone()),
        line: None,
        message,
    });
    Err(Error::Invalid(faults.collect()))
}

/// A tensor by its full name, or by its name without `prefix`.
fn find<'a>(weights: &'a Weights, prefix: &str, name: &'a str) -> Option<(&'a str, &'a [usize])> {
    let short = name.strip_prefix(prefix).unwrap_or(name);
    [name, short]
        .into_iter()
        .find_map(|name| Some((name, weights.shape(name)?)))
}

/// Replaces every parameter by the part of an HF tensor that belongs to it.
struct Loader<'a> {
    path: Path,
    weights: &'a Weights,
    sources: BTreeMap<String, TheirTensor<'a>>,
    /// The tensor read last: a fused one serves three parameters in a row.
    last: Option<(String, Array)>,
    failure: Option<Error>,
}

impl Loader<'_> {
    fn array(&mut self) -> Result<Option<Array>> {
        let Some(source) = self.sources.get(&self.path.joined()) else {
            return Ok(None);
        };
        let theirs = match self.last.take().filter(|(name, _)| *name == source.name) {
            Some((_, array)) => array,
            None => self.weights.read(&source.name)?,
        };
        let ours = source.rule.import(&theirs, source.part);
        self.last = Some((source.name.clone(), theirs));
        Ok(Some(ours))
    }
}

impl ModuleMapper for Loader<'_> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _name: &str, container: &str) {
        self.path.exit(container);
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if self.failure.is_some() {
            return param;
        }
        match self.array() {
            Ok(Some(array)) => {
                let data = TensorData::new(array.values, array.shape);
                let tensor = Tensor::from_data(data, &param.lazy_device());
                let id = param.id;
                param.transform_for_load(tensor, id)
            }
            Ok(None) => param,
            Err(error) => {
                self.failure = Some(error);
                param
            }
        }
    }
}
