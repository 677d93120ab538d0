//! The network facts of a convolutional reader of texts.

use super::config::{MOST_WIDTHS, WIDEST_WINDOW};
use super::{ConvolutionalConfig, KIND};
use crate::data::Shape;
use crate::faults::{TableFaults, WIDEST};
use crate::model::demand::inner_layer_faults;
use crate::model::facts::NetworkFacts;
use crate::model::{Demand, WholeText};
use crate::nn::Kind;
use crate::nn::init::Initial;

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
        at.count("d_model", self.d_model, WIDEST);
        at.count("filters", self.filters, WIDEST);
        at.count("widths", self.widths.len(), MOST_WIDTHS);
        let wrong = |width: &&usize| !(1..=WIDEST_WINDOW).contains(*width);
        if let Some(width) = self.widths.iter().find(wrong) {
            let rule = format!("widths has {width}, which is not from 1 to {WIDEST_WINDOW}");
            at.fault(&["widths"], rule);
        }
        at.probability("dropout", self.dropout);
        at.within("init", |at| self.init.faults(at));
        inner_layer_faults(demand, 1, at);
        if demand.whole_text == WholeText::First {
            at.fault(
                &["task.pooling", "model.kind"],
                "pooling = \"first\" is for encoders: the first position of convolutions has read the beginning alone; leave it \
                 out for \"max\", or use \"mean\"",
            );
        }
        demand.context
    }

    fn initial(&self) -> Initial {
        Initial::from(&self.init)
    }

    fn products(&self, _: &Demand, shape: &Shape) -> f64 {
        let window = self.taps() * self.d_model as u128 * self.filters as u128;
        (shape.context as u128 * window) as f64
    }

    /// Counts token vectors, windows and features.
    fn kept(&self) -> Option<u128> {
        let windows = (1 + self.taps()) * self.d_model as u128;
        Some(windows + 2 * self.features() as u128)
    }
}
