//! Errors for users: what is wrong, where, and what would be right.
//!
//! Mistakes of programmers are assertions, never values of this type.

use std::fmt;
use std::path::{Path, PathBuf};

/// The result of an operation that can fail because of a file, a flag or the machine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// One fault of an experiment file or a command line, with its place if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file that holds the fault, as the user named it.
    pub file: Option<PathBuf>,
    /// Line of the faulty key, counted from 1.
    pub line: Option<usize>,
    /// What is wrong, what is allowed, and the nearest valid value.
    pub message: String,
}

impl Fault {
    /// Creates a fault without a place.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            file: None,
            line: None,
            message: message.into(),
        }
    }

    /// Creates a fault at a line of a file.
    pub fn at(file: impl Into<PathBuf>, line: usize, message: impl Into<String>) -> Self {
        Self {
            file: Some(file.into()),
            line: Some(line),
            message: message.into(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            f.write_str(&printable(&file.display().to_string()))?;
            match self.line {
                Some(line) => write!(f, ":{line}: ")?,
                None => f.write_str(": ")?,
            }
        }
        f.write_str(&self.message)
    }
}

/// Makes text from a file safe to print on one line of a terminal: control characters are escaped, as in `\u{1b}`.
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    shown
}

/// Formats a path as one word of a shell command, quoted if necessary.
pub fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "-_./+:,@%=".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// An error that is reported to the user.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The experiment or the command line is wrong; nothing was run (exit status 2).
    #[error("{}", lines(.0))]
    Invalid(Vec<Fault>),
    /// The run failed (exit status 1).
    #[error("{0}")]
    Run(String),
    /// A file could not be read or written (exit status 1).
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// The attempted action: "read", "write", "create" …
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The user or the system asked the run to stop; its state is saved (exit status 130).
    #[error(
        "interrupted at step {step}; resume with: formwork resume {}",
        shell_word(run)
    )]
    Interrupted {
        /// Optimizer steps done.
        step: u64,
        /// The run folder that holds the checkpoint.
        run: PathBuf,
    },
    /// As [`Error::Interrupted`], for a command that consists of several runs (exit status 130).
    #[error("{0}")]
    Stopped(String),
    /// Another process of the run has failed, and reports the reason.
    #[error("{message}")]
    OtherRank {
        /// Its rank among the run's processes.
        rank: usize,
        /// The exit status of all processes.
        status: u8,
        /// Its error message.
        message: String,
    },
}

impl Error {
    /// Creates an error with one fault without a place: a wrong flag or argument.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::Invalid(vec![Fault::new(message)])
    }

    /// Creates an error for a failure of a run whose input was right.
    pub fn run(message: impl Into<String>) -> Self {
        Self::Run(message.into())
    }

    /// Converts a failure that happens before anything has run: what the user gave, or the place where it should run, is wrong.
    #[must_use]
    pub fn into_usage_error(self) -> Self {
        match self {
            Self::Run(message) => Self::usage(message),
            Self::Io { .. } => Self::usage(self.to_string()),
            other => other,
        }
    }

    /// Wraps a system error: `.map_err(Error::io("read", path))`.
    pub fn io(doing: &'static str, path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.as_ref().to_path_buf();
        move |source| Self::Io {
            doing,
            path,
            source,
        }
    }

    /// The exit status of the process.
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Invalid(_) => 2,
            Self::Run(_) | Self::Io { .. } => 1,
            Self::Interrupted { .. } | Self::Stopped(_) => 130,
            Self::OtherRank { status, .. } => *status,
        }
    }
}

/// Joins the faults, one per line; the caller prefixes `error: ` to each line.
fn lines(faults: &[Fault]) -> String {
    faults
        .iter()
        .map(Fault::to_string)
        .collect::<Vec<_>>()
        .join("\n")
}

/// Names in other programs and papers, with the names used here.
const ALIASES: &[(&str, &str)] = &[
    ("rope", "rotary"),
    ("t5", "relative_bias"),
    ("swiglu", "gated"),
    ("geglu", "gated"),
    ("mlp", "dense"),
    ("mha", "multi_head"),
    ("gqa", "multi_head"),
    ("mqa", "multi_head"),
    ("layernorm", "layer"),
    ("rmsnorm", "rms"),
    ("clm", "causal_lm"),
    ("dpo", "preference"),
    ("dpo", "sigmoid"),
    ("ppo", "grpo"),
    ("dr_grpo", "grpo"),
    ("dapo", "grpo"),
    ("reward_model", "reward"),
    ("reward_modeling", "reward"),
    ("bradley_terry", "reward"),
    ("slic", "hinge"),
    ("mlm", "masked_lm"),
    ("seq2seq", "translation"),
    ("electra", "replaced_token"),
    ("xlnet", "permuted_lm"),
    ("plm", "permuted_lm"),
    ("ner", "token_classification"),
    ("multi_label", "multi_label_classification"),
    ("clip", "image_text"),
    ("siglip", "image_text"),
    ("vit", "vision"),
    ("dino", "vision"),
    ("dinov2", "vision"),
    ("dinov2_with_registers", "vision"),
    ("dinov3", "vision"),
    ("swinv2", "swin"),
    ("swin_v2", "swin"),
    ("swin_transformer", "swin"),
    ("audio", "transcribed_speech"),
    ("audiofolder", "transcribed_speech"),
    ("librispeech", "transcribed_speech"),
    ("dtmf", "dialled_digits"),
    ("asr", "transcription"),
    ("gpt", "decoder"),
    ("bert", "encoder"),
    ("bf16", "mixed_bf16"),
    ("polynomial_decay", "polynomial"),
    ("cosine_with_restarts", "cosine_restarts"),
    ("sgdr", "cosine_restarts"),
];

/// Whether `word` is another name of what is called `ours` here.
fn is_alias(word: &str, ours: &str) -> bool {
    let lower = word.to_lowercase();
    ALIASES.contains(&(lower.as_str(), ours))
}

/// Returns the candidate that `word` is an alias of, or else the nearest candidate that is near enough to be what was meant.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        if is_alias(word, candidate) {
            return Some(candidate);
        }
        let distance = strsim::damerau_levenshtein(word, candidate);
        // In a short word, changing half of the letters gives another word: `rope` is not `none`.
        let shortest = candidate.len().min(word.len());
        let near = distance <= if shortest <= 4 { 1 } else { 1 + shortest / 4 };
        // Words with different first letters and a further difference are mostly different words: `lines` is not `files`.
        let akin = distance <= 1
            || word.chars().next() == candidate.chars().next()
            || candidate.contains(word)
            || word.contains(candidate);
        if near && akin && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Returns the candidate that starts with `word`, if all other candidates that do so start with this candidate. Words of fewer
/// than three characters start too many.
fn unique_completion<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    if word.chars().count() < 3 {
        return None;
    }
    let begins = |candidate: &&str| candidate.starts_with(word);
    let all: Vec<&str> = candidates.into_iter().filter(begins).collect();
    let shortest = all
        .iter()
        .copied()
        .min_by_key(|candidate| candidate.len())?;
    let unique = all.iter().all(|candidate| candidate.starts_with(shortest));
    unique.then_some(shortest)
}

/// Maximum number of allowed values that a message lists; it counts the others.
const MOST_LISTED: usize = 40;

/// Returns `; did you mean …?` if some allowed value is near, else a list of the allowed values.
pub fn suggestion<'a>(word: &str, allowed: impl IntoIterator<Item = &'a str> + Clone) -> String {
    let mut aliased = allowed
        .clone()
        .into_iter()
        .filter(|ours| is_alias(word, ours));
    let near = aliased
        .next()
        .or_else(|| unique_completion(word, allowed.clone()));
    match near.or_else(|| nearest(word, allowed.clone())) {
        Some(near) => format!("; did you mean `{near}`?"),
        None if allowed.clone().into_iter().next().is_none() => "; none are available".into(),
        None => {
            let mut all: Vec<String> = allowed.into_iter().map(|a| format!("`{a}`")).collect();
            let more = all.len().saturating_sub(MOST_LISTED);
            all.truncate(MOST_LISTED);
            match more {
                0 => format!("; allowed: {}", all.join(", ")),
                _ => format!("; allowed: {} and {more} more", all.join(", ")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_one_that_may_have_been_meant() {
        for (word, allowed, wanted) in [
            (
                "acc",
                &["loss", "mcc", "accuracy", "accuracy_top5"][..],
                "did you mean `accuracy`?",
            ),
            ("rotery", &["rotary", "none"], "did you mean `rotary`?"),
            (
                "rope",
                &["rope_like", "none", "rotary"],
                "did you mean `rotary`?",
            ),
            ("heads", &["n_heads", "d_head"], "did you mean `n_heads`?"),
            (
                "lines",
                &["files", "blank_lines", "wikitext"],
                "allowed: `files`, `blank_lines`, `wikitext`",
            ),
            ("text", &["text_a", "text_b"], "allowed: `text_a`, `text_b`"),
        ] {
            let told = suggestion(word, allowed.iter().copied());
            assert_eq!(told, format!("; {wanted}"), "{word}");
        }
    }

    #[test]
    fn a_shell_reads_a_path_as_one_word() {
        for (path, word) in [
            ("checkpoints/a-1", "checkpoints/a-1"),
            ("my run ü", "'my run ü'"),
            ("it's $HOME", r"'it'\''s $HOME'"),
            ("", "''"),
        ] {
            assert_eq!(shell_word(Path::new(path)), word);
        }
    }
}
