//! Analysis of trained models: how they use their context, where their attention lies, and their filters, positions and
//! gradients.
//!
//! These functions depend only on a network and on examples. Runs are opened and figures drawn elsewhere.

pub mod attention;
pub mod context;
pub mod effective_context;
pub mod filters;
pub mod gradients;
pub mod heads;
pub mod positions;
pub mod reader;
pub mod rollout;
pub mod weights;

pub use reader::{Reader, Window};
