//! Checks a transformer's blocks: their number, their groups, and the layers of each.

use super::{Checker, mixer_context};
use crate::faults::header;
use crate::model::{ThroughputUnit, Transformer};
use crate::nn::attention::AttentionConfig;
use crate::nn::feed_forward::FeedForwardConfig;
use crate::nn::position::{KnownSizes, PositionConfig};
use crate::stack::{Depth, LayerGroup};

/// Maximum number of layers, that of the deepest published transformers (DeepNet, Wang et al. 2022): the optimizer's file holds
/// at most 100,000 tensors, some fifty to a hundred for each layer.
pub(super) const MOST_LAYERS: usize = 1_000;

/// Checks the depth and the groups of one stack.
pub(super) fn check(sense: &mut Checker, model: &Transformer, depth: &Depth) {
    let (key, groups) = (format!("model.{}", depth.key), depth.groups_key);
    sense.count(&key, depth.blocks(), MOST_LAYERS);
    let (all, first) = (model.depths().map(|d| d.blocks()), model.depths().next());
    let all = all.fold(0, usize::saturating_add);
    let is_last = first.is_some_and(|first| first.key != depth.key);
    if is_last && all > MOST_LAYERS && depth.blocks() <= MOST_LAYERS {
        let rule =
            format!("both stacks have {all} layers together; at most {MOST_LAYERS} can be saved");
        sense.fault(&[&key], rule);
    }
    let whole = depth.grouped_blocks();
    if depth.groups.is_empty() {
        return;
    }
    for (i, group) in depth.groups.iter().enumerate() {
        let table = format!("model.{groups}.{i}");
        sense.count(&format!("{table}.repeat"), group.repeat, MOST_LAYERS);
        check_mixer(sense, &table, group, !depth.causal);
        check_cross_attention(sense, &table, group, depth.cross.is_some());
    }
    if depth.cross.is_some() && depth.groups.iter().all(|group| group.cross.is_none()) {
        let rule = format!(
            "{groups} has no group with cross = {{ … }}: the decoder never attends to its source"
        );
        sense.fault(&[&format!("model.{groups}")], rule);
    }
    if whole > 0 && !depth.blocks().is_multiple_of(whole) {
        let rule = format!(
            "{} = {} is not a multiple of {whole}, the number of blocks in [[model.{groups}]]; remove it or make it a multiple",
            depth.key,
            depth.blocks()
        );
        sense.fault(&[&key, &format!("model.{groups}")], rule);
    }
    let alone = model.depths().all(|depth| !depth.groups.is_empty());
    let c = model.stack;
    for (name, given) in [
        ("attention", c.attention != AttentionConfig::default()),
        (
            "feed_forward",
            c.feed_forward != FeedForwardConfig::default(),
        ),
    ] {
        if given && alone {
            let rule =
                format!("{name} has no effect: the layers are in [[model.{groups}]]; remove it");
            sense.fault(
                &[&format!("model.{name}"), &format!("model.{groups}")],
                rule,
            );
        }
    }
}

/// Checks the layer that mixes the positions of a group.
fn check_mixer(sense: &mut Checker, table: &str, group: &LayerGroup, both_ways: bool) {
    let [attention, mixer] = ["attention", "mixer"].map(|key| format!("{table}.{key}"));
    match (&group.attention, &group.mixer) {
        (None, None) => {
            let rule =
                "a group has no layer that mixes positions; add attention = { … } or mixer = { … }";
            sense.fault(&[&attention], rule);
        }
        (Some(_), Some(_)) => {
            let rule = "a group has both attention and a mixer; remove one, or make two groups";
            sense.fault(&[&mixer, &attention], rule);
        }
        (None, Some(c)) if both_ways && !c.is_bidirectional() => {
            let rule = format!(
                "mixer = {{ kind = \"{}\" }} reads from left to right, but this stack reads both ways; use attention",
                c.kind()
            );
            sense.fault(&[&mixer], rule);
        }
        (None, Some(c)) if c.is_bidirectional() => {
            mixer_context::mixer(sense, &mixer, c, !both_ways)
        }
        (Some(_), None) | (None, Some(_)) => {}
    }
}

/// Checks a feed-forward layer in a causal or bidirectional stack.
fn check_feed_forward(sense: &mut Checker, table: &str, c: &FeedForwardConfig, both_ways: bool) {
    sense.collect_faults(table, |at| c.faults(at));
    if both_ways && c.reads_earlier_positions() {
        let rule = format!(
            "kind = \"{}\" reads from left to right, but this stack reads both ways; use it in a decoder, or use another kind",
            c.kind()
        );
        sense.fault(&[&format!("{table}.kind"), "model.kind"], rule);
    }
}

/// Reports keys that act only in attention, for a model whose layers have none.
pub(super) fn without_attention(sense: &mut Checker, model: &Transformer, whole_source: bool) {
    let mut blocks = model.distinct_blocks().peekable();
    if blocks.peek().is_none() || blocks.any(|b| b.attention.is_some() || b.cross.is_some()) {
        return;
    }
    let c = model.stack;
    if c.position.has_heads() {
        let rule = "this position scheme acts in attention, but no layer has attention; use learned, sinusoidal or none";
        sense.fault(&["model.position.kind"], rule);
    }
    if let Some(p) = c.dropout_attention {
        let rule = format!("dropout_attention = {p:?} has no effect: no layer has attention");
        sense.fault(&["model.dropout_attention"], rule);
    }
    if whole_source {
        let rule = "bidirectional_source = true has no effect: no layer has attention; remove it";
        sense.fault(&["task.bidirectional_source"], rule);
    }
}

/// Reports cross-attention of a group in a stack without encoder memory.
fn check_cross_attention(sense: &mut Checker, table: &str, group: &LayerGroup, has_memory: bool) {
    if group.cross.is_some() && !has_memory {
        let rule = "cross has no effect: the stack has no memory to attend to; remove it";
        sense.fault(&[&format!("{table}.cross")], rule);
    }
}

/// Checks the layers of all blocks. Returns the head width of the first attention layer, if there is one.
pub(super) fn check_blocks(
    sense: &mut Checker,
    model: &Transformer,
    d_model: Option<usize>,
    context: Option<usize>,
) -> Option<usize> {
    let of_images = sense.model().throughput_unit() == ThroughputUnit::Image;
    let speech = sense.loaded.experiment.data.data_set().speech();
    let heard = speech.and_then(|speech| sense.model().facts().encoder_positions(speech));
    let mut first = None;
    let mut alike = Vec::new();
    let mut attention = |sense: &mut Checker,
                         table: String,
                         c: &AttentionConfig,
                         position: Option<&PositionConfig>,
                         causal: bool| {
        let head = sense.collect_faults(&table, |at| c.faults(d_model, at));
        let context = heard.filter(|_| !causal).or(context);
        sense.collect_faults(&table, |at| {
            c.facts().faults_in_context(context, causal, at)
        });
        mixer_context::check(sense, &table, c, position, causal);
        if let Some(position) = position {
            let known = KnownSizes {
                d_model,
                d_head: head,
                context,
                is_image: of_images,
            };
            let table = table.replace(".attention", ".position");
            sense.collect_faults(&table, |at| position.facts().faults(&known, at));
            return;
        }
        first = first.or(Some(head));
        if let Some(d_head) = head {
            alike.push((table, c.n_heads(), d_head));
        }
    };
    let mut own = false;
    for depth in model.depths() {
        for (i, group) in depth.groups.iter().enumerate() {
            let table = format!("model.{}.{i}", depth.groups_key);
            if let Some(c) = &group.attention {
                let position = group.position.as_ref();
                let table = format!("{table}.attention");
                attention(sense, table, c, position, depth.causal);
            }
            if let Some(c) = &group.mixer {
                sense.collect_faults(&format!("{table}.mixer"), |at| c.faults(d_model, at));
            }
            if let Some(c) = &group.cross {
                sense.collect_faults(&format!("{table}.cross"), |at| c.faults_across(d_model, at));
            }
            if let Some(c) = &group.feed_forward {
                check_feed_forward(sense, &format!("{table}.feed_forward"), c, !depth.causal);
            }
        }
        own |= depth.groups.is_empty();
        if let Some(cross) = depth.cross.filter(|c| **c != model.stack.attention) {
            sense.collect_faults("model.cross", |at| cross.faults_across(d_model, at));
        }
    }
    if own {
        let depths = model.depths().filter(|depth| depth.groups.is_empty());
        let causal: Vec<bool> = depths.map(|depth| depth.causal).collect();
        let attends = &model.stack.attention;
        let table = || "model.attention".to_string();
        attention(sense, table(), attends, None, causal[0]);
        if causal.iter().any(|other| *other != causal[0]) {
            mixer_context::check(sense, &table(), attends, None, !causal[0]);
        }
        let both_ways = causal.iter().any(|causal| !causal);
        check_feed_forward(
            sense,
            "model.feed_forward",
            &model.stack.feed_forward,
            both_ways,
        );
    }
    let other = alike
        .iter()
        .find(|(_, n, d)| (*n, *d) != (alike[0].1, alike[0].2));
    if let Some((table, n, d)) = other.filter(|_| model.stack.position.has_heads()) {
        let rule = format!(
            "{n} heads of {d} differ from {} heads of {} in {}: the position scheme has one shape for all layers; make them \
             equal or choose another [model] position",
            alike[0].1,
            alike[0].2,
            header(&sense.full_key(&alike[0].0))
        );
        sense.fault(&[&format!("{table}.n_heads"), "model.position.kind"], rule);
    }
    first.flatten()
}
