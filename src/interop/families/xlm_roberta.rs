//! XLM-RoBERTa (Conneau et al. 2020) and CamemBERT (Martin et al. 2020): RoBERTa trained on many languages and on
//! French, with class names of their own.

use super::{Family, HfShape, roberta};
use crate::interop::HfConfig;
use crate::interop::rename::Table;
use serde_json::Value;

/// XLM-RoBERTa's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "xlm-roberta",
    summary: "XLM-RoBERTa: RoBERTa for a hundred languages",
    read,
    write,
    table,
    declined: None,
};

/// CamemBERT's entry in the table of architectures.
pub const CAMEMBERT: Family = Family {
    model_type: "camembert",
    summary: "CamemBERT: RoBERTa for French texts",
    read: read_camembert,
    write: write_camembert,
    table,
    declined: None,
};

fn read(hf: &HfConfig) -> HfShape {
    roberta::read_as(hf, "XLMRoberta", 30522)
}

fn write(of: &HfShape) -> Option<Value> {
    roberta::write_as(of, "XLMRoberta")
}

fn read_camembert(hf: &HfConfig) -> HfShape {
    roberta::read_as(hf, "Camembert", 30522)
}

fn write_camembert(of: &HfShape) -> Option<Value> {
    roberta::write_as(of, "Camembert")
}

fn table(of: &HfShape) -> Table {
    roberta::table_as(of, "roberta", "roberta.")
}
