//! The one integration-test binary.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout
)]

mod adaptive;
mod auxiliary_losses;
mod batches;
mod beam;
mod binary;
mod carried;
mod carried_lstm;
mod cases;
mod changed_keys;
mod checkpoint;
mod commands;
mod contracts;
mod contracts_pairs;
mod contracts_tasks;
mod crafted_moments;
mod data;
mod diagnostics;
mod distillation;
mod experts;
mod flops;
mod generation;
mod going_on;
mod goldens;
mod goldens_details;
mod goldens_encoder_decoder;
mod goldens_encoders;
mod head_diversity;
mod hf_files;
mod hf_folders;
mod hf_tokenizers;
mod hostile;
mod house;
mod infer;
mod initial_weights;
mod inspect;
mod interop;
mod interruption;
mod journals;
mod kernels;
mod kinds;
mod lanes;
mod limits;
mod lora;
mod memory;
mod micro_batches;
mod model_details;
mod names;
mod norms_of_another_run;
mod old_runs;
mod optim;
mod optim_faults;
mod oracle;
mod own_data;
mod parts_of_splits;
mod position_goldens;
mod position_schemes;
mod prerequisites;
mod presets;
mod recurrent;
mod recurrent_models;
mod report;
mod resume;
mod run_dir;
mod schedule;
mod sealed_runs;
mod segment_memory;
mod several_networks;
mod sharing;
mod sliding_window;
mod small_run;
mod statistics;
mod sweep;
mod taught;
mod text_metrics;
mod training;
mod trajectories;
mod trajectory;
mod trajectory_denoising;
mod transfer;
mod vision;
