//! Rendering of comparisons: terminal, Markdown, LaTeX, CSV, JSON, HTML and figures.

pub mod figure;
pub mod html;
pub mod json;
pub mod links;
pub mod paper;
pub mod sheet;
pub mod table;
pub mod terminal;
