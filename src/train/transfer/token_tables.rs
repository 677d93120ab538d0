//! Token tables for a vocabulary that extends the other run's by further tokens (`add_tokens` of transformers): the
//! rows of the run's tokens are taken, and those of the further tokens keep their initialisation.

use super::Resample;
use crate::kernel;
use crate::nn::path::Path;
use crate::train::parameters::Parameter;
use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Tensor, TensorData};
use std::collections::BTreeMap;

/// Paths of the parameters with a row or a column per token of such a vocabulary, with the number of tokens in the
/// other run and here.
pub type GrownTables = BTreeMap<String, [usize; 2]>;

/// How parameters get another length than in the other run.
#[derive(Clone, Copy)]
pub struct Lengths<'a> {
    /// Function that resamples position tables.
    pub resample: Resample<'a>,
    /// Whether positions have another meaning in the other run, even if there are equally many.
    pub positions_differ: bool,
    /// Token tables.
    pub token_tables: &'a GrownTables,
}

/// Extends stored token tables by the model's own rows of further tokens. Returns notes with the parameters and both shapes.
pub(super) fn extend_token_tables<'a, M: Module>(
    model: &M,
    wanted: impl Iterator<Item = &'a Parameter>,
    stored: &mut BTreeMap<String, TensorData>,
    longer: &GrownTables,
) -> Vec<String> {
    let mut notes = Vec::new();
    for parameter in wanted {
        let path = &parameter.path;
        let (Some(rows), Some(data)) = (longer.get(path), stored.get_mut(path)) else {
            continue;
        };
        let (there, here) = (data.shape().to_vec(), &parameter.shape);
        // Other differences are reported by the caller.
        if axis([&there, here], *rows).is_none() {
            continue;
        }
        if let Some(whole) = extend_token_table(model, path, data, *rows) {
            *data = whole;
            notes.push(format!("{path} {there:?} → {here:?}"));
        }
    }
    notes
}

/// Extends a token table by the model's own rows of further tokens; `None` if the shapes differ in another way, or not at all.
pub fn extend_token_table<M: Module>(
    model: &M,
    path: &str,
    data: &TensorData,
    rows: [usize; 2],
) -> Option<TensorData> {
    let mut drawn = Drawn {
        path: Path::default(),
        wanted: path,
        found: None,
    };
    model.visit(&mut drawn);
    let drawn = drawn.found?;
    let axis = axis([&data.shape().to_vec(), &drawn.shape().to_vec()], rows)?;
    Some(joined([data, &drawn], axis))
}

/// Returns the only dimension in which the shapes differ, if it counts tokens: all of them, or the rare ones after the
/// clusters of an adaptive table.
fn axis([there, here]: [&[usize]; 2], [from, to]: [usize; 2]) -> Option<usize> {
    let differs = |at: &usize| there[*at] != here[*at];
    let mut axes = (0..there.len().min(here.len())).filter(differs);
    let axis = axes.next().filter(|_| there.len() == here.len())?;
    let counts = axes.next().is_none()
        && there[axis] <= from
        && here[axis].checked_sub(there[axis]) == to.checked_sub(from);
    (counts && from < to).then_some(axis)
}

/// Extends the first tensor along a dimension by the remainder of the second.
fn joined([first, second]: [&TensorData; 2], axis: usize) -> TensorData {
    let (from, shape) = (first.shape().to_vec()[axis], second.shape().to_vec());
    let inner: usize = shape[axis + 1..].iter().product();
    let outer: usize = shape[..axis].iter().product();
    let values = |data: &TensorData| -> Vec<f32> { data.iter::<f32>().collect() };
    let (taken, drawn) = (values(first), values(second));
    let (short, long) = (from * inner, shape[axis] * inner);
    let mut all: Vec<f32> = Vec::with_capacity(outer * long);
    for at in 0..outer {
        all.extend(&taken[at * short..][..short]);
        all.extend(&drawn[at * long + short..(at + 1) * long]);
    }
    TensorData::new(all, shape).convert_dtype(first.dtype())
}

/// Reads one parameter, drawing it now if it is not drawn yet.
struct Drawn<'a> {
    path: Path,
    wanted: &'a str,
    found: Option<TensorData>,
}

impl ModuleVisitor for Drawn<'_> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _name: &str, container: &str) {
        self.path.exit(container);
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.path.joined() == self.wanted {
            self.found = Some(kernel::read(param.transform_for_save().val()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::nn::EmbeddingConfig;
    use burn::tensor::Device;

    #[test]
    fn further_rows_and_columns_stand_behind_those_that_are_taken() {
        let data = |values: Vec<f32>, shape: [usize; 2]| TensorData::new(values, shape);
        let rows = joined(
            [
                &data(vec![1.0, 2.0, 3.0, 4.0], [2, 2]),
                &data(vec![0.5; 6], [3, 2]),
            ],
            0,
        );
        assert_eq!(rows, data(vec![1.0, 2.0, 3.0, 4.0, 0.5, 0.5], [3, 2]));
        let columns = joined(
            [
                &data(vec![1.0, 2.0, 3.0, 4.0], [2, 2]),
                &data(vec![0.5; 6], [2, 3]),
            ],
            1,
        );
        assert_eq!(columns, data(vec![1.0, 2.0, 0.5, 3.0, 4.0, 0.5], [2, 3]));
        assert_eq!(axis([&[5, 4], &[7, 4]], [5, 7]), Some(0));
        assert_eq!(axis([&[4, 5], &[4, 7]], [5, 7]), Some(1));
        // The last cluster of an adaptive table, and the bias of its tokens.
        assert_eq!(axis([&[2, 4], &[4, 4]], [5, 7]), Some(0));
        assert_eq!(axis([&[2], &[4]], [5, 7]), Some(0));
        assert_eq!(axis([&[2, 4], &[5, 4]], [5, 7]), None);
        assert_eq!(axis([&[6, 4], &[8, 4]], [5, 7]), None);
        // Another width, another number of dimensions, fewer tokens.
        assert_eq!(axis([&[5, 4], &[7, 6]], [5, 7]), None);
        assert_eq!(axis([&[5], &[7, 4]], [5, 7]), None);
        assert_eq!(axis([&[7, 4], &[5, 4]], [7, 5]), None);
        assert_eq!(axis([&[5, 4], &[5, 4]], [5, 7]), None);
    }

    #[test]
    fn a_table_goes_on_as_the_model_has_it() {
        let table = EmbeddingConfig::new(3, 2).init(&Device::default());
        let own: Vec<f32> = kernel::read(table.weight.val()).iter::<f32>().collect();
        let data = TensorData::new(vec![1.0f32, 2.0, 3.0, 4.0], [2, 2]);
        let whole = extend_token_table(&table, "weight", &data, [2, 3]).unwrap();
        let wanted = [&[1.0, 2.0, 3.0, 4.0], &own[4..]].concat();
        assert_eq!(whole, TensorData::new(wanted, [3, 2]));
        assert_eq!(extend_token_table(&table, "weight", &data, [2, 4]), None);
        assert_eq!(extend_token_table(&table, "bias", &data, [2, 3]), None);
    }
}
