//! Trained models from the inside: the use that they make of their context, and where their attention lies.
//!
//! Functions of a network and of windows of text alone. Runs are opened and figures drawn elsewhere.

pub mod attention;
pub mod context;
pub mod effective_context;
pub mod reader;

pub use reader::{Reader, Window};
