//! `inspect RUN attention` for one example: the weights of each head as a picture.

use super::examples::{Example, InspectedRun, printable_tokens};
use super::heads::{file, place, require_few, require_weights};
use super::pictures::{Overlay, matrix};
use super::{InspectArgs, out, output, write};
use crate::data::batch::Item;
use crate::error::{Error, Result};
use crate::inspect::weights::{Layout, Weights, attention_weights};
use crate::nn::record::AttentionKey;
use crate::report::render::figure::Figure;
use crate::report::render::figure::panels::{Panels, Picture, panels};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Width of a picture in pixels of the figure.
const SIDE: f64 = 96.0;
/// Maximum number of tokens whose names are drawn beside a picture.
pub(super) const NAMED: usize = 64;
/// Pictures per row for a single layer.
const ACROSS: usize = 4;

/// Draws the attention of one example.
pub(super) fn run(
    args: &InspectArgs,
    runs: &[PathBuf],
    run: &InspectedRun,
    one: &Example,
) -> Result<()> {
    require_weights(run)?;
    require_few(run, &one.item)?;
    let out = out(args, runs)?;
    let mut all = attention_weights(run.network()?, &one.item);
    let layers: BTreeSet<usize> = all.keys().map(|at| at.layer).collect();
    if let Some(layer) = args.layer {
        all.retain(|at, _| at.layer == layer);
    }
    if all.is_empty() {
        let layers: Vec<String> = layers.iter().map(usize::to_string).collect();
        return Err(Error::usage(match (args.layer, layers.is_empty()) {
            (Some(layer), false) => format!(
                "--layer {layer}: the layers with attention are {}",
                layers.join(", ")
            ),
            _ => format!(
                "{} has no attention to show: the model has none, or its keys are not positions",
                run.folder.display()
            ),
        }));
    }
    let tokens = run.tokens(&one.item);
    let drawing = Drawing {
        run,
        one,
        tokens: &tokens,
        of_one_layer: args.layer.is_some(),
    };
    let places: BTreeSet<String> = all.keys().map(place).collect();
    let figures = places.iter().map(|name| {
        let some: BTreeMap<&AttentionKey, &Weights> =
            all.iter().filter(|(at, _)| place(at) == *name).collect();
        drawing.figure(name, &some)
    });
    let figures = figures.collect::<Result<Vec<_>>>()?;
    let files = write(&out, &figures)?;
    match args.json {
        true => output::line(drawing.json(&all, &files).to_string()),
        false => files.iter().try_for_each(output::line),
    }
}

struct Drawing<'a> {
    run: &'a InspectedRun,
    one: &'a Example,
    tokens: &'a [Vec<String>; 2],
    of_one_layer: bool,
}

impl Drawing<'_> {
    /// A row of pictures for each layer, one for each head; for a single layer, larger pictures with the names of tokens.
    fn figure(&self, place: &str, some: &BTreeMap<&AttentionKey, &Weights>) -> Result<Figure> {
        let (layout, title) = (self.run.layout(), self.title(place));
        let overlay = match &self.one.item {
            Item::Image(image) => Some(Overlay::of(image, &self.run.opened.shape, layout)),
            Item::Text(_) | Item::Pair(_) | Item::Captioned(_) | Item::Spoken(_) => None,
        };
        let picture = |weights: &Weights, head: usize| match &overlay {
            Some(overlay) => overlay.on(&patch_attention(weights, head, layout)),
            None => matrix(weights, head),
        };
        let of_layer = |weights: &Weights| -> Vec<Picture> {
            (0..weights.heads)
                .map(|head| picture(weights, head))
                .collect()
        };
        let mut pictures: Vec<Vec<Picture>> = some.values().map(|w| of_layer(w)).collect();
        let (mut rows, mut columns) = (
            some.keys()
                .map(|at| format!("layer {}", at.layer))
                .collect(),
            (0..pictures.iter().map(Vec::len).max().unwrap_or(0))
                .map(|head| format!("head {head}"))
                .collect(),
        );
        let (mut side, mut ticks) = (SIDE, None);
        if self.of_one_layer {
            let all = pictures.concat();
            pictures = all.chunks(ACROSS).map(<[Picture]>::to_vec).collect();
            (rows, columns) = (Vec::new(), Vec::new());
            side = 2.0 * SIDE;
            let named = some.iter().next().and_then(|(at, w)| self.names(at, w));
            let few = |[down, across]: &[Vec<String>; 2]| down.len().max(across.len()) <= NAMED;
            if let Some(names) = named.filter(|names| overlay.is_none() && few(names)) {
                side = side.max(12.0 * names[1].len() as f64);
                ticks = Some(names.map(|names| printable_tokens(&names)));
            }
        }
        panels(&Panels {
            name: file("attention_map", place).into(),
            title,
            rows,
            columns,
            pictures,
            ticks,
            range: overlay.is_none().then_some((0.0, 1.0)),
            side,
        })
    }

    fn title(&self, place: &str) -> String {
        let whose = match place {
            "" => String::new(),
            place => format!(" of the {place}"),
        };
        let what = match (self.run.layout(), &self.one.item) {
            (Layout::Grid { .. }, _) => "attention on the patches of the image",
            (_, Item::Pair(_)) | (Layout::Sequence, _) => "attention, a row for each query",
        };
        format!("{what}{whose}, for each head")
    }

    /// Names of queries and keys, if each is a token.
    fn names(&self, at: &AttentionKey, weights: &Weights) -> Option<[Vec<String>; 2]> {
        let [source, target] = self.tokens;
        let both: Vec<String> = [source.clone(), target.clone()].concat();
        let sides = [source.clone(), target.clone(), both];
        let of = |count: usize| sides.iter().find(|names| names.len() == count).cloned();
        match at.is_cross {
            true => Some([target.clone(), source.clone()])
                .filter(|[q, k]| q.len() == weights.queries && k.len() == weights.keys),
            false if at.network == "decoder" => {
                Some([target.clone(), target.clone()]).filter(|[q, _]| q.len() == weights.queries)
            }
            false => Some([of(weights.queries)?, of(weights.keys)?]),
        }
    }

    fn json(&self, all: &BTreeMap<AttentionKey, Weights>, files: &[String]) -> Value {
        let map = |(at, weights): (&AttentionKey, &Weights)| {
            let mut map = json!({
                "network": place(at),
                "layer": at.layer,
                "heads": weights.heads,
                "queries": weights.queries,
                "keys": weights.keys,
            });
            if self.of_one_layer {
                let rows = |head| weights.rows(head).map(numbers).collect::<Vec<_>>();
                map["weights"] = (0..weights.heads).map(rows).collect();
            }
            map
        };
        let [tokens, target] = self.tokens;
        json!({
            "run": self.run.folder.display().to_string(),
            "step": self.run.opened.step,
            "example": self.one.name,
            "tokens": tokens,
            "target_tokens": target,
            "attention": all.iter().map(map).collect::<Vec<_>>(),
            "files": files,
        })
    }
}

/// Converts numbers to their shortest unambiguous JSON form.
pub(super) fn numbers(row: &[f32]) -> Vec<Value> {
    row.iter().map(|x| output::number(*x)).collect()
}

/// How much a head attends to each patch: from the class token, from the query that pools the patches, or on average from all
/// patches.
fn patch_attention(weights: &Weights, head: usize, layout: Layout) -> Vec<f64> {
    let first = match layout {
        Layout::Sequence => 0,
        Layout::Grid { rows, cols, .. } => weights.keys.saturating_sub(rows * cols),
    };
    let (before, readers) = match (layout.has_class_token(), weights.is_square()) {
        (true, _) => (0, 1),
        (false, true) => (first, weights.queries.saturating_sub(first)),
        (false, false) => (0, weights.queries),
    };
    let mut mean = vec![0.0; weights.keys - first];
    for row in weights.rows(head).skip(before).take(readers) {
        let patches = row.iter().skip(first);
        mean.iter_mut()
            .zip(patches)
            .for_each(|(sum, w)| *sum += f64::from(*w) / readers as f64);
    }
    mean
}
