//! Trained models from the inside: the use that they make of their context, where their attention lies, the filters,
//! positions and gradients that they have.
//!
//! Functions of a network and of examples alone. Runs are opened and figures drawn elsewhere.

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
