//! Checks a kind of attention, or a bidirectional mixer, against its surroundings: the reading order of its stack, positions,
//! documents, prefixes.

use super::Checker;
use crate::data::View;
use crate::nn::attention::multi_head::sinks::Sinks;
use crate::nn::attention::{AttentionConfig, ReadingDirection};
use crate::nn::position::{ActsOn, HeadEffect, PositionConfig};
use crate::nn::recurrent::MixerConfig;

/// Checks an attention layer in a causal or bidirectional stack; `position` is the scheme that its group has in place of the
/// model's.
pub(super) fn check(
    sense: &mut Checker,
    table: &str,
    attention: &AttentionConfig,
    position: Option<&PositionConfig>,
    causal: bool,
) {
    let abilities = attention.facts().abilities();
    let kind = attention.kind();
    let own = format!("{table}.kind");
    match (abilities.reads, causal) {
        (ReadingDirection::Bidirectional, true) if attention.facts().sees_globals() => {
            let rule = "global reads both ways, but this stack reads from left to right: a global token would see the tokens \
                        after it; remove it there, or give the encoder separate layers";
            sense.fault(&[&format!("{table}.global"), "model.kind"], rule);
        }
        (ReadingDirection::Bidirectional, true) => {
            let rule = format!(
                "kind = \"{kind}\" reads both ways, but this stack reads from left to right; use it in an encoder, or use \
                 another kind (formwork list attention)"
            );
            sense.fault(&[&own, "model.kind"], rule);
        }
        (ReadingDirection::Causal, false) => {
            let rule = format!(
                "kind = \"{kind}\" reads from left to right, but this stack reads both ways; use it in a decoder, or use \
                 another kind (formwork list attention)"
            );
            sense.fault(&[&own, "model.kind"], rule);
        }
        (ReadingDirection::Either, _)
        | (ReadingDirection::Bidirectional, false)
        | (ReadingDirection::Causal, true) => {}
    }
    positions(sense, table, attention, position, causal);
    if !abilities.documents && hides_documents(sense) {
        documents(sense, kind, &own, "attention");
    }
    let experiment = &sense.loaded.experiment;
    if !abilities.prefix && experiment.task.facts().demand().bidirectional_source {
        let rule = format!(
            "kind = \"{kind}\" cannot show the whole source to itself, which [task] bidirectional_source = true requires; \
             remove it or use another kind"
        );
        sense.fault(&[&own, "task.bidirectional_source"], rule);
    }
    let dropped = sense.model().transformer();
    let dropped = dropped.and_then(|model| model.stack.dropout_attention);
    if let Some(p) = dropped.filter(|p| *p > 0.0 && !abilities.weights) {
        let rule = format!(
            "dropout_attention = {p:?} has no effect on kind = \"{kind}\", which computes no weights of queries and keys; remove it"
        );
        sense.fault(&["model.dropout_attention", &own], rule);
    }
}

/// Checks a bidirectional mixer in a causal or bidirectional stack; `key` is that of its group.
pub(super) fn mixer(sense: &mut Checker, key: &str, mixer: &MixerConfig, causal: bool) {
    let kind = mixer.kind();
    if causal {
        let rule = format!(
            "mixer = {{ kind = \"{kind}\" }} reads both ways, but this stack reads from left to right; use it in an encoder, or \
             use another kind (formwork list mixers)"
        );
        return sense.fault(&[key, "model.kind"], rule);
    }
    if hides_documents(sense) {
        documents(sense, kind, key, "layer");
    }
}

/// Whether documents in a row are hidden from each other. Texts that are read alone have a row each.
fn hides_documents(sense: &Checker) -> bool {
    let experiment = &sense.loaded.experiment;
    experiment.task.view() != View::EncodedSeparately
        && experiment.data.data_set().hides_documents()
}

/// Reports a kind that cannot hide documents in a row from each other although the data asks for it; `of` is its family.
fn documents(sense: &mut Checker, kind: &str, own: &str, of: &str) {
    let data = &sense.loaded.experiment.data;
    let (key, asks, remedy) = match data.data_set().hides_documents_key() {
        Some([key, hides, shows]) => (
            format!("data.{key}"),
            format!("{key} = {hides}"),
            format!("set it to {shows} or use"),
        ),
        None => (
            "data.kind".to_owned(),
            format!("kind = \"{}\"", data.kind()),
            "use".to_owned(),
        ),
    };
    let rule = format!(
        "kind = \"{kind}\" cannot hide documents from each other, which [data] {asks} requires; {remedy} another kind of {of}"
    );
    sense.fault(&[own, &key], rule);
}

/// Reports position schemes that an attention kind cannot carry.
fn positions(
    sense: &mut Checker,
    table: &str,
    attention: &AttentionConfig,
    position: Option<&PositionConfig>,
    causal: bool,
) {
    let Some(model) = sense.model().transformer() else {
        return;
    };
    let (of, position) = match position {
        Some(own) => (table.replace(".attention", ".position"), own.facts()),
        None => ("model.position".to_owned(), model.stack.position.facts()),
    };
    let kind = format!("{table}.kind");
    let ActsOn::Heads(means) = position.acts_on() else {
        return;
    };
    let whole_source = sense
        .loaded
        .experiment
        .task
        .facts()
        .demand()
        .bidirectional_source;
    if position.causal_only() && causal && whole_source {
        let rule = format!(
            "kind = \"{}\" is for texts that are read from left to right, but [task] bidirectional_source = true shows the \
             whole source to itself; remove it, or use rotary, alibi, relative_bias or none",
            position.kind().kind
        );
        return sense.fault(&[&format!("{of}.kind"), "task.bidirectional_source"], rule);
    }
    // For images, another error already says that they need a two-dimensional scheme.
    let of_images = sense.model().facts().image_facts().is_some();
    if position.causal_only() && !causal && !of_images {
        let rule = format!(
            "kind = \"{}\" is for stacks that read from left to right, but this stack reads both ways; use rotary, alibi, \
             relative_bias or none",
            position.kind().kind
        );
        return sense.fault(&[&format!("{of}.kind"), "model.kind"], rule);
    }
    segments(sense, &of, position.segments(), attention, causal);
    if attention.supports_effect(means) {
        if means == HeadEffect::Vectors && attention.heads().sinks != Sinks::None {
            let rule = format!(
                "sinks cannot be combined with distance vectors (kind = \"{}\"); remove sinks, or use rotary, alibi or none",
                position.kind().kind
            );
            sense.fault(&[&format!("{table}.sinks"), &format!("{of}.kind")], rule);
        }
        if position.rotates_values() && !attention.facts().abilities().rotated_values {
            let rule = format!(
                "rotate_values = true has no effect on kind = \"{}\", whose values are not rotated; remove it",
                attention.kind()
            );
            sense.fault(&[&format!("{of}.rotate_values"), &kind], rule);
        }
        return;
    }
    let others = match attention.supports_effect(HeadEffect::Rotation) {
        true => "learned, sinusoidal, rotary or none",
        false => "learned, sinusoidal or none",
    };
    let rule = format!(
        "kind = \"{}\" cannot be used with attention of kind = \"{}\"; use {others}",
        position.kind().kind,
        attention.kind()
    );
    sense.fault(&[&format!("{of}.kind"), &kind], rule);
}

/// Reports positions that distinguish segments if the stack has no segments or the attention kind cannot carry them; `of` is
/// the table of the positions.
fn segments(
    sense: &mut Checker,
    of: &str,
    segments: usize,
    attention: &AttentionConfig,
    causal: bool,
) {
    if segments == 0 {
        return;
    }
    let key = format!("{of}.segments");
    let reads = sense.model().facts().reads_segments();
    if causal || !reads {
        let rule = format!(
            "segments = {segments} has no effect: {}; remove it, or use [model] kind = \"encoder\"",
            match causal {
                true => "a stack that reads from left to right has no segments",
                false => "this network reads texts without segments",
            }
        );
        return sense.fault(&[&key, "model.kind"], rule);
    }
    if !attention.facts().sees_every_visible_key() {
        let rule = format!(
            "segments = {segments} cannot be used with attention of kind = \"{}\"; use multi_head, or remove it",
            attention.kind()
        );
        sense.fault(&[&key, "model.attention.kind"], rule);
    }
}
