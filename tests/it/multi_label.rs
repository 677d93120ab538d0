//! Any number of classes of texts: metrics against scikit-learn's, the forms of tables, a run from its experiment to its commands.

mod metrics;
mod runs;
