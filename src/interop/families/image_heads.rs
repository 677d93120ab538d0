//! Image classifiers, and the classes of the same networks without one (`ViTModel`). The latter are also imported as classifiers,
//! whose head is initialised randomly, as by transformers when it loads such a folder as a classifier.

use super::{HfShape, POOLERS, text_heads};
use crate::interop::HfConfig;
use crate::interop::rename::Table;
use crate::task::TaskConfig;
use serde_json::Value;

/// The ending of the names of classifier classes.
const CLASSIFIER: &str = "ForImageClassification";

/// Prefixes of our paths of classifier heads.
pub(super) const HEADS: [&str; 2] = ["head.", "distilled_head."];

/// Reports a fault if the class is neither this classifier nor its network without one, or if the classifier does not predict a
/// single class per image. Warns if the network has no classifier.
pub(super) fn require(hf: &HfConfig, classifier: &str) {
    let name = classifier.split("For").next().unwrap_or_default();
    let body = format!("{name}{}", text_heads::BODY);
    match hf.architecture() {
        None => refuse_other_problems(hf),
        Some(class) if class == classifier => refuse_other_problems(hf),
        Some(class) if class == body => warn_random_classifier(hf, class),
        Some(class) => hf.fault(format!(
            "`architectures` = [\"{class}\"] cannot be imported; {classifier} can, and {body}, whose classifier is drawn"
        )),
    }
}

/// Reports a fault if the class is not `body`, which exists only without a classifier; warns that the classifier is random.
pub(super) fn require_body(hf: &HfConfig, body: &str) {
    match hf.architecture() {
        Some(class) if class != body => hf.fault(format!(
            "`architectures` = [\"{class}\"] cannot be imported; {body} can, whose classifier is drawn"
        )),
        Some(_) | None => warn_random_classifier(hf, body),
    }
}

/// Warns that a network has no classifier and gets a random one.
fn warn_random_classifier(hf: &HfConfig, class: &str) {
    hf.warn(format!(
        "{class} has no classifier: one is drawn, and tells nothing before it is trained; a run that begins from this one ([init] from) \
         has its own with new = [\"head\"]"
    ));
}

/// A note on an exported folder whose class has no classifier.
pub(in crate::interop) fn no_classifier_note(config: &Value) -> String {
    let class = config["architectures"][0].as_str().unwrap_or_default();
    format!("{class} has no classifier: that of the run is not in the folder")
}

/// Whether the task's network is exported without a head, because the head predicts classes without names.
pub(in crate::interop) fn is_body(task: &TaskConfig) -> bool {
    matches!(task, TaskConfig::SelfDistillation(_))
}

/// Turns a classifier's config.json into that of the same network without one; `None` if there is no such class.
pub(super) fn without_classifier(mut config: Value) -> Option<Value> {
    let class = config["architectures"][0].as_str()?;
    let (name, _) = class.split_once(CLASSIFIER).or_else(|| {
        let name = class.strip_suffix(text_heads::BODY)?;
        Some((name, ""))
    })?;
    config["architectures"][0] = format!("{name}{}", text_heads::BODY).into();
    Some(config)
}

/// A note on an exported folder of a network without the run's head.
pub(in crate::interop) fn no_head_note(config: &Value) -> String {
    let class = config["architectures"][0].as_str().unwrap_or_default();
    format!(
        "{class} has no head of self-distillation: that of the run is not in the folder; where the class has a pooler it is drawn when \
         the folder is loaded, and tells nothing"
    )
}

/// Reports a fault if a classifier predicts several classes per image, or numbers: transformers trains it with another loss, for
/// which a softmax over its scores is meaningless.
fn refuse_other_problems(hf: &HfConfig) {
    let said = hf.get("problem_type");
    match said.and_then(Value::as_str) {
        Some(text_heads::CLASSES) => {}
        Some(text_heads::MULTI_LABEL) => hf.fault(format!(
            "`problem_type` = \"{}\": each score of the folder tells by itself whether its class is in an image, and classifiers of \
             images here tell one class of all (a softmax); such a folder cannot be imported",
            text_heads::MULTI_LABEL
        )),
        Some(text_heads::REGRESSION) => hf.fault(format!(
            "`problem_type` = \"{}\": the scores of the folder are numbers, and classifiers of images here tell classes; such a \
             folder cannot be imported",
            text_heads::REGRESSION
        )),
        _ if said.is_some() => hf.only("problem_type", text_heads::CLASSES),
        _ if hf.classes().len() == 1 => hf.warn(
            "the folder has one label, with which its class tells a number: the run has its scores, and a classifier's loss and shares, \
             which tell nothing of one class",
        ),
        _ => {}
    }
}

/// Whether the class is an image network without a classifier.
pub(in crate::interop) fn is_without(hf: &HfConfig, of: &HfShape) -> bool {
    let body = |class: &str| class.ends_with(text_heads::BODY);
    matches!(of.task, TaskConfig::ImageClassification(_)) && hf.architecture().is_some_and(body)
}

/// The table of a network without a classifier. Some networks have a pooler, whose output classifiers do not read.
pub(in crate::interop) fn without(mut table: Table) -> Table {
    table.optional.extend(HEADS);
    table.ignored.extend(POOLERS);
    table
}
