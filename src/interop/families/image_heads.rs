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
            "`architectures` = [\"{class}\"] cannot be imported; {classifier} can, and so can {body}, with a randomly initialised classifier"
        )),
    }
}

/// Reports a fault if the class is not `body`, which exists only without a classifier; warns that the classifier is random.
pub(super) fn require_body(hf: &HfConfig, body: &str) {
    match hf.architecture() {
        Some(class) if class != body => hf.fault(format!(
            "`architectures` = [\"{class}\"] cannot be imported; {body} can, with a randomly initialised classifier"
        )),
        Some(_) | None => warn_random_classifier(hf, body),
    }
}

/// Warns that a network has no classifier and gets a random one.
fn warn_random_classifier(hf: &HfConfig, class: &str) {
    hf.warn(format!(
        "{class} has no classifier: it is initialised randomly, and its predictions have no meaning before training; a run that \
         starts from this one ([init] from) gets its own classifier with new = [\"head\"]"
    ));
}

/// A note on an exported folder whose class has no classifier.
pub(in crate::interop) fn no_classifier_note(config: &Value) -> String {
    let class = config["architectures"][0].as_str().unwrap_or_default();
    format!("{class} has no classifier: the run's classifier is not in the folder")
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
        "{class} has no head of self-distillation: the run's head is not in the folder; if the class has a pooler, it is \
         initialised randomly when the folder is loaded"
    )
}

/// Reports a fault if a classifier predicts several classes per image, or numbers: transformers trains it with another loss, for
/// which a softmax over its scores is meaningless.
fn refuse_other_problems(hf: &HfConfig) {
    let said = hf.get("problem_type");
    match said.and_then(Value::as_str) {
        Some(text_heads::CLASSES) => {}
        Some(text_heads::MULTI_LABEL) => hf.fault(format!(
            "`problem_type` = \"{}\": each score of the folder is about its own class alone, but image classifiers here choose \
             one of all classes (a softmax); such a folder cannot be imported",
            text_heads::MULTI_LABEL
        )),
        Some(text_heads::REGRESSION) => hf.fault(format!(
            "`problem_type` = \"{}\": the scores of the folder are numbers, but image classifiers here predict classes; such a \
             folder cannot be imported",
            text_heads::REGRESSION
        )),
        _ if said.is_some() => hf.only("problem_type", text_heads::CLASSES),
        _ if hf.classes().len() == 1 => hf.warn(
            "the folder has one label, for which its class predicts a number: the run computes the same scores, but its loss \
             and accuracy are a classifier's and have no meaning with one class",
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
