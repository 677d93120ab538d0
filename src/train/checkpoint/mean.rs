//! The average of several checkpoints (Vaswani et al. 2017, section 6.1).

use super::weights::read;
use crate::error::{Error, Result};
use burn::module::Module;
use burn::tensor::TensorData;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Averages the weights of several files of `model`, in double precision; integers are taken from the first file.
///
/// # Errors
/// If files cannot be read or belong to different models.
pub fn mean<M: Module>(paths: &[PathBuf], model: &M) -> Result<BTreeMap<String, TensorData>> {
    let mut files = paths
        .iter()
        .map(|path| read(path, model).map(|all| (path, all)));
    let Some(first) = files.next() else {
        return Err(Error::run("there is no checkpoint to average"));
    };
    let (_, first) = first?;
    let mut sums: BTreeMap<String, Vec<f64>> = first
        .iter()
        .map(|(name, data)| (name.clone(), data.iter::<f64>().collect()))
        .collect();
    for file in files {
        let (path, all) = file?;
        let same = all.len() == first.len()
            && all
                .iter()
                .all(|(name, data)| first.get(name).is_some_and(|f| f.shape() == data.shape()));
        if !same {
            return Err(Error::run(format!(
                "{} contains a different model than the first checkpoint",
                path.display()
            )));
        }
        for (name, data) in all {
            let values = data.iter::<f64>();
            let sum = sums.get_mut(&name).into_iter().flatten();
            sum.zip(values).for_each(|(sum, value)| *sum += value);
        }
    }
    let count = paths.len() as f64;
    Ok(first
        .into_iter()
        .map(|(name, data)| {
            let averaged = match (data.dtype().is_float(), sums.remove(&name)) {
                (true, Some(sum)) => {
                    let mean: Vec<f64> = sum.iter().map(|x| x / count).collect();
                    TensorData::new(mean, data.shape().to_vec()).convert_dtype(data.dtype())
                }
                (_, _) => data,
            };
            (name, averaged)
        })
        .collect())
}
