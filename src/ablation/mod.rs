//! Ablations: an experiment with `[ablation]` expands to arms, and arms and seeds to cells. Any number of processes on
//! any number of machines train the cells together.
//!
//! ```text
//! [ablation] ── arms ──► planner ──► sweep.json, cells/ARM/arm.toml      what there is to train
//!                                        │
//!                        runner ◄──► ledger/                             who trains what, how it ended
//!                          ├─ formwork train cells/ARM/arm.toml --run cells/ARM/seed-S --resume
//!                          └─ halving        which arms train, and to which rung
//! ```
//!
//! A cell's run is an ordinary run folder: it resumes from its own checkpoints, so that a sweep that was killed ends
//! with the same numbers as one that was not. A sweep can be resumed from its folder alone.

pub mod arm_costs;
pub mod arms;
pub mod atomic_files;
pub mod base_name;
pub mod cell;
pub mod clearing;
mod comparability;
mod duplicate_arms;
mod faults;
pub mod folders;
mod full_disk;
pub mod halving;
pub mod ledger;
pub mod liveness;
pub mod matching;
mod overridden_sets;
pub mod planner;
pub mod prepared;
pub mod runner;
mod settings;
pub mod slurm;
pub mod sources;
pub mod unchanged;
mod widths;
