//! From runs to findings: arms, their metrics over seeds, the tests between them.

pub mod arms;
pub mod causes;
pub mod cells;
pub mod comparison;
mod contrasts;
pub mod curves;
pub mod examples;
pub mod learning;
pub mod lengths;
pub mod measures;
pub mod metrics;
pub mod missing;
pub(super) mod names;
pub mod notes;
pub mod origins;
mod pairs;
pub mod results;
pub mod selection;
pub mod statistics;
