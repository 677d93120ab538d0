//! Mistral (Jiang et al. 2023): LLaMA with grouped queries. Early releases attend to a sliding window; the
//! model is read with dense attention, which is the same up to the window's length, and that becomes its context.

use super::llama::{self, table};
use super::{Family, HfShape};
use crate::interop::HfConfig;

/// Its row of the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "mistral",
    summary: "Mistral: LLaMA with grouped queries",
    read,
    table,
};

fn read(hf: &HfConfig) -> HfShape {
    let shape = llama::read(hf);
    let window = hf.count_if_any(&["sliding_window"]);
    HfShape {
        context: window.map_or(shape.context, |window| window.min(shape.context)),
        ..shape
    }
}
