//! DINOv2 with registers (Darcet et al. 2024): [`dinov2`] with learned tokens after the class token, which no head reads. The
//! family needs at least one register; a model without any is a [`dinov2`].

use super::declined::Declined;
use super::{Family, HfShape, dinov2, vit};
use crate::interop::HfConfig;
use crate::interop::rename::Table;
use crate::model::ModelConfig;
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "dinov2_with_registers",
    summary: "DINOv2 with registers: learned tokens after the class token",
    read,
    write,
    table,
    declined: Some(declined),
};

const CLASS: &str = "Dinov2WithRegistersForImageClassification";

/// Default number of registers.
const REGISTERS: usize = 4;

fn read(hf: &HfConfig) -> HfShape {
    let mut of = dinov2::shape(hf, CLASS, 16);
    if let ModelConfig::Vision(config) = &mut of.model {
        config.n_registers = hf.count(&["num_register_tokens"], REGISTERS);
    }
    of
}

/// The differences from what the keys can express.
fn declined(of: &HfShape) -> Declined {
    dinov2::declined_with(of, true)
}

fn write(of: &HfShape) -> Option<Value> {
    let mut written = dinov2::write_as(of, CLASS)?;
    let registers = vit::vision(of).n_registers;
    written["num_register_tokens"] = json!(registers);
    (registers > 0).then_some(written)
}

/// DINOv2's table with another prefix, and the registers.
fn table(of: &HfShape) -> Table {
    let mut table = dinov2::named(of, "dinov2_with_registers.");
    let config = vit::vision(of);
    table.reshaped(
        "dinov2_with_registers.embeddings.register_tokens",
        "model.registers",
        vec![1, config.n_registers, config.stack.d_model],
    );
    table
}
