//! The memory of an optimizer: how many values it keeps for each parameter, and whether they can be sharded.

use super::OptimizerConfig;
use crate::error::Result;
use crate::train::parameters::Parameter;
use burn::module::ParamId;
use std::collections::HashMap;

/// Number of 32-bit values that an optimizer keeps per value of a parameter (Adam: 2 and 2).
#[derive(Clone, Copy, Debug)]
pub struct Moments {
    /// For the matrices that Muon orthogonalises; other optimizers keep equally many for all parameters.
    pub matrices: usize,
    /// For every other parameter.
    pub others: usize,
}

/// Size of the state that an optimizer keeps for one parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateSize {
    /// Total number of 32-bit values.
    pub values: usize,
    /// Whether each value of the parameter is updated independently, so that several processes can each update some of them.
    pub elementwise: bool,
}

/// Which of a model's parameters must be updated as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdatedWhole {
    /// The matrices that Muon orthogonalises.
    pub matrices: bool,
    /// Every other parameter.
    pub others: bool,
}

impl OptimizerConfig {
    /// Returns which parameters must be updated as a whole, because the update contains a norm, a mean or a product
    /// over all of their values.
    pub fn updated_whole(&self) -> UpdatedWhole {
        let (matrices, others) = match self {
            // A cautious update depends on the share of values where it agrees with the gradient.
            Self::Adamw(c) => (c.cautious, c.cautious),
            Self::Lion(c) => (c.cautious, c.cautious),
            Self::Adam(_) | Self::Sgd(_) => (false, false),
            Self::Radam(_) | Self::Nadam(_) | Self::Adopt(_) | Self::Ademamix(_) => (false, false),
            Self::ScheduleFree(_) => (false, false),
            Self::Muon(_) => (true, false),
            Self::Adafactor(_) | Self::Lamb(_) | Self::Soap(_) => (true, true),
        };
        UpdatedWhole { matrices, others }
    }

    /// Returns the size of the state for each of these parameters.
    ///
    /// # Errors
    /// If a group's pattern matches no parameter's path.
    pub fn state_sizes(&self, parameters: &[Parameter]) -> Result<HashMap<ParamId, StateSize>> {
        let shapes = parameters.iter().map(|p| (p.id, &p.shape[..]));
        let shapes: HashMap<ParamId, &[usize]> = shapes.collect();
        let clusters = self.clusters(parameters)?.into_iter();
        let each = clusters.flat_map(|cluster| {
            let matrix = cluster.settings.matrix;
            cluster.ids.into_iter().map(move |id| (id, matrix))
        });
        let each = each.map(|(id, matrix)| {
            let shape = shapes.get(&id).copied().unwrap_or_default();
            (id, self.state_size(shape, matrix))
        });
        Ok(each.collect())
    }

    /// Returns the size of the state for a parameter; `matrix` says whether Muon orthogonalises it.
    fn state_size(&self, shape: &[usize], matrix: bool) -> StateSize {
        let elements: usize = shape.iter().product();
        let (moments, together) = (self.moments(), self.updated_whole());
        let values = match (self, shape) {
            (Self::Adafactor(_), [outer @ .., rows, columns]) => {
                outer.iter().product::<usize>() * (rows + columns)
            }
            (Self::Adafactor(_), _) => elements,
            (Self::Soap(c), _) => elements * moments.others + c.preconditioner_values(shape),
            _ if matrix => elements * moments.matrices,
            _ => elements * moments.others,
        };
        StateSize {
            values,
            elementwise: match matrix {
                true => !together.matrices,
                false => !together.others,
            },
        }
    }

    /// Returns the longest dimension that has a preconditioner, for optimizers with preconditioners.
    pub fn max_precond_dim(&self) -> Option<usize> {
        match self {
            Self::Soap(c) => Some(c.max_precond_dim),
            _ => None,
        }
    }

    /// Returns the number of values kept per value of a parameter.
    pub fn moments(&self) -> Moments {
        let (matrices, others) = match self {
            Self::Adamw(_) | Self::Adam(_) | Self::Lamb(_) => (2, 2),
            Self::Radam(_) | Self::Nadam(_) | Self::Adopt(_) | Self::ScheduleFree(_) => (2, 2),
            Self::Ademamix(_) => (3, 3),
            // Besides the preconditioners, whose sizes are squares of dimensions.
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
