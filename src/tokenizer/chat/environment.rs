//! The Jinja environment of chat templates, set up as in transformers.

use super::python;
use chrono::{NaiveDate, NaiveTime};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde, Value};
use minijinja::{Environment, Error, ErrorKind};
use minijinja_contrib::pycompat;
use std::fmt::Write;
use std::sync::Arc;

/// The name of the only program in an environment.
const NAME: &str = "template";
/// Maximum number of steps of a program: a conversation of some thousand messages takes some hundred thousand.
const MOST_STEPS: u64 = 1 << 26;

/// A program in Jinja.
#[derive(Clone)]
pub struct Program(Arc<Environment<'static>>);

impl Program {
    /// Compiles a program.
    ///
    /// # Errors
    /// If the program is not valid Jinja; the message gives the line.
    pub fn new(program: impl Into<String>) -> Result<Self, String> {
        Self::with_date(program.into(), None)
    }

    /// Compiles a program that may ask for a date.
    ///
    /// # Errors
    /// The errors of [`Self::new`].
    pub(super) fn with_date(program: String, date: Option<NaiveDate>) -> Result<Self, String> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build();
        environment.set_syntax(syntax.map_err(|error| clause(&error))?);
        environment.set_fuel(Some(MOST_STEPS));
        environment.set_unknown_method_callback(pycompat::unknown_method_callback);
        environment.add_filter("tojson", tojson);
        // minijinja can iterate over null; Python cannot.
        environment.add_test("iterable", |value: &Value| {
            !value.is_none() && value.try_iter().is_ok()
        });
        environment.add_function("raise_exception", |why: String| -> Result<Value, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, why))
        });
        if let Some(date) = date {
            let told = move |format: String| strftime(date, &format);
            environment.add_function("strftime_now", told);
        }
        // Jinja reads every kind of line break as \n.
        let program = program.replace("\r\n", "\n").replace('\r', "\n");
        let added = environment.add_template_owned(NAME, program);
        added.map_err(|error| clause(&error))?;
        Ok(Self(Arc::new(environment)))
    }

    /// The names of the variables that the program reads and does not set itself.
    pub fn free_variables(&self) -> Vec<String> {
        let template = self.0.get_template(NAME);
        let names = template.map(|template| template.undeclared_variables(false));
        let mut names: Vec<String> = names.into_iter().flatten().collect();
        names.retain(|name| self.0.globals().all(|(global, _)| global != name));
        names.sort();
        names
    }

    /// Runs the program with these variables and returns its text.
    ///
    /// # Errors
    /// If the program fails; the message gives the line.
    pub fn render(
        &self,
        given: &serde_json::Map<String, serde_json::Value>,
    ) -> Result<String, String> {
        let template = self.0.get_template(NAME).map_err(|e| clause(&e))?;
        template
            .render(Value::from(Serde(given)))
            .map_err(|error| clause(&error))
    }
}

fn clause(error: &Error) -> String {
    let why = match error.detail() {
        Some(detail) => detail.to_owned(),
        None => error.kind().to_string(),
    };
    match error.line() {
        Some(line) => format!("line {line}: {why}"),
        None => why,
    }
}

/// Parses a date as written in experiments.
///
/// # Errors
/// If the text is not a date.
pub(super) fn date(text: &str) -> Result<NaiveDate, String> {
    let date = NaiveDate::parse_from_str(text, "%Y-%m-%d");
    date.map_err(|_| format!("`{text}` is not a date in the form 2024-07-26"))
}

/// Formats a date, at midnight, by a format of C's `strftime`.
fn strftime(date: NaiveDate, format: &str) -> Result<String, Error> {
    let mut text = String::new();
    let written = write!(text, "{}", date.and_time(NaiveTime::MIN).format(format));
    let wrong = |_| {
        Error::new(
            ErrorKind::InvalidOperation,
            format!("`{format}` is not a date format"),
        )
    };
    written.map_err(wrong).map(|()| text)
}

/// The filter `tojson(indent, ensure_ascii, sort_keys)`: writes JSON as Python's `json.dumps` does.
fn tojson(value: Value, options: Kwargs) -> Result<Value, Error> {
    let style = python::Style {
        indent: options.get("indent")?,
        ensure_ascii: options
            .get::<Option<bool>>("ensure_ascii")?
            .unwrap_or(false),
        sort_keys: options.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
        separators: options.get("separators")?,
    };
    options.assert_all_used()?;
    let value = serde_json::to_value(&value)
        .map_err(|e| Error::new(ErrorKind::InvalidOperation, e.to_string()))?;
    Ok(Value::from(style.dumps(&value)))
}
