//! The step loop, its optimizer, its schedule, its checkpoints and its journal.

pub mod bench;
pub mod checkpoint;
pub mod config;
pub mod diagnostics;
pub mod ema;
pub mod evaluation;
mod events;
pub mod exchange;
pub mod exporters;
pub mod gradients;
pub mod job;
pub mod journal;
mod journals;
mod launch;
mod layer_rates;
pub mod links;
pub mod lora;
pub mod machine;
pub mod manifest;
pub mod metrics;
pub mod optim;
pub mod parameters;
mod patterns;
pub mod ranks;
pub mod reading_speed;
mod record;
pub mod run_dir;
pub mod run_files;
pub mod schedule;
pub mod shard;
mod steps;
mod strategy;
pub mod transfer;
pub mod view;

pub use config::TrainConfig;
pub use launch::run;
