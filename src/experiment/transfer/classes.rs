//! Checks classification heads that are taken from a run with other classes.

use super::{PathMapping, TransferConfig};
use crate::data::Shape;
use crate::error::{Error, Result};
use crate::nn::role::Place;
use crate::task::Objective;
use crate::train::lora;
use crate::train::parameters;

/// Describes the classes that a head was trained for, if the head is taken and the data has equally many classes with other
/// names. If their number differs, the transfer itself reports the different shape.
///
/// # Errors
/// If a head is taken whose classes are the same in another order.
pub(super) fn other_classes(
    (rules, way): (&TransferConfig, Option<&PathMapping>),
    [theirs, ours]: [&Shape; 2],
    model: &Objective,
) -> Result<Option<String>> {
    let text = ours.image.is_none();
    let [theirs, ours] = [&theirs.classes, &ours.classes];
    if theirs == ours || theirs.len() != ours.len() {
        return Ok(None);
    }
    let all = parameters::list_with_state(model).into_iter();
    let heads = all.filter(|p| {
        p.role.place == Some(Place::Head)
            && (p.path.starts_with("head.") || p.path.starts_with("distilled_head."))
            && p.shape.last() == Some(&ours.len())
            && !lora::is_adapter(&p.path)
            && way.is_none_or(|way| way.maps_to(&p.path))
    });
    let heads: Vec<String> = heads.map(|p| p.path).collect();
    if rules
        .taken_paths(heads.iter().map(String::as_str))?
        .is_empty()
    {
        return Ok(None);
    }
    other_classes_message(theirs, ours, text)
}

/// The message about a head with equally many other classes. In text data (`text`), labels are stored as class names, so
/// reordering `classes` renumbers them; image data may renumber the names.
fn other_classes_message(theirs: &[String], ours: &[String], text: bool) -> Result<Option<String>> {
    let mut pairs = theirs.iter().zip(ours).enumerate();
    let Some((number, (their, our))) = pairs.find(|(_, (their, our))| their != our) else {
        return Ok(None);
    };
    let sorted = |classes: &[String]| {
        let mut classes = classes.to_vec();
        classes.sort();
        classes
    };
    if sorted(theirs) == sorted(ours) {
        let anew = "initialise the head anew: new = [\"head\"]";
        let remedy = match text {
            true => format!("keep the trained head with classes = {theirs:?} in [data], or {anew}"),
            false => anew.into(),
        };
        return Err(Error::usage(format!(
            "[init] the other run has the same classes in a different order (class {number} is {their:?} there and {our:?} here), \
             so its head's logits belong to other classes; {remedy}"
        )));
    }
    let more = pairs.filter(|(_, (their, our))| their != our).count();
    let more = match more {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    Ok(Some(format!(
        "a head of other classes: {number} is {their:?} ({our:?} here){more}"
    )))
}

#[cfg(test)]
mod tests {
    use super::other_classes_message;

    #[test]
    fn another_order_is_refused_and_other_names_are_told() {
        let classes = |names: &str| -> Vec<String> { names.split(' ').map(String::from).collect() };
        let said = |theirs: &str, ours: &str| {
            other_classes_message(&classes(theirs), &classes(ours), true)
        };
        assert_eq!(said("a b c", "a b c").unwrap(), None);
        assert_eq!(
            said("a b c", "a d e").unwrap().unwrap(),
            "a head of other classes: 1 is \"b\" (\"d\" here), and 1 more"
        );
        let error = said("a b c", "a c b").unwrap_err().to_string();
        assert!(
            error.contains("class 1 is \"b\" there and \"c\" here")
                && error.contains("classes = [\"a\", \"b\", \"c\"] in [data]")
                && error.contains("new = [\"head\"]"),
            "{error}"
        );
    }
}
