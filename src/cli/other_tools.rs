//! Options of other tools that a command lacks: a user who types one is told the equivalent here. Names that other programs use
//! for experiment keys are those of [`experiment::key_of`].

use crate::experiment;
use clap::Error;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;

/// The equivalent of an option.
enum Equivalent {
    /// An option, with a placeholder for its value.
    Option(&'static str, &'static str),
    /// Fixed text.
    Words(&'static str),
}

use Equivalent::{Option as Takes, Words};

/// Commands that read an experiment and accept `--set`.
const EXPERIMENT_COMMANDS: &[&str] = &[
    "train", "resume", "check", "plan", "sweep", "submit", "lr-find", "verify",
];
/// Commands of [`TRAINING`] that create a run's folder.
const RUN_CREATING_COMMANDS: &[&str] = &["train", "sweep", "submit"];
/// Commands that read a trained run.
const RUN_COMMANDS: &[&str] = &[
    "generate",
    "chat",
    "translate",
    "caption",
    "transcribe",
    "fill",
    "classify",
    "answer",
    "infer",
    "encode",
    "eval",
    "inspect",
    "export",
    "resume",
];
/// Commands of both lists that accept `--device`.
const DEVICE_COMMANDS: &[&str] = &[
    "train",
    "resume",
    "lr-find",
    "generate",
    "chat",
    "translate",
    "caption",
    "transcribe",
    "fill",
    "classify",
    "answer",
    "infer",
    "encode",
    "eval",
    "inspect",
];
/// Commands that print texts to standard output.
const TEXT_COMMANDS: &[&str] = &[
    "generate",
    "chat",
    "caption",
    "transcribe",
    "fill",
    "classify",
    "answer",
    "eval",
];

const SIXTEEN_BITS: &[&str] = &["bf16", "fp16", "half", "amp", "mixed-precision"];
const PROCESSORS: &[&str] = &[
    "gpu",
    "gpus",
    "n-gpu",
    "cuda",
    "use-cuda",
    "cpu",
    "accelerator",
];
const LENGTHS: &[&str] = &[
    "max-new-tokens",
    "max-tokens",
    "max-length",
    "max-len",
    "length",
    "n-predict",
];
const OUTPUTS: &[&str] = &[
    "output",
    "output-dir",
    "out",
    "out-dir",
    "save-dir",
    "log-dir",
    "o",
];
const BEAMS: &[&str] = &["num-beams", "beam-size", "beams"];
const BEGUN: &[&str] = &[
    "resume-from-checkpoint",
    "restore-file",
    "checkpoint",
    "load",
    "ckpt",
];
const MODELS: &[&str] = &[
    "model",
    "model-path",
    "path",
    "run",
    "ckpt",
    "model-name-or-path",
];

/// Names of options, the commands they apply to, and the equivalent there. The first match counts.
const OPTIONS: &[(&[&str], &[&str], Equivalent)] = &[
    (
        &["config", "config-file", "conf", "c"],
        EXPERIMENT_COMMANDS,
        Words("the experiment file as an argument, without an option"),
    ),
    (OUTPUTS, RUN_CREATING_COMMANDS, Takes("--run ", "DIR")),
    (OUTPUTS, &["verify"], Takes("--runs ", "DIR")),
    (
        OUTPUTS,
        &["lr-find", "inspect", "report"],
        Takes("--out ", "DIR"),
    ),
    (OUTPUTS, &["encode"], Takes("--out ", "FILE")),
    (OUTPUTS, &["infer"], Takes("--outputs ", "OUT.safetensors")),
    (
        OUTPUTS,
        &["import", "export"],
        Words("the output folder as the last argument, without an option"),
    ),
    (
        OUTPUTS,
        TEXT_COMMANDS,
        Words("> FILE, because results go to standard output"),
    ),
    (
        BEGUN,
        &["train"],
        Words(
            "formwork resume RUN to continue a run; [init] from = \"RUN\" in the file to use only its weights",
        ),
    ),
    (
        &["resume"],
        &["sweep"],
        Words("the same command again, which continues its cells"),
    ),
    (&["resume"], &["submit"], Words("formwork submit RUN")),
    (
        &["nproc-per-node", "nproc", "num-processes"],
        &["train"],
        Words("mpirun -np N formwork train FILE.toml"),
    ),
    (
        PROCESSORS,
        DEVICE_COMMANDS,
        Words("--device cuda:0, or --device flex for the CPU"),
    ),
    (
        PROCESSORS,
        EXPERIMENT_COMMANDS,
        Words("--set train.device=cuda:0, or --set train.device=flex for the CPU"),
    ),
    (
        SIXTEEN_BITS,
        EXPERIMENT_COMMANDS,
        Words("--set train.dtype=mixed_bf16"),
    ),
    (
        &["gradient-accumulation-steps", "update-freq"],
        EXPERIMENT_COMMANDS,
        Words(
            "--set train.micro_batch_size=N; train.batch_size counts the examples of a whole step",
        ),
    ),
    (
        BEAMS,
        &["generate", "translate", "caption", "transcribe", "eval"],
        Takes("--beam ", "N"),
    ),
    (LENGTHS, &["generate", "chat"], Takes("--tokens ", "N")),
    (
        LENGTHS,
        &["translate", "transcribe", "eval"],
        Takes("--set decode.search.max_len_b=", "N"),
    ),
    (
        &["num-return-sequences", "num-samples", "n"],
        &["generate", "caption"],
        Takes("--samples ", "N"),
    ),
    (
        &["num-return-sequences", "nbest"],
        &["translate", "transcribe"],
        Takes("--n-best ", "N"),
    ),
    (&["lenpen"], &["generate"], Takes("--length-penalty ", "X")),
    (
        &["temp"],
        &["generate", "chat", "caption"],
        Takes("--temperature ", "T"),
    ),
    (&["text"], &["generate"], Takes("--prompt ", "TEXT")),
    (
        MODELS,
        RUN_COMMANDS,
        Words("the run's folder as an argument, without an option"),
    ),
];

/// Replaces clap's suggestion by a tip if an unknown option is one of another tool's.
pub(super) fn with_tip(mut error: Error, words: &[OsString]) -> Error {
    let unknown = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(unknown))) => unknown.clone(),
        _ => return error,
    };
    let texts: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let words: Vec<&str> = texts.iter().map(|text| &**text).collect();
    let command = words.get(1).copied().unwrap_or_default();
    let Some(tip) = equivalent(command, &unknown, value_of_option(&words, &unknown)) else {
        return error;
    };
    error.remove(ContextKind::SuggestedArg);
    let tip = StyledStr::from(format!("formwork {command} has no {unknown}; use {tip}"));
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    error
}

/// The equivalent of another tool's option, with the value that was given.
fn equivalent(command: &str, unknown: &str, value: Option<&str>) -> Option<String> {
    let name = unknown
        .trim_start_matches('-')
        .to_lowercase()
        .replace('_', "-");
    let found = OPTIONS
        .iter()
        .find(|(names, commands, _)| names.contains(&name.as_str()) && commands.contains(&command));
    match found {
        Some((.., Takes(option, placeholder))) => {
            Some(format!("{option}{}", value.unwrap_or(placeholder)))
        }
        Some((.., Words(words))) => Some((*words).to_string()),
        None if EXPERIMENT_COMMANDS.contains(&command) => {
            let key = experiment::key_of(&name.replace('-', "_"))?;
            Some(format!("--set {key}={}", value.unwrap_or("VALUE")))
        }
        None => None,
    }
}

/// The value of an option among the words, if it is one plain word.
fn value_of_option<'a>(words: &[&'a str], option: &str) -> Option<&'a str> {
    let mut words = words.iter().copied();
    let found = words.find_map(|word| {
        let rest = word.strip_prefix(option)?;
        (rest.is_empty() || rest.starts_with('=')).then_some(rest)
    })?;
    let value = match found.strip_prefix('=') {
        Some(value) => value,
        None => words.next()?,
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./+:,".contains(c);
    (!value.is_empty() && !value.starts_with('-') && value.chars().all(plain)).then_some(value)
}
