//! DeiT (Touvron et al. 2021): ViT with a second token after the class token, with its own position and head; the logits are the
//! mean of those of both heads. The class without that head (`DeiTForImageClassification`) is refused. If a file has neither head
//! (`DeiTModel`), both are initialised randomly.

use super::declined::{Declined, difference_unless};
use super::{Family, HfShape, vit};
use crate::interop::HfConfig;
use crate::interop::rename::{Orientation, Table};
use crate::model::ModelConfig;
use crate::task::TaskConfig;
use serde_json::Value;

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "deit",
    summary: "DeiT: ViT with a distillation token and a second head, trained by a teacher",
    read,
    write,
    table,
    declined: Some(declined),
};

const CLASS: &str = "DeiTForImageClassificationWithTeacher";

fn read(hf: &HfConfig) -> HfShape {
    let mut of = vit::shape(hf, CLASS);
    if let ModelConfig::Vision(config) = &mut of.model {
        config.distillation_token = true;
    }
    of
}

/// The differences from what the keys can express.
fn declined(of: &HfShape) -> Declined {
    let (ModelConfig::Vision(_), TaskConfig::ImageClassification(_)) = (&of.model, &of.task) else {
        return Declined::default();
    };
    let token = of.model.has_distillation_token();
    let token = difference_unless(token, "model.distillation_token", token, "true");
    Declined {
        differences: token.into_iter().collect(),
        ..Declined::default()
    }
}

fn write(of: &HfShape) -> Option<Value> {
    match of.model.has_distillation_token() {
        true => vit::write_as(of, CLASS),
        false => None,
    }
}

/// ViT's table with another prefix, and the second token and its head.
fn table(of: &HfShape) -> Table {
    let mut table = vit::table(of);
    table.prefix = "deit.";
    for name in table.rules.iter_mut().flat_map(|rule| &mut rule.theirs) {
        for (old, new) in [("vit.", "deit."), ("classifier.", "cls_classifier.")] {
            if let Some(rest) = name.strip_prefix(old) {
                *name = format!("{new}{rest}");
            }
        }
    }
    let d_model = of.model.d_output();
    table.reshaped(
        "deit.embeddings.distillation_token",
        "model.distillation_token",
        vec![1, 1, d_model],
    );
    table.linear(
        "distillation_classifier",
        "distilled_head",
        Orientation::OutIn,
    );
    table
}
