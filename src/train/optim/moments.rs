//! The memory of an optimizer: how many values it keeps for each parameter, and whether they can be kept apart.

use super::OptimizerConfig;
use crate::error::Result;
use crate::train::parameters::Parameter;
use burn::module::ParamId;
use std::collections::HashMap;

/// Values that an optimizer keeps for each parameter, in 32-bit floats (Adam: 2 and 2).
#[derive(Clone, Copy, Debug)]
pub struct Moments {
    /// Of the matrices that Muon orthogonalises; other optimizers keep as much of them as of others.
    pub matrices: usize,
    /// Of every other parameter.
    pub others: usize,
}

/// What an optimizer keeps of one parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Values in all, in 32-bit floats.
    pub values: usize,
    /// Whether each value of the parameter moves by itself, so that several processes can move some each.
    pub elementwise: bool,
}

/// Which of a model's parameters move as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Together {
    /// The matrices that Muon orthogonalises.
    pub matrices: bool,
    /// Every other parameter.
    pub others: bool,
}

impl OptimizerConfig {
    /// Which parameters move as a whole: a norm, a mean or a product of all of their values is in the update.
    pub fn together(&self) -> Together {
        let (matrices, others) = match self {
            // The share of values at which a cautious update agrees with the gradient.
            Self::Adamw(c) => (c.cautious, c.cautious),
            Self::Lion(c) => (c.cautious, c.cautious),
            Self::Adam(_) | Self::Sgd(_) => (false, false),
            Self::Radam(_) | Self::Nadam(_) | Self::Adopt(_) | Self::Ademamix(_) => (false, false),
            Self::ScheduleFree(_) => (false, false),
            Self::Muon(_) => (true, false),
            Self::Adafactor(_) | Self::Lamb(_) | Self::Soap(_) => (true, true),
        };
        Together { matrices, others }
    }

    /// What it keeps of each of these parameters.
    ///
    /// # Errors
    /// A group's pattern that is in no parameter's path.
    pub fn kept(&self, parameters: &[Parameter]) -> Result<HashMap<ParamId, Kept>> {
        let shapes = parameters.iter().map(|p| (p.id, &p.shape[..]));
        let shapes: HashMap<ParamId, &[usize]> = shapes.collect();
        let clusters = self.clusters(parameters)?.into_iter();
        let each = clusters.flat_map(|cluster| {
            let matrix = cluster.settings.matrix;
            cluster.ids.into_iter().map(move |id| (id, matrix))
        });
        let each = each.map(|(id, matrix)| {
            let shape = shapes.get(&id).copied().unwrap_or_default();
            (id, self.kept_of(shape, matrix))
        });
        Ok(each.collect())
    }

    /// What it keeps of a parameter; `matrix` is one that Muon orthogonalises.
    fn kept_of(&self, shape: &[usize], matrix: bool) -> Kept {
        let elements: usize = shape.iter().product();
        let (moments, together) = (self.moments(), self.together());
        let values = match (self, shape) {
            (Self::Adafactor(_), [outer @ .., rows, columns]) => {
                outer.iter().product::<usize>() * (rows + columns)
            }
            (Self::Adafactor(_), _) => elements,
            (Self::Soap(c), _) => elements * moments.others + c.kept(shape),
            _ if matrix => elements * moments.matrices,
            _ => elements * moments.others,
        };
        Kept {
            values,
            elementwise: match matrix {
                true => !together.matrices,
                false => !together.others,
            },
        }
    }

    /// The longest dimension that has a preconditioner, where it has some.
    pub fn max_precond_dim(&self) -> Option<usize> {
        match self {
            Self::Soap(c) => Some(c.max_precond_dim),
            _ => None,
        }
    }

    /// Values that it keeps for each parameter.
    pub fn moments(&self) -> Moments {
        let (matrices, others) = match self {
            Self::Adamw(_) | Self::Adam(_) | Self::Lamb(_) => (2, 2),
            Self::Radam(_) | Self::Nadam(_) | Self::Adopt(_) | Self::ScheduleFree(_) => (2, 2),
            Self::Ademamix(_) => (3, 3),
            // Beside the preconditioners, which are squares of dimensions.
            Self::Soap(_) => (2, 2),
            Self::Sgd(c) if c.momentum == 0.0 => (0, 0),
            Self::Sgd(_) | Self::Lion(_) => (1, 1),
            Self::Muon(_) => (1, 2),
            // Rows and columns instead of whole matrices.
            Self::Adafactor(_) => (0, 0),
        };
        Moments { matrices, others }
    }
}
