//! The positions of an encoder-decoder whose targets are shorter than its sources (LED: 16,384 source tokens, 1,024 target
//! tokens; Beltagy et al. 2020, section 7).

use super::{Demand, EncoderDecoderConfig};
use crate::faults::{MAX_POSITIONS, TableFaults};
use crate::nn::position::PositionConfig;

impl EncoderDecoderConfig {
    /// Checks `target_max_len`, the rows of the decoder's table of learned positions.
    pub(super) fn target_faults(&self, demand: &Demand, at: &mut TableFaults) {
        let Some(rows) = self.target_max_len else {
            return;
        };
        let keys = &["target_max_len", "position.kind", "data.max_len"];
        let Some(learned) = self.stack.position.learned() else {
            let rule = "target_max_len has no effect: only learned positions have a table of rows; remove it";
            return at.fault(keys, rule);
        };
        if !at.count("target_max_len", rows, MAX_POSITIONS) {
            return;
        }
        let written = demand.max_generated;
        let longest = rows.saturating_sub(learned.first);
        if longest == 0 || written.is_some_and(|written| written > longest) {
            let rule = format!(
                "target_max_len = {rows} has positions for {longest} tokens of a target, but the data's targets are longer; raise \
                 it or lower [data] max_target_len"
            );
            at.fault(keys, rule);
        }
    }

    /// Returns the number of rows of the learned position tables of sources and of targets, for texts of up to `context` tokens;
    /// `None` if positions are not learned.
    pub fn position_rows(&self, context: usize) -> Option<[usize; 2]> {
        let learned = self.stack.position.learned()?;
        let rows = learned.max_len.unwrap_or(context + learned.first);
        Some([rows, self.target_max_len.unwrap_or(rows)])
    }

    /// The decoder's position scheme.
    pub(super) fn target_position(&self) -> PositionConfig {
        self.stack.position.with_rows(self.target_max_len)
    }
}
