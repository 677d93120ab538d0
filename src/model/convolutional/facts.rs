//! The network facts of a convolutional reader of texts.

use super::config::{MAX_WIDTHS, MAX_WINDOW};
use super::{ConvolutionalConfig, KIND};
use crate::data::Shape;
use crate::faults::{MAX_WIDTH, TableFaults};
use crate::model::demand::inner_layer_faults;
use crate::model::facts::NetworkFacts;
use crate::model::{Demand, PooledText};
use crate::nn::Kind;
use crate::nn::init::InitSettings;

impl NetworkFacts for ConvolutionalConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn d_model(&self) -> usize {
        self.d_model
    }

    fn d_output(&self) -> usize {
        self.features()
    }

    fn faults(&self, demand: &Demand, at: &mut TableFaults) -> Option<usize> {
        at.count("d_model", self.d_model, MAX_WIDTH);
        at.count("filters", self.filters, MAX_WIDTH);
        at.count("widths", self.widths.len(), MAX_WIDTHS);
        let wrong = |width: &&usize| !(1..=MAX_WINDOW).contains(*width);
        if let Some(width) = self.widths.iter().find(wrong) {
            let rule = format!("widths contains {width}, which is not between 1 and {MAX_WINDOW}");
            at.fault(&["widths"], rule);
        }
        at.probability("dropout", self.dropout);
        at.nested("init", |at| self.init.faults(at));
        inner_layer_faults(demand, 1, at);
        if demand.pooled_text == PooledText::FirstPosition {
            at.fault(
                &["task.pooling", "model.kind"],
                "pooling = \"first\" needs an encoder: the first position of convolutions depends only on the first tokens; \
                 remove it for \"max\", or use \"mean\"",
            );
        }
        demand.context
    }

    fn init_settings(&self) -> InitSettings {
        InitSettings::from(&self.init)
    }

    fn products(&self, _: &Demand, shape: &Shape) -> f64 {
        let window = self.total_width() * self.d_model as u128 * self.filters as u128;
        (shape.context as u128 * window) as f64
    }

    /// Counts token vectors, windows and features.
    fn activations_per_token(&self) -> Option<u128> {
        let windows = (1 + self.total_width()) * self.d_model as u128;
        Some(windows + 2 * self.features() as u128)
    }
}
