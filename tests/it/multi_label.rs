//! Multi-label text classification: metrics against scikit-learn's, table formats, a run from its experiment to its commands.

mod metrics;
mod runs;
