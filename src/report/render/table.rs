//! Formats tables as aligned text and as Markdown.

use unicode_width::UnicodeWidthStr;

use super::terminal::plain;

/// Formats rows as aligned columns. The first row is the header; columns whose cells all look like numbers are right-aligned.
///
/// A table wider than `width` characters is printed in several blocks of columns, each starting with the first column.
/// `None` never breaks the table.
pub fn table(rows: &[Vec<String>], width: Option<usize>) -> String {
    let Some(header) = rows.first() else {
        return String::new();
    };
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.iter().map(|c| plain(c)).collect())
        .collect();
    let widths: Vec<usize> = (0..header.len())
        .map(|c| {
            cells
                .iter()
                .filter_map(|r| r.get(c))
                .map(|t| t.width())
                .max()
                .unwrap_or(0)
        })
        .collect();
    let right: Vec<bool> = (0..header.len()).map(|c| numeric(rows, c)).collect();
    let mut text = String::new();
    for (i, block) in blocks(&widths, width.unwrap_or(usize::MAX))
        .iter()
        .enumerate()
    {
        if i > 0 {
            text.push('\n');
        }
        for row in &cells {
            let mut line = String::new();
            for &c in block {
                let cell = row.get(c).map_or("", String::as_str);
                let gap = " ".repeat(widths[c] - cell.width());
                let (before, after) = if right[c] {
                    (gap, String::new())
                } else {
                    (String::new(), gap)
                };
                line.push_str(&format!("{before}{cell}{after}  "));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }
    text
}

/// Formats the rows as a Markdown table, with special characters escaped.
pub fn markdown(rows: &[Vec<String>]) -> String {
    let Some(header) = rows.first() else {
        return String::new();
    };
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|c| markdown_text(c)).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let rule: Vec<&str> = (0..header.len())
        .map(|c| if numeric(rows, c) { "---:" } else { "---" })
        .collect();
    let mut text = line(header);
    text.push_str(&format!("| {} |\n", rule.join(" | ")));
    rows[1..].iter().for_each(|row| text.push_str(&line(row)));
    text
}

/// Whether every filled cell below the header begins like a number, and at least one is filled.
fn numeric(rows: &[Vec<String>], column: usize) -> bool {
    let mut filled = rows[1..]
        .iter()
        .filter_map(|r| r.get(column))
        .filter(|t| !t.is_empty() && *t != "–")
        .peekable();
    filled.peek().is_some()
        && filled.all(|t| {
            t.starts_with(|c: char| c.is_ascii_digit() || "+-<[(".contains(c))
                || t == "NaN"
                || t == "inf"
        })
}

/// Splits the columns into blocks: greedily as many as fit side by side, with the first column in every block.
fn blocks(widths: &[usize], limit: usize) -> Vec<Vec<usize>> {
    let mut all = vec![vec![0]];
    let mut used = widths[0];
    for (c, width) in widths.iter().enumerate().skip(1) {
        if used + 2 + width > limit && all.last().is_some_and(|b| b.len() > 1) {
            all.push(vec![0]);
            used = widths[0];
        }
        used += 2 + width;
        if let Some(block) = all.last_mut() {
            block.push(c);
        }
    }
    all
}

/// Escapes Markdown's special characters; an underscore inside a word, as in a metric's name, needs no escape.
pub fn markdown_text(text: &str) -> String {
    let text = plain(text);
    let links = text.contains("](");
    let characters: Vec<char> = text.chars().collect();
    let word = |i: Option<usize>| {
        i.and_then(|i| characters.get(i))
            .is_some_and(|c| c.is_alphanumeric())
    };
    let mut cell = String::new();
    for (i, &c) in characters.iter().enumerate() {
        let inside = word(i.checked_sub(1)) && word(Some(i + 1));
        match c {
            '<' => cell.push_str("&lt;"),
            '&' => cell.push_str("&amp;"),
            '|' | '\\' | '`' | '*' => cell.extend(['\\', c]),
            '_' if !inside => cell.extend(['\\', c]),
            '[' if links => cell.extend(['\\', c]),
            c => cell.push(c),
        }
    }
    cell
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_table_breaks_into_blocks_with_the_first_column() {
        let rows: Vec<Vec<String>> = [
            ["arm", "loss", "speed"],
            ["A", "1.5", "120"],
            ["B", "10.25", "9"],
        ]
        .iter()
        .map(|r| r.iter().map(|c| c.to_string()).collect())
        .collect();
        assert_eq!(
            table(&rows, None),
            "arm   loss  speed\nA      1.5    120\nB    10.25      9\n"
        );
        assert_eq!(
            table(&rows, Some(12)),
            "arm   loss\nA      1.5\nB    10.25\n\narm  speed\nA      120\nB        9\n"
        );
        assert_eq!(
            markdown(&rows),
            "| arm | loss | speed |\n| --- | ---: | ---: |\n| A | 1.5 | 120 |\n| B | 10.25 | 9 |\n"
        );
    }

    #[test]
    fn markdown_signs_are_escaped() {
        assert_eq!(markdown_text("a|b<i>"), "a\\|b&lt;i>");
        assert_eq!(markdown_text("bits_per_byte _x_"), "bits_per_byte \\_x\\_");
        assert_eq!(markdown_text("[95 %] [a](b)"), "\\[95 %] \\[a](b)");
    }
}
