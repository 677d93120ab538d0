//! The tables of families agree with their types: every kind is listed, every example loads.

use super::RIGHT;
use formwork::cli::list;
use formwork::experiment::load_text;
use formwork::{data, model, nn, stack, task, tokenizer, train};
use std::path::Path;

/// A family: its dotted key, and its kinds with their examples.
type Family = (&'static str, Vec<(&'static str, &'static str)>);

fn families() -> Vec<Family> {
    let rows = |kinds: &'static [nn::Kind]| kinds.iter().map(|k| (k.kind, k.example)).collect();
    let own =
        |kinds: &'static [tokenizer::Kind]| kinds.iter().map(|k| (k.kind, k.example)).collect();
    vec![
        ("model", rows(model::KINDS)),
        ("model.position", rows(nn::position::KINDS)),
        ("model.attention", rows(nn::attention::KINDS)),
        ("model.norm", rows(nn::norm::KINDS)),
        ("model.vocabulary", rows(nn::vocabulary::KINDS)),
        ("model.norm_placement", rows(stack::residual::KINDS)),
        ("model.residual_scale", rows(stack::residual_scale::KINDS)),
        ("model.feed_forward", rows(nn::feed_forward::KINDS)),
        ("model.init", rows(nn::init::KINDS)),
        ("task", rows(task::KINDS)),
        ("optimizer", rows(train::optim::KINDS)),
        ("schedule", rows(train::schedule::KINDS)),
        ("tokenizer", own(tokenizer::KINDS)),
        ("data", own(data::KINDS)),
    ]
}

fn load(sets: &[String]) -> Result<(), String> {
    let loaded = load_text(Path::new("x.toml"), RIGHT.into(), sets);
    loaded.map(|_| ()).map_err(|e| e.to_string())
}

#[test]
fn the_tables_list_what_the_types_know() {
    for (key, kinds) in families() {
        let says = load(&[format!("{key}=\"?????????????????????\"")]).unwrap_err();
        let listed: Vec<String> = kinds.iter().map(|(kind, _)| format!("`{kind}`")).collect();
        let wanted = format!("is not known; allowed: {}", listed.join(", "));
        assert!(says.ends_with(&wanted), "{key}\n{says}\n{wanted}");
    }
}

#[test]
fn every_example_loads() {
    for (key, kinds) in families() {
        for (kind, example) in kinds {
            let body: Vec<&str> = example
                .lines()
                .filter(|line| !line.starts_with('['))
                .collect();
            let value = match example.starts_with(['{', '"']) {
                true => example.to_string(),
                false => format!("{{ {} }}", body.join(", ")),
            };
            load(&[format!("{key}={value}")]).unwrap_or_else(|e| panic!("{key} {kind}: {e}"));
            assert!(
                value.contains(&format!("\"{kind}\"")),
                "{key} {kind} has another's example"
            );
        }
    }
}

#[test]
fn list_shows_every_kind() {
    let all = list::text(None).unwrap();
    for (_, kinds) in families() {
        for (kind, _) in kinds {
            assert!(all.contains(&format!("\n  {kind} ")), "{kind}");
        }
    }
    let norms = list::text(Some("norms")).unwrap();
    assert!(
        norms.starts_with("norms  ([model] norm)\n  layer         subtract the mean"),
        "{norms}"
    );
    assert_eq!(norms.lines().count(), 6);
}
