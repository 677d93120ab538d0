//! `inspect RUN rollout`: how much of each part of the input reaches the output through all attention layers.

use super::examples::{Example, InspectedRun, printable, printable_tokens};
use super::heads::{file, require_few, require_weights};
use super::maps::NAMED;
use super::pictures::Overlay;
use super::{InspectArgs, out, output, write};
use crate::data::batch::{ImageItem, Item};
use crate::error::{Error, Result};
use crate::inspect::rollout::{Rollout, rollouts};
use crate::inspect::weights::{Layout, attention_weights};
use crate::report::render::figure::Figure;
use crate::report::render::figure::panels::{Panels, Picture, panels};
use crate::report::render::table::table;
use crate::task::whole_text::Pooling;
use crate::task::{MultiLabel, Regression, TextClassification, TextEmbedding};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Default number of images of the validation split.
const IMAGES: usize = 8;
/// Width of a picture in pixels of the figure.
const SIDE: f64 = 112.0;
/// Maximum number of images in a figure.
const MOST_IMAGES: usize = 64;

/// The rollouts of an example, by network.
type RolloutsByNetwork = BTreeMap<String, Rollout>;

/// Inspects the attention rollout of a run.
pub(super) fn run(args: &InspectArgs, runs: &[PathBuf]) -> Result<()> {
    args.refuse("rollout", &["--context", "--step", "--layer"])?;
    let run = InspectedRun::open(args, runs, "rollout")?;
    require_weights(&run)?;
    let given = run.flag_example(args)?;
    if given.is_some() {
        args.refuse("the rollout of one example", &["--examples"])?;
    }
    let images = run.opened.shape.image.is_some();
    if !images {
        args.refuse("the rollout of a text", &["--examples"])?;
    }
    let count = args.examples.map_or(IMAGES, |n| n as usize);
    if count > MOST_IMAGES {
        return Err(Error::usage(format!(
            "--examples {count}: a figure has room for at most {MOST_IMAGES} images"
        )));
    }
    let out = out(args, runs)?;
    let examples = match given {
        Some(one) => vec![one],
        None => run.examples(if images { count } else { 1 })?,
    };
    let found = examples.iter().map(|one| compute_rollouts(&run, one));
    let found = found.collect::<Result<Vec<RolloutsByNetwork>>>()?;
    let figures = match run.layout() {
        Layout::Grid { .. } => vec![of_images(&run, &examples, &found)?],
        Layout::Sequence => of_text(&run, &examples[0], &found[0])?,
    };
    let files = write(&out, &figures)?;
    if args.json {
        return output::line(json(&run, &examples, &found, &files).to_string());
    }
    if run.layout() == Layout::Sequence {
        show(&run, &examples[0], &found[0])?;
    }
    files.iter().try_for_each(output::line)
}

/// Computes the rollout of each network that has one; returns an error if there is none.
fn compute_rollouts(run: &InspectedRun, one: &Example) -> Result<RolloutsByNetwork> {
    require_few(run, &one.item)?;
    let weights = attention_weights(run.network()?, &one.item);
    let mut found = RolloutsByNetwork::new();
    let mut faults = Vec::new();
    for (network, rollout) in rollouts(&weights) {
        let kept = weights
            .keys()
            .filter(|at| !at.is_cross && at.network == network);
        let kept: Vec<usize> = kept.map(|at| at.layer).collect();
        let mixing = run.mixing_layers(&network);
        let unseen = mixing.into_iter().find(|layer| !kept.contains(layer));
        let whose = match network.as_str() {
            "" => String::new(),
            network => format!(" of the {network}"),
        };
        match (rollout, unseen) {
            (Ok(rollout), None) => drop(found.insert(network, rollout)),
            (Err(layer), _) | (Ok(_), Some(layer)) => faults.push(format!(
                "layer {layer}{whose} has no attention weights between its positions, so the rollout cannot pass through it"
            )),
        }
    }
    let first = faults.into_iter().next();
    match (found.is_empty(), first) {
        (false, None) => Ok(found),
        (false, Some(fault)) => {
            output::note(fault);
            Ok(found)
        }
        (true, Some(fault)) => Err(Error::usage(fault)),
        (true, None) => Err(Error::usage(format!(
            "{} has no attention between positions, so there is no rollout",
            run.folder.display()
        ))),
    }
}

/// The position at which a network's output is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadAt {
    First,
    Last,
    Mean,
}

impl ReadAt {
    /// Images are read at the class token, or else as the mean of the patches; a decoder is read at its last position. A text
    /// is read as the task pools it: at its first position, at its last, or as the mean (also for tasks that read every
    /// position).
    fn of(run: &InspectedRun, network: &str) -> Self {
        let networks = run.opened.model.networks();
        let classifier = networks.text_classifier.map(TextClassification::pooling);
        let regression = networks.text_regression.map(Regression::pooling);
        let reward = networks.reward.map(|model| model.scorer().pooling());
        let several = networks.multi_label.map(MultiLabel::pooling);
        let embedder = networks.embedder.map(TextEmbedding::pooling);
        match (run.layout(), network) {
            (layout @ Layout::Grid { .. }, _) => match layout.has_class_token() {
                true => Self::First,
                false => Self::Mean,
            },
            (Layout::Sequence, "encoder") => Self::Mean,
            (Layout::Sequence, "decoder") => Self::Last,
            _ if networks.language_model.is_some() || networks.text_to_text.is_some() => Self::Last,
            _ => match classifier
                .or(several)
                .or(regression)
                .or(reward)
                .or(embedder)
            {
                Some(Pooling::First) => Self::First,
                Some(Pooling::Last) => Self::Last,
                // With max pooling, any position may provide the maximum.
                Some(Pooling::Mean | Pooling::Max) | None => Self::Mean,
            },
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Last => "last",
            Self::Mean => "mean",
        }
    }
}

/// The shares of each input position in what is read of a network; for images, of each patch.
fn read_shares(run: &InspectedRun, network: &str, rollout: &Rollout) -> Vec<f64> {
    let (last, first) = (
        rollout.positions.saturating_sub(1),
        run.layout().leading_tokens(),
    );
    let shares = match ReadAt::of(run, network) {
        ReadAt::First => rollout.row(0).to_vec(),
        ReadAt::Last => rollout.row(last).to_vec(),
        // Register tokens are not read.
        ReadAt::Mean => rollout.mean(first..rollout.positions),
    };
    shares[first..].to_vec()
}

/// A row for each image: the image, and the shares of its patches.
fn of_images(
    run: &InspectedRun,
    examples: &[Example],
    found: &[RolloutsByNetwork],
) -> Result<Figure> {
    let picture = |(one, found): (&Example, &RolloutsByNetwork)| -> Vec<Picture> {
        let image = match &one.item {
            Item::Image(image) => image.clone(),
            Item::Text(_) | Item::Pair(_) | Item::Captioned(_) | Item::Spoken(_) => {
                ImageItem::default()
            }
        };
        let overlay = Overlay::of(&image, &run.opened.shape, run.layout());
        let shares = found.iter().map(|(name, one)| read_shares(run, name, one));
        let on = shares.map(|shares| overlay.on(&shares));
        [overlay.image()].into_iter().chain(on).collect()
    };
    panels(&Panels {
        name: "rollout".into(),
        title: "attention rollout onto the patches of each image".into(),
        rows: examples.iter().map(|one| short(&one.name)).collect(),
        columns: vec!["image".into(), "rollout".into()],
        pictures: examples.iter().zip(found).map(picture).collect(),
        ticks: None,
        range: None,
        side: SIDE,
    })
}

fn short(name: &str) -> String {
    name.rsplit('/')
        .next()
        .unwrap_or(name)
        .chars()
        .take(24)
        .collect()
}

/// A matrix for each network, with the names of tokens if there is room.
fn of_text(run: &InspectedRun, one: &Example, found: &RolloutsByNetwork) -> Result<Vec<Figure>> {
    let figure = |(network, rollout): (&String, &Rollout)| {
        let names = names(run, one, network, rollout);
        let few = rollout.positions <= NAMED;
        let most = rollout.shares.iter().copied().fold(0.0, f64::max);
        panels(&Panels {
            name: file("rollout", network).into(),
            title: "attention rollout: the share of each input (column) in each output (row)"
                .into(),
            rows: Vec::new(),
            columns: Vec::new(),
            pictures: vec![vec![Picture::of_values(
                &rollout.shares,
                rollout.positions,
                (0.0, most),
            )]],
            ticks: few.then(|| [printable_tokens(&names), printable_tokens(&names)]),
            range: Some((0.0, most)),
            side: (12.0 * rollout.positions as f64).clamp(240.0, 768.0),
        })
    };
    found.iter().map(figure).collect()
}

/// Names of the positions of a network, or their numbers.
fn names(run: &InspectedRun, one: &Example, network: &str, rollout: &Rollout) -> Vec<String> {
    let [source, target] = run.tokens(&one.item);
    let both = [source.clone(), target.clone()].concat();
    let sides = match network {
        "decoder" => [target, source, both],
        _ => [source, both, target],
    };
    let fitting = sides
        .into_iter()
        .find(|names| names.len() == rollout.positions);
    fitting.unwrap_or_else(|| (0..rollout.positions).map(|n| n.to_string()).collect())
}

fn json(
    run: &InspectedRun,
    examples: &[Example],
    found: &[RolloutsByNetwork],
    files: &[String],
) -> Value {
    let of_example = |(one, found): (&Example, &RolloutsByNetwork)| {
        let networks = found.iter().map(|(network, rollout)| {
            let mut of_network = json!({
                "network": network,
                "read": read_shares(run, network, rollout),
                "read_at": ReadAt::of(run, network).name(),
            });
            if run.layout() == Layout::Sequence {
                of_network["tokens"] = names(run, one, network, rollout).into();
                let rows = (0..rollout.positions).map(|row| rollout.row(row).to_vec());
                of_network["rollout"] = rows.collect::<Vec<_>>().into();
            }
            of_network
        });
        json!({ "example": one.name, "networks": networks.collect::<Vec<_>>() })
    };
    let all = examples.iter().zip(found).map(of_example);
    json!({
        "run": run.folder.display().to_string(),
        "step": run.opened.step,
        "examples": all.collect::<Vec<_>>(),
        "files": files,
    })
}

/// Prints the shares of tokens in what is read of each network.
fn show(run: &InspectedRun, one: &Example, found: &RolloutsByNetwork) -> Result<()> {
    output::line(format!("example: {}", one.name))?;
    for (network, rollout) in found {
        let where_read = match ReadAt::of(run, network) {
            ReadAt::First => "in the first",
            ReadAt::Last => "in the last",
            ReadAt::Mean => "in the mean",
        };
        let mut rows = vec![["position", "token", where_read].map(String::from).to_vec()];
        let shares = read_shares(run, network, rollout);
        let each = names(run, one, network, rollout).into_iter().zip(shares);
        rows.extend(each.enumerate().map(|(at, (name, share))| {
            vec![
                at.to_string(),
                printable(&name),
                format!("{:.2} %", 100.0 * share),
            ]
        }));
        if !network.is_empty() {
            output::line(format!("{network}:"))?;
        }
        output::line(table(&rows, None).trim_end())?;
    }
    Ok(())
}
