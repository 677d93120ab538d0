//! The step loop, its optimizer, its schedule, its checkpoints and its journal.

pub mod config;

pub use config::TrainConfig;
