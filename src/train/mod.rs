//! The step loop, its optimizer, its checkpoints.
