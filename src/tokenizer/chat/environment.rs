//! The Jinja in which chat templates are written, set up as transformers sets it up.

use super::python;
use chrono::{NaiveDate, NaiveTime};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde, Value};
use minijinja::{Environment, Error, ErrorKind};
use minijinja_contrib::pycompat;
use std::fmt::Write;
use std::sync::Arc;

/// The name of the one program of an environment.
const NAME: &str = "template";
/// Steps of a program at most: a conversation of some thousand messages takes some hundred thousand.
const MOST_STEPS: u64 = 1 << 26;

/// A program in Jinja.
#[derive(Clone)]
pub struct Program(Arc<Environment<'static>>);

impl Program {
    /// Reads a program.
    ///
    /// # Errors
    /// A clause with the line that is no Jinja.
    pub fn new(program: impl Into<String>) -> Result<Self, String> {
        Self::dated(program.into(), None)
    }

    /// A program that may ask for a date.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(super) fn dated(program: String, date: Option<NaiveDate>) -> Result<Self, String> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build();
        environment.set_syntax(syntax.map_err(|error| clause(&error))?);
        environment.set_fuel(Some(MOST_STEPS));
        environment.set_unknown_method_callback(pycompat::unknown_method_callback);
        environment.add_filter("tojson", tojson);
        // Nothing can be iterated over here, and not in Python.
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
        // Jinja reads each kind of line break as \n.
        let program = program.replace("\r\n", "\n").replace('\r', "\n");
        let added = environment.add_template_owned(NAME, program);
        added.map_err(|error| clause(&error))?;
        Ok(Self(Arc::new(environment)))
    }

    /// The names that it reads and does not make itself.
    pub fn reads(&self) -> Vec<String> {
        let template = self.0.get_template(NAME);
        let names = template.map(|template| template.undeclared_variables(false));
        let mut names: Vec<String> = names.into_iter().flatten().collect();
        names.retain(|name| self.0.globals().all(|(global, _)| global != name));
        names.sort();
        names
    }

    /// The text that it makes of some values.
    ///
    /// # Errors
    /// A clause with the line at which it fails.
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

/// A date as it is written in experiments.
///
/// # Errors
/// A clause: a text that is no date.
pub(super) fn date(text: &str) -> Result<NaiveDate, String> {
    let date = NaiveDate::parse_from_str(text, "%Y-%m-%d");
    date.map_err(|_| format!("`{text}` is no date like 2024-07-26"))
}

/// A date, at midnight, in a format of C's `strftime`.
fn strftime(date: NaiveDate, format: &str) -> Result<String, Error> {
    let mut text = String::new();
    let written = write!(text, "{}", date.and_time(NaiveTime::MIN).format(format));
    let wrong = |_| {
        Error::new(
            ErrorKind::InvalidOperation,
            format!("`{format}` formats no date"),
        )
    };
    written.map_err(wrong).map(|()| text)
}

/// `tojson(indent, ensure_ascii, sort_keys)`: JSON as Python's `json.dumps` writes it.
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
