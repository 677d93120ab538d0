//! The sizes of the state that a model carries from step to step.

use super::ModelConfig;

/// Widths of the vectors of a carried state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CarriedWidths {
    /// Width of hidden states.
    pub d_model: usize,
    /// For each block, the widths of the state vectors of its mixer and of its feed-forward layer.
    pub blocks: Vec<[Vec<usize>; 2]>,
}

impl ModelConfig {
    /// Returns the widths of the model's carried state.
    pub fn carried_widths(&self) -> CarriedWidths {
        let d_model = self.d_model();
        let of_cells = |cells: &super::RecurrentModelConfig| {
            let states = cells.cell.cell().states();
            vec![[vec![d_model; states], Vec::new()]; cells.n_layers]
        };
        let blocks = match self.transformer() {
            Some(model) => model.blocks().map(|b| b.state_widths(d_model)).collect(),
            None => self.recurrent_config().map(of_cells).unwrap_or_default(),
        };
        CarriedWidths { d_model, blocks }
    }
}
