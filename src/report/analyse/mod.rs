//! Analysis of runs: grouping them into arms, summarising metrics over seeds, and testing differences between arms.

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
