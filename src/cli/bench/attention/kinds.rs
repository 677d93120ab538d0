//! Builds the attention configurations that the flags of `bench attention` describe, and refuses sizes that no machine can
//! hold.

use super::AttentionArgs;
use crate::device::Backend;
use crate::error::{Error, Result, suggestion};
use crate::faults::Faults;
use crate::nn::attention::{AttentionConfig, KINDS, ReadingDirection, latent};
use serde_json::{Value, json};

/// Maximum number of query values: 1 GiB, and there are about ten tensors of this size, including gradients.
const MOST_NUMBERS: u128 = 1 << 28;
/// Maximum number of attention scores, 16 GiB, where all of them are in memory: on every backend except flex.
const MOST_SCORES: u128 = 1 << 32;

/// The configurations in the order of measurement.
pub(super) fn configs(args: &AttentionArgs) -> Result<Vec<AttentionConfig>> {
    let mut names: Vec<&str> = match args.all {
        true => KINDS.iter().map(|kind| kind.kind).collect(),
        false => args.kind.iter().map(String::as_str).collect(),
    };
    let mut seen = Vec::new();
    names.retain(|name| {
        let first = !seen.contains(name);
        seen.push(*name);
        first
    });
    for set in &args.sets {
        let (kind, _, _) = split_set(set)?;
        if let Some(kind) = kind.filter(|kind| !names.contains(kind)) {
            return Err(Error::usage(format!(
                "--set {set} has no effect: {kind} is not measured; add --kind {kind} or remove it"
            )));
        }
    }
    names.into_iter().map(|name| config(args, name)).collect()
}

/// Splits `--set` into the kind that it is for (if it names one), the key and the value.
fn split_set(set: &str) -> Result<(Option<&str>, &str, &str)> {
    let Some((key, value)) = set.split_once('=') else {
        return Err(Error::usage(format!(
            "--set {set} has no value; write --set KEY=VALUE"
        )));
    };
    let key = key.trim();
    let named = key.split_once('.').filter(|(kind, _)| is_kind(kind));
    Ok(match named {
        Some((kind, key)) => (Some(kind), key, value),
        None => (None, key, value),
    })
}

/// The `--set` arguments that apply to a kind.
pub(super) fn sets_for_kind<'a>(args: &'a AttentionArgs, name: &str) -> Result<Vec<&'a str>> {
    let mut found = Vec::new();
    for set in &args.sets {
        if split_set(set)?.0.is_none_or(|kind| kind == name) {
            found.push(set.as_str());
        }
    }
    Ok(found)
}

fn is_kind(name: &str) -> bool {
    KINDS.iter().any(|kind| kind.kind == name)
}

/// The keys for the head width of a kind.
fn widths(name: &str, width: usize) -> Vec<(&'static str, usize)> {
    match name == latent::KIND.kind {
        // The ratios of DeepSeek-V2 (DeepSeek-AI 2024, section 2.1.4).
        true => vec![
            ("d_nope", width),
            ("d_rope", (width / 2).max(1)),
            ("d_value", width),
            ("kv_rank", width.saturating_mul(4)),
        ],
        false => vec![("d_head", width)],
    }
}

/// The configuration of one kind.
fn config(args: &AttentionArgs, name: &str) -> Result<AttentionConfig> {
    if !is_kind(name) {
        let hint = suggestion(name, KINDS.iter().map(|kind| kind.kind));
        return Err(Error::usage(format!(
            "--kind {name}: there is no such attention{hint}"
        )));
    }
    let mut keys = serde_json::Map::new();
    keys.insert("kind".into(), json!(name));
    keys.insert("n_heads".into(), json!(args.heads));
    for (key, width) in widths(name, args.head_width) {
        keys.insert(key.into(), json!(width));
    }
    if let Some(kv_heads) = args.kv_heads {
        keys.insert("n_kv_heads".into(), json!(kv_heads));
    }
    for set in sets_for_kind(args, name)? {
        let (_, key, value) = split_set(set)?;
        let value: Value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
        keys.insert(key.into(), value);
    }
    let refused = |rule: &dyn std::fmt::Display| Error::usage(format!("--kind {name}: {rule}"));
    let config: AttentionConfig = serde_json::from_value(Value::Object(keys))
        .map_err(|e| refused(&config_fault(&e.to_string())))?;
    let mut faults = Faults::default();
    let mut at = faults.of("kind");
    config.faults(Some(args.head_width), &mut at);
    for length in &args.context {
        let causal = causal(args, &config);
        config
            .facts()
            .faults_in_context(Some(*length), causal, &mut at);
    }
    match faults.found.first() {
        Some((_, rule)) => Err(refused(rule)),
        None => Ok(config),
    }
}

/// Why keys do not form an attention configuration; for an unknown key with a suggestion.
fn config_fault(reason: &str) -> String {
    // Example of serde: unknown field `windo`, expected one of `n_heads`, `window`
    let mut names = reason.split('`').skip(1).step_by(2);
    match (reason.starts_with("unknown field `"), names.next()) {
        (true, Some(unknown)) => {
            let known: Vec<&str> = names.collect();
            format!("there is no key `{unknown}`{}", suggestion(unknown, known))
        }
        _ => reason.to_string(),
    }
}

/// Whether an attention is measured in causal mode: as the flag says, or as its kind requires.
pub(super) fn causal(args: &AttentionArgs, config: &AttentionConfig) -> bool {
    match config.facts().abilities().reads {
        ReadingDirection::Either => !args.bidirectional,
        ReadingDirection::Bidirectional => false,
        ReadingDirection::Causal => true,
    }
}

/// Returns an error for invalid sizes, or sizes that no machine can hold.
pub(super) fn check_sizes(args: &AttentionArgs, kv_heads: usize, backend: Backend) -> Result<()> {
    let (batch, heads, width) = (args.batch, args.heads, args.head_width);
    let sizes = [
        ("--batch", batch),
        ("--heads", heads),
        ("--kv-heads", kv_heads),
        ("--head-width", width),
        ("--rounds", args.rounds),
    ];
    let contexts = args.context.iter().map(|context| ("--context", *context));
    for (flag, size) in sizes.into_iter().chain(contexts) {
        if !(1..=1 << 20).contains(&size) {
            return Err(Error::usage(format!(
                "{flag} {size} is not between 1 and 1048576"
            )));
        }
    }
    if !heads.is_multiple_of(kv_heads) {
        return Err(Error::usage(format!(
            "--heads {heads} is not a multiple of --kv-heads {kv_heads}"
        )));
    }
    let length = args.context.iter().copied().max().unwrap_or(1);
    let product = |sizes: [usize; 4]| sizes.map(|size| size as u128).iter().product::<u128>();
    let numbers = product([batch, heads, length, width]);
    if numbers > MOST_NUMBERS {
        return Err(Error::usage(format!(
            "--batch {batch} x --heads {heads} x --context {length} x --head-width {width} make {numbers} numbers, more than the \
             limit of {MOST_NUMBERS}; reduce one of them"
        )));
    }
    let scores = product([batch, heads, length, length]);
    if backend != Backend::Flex && scores > MOST_SCORES {
        return Err(Error::usage(format!(
            "--batch {batch} x --heads {heads} x --context {length} squared make {scores} scores, more than the limit of \
             {MOST_SCORES}, and {} keeps all of them in memory; reduce one of them",
            backend.name()
        )));
    }
    Ok(())
}
