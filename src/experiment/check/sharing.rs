//! Checks `[model] share_layers`: layers that share parameters must be alike, and some layers must share.

use super::Checker;
use super::layers::MOST_LAYERS;
use crate::model::Transformer;
use crate::stack::Depth;

const TABLE: &str = "model.share_layers";
const GROUPS: &str = "model.share_layers.groups";
const KIND: &str = "model.share_layers.kind";

/// Checks layers that share parameters.
pub(super) fn check(sense: &mut Checker, model: &Transformer) {
    let share = model.stack.share_layers;
    let Some(by) = share.groups_and_cycle() else {
        return;
    };
    let sound = sense.collect_faults(TABLE, |at| share.faults(MOST_LAYERS, at));
    let counts = || model.depths().map(|depth| depth.blocks());
    if !sound || counts().any(|blocks| !(1..=MOST_LAYERS).contains(&blocks)) {
        return;
    }
    let own = by.groups * by.cycle;
    for depth in model.depths() {
        let blocks = depth.blocks();
        if blocks.is_multiple_of(own) {
            require_same_config(sense, model, &depth);
            continue;
        }
        let rule = format!(
            "groups = {} of cycle = {} layers have {own} distinct layers, but {} = {blocks} is not a multiple of {own}; set a multiple",
            by.groups, by.cycle, depth.key
        );
        sense.fault(&[GROUPS, KIND, &format!("model.{}", depth.key)], rule);
    }
    // ALBERT's config files set a longer cycle for the layers of an encoder (`inner_group_num`), whether or not it has an
    // effect.
    let names =
        by.cycle > 1 && share.shares_whole_blocks() && sense.model().masked_lm_encoder().is_some();
    if !names && counts().all(|blocks| blocks <= own) {
        let most = counts().max().unwrap_or(0);
        let remedy = match (by.groups, by.cycle) {
            (_, 1) => "fewer groups",
            (1, _) => "a shorter cycle",
            (_, _) => "fewer groups or a shorter cycle",
        };
        let rule = match own {
            1 => format!("share_layers has no effect: there is only {most} layer; remove it"),
            _ => format!(
                "share_layers has no effect: each of {most} layers has its own parameters; use {remedy}, or remove it"
            ),
        };
        sense.fault(&[KIND], rule);
    }
    let feeds = model
        .distinct_blocks()
        .any(|block| block.feed_forward.is_some());
    if share.shares_only_feed_forward() && !feeds {
        let rule = "kind = \"feed_forward\" has no effect: no layer has a feed-forward layer; remove share_layers";
        sense.fault(&[KIND], rule);
    }
}

/// Reports two layers that would share parameters although their configurations differ.
fn require_same_config(sense: &mut Checker, model: &Transformer, depth: &Depth) {
    let (stack, blocks) = (model.stack, depth.blocks());
    let owners = stack.share_layers.owners(blocks);
    let differs = |layer: usize| {
        let pairs = [
            (owners.mixer_owner(layer), true, false),
            (owners.feed_forward_owner(layer), false, true),
        ];
        let mut pairs = pairs.into_iter();
        pairs.find_map(|(owner, mixing, feeding)| {
            let [own, other] = [layer, owner].map(|l| stack.block(depth, l).with(mixing, feeding));
            (own != other).then_some((owner, mixing))
        })
    };
    let found = (0..blocks).find_map(|layer| Some((layer, differs(layer)?)));
    let Some((layer, (owner, mixing))) = found else {
        return;
    };
    let part = match mixing {
        true => "the layer that mixes positions",
        false => "the feed-forward layer",
    };
    let rule = format!(
        "layers {} and {} of [[model.{}]] would share {part}, but it differs; set cycle = {} (or a multiple of it), make the \
         groups equal, or share another part",
        owner + 1,
        layer + 1,
        depth.groups_key,
        depth.grouped_blocks(),
    );
    let groups = format!("model.{}", depth.groups_key);
    sense.fault(&[KIND, "model.share_layers.cycle", &groups], rule);
}
