//! Notes on preset widths that are kept although `d_model` was changed: a preset's `d_ff` is a number and does not follow
//! `d_model`. The width is kept, since an experiment may intend this, and a note says so.

use super::dropped_keys::value_at;
use super::{LoadedExperiment, Origin};
use crate::model::preset;
use toml::Table;

/// Returns a sentence for each feed-forward width that comes from a preset while `d_model` does not.
pub fn kept_widths(loaded: &LoadedExperiment) -> Vec<String> {
    let all = loaded.origins.iter();
    let kept = all.filter_map(|(key, origin)| match origin {
        Origin::Preset { name, .. } => kept_width(loaded, name, key),
        Origin::File { .. } | Origin::Set(_) | Origin::Default => None,
    });
    kept.collect()
}

/// `model.feed_forward.d_ff = 3072 keeps the value of preset bert-base: 24 × the d_model of 128 …`.
fn kept_width(loaded: &LoadedExperiment, name: &str, key: &str) -> Option<String> {
    let of = key.strip_suffix(".d_ff")?;
    let width = enclosing_d_model(loaded, of)?;
    if matches!(loaded.origin(&width), Origin::Preset { .. }) {
        return None;
    }
    let (d_ff, d_model) = (whole(loaded, key)?, whole(loaded, &width)?);
    let text: Table = toml::from_str(preset::text(name)?).ok()?;
    let usual = value_at(&text, &width)?
        .as_integer()
        .filter(|usual| *usual > 0)?;
    if usual == d_model || d_model < 1 {
        return None;
    }
    let ratio = ratio(d_ff, usual);
    let followed = (d_ff as f64 / usual as f64 * d_model as f64).round();
    Some(format!(
        "{key} = {d_ff} keeps the value of preset {name}: {} × the d_model of {d_model}, but {ratio} × in the preset ({usual}); \
         set d_ff = {followed} for {ratio} ×, or d_ff = {d_ff} to confirm the value",
        self::ratio(d_ff, d_model)
    ))
}

/// The key of the `d_model` of the innermost enclosing table that has one.
fn enclosing_d_model(loaded: &LoadedExperiment, table: &str) -> Option<String> {
    let mut table = table;
    while let Some((outer, _)) = table.rsplit_once('.') {
        let width = format!("{outer}.d_model");
        if loaded.written_values.contains_key(&width) {
            return Some(width);
        }
        table = outer;
    }
    None
}

fn whole(loaded: &LoadedExperiment, key: &str) -> Option<i64> {
    loaded.written_values.get(key)?.as_integer()
}

/// A quotient with at most two decimals, as text.
fn ratio(above: i64, below: i64) -> String {
    let quotient = format!("{:.2}", above as f64 / below as f64);
    let short = quotient.trim_end_matches('0').trim_end_matches('.');
    short.to_owned()
}

#[cfg(test)]
mod tests {
    use super::kept_widths;
    use crate::experiment::load_text;
    use std::path::Path;

    fn told(model: &str, sets: &[&str]) -> Vec<String> {
        let text = format!(
            "name = \"n\"\n[model]\npreset = \"bert-base\"\n{model}\n[data]\nkind = \"reverse\"\n\
             [task]\nkind = \"masked_lm\"\n[optimizer]\nkind = \"adamw\"\nlr = 1e-3\n[train]\nsteps = 1\nbatch_size = 1\n"
        );
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        kept_widths(&load_text(Path::new("n.toml"), text, &sets).unwrap())
    }

    #[test]
    fn a_width_that_a_preset_keeps_is_told() {
        assert!(told("", &[]).is_empty());
        assert!(told("d_model = 768", &[]).is_empty());
        assert!(told("d_model = 128\nfeed_forward = { d_ff = 3072 }", &[]).is_empty());
        let narrow = told("d_model = 128", &[]);
        let says = "model.feed_forward.d_ff = 3072 keeps the value of preset bert-base: 24 × the d_model of 128, but 4 × in the \
                    preset (768); set d_ff = 512 for 4 ×";
        assert!(
            narrow.len() == 1 && narrow[0].starts_with(says),
            "{narrow:?}"
        );
        // Setting another key of the table leaves the preset's width; setting the width by --set does not.
        let other = "d_model = 128\nfeed_forward = { activation = \"relu\" }";
        assert_eq!(told(other, &[]).len(), 1);
        assert!(told(other, &["model.feed_forward.d_ff=512"]).is_empty());
    }
}
