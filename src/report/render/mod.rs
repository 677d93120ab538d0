//! From findings to text: terminal, Markdown, LaTeX, CSV, JSON, HTML, figures.

pub mod figure;
pub mod html;
pub mod json;
pub mod links;
pub mod paper;
pub mod sheet;
pub mod table;
pub mod terminal;
