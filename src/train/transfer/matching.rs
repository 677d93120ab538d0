//! Which parameters of two checkpoints belong together, and the message if they do not fit.

use crate::error::Error;
use crate::nn::role::{ParameterKind, Place, Role};
use burn::tensor::TensorData;
use std::path::Path;

/// Whether it is a position table, or a distance table in a block.
pub(super) fn is_position_table(role: Role) -> bool {
    let of_block = role.block.is_some() && role.kind == Some(ParameterKind::Table);
    of_block || role.place == Some(Place::Position)
}

/// Returns the path of the ordinary projection that one of global tokens begins as a copy of (Beltagy et al. 2020, section
/// 3.2).
pub(super) fn local_projection(path: &str) -> Option<String> {
    let of_all = path.replacen(".attention.global.", ".attention.", 1);
    (of_all != path).then_some(of_all)
}

pub(super) fn fits(data: Option<&TensorData>, shape: &[usize]) -> bool {
    data.is_some_and(|data| data.shape().to_vec() == shape)
}

/// Number of differences that a message lists before it only counts the rest.
const LISTED: usize = 12;

pub(super) fn mismatch(file: &Path, faults: &[String]) -> Error {
    let mut listed: Vec<String> = faults.iter().take(LISTED).cloned().collect();
    if faults.len() > LISTED {
        listed.push(format!("and {} more", faults.len() - LISTED));
    }
    let (file, listed) = (file.display(), listed.join("; "));
    Error::usage(format!("[init] the weights of {file} do not fit: {listed}"))
}
