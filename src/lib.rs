//! Formwork: a training framework for every transformer.
//!
//! A TOML experiment picks architecture, positions, attention, norm placement and objective; one binary
//! trains it, resumes it bit for bit, and compares it with others. The modules in layers, from the bottom up:
//! [`error`], [`rng`] and [`collective`], [`kernel`] and [`tokenizer`], [`nn`], [`stack`] and [`data`], [`model`],
//! [`task`], [`train`], [`generate`] and [`interop`], [`plan`], [`evaluate`], [`report`] and [`inspect`], [`experiment`],
//! [`watch`], [`ablation`], [`cli`].
//! A file uses only modules below its own.
//!
//! Networks are Burn modules and configs are plain data, so both can be used in a program without experiments:
//! `examples/modules.rs` trains a decoder with Burn's optimizer and its own loop.

pub mod ablation;
pub mod cli;
pub mod collective;
pub mod data;
pub mod device;
pub mod digest;
pub mod error;
pub mod evaluate;
pub mod experiment;
pub mod faults;
pub mod files;
pub mod generate;
pub mod inspect;
pub mod interop;
pub mod kernel;
pub mod kind;
pub mod model;
pub mod nn;
mod one_table;
pub mod plan;
pub mod report;
pub mod rng;
pub mod stack;
pub mod stop;
pub mod task;
pub mod tokenizer;
pub mod train;
pub mod watch;
