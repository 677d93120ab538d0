//! Shared command-line flags, and readable errors about numbers.

use crate::report::read::find;
use crate::train::run_dir;
use clap::builder::{PathBufValueParser, TypedValueParser, ValueParser};
use clap::error::{ContextKind, ErrorKind};
use clap::{Arg, Args, Command, Error};

/// Keys of an experiment that the command line sets and unsets.
#[derive(Args, Clone, Debug)]
pub struct Keys {
    /// Override a key: --set optimizer.lr=3e-4
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Unset a key that the file, one that it extends or its preset sets; it has its default then
    #[arg(long = "unset", value_name = "KEY")]
    unset: Vec<String>,
}

impl Keys {
    /// Returns all of them in the form of `--set` arguments.
    pub(super) fn sets(&self) -> Vec<String> {
        let unset = self.unset.iter();
        let unset = unset.map(|key| format!("unset=[{}]", toml::Value::from(key.as_str())));
        unset.chain(self.sets.iter().cloned()).collect()
    }
}

/// Parses a path, or the bare name of a run folder in `checkpoints`.
pub(super) fn run_folder() -> ValueParser {
    ValueParser::new(PathBufValueParser::new().map(|path| run_dir::locate(&path)))
}

/// Parses a path, or the bare name of a sweep folder in `checkpoints` or `sweeps`.
pub(super) fn sweep_folder() -> ValueParser {
    ValueParser::new(PathBufValueParser::new().map(|path| match path.exists() {
        true => path,
        false => find::locate_sweep(&path).unwrap_or(path),
    }))
}

/// Lets all flags with a value accept negative numbers, which their own checks then refuse: `--tokens -3` is reported as a
/// wrong number of tokens, not as an unknown flag `-3`.
pub(super) fn with_negative_numbers(command: Command) -> Command {
    let own = |arg: Arg| match arg.is_positional() || !arg.get_action().takes_values() {
        true => arg,
        false => arg.allow_negative_numbers(true),
    };
    command.mut_args(own).mut_subcommands(with_negative_numbers)
}

/// Rust's messages about texts that are not numbers of the expected type, and the messages for users.
const NUMBERS: [(&str, &str); 5] = [
    ("invalid digit found in string", WHOLE_NUMBER),
    ("cannot parse integer from empty string", WHOLE_NUMBER),
    ("number too large to fit in target type", "it is too large"),
    ("invalid float literal", "it must be a number"),
    (
        "cannot parse float from empty string",
        "it must be a number",
    ),
];

const WHOLE_NUMBER: &str = "it must be a whole number";

/// Returns the message about a number in plain words; none for other errors.
pub(super) fn number_message(error: &Error) -> Option<String> {
    if error.kind() != ErrorKind::ValueValidation {
        return None;
    }
    let text = error.render().to_string();
    let (rust, plain) = NUMBERS.into_iter().find(|(rust, _)| text.contains(rust))?;
    let given = error.get(ContextKind::InvalidValue)?.to_string();
    let is_negative = given.parse::<i64>().is_ok_and(|number| number < 0);
    let plain = match is_negative && plain == WHOLE_NUMBER {
        true => format!("{plain}, 0 or more"),
        false => plain.to_string(),
    };
    Some(text.replacen(rust, &plain, 1))
}
