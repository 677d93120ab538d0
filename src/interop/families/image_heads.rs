//! Classifiers of images, and the classes of the same networks without one (`ViTModel`): these become a run all the same, whose
//! classifier is drawn, as transformers draws it when it loads such a folder as a classifier.

use super::{HfShape, POOLERS, text_heads};
use crate::interop::HfConfig;
use crate::interop::rename::Table;
use crate::task::TaskConfig;

/// The beginnings of our paths of classifiers.
const HEADS: [&str; 2] = ["head.", "distilled_head."];

/// Notes a fault of a class that is neither this classifier nor its network alone, and tells a reader of the latter.
pub(super) fn require(hf: &HfConfig, classifier: &str) {
    let name = classifier.split("For").next().unwrap_or_default();
    let body = format!("{name}{}", text_heads::BODY);
    match hf.architecture() {
        None => {}
        Some(class) if class == classifier => {}
        Some(class) if class == body => hf.warn(format!(
            "{class} has no classifier: one is drawn, and tells nothing before it is trained; a run that begins from this one \
             ([init] from) has its own with new = [\"head\"]"
        )),
        Some(class) => hf.fault(format!(
            "`architectures` = [\"{class}\"] cannot be imported; {classifier} can, and {body}, whose classifier is drawn"
        )),
    }
}

/// Whether the class is that of a network for images without a classifier.
pub(in crate::interop) fn is_without(hf: &HfConfig, of: &HfShape) -> bool {
    let body = |class: &str| class.ends_with(text_heads::BODY);
    matches!(of.task, TaskConfig::ImageClassification(_)) && hf.architecture().is_some_and(body)
}

/// The table of a network without a classifier. The pooler that some have makes other vectors than classifiers read.
pub(in crate::interop) fn without(mut table: Table) -> Table {
    table.drawn.extend(HEADS);
    table.ignored.extend(POOLERS);
    table
}
