//! Chat templates: Jinja programs that write a conversation as one text.
//!
//! They run as in `apply_chat_template` of transformers (5.24): a block removes the line break after it and the blanks before
//! it, `tojson` writes as Python does, and strings, lists and maps have Python's methods. The answers of the assistant
//! are the parts between `{% generation %}` and `{% endgeneration %}`, if a template has these tags; otherwise the text that
//! the result grows by when an answer is added to the messages before it.
//!
//! A template has no clock, so that a run reads the same text every day: `strftime_now` returns the date that a run is given, and
//! is undefined if it is given none. Templates that check whether it is defined bring a date of their own.

mod answers;
mod conversation;
mod environment;
mod python;
mod roles;
mod tags;

use crate::error::{Error, Fault, Result};
use crate::files;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

pub use answers::{Ending, common_prefix};
pub use conversation::{ASSISTANT, Answers, Conversation, RenderedConversation};
pub use environment::Program;
pub use roles::OTHER_NAMES;

/// OpenAI's ChatML: for each message a start mark, the role, the content and an end mark. Content in parts is joined from their
/// texts.
const CHATML: &str = "{% for message in messages %}<|im_start|>{{ message.role }}\n\
                      {% if message.content is sequence and message.content is not string %}\
                      {% for part in message.content %}\
                      {% if part.type != 'text' %}\
                      {{ raise_exception('a part of the content is of type ' ~ part.type ~ ', and ChatML writes texts alone') }}\
                      {% endif %}{{ part.text }}{% endfor %}\
                      {% else %}{{ message.content }}{% endif %}<|im_end|>\n{% endfor %}\
                      {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// The marks of [`ChatTemplate::chatml`].
pub const CHATML_MARKS: [&str; 2] = ["<|im_start|>", "<|im_end|>"];

/// The template function that returns today's date.
const DATE: &str = "strftime_now";

/// A template, with the special tokens that it may write.
#[derive(Clone)]
pub struct ChatTemplate {
    file: Arc<File>,
    program: Program,
    /// The program for conversations with tools, if it is a different one.
    for_tools: Option<Program>,
}

/// The parts of a template that a run saves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    template: String,
    /// The template for conversations with tools, if it is a different one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool_use: Option<String>,
    /// Special tokens by the names that templates use, such as `bos_token`.
    #[serde(default)]
    tokens: BTreeMap<String, String>,
    /// The date that is given to templates that ask for today's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    date: Option<String>,
}

impl ChatTemplate {
    /// Compiles a template. `tokens` are the special tokens by the names of their roles (`bos_token`).
    ///
    /// # Errors
    /// If the template is not valid Jinja; the message gives the line.
    pub fn new(
        template: impl Into<String>,
        tokens: BTreeMap<String, String>,
    ) -> std::result::Result<Self, String> {
        Self::of(File {
            template: template.into(),
            tool_use: None,
            tokens,
            date: None,
        })
    }

    /// Sets another template for conversations with tools, as transformers uses the one named `tool_use`.
    ///
    /// # Errors
    /// The errors of [`Self::new`].
    pub fn with_tool_use(&self, template: impl Into<String>) -> std::result::Result<Self, String> {
        Self::of(File {
            tool_use: Some(template.into()),
            ..(*self.file).clone()
        })
    }

    fn of(file: File) -> std::result::Result<Self, String> {
        let date = file.date.as_deref();
        let date = date.map(environment::date).transpose()?;
        let program = |template: &str| Program::with_date(tags::replace_tags(template), date);
        Ok(Self {
            program: program(&file.template)?,
            for_tools: file.tool_use.as_deref().map(program).transpose()?,
            file: Arc::new(file),
        })
    }

    /// Sets the date that `strftime_now` returns, such as `2024-07-26`, at midnight.
    ///
    /// # Errors
    /// If the text is not a date.
    pub fn with_date(&self, date: &str) -> std::result::Result<Self, String> {
        Self::of(File {
            date: Some(date.to_owned()),
            ..(*self.file).clone()
        })
    }

    /// ChatML, with the marks `<|im_start|>` and `<|im_end|>`.
    pub fn chatml() -> Self {
        Self::new(CHATML, BTreeMap::new()).expect("a template that tests compile")
    }

    /// Reads a template from a Jinja file; `tokens` as in [`Self::new`].
    ///
    /// # Errors
    /// If the file cannot be read or is not a template.
    pub fn read(path: &Path, tokens: BTreeMap<String, String>) -> Result<Self> {
        let wrong = |why: &str| {
            Error::Invalid(vec![Fault {
                file: Some(path.to_path_buf()),
                line: None,
                message: format!("is not a chat template: {why}"),
            }])
        };
        let text = String::from_utf8(files::read(path).map_err(Error::into_usage_error)?);
        let text = text.map_err(|_| wrong("it is not UTF-8 text"))?;
        Self::new(text, tokens).map_err(|why| wrong(&why))
    }

    /// Reads the file that a run saves.
    ///
    /// # Errors
    /// If the file cannot be read or is not a saved template.
    pub fn load(path: &Path) -> Result<Self> {
        Self::from_json(&files::read(path)?, path)
    }

    /// Reads the bytes of the file that a run saves; `path` is for messages.
    ///
    /// # Errors
    /// If the bytes are not a saved template.
    pub fn from_json(json: &[u8], path: &Path) -> Result<Self> {
        let wrong =
            |why: String| Error::run(format!("{} is not a chat template: {why}", path.display()));
        let file: File = serde_json::from_slice(json).map_err(|e| wrong(e.to_string()))?;
        Self::of(file).map_err(wrong)
    }

    /// The bytes of the file that a run saves.
    ///
    /// # Errors
    /// None that a template could cause.
    pub fn json(&self) -> Result<Vec<u8>> {
        super::format::to_bytes(&serde_json::to_value(&*self.file).unwrap_or_default())
    }

    /// The special tokens that the template may write, by the names of their roles (`bos_token`).
    pub fn tokens(&self) -> &BTreeMap<String, String> {
        &self.file.tokens
    }

    /// The text of the template.
    pub fn template(&self) -> &str {
        &self.file.template
    }

    /// The text of the template for conversations with tools, if it is a different one.
    pub fn tool_use(&self) -> Option<&str> {
        self.file.tool_use.as_deref()
    }

    /// Whether the template asks for today's date.
    pub fn asks_for_date(&self) -> bool {
        let mut all = [Some(self.template()), self.tool_use()].into_iter();
        all.any(|template| template.is_some_and(|text| text.contains(DATE)))
    }

    /// Whether a date is set that the template does not ask for.
    pub fn has_unused_date(&self) -> bool {
        self.file.date.is_some() && !self.asks_for_date()
    }

    /// The text of the template that writes a conversation.
    fn text_for(&self, tools: Option<&Value>) -> &str {
        let for_tools = tools.and(self.tool_use());
        for_tools.unwrap_or(self.template())
    }

    /// Writes a conversation as a text, with the generation prompt if `asks`.
    ///
    /// # Errors
    /// If a role looks misspelt, the template refuses a message, or the program fails.
    pub fn render(
        &self,
        conversation: &Conversation,
        asks: bool,
    ) -> std::result::Result<String, String> {
        let text = self.run(&conversation.messages, conversation.tools.as_ref(), asks)?;
        Ok(tags::parts(&text).text)
    }

    /// Writes a conversation as a text, with the byte ranges of its answers.
    ///
    /// # Errors
    /// The errors of [`Self::render`]; if a template without tags writes earlier messages differently once others follow; and if tags
    /// mark parts other than the messages of the assistant while some of these are not learnt.
    pub fn render_with_answers(
        &self,
        conversation: &Conversation,
        answers: Answers,
    ) -> std::result::Result<RenderedConversation, String> {
        let (messages, tools) = (&conversation.messages, conversation.tools.as_ref());
        let mut written = tags::parts(&self.run(messages, tools, false)?);
        let of = messages.iter().enumerate();
        let of = of.filter(|(_, message)| message["role"] == ASSISTANT);
        let mut numbers: Vec<usize> = of.map(|(number, _)| number).collect();
        let not_learnt = &conversation.untrained;
        let first = |count: usize| match answers {
            Answers::All => 0,
            Answers::Last => count.saturating_sub(1),
        };
        if !tags::has_any(self.text_for(tools)) {
            numbers.drain(..first(numbers.len()));
            numbers.retain(|number| !not_learnt.contains(number));
            written.answers = numbers
                .into_iter()
                .map(|number| self.message_range(number, &written.text, conversation, answers))
                .collect::<std::result::Result<_, _>>()?;
            return Ok(written);
        }
        let marked = written.answers.len();
        if !not_learnt.is_empty() {
            answers::require_each_marked(marked, numbers.len())?;
        }
        let places = written.answers.into_iter().enumerate();
        let is_learnt = |at: usize| numbers.get(at).is_none_or(|n| !not_learnt.contains(n));
        let learnt = places.skip(first(marked)).filter(|(at, _)| is_learnt(*at));
        written.answers = learnt.map(|(_, place)| place).collect();
        Ok(written)
    }

    /// Runs the program; its output includes the characters of tags.
    fn run(
        &self,
        messages: &[Value],
        tools: Option<&Value>,
        asks: bool,
    ) -> std::result::Result<String, String> {
        roles::require_known(messages, self.text_for(tools))?;
        let mut given = Map::new();
        for (name, token) in &self.file.tokens {
            given.insert(name.clone(), Value::from(token.as_str()));
        }
        let mut messages: Value = messages.iter().map(conversation::for_templates).collect();
        answers::replace_marks(&mut messages, &tags::MARKS);
        given.insert("messages".into(), messages);
        given.insert("add_generation_prompt".into(), Value::from(asks));
        given.insert("tools".into(), tools.cloned().unwrap_or(Value::Null));
        given.insert("documents".into(), Value::Null);
        let for_tools = tools.and(self.for_tools.as_ref());
        let program = for_tools.unwrap_or(&self.program);
        program.render(&given).map_err(|why| match self.file.date {
            None if why.contains("callable") && self.text_for(tools).contains(DATE) => {
                "the chat template needs a date, but there is none; set [data] date = \"2024-07-26\", or --date of `chat`".into()
            }
            _ => format!("the chat template, {why}"),
        })
    }
}

impl PartialEq for ChatTemplate {
    fn eq(&self, other: &Self) -> bool {
        self.file == other.file
    }
}

impl fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChatTemplate({:?})", self.file.template)
    }
}

#[cfg(test)]
mod tests;
