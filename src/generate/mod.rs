//! Sampling from a trained model.
