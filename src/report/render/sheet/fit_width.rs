//! Drops columns of a table for a narrow terminal.

use super::{ColumnRank, Sheet};
use crate::report::render::terminal::plain;
use unicode_width::UnicodeWidthStr;

/// Blanks between two columns of a table.
const GAP: usize = 2;

impl Sheet {
    /// Returns the rows of this table's text, header included, without the columns that do not fit into `limit` characters, and
    /// the titles of the dropped columns. Names and results are always kept.
    pub fn fit_columns(
        &self,
        rows: &[Vec<String>],
        limit: usize,
    ) -> (Vec<Vec<String>>, Vec<String>) {
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| plain(cell).width()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let mut kept: Vec<usize> = (0..self.columns.len()).collect();
        let is_wide = |kept: &[usize]| {
            let cells: usize = kept.iter().map(|&column| widths[column]).sum();
            cells + GAP * kept.len().saturating_sub(1) > limit
        };
        while is_wide(&kept) {
            let rank = |column: usize| self.ranks.get(column).copied().unwrap_or_default();
            let may_go = kept
                .iter()
                .filter(|&&column| rank(column) > ColumnRank::Result);
            let Some(&last) = may_go.max_by_key(|&&column| (rank(column), column)) else {
                break;
            };
            kept.retain(|&column| column != last);
        }
        let left = (0..self.columns.len()).filter(|column| !kept.contains(column));
        let left = left.map(|column| self.columns[column].0.clone()).collect();
        let pick = |row: &Vec<String>| kept.iter().filter_map(|&c| row.get(c).cloned()).collect();
        (rows.iter().map(pick).collect(), left)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Cell, ColumnRank, Sheet};

    fn sheet() -> Sheet {
        let mut sheet = Sheet {
            rows: vec![Vec::new()],
            ..Sheet::default()
        };
        for (title, rank) in [
            ("arm", ColumnRank::Name),
            ("lr", ColumnRank::Setting),
            ("best", ColumnRank::Best),
            ("at step", ColumnRank::Best),
            ("final", ColumnRank::Result),
            ("time", ColumnRank::Speed),
        ] {
            let cell = Cell {
                text: "12345".into(),
                value: None,
            };
            sheet.rank = rank;
            sheet.add(title, "", vec![cell]);
        }
        sheet
    }

    #[test]
    fn the_least_of_columns_go_first() {
        let sheet = sheet();
        let fitted = |limit: usize| {
            let (rows, left) = sheet.fit_columns(&sheet.text(true), limit);
            (rows[0].join(" "), left.join(" "))
        };
        let whole = 5 * 5 + 7 + 5 * 2;
        let text = |kept: &str, left: &str| (kept.to_owned(), left.to_owned());
        assert_eq!(fitted(whole), text("arm lr best at step final time", ""));
        assert_eq!(fitted(whole - 1), text("arm lr best at step final", "time"));
        assert_eq!(fitted(30), text("arm lr best final", "at step time"));
        assert_eq!(fitted(20), text("arm lr final", "best at step time"));
        assert_eq!(fitted(1), text("arm final", "lr best at step time"));
    }
}
