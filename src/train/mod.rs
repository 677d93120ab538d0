//! The step loop, its optimizer, its schedule, its checkpoints and its journal.

pub mod checkpoint;
pub mod config;
pub mod ema;
pub mod journal;
pub mod machine;
pub mod manifest;
pub mod optim;
pub mod parameters;
pub mod run_dir;
pub mod schedule;
pub mod signal;

pub use config::TrainConfig;
