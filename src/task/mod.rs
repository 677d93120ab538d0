//! A model and a batch make a loss.
