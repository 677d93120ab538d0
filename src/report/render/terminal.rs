//! Formats numbers, durations and sizes for readers, in a terminal, a pipe or a README; see [`table`] for tables.
//!
//! Text from files must pass [`plain`] first, so that a hostile name cannot move the cursor.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

pub use super::table::{markdown, markdown_text, table};

/// Formats a number with 4 significant digits: `1.923`, `12,346`, `1.2e-5`; `NaN` and infinities by name.
pub fn number(x: f64) -> String {
    if !x.is_finite() {
        return if x.is_nan() {
            "NaN".into()
        } else if x > 0.0 {
            "inf".into()
        } else {
            "-inf".into()
        };
    }
    let size = x.abs();
    if size == 0.0 {
        "0".into()
    } else if !(1e-3..1e12).contains(&size) {
        let (digits, power) = split_power(format!("{x:.3e}"));
        format!("{}e{power}", trim_zeros(&digits))
    } else if size >= 999.95 {
        grouped(&format!("{x:.0}"))
    } else {
        format!("{x:.*}", decimals(size, 4))
    }
}

/// Formats a loss with four decimals, as progress lines show it: `1.9235`. A loss below 0.01 is formatted by [`number`]:
/// `3.121e-5`.
pub fn loss(x: f64) -> String {
    fixed(x, 4)
}

/// Formats a number with `places` decimals; one too small for two significant digits among them is formatted by [`number`].
pub fn fixed(x: f64, places: usize) -> String {
    let least = 10f64.powi(2 - places as i32);
    match x != 0.0 && x.abs() < least {
        true => number(x),
        false => format!("{x:.places$}"),
    }
}

/// Formats a count with thousands separators: `1,234,567`.
pub fn count(n: u64) -> String {
    grouped(&n.to_string())
}

/// Formats `mean ± sd`, both with enough decimals for two significant digits of `sd` and four of the mean, at most 6.
/// Without `sd`, formats only the mean, by [`number`].
pub fn mean_sd(mean: f64, sd: Option<f64>) -> String {
    match sd {
        Some(sd)
            if mean.is_finite() && sd.is_finite() && mean.abs() < 1e3 && mean.abs() >= 1e-3 =>
        {
            let fine = if sd > 0.0 { decimals(sd, 2) } else { 0 };
            let places = fine.max(decimals(mean.abs(), 4)).min(6);
            format!("{mean:.places$} ± {sd:.places$}")
        }
        Some(sd) => format!("{} ± {}", number(mean), number(sd)),
        None => number(mean),
    }
}

/// Formats a difference with its sign: `+0.0123`, `-1.2e-5`.
pub fn signed(x: f64) -> String {
    let sign = if x > 0.0 { "+" } else { "" };
    format!("{sign}{}", number(x))
}

/// Formats a duration in its two largest units: `12.3 s`, `3 min 05 s`, `1 h 02 min`, `2 d 03 h`.
pub fn duration(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return "–".into();
    }
    if seconds < 59.95 {
        return format!("{seconds:.1} s");
    }
    let whole = seconds.round() as u64;
    let (minutes, hours) = (
        (seconds / 60.0).round() as u64,
        (seconds / 3600.0).round() as u64,
    );
    if whole < 3600 {
        format!("{} min {:02} s", whole / 60, whole % 60)
    } else if minutes < 24 * 60 {
        format!("{} h {:02} min", minutes / 60, minutes % 60)
    } else {
        format!("{} d {:02} h", hours / 24, hours % 24)
    }
}

/// Formats a size in binary units: `512 B`, `1.50 KiB`, `12.3 MiB`.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if n < 1024 {
        return format!("{n} B");
    }
    let mut size = n as f64 / 1024.0;
    let mut unit = 0;
    while size >= 1023.5 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.*} {}", decimals(size, 3), UNITS[unit])
}

/// Replaces every control character and direction override in `text` by `�`.
pub fn plain(text: &str) -> String {
    let hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars()
        .map(|c| if hidden(c) { '\u{fffd}' } else { c })
        .collect()
}

/// Wraps text into lines of at most `width` columns, except for longer words. All lines but the first are indented.
pub fn wrapped(text: &str, width: usize) -> String {
    const IN: &str = "      ";
    let (mut lines, mut line) = (String::new(), String::new());
    for word in text.split(' ') {
        if !line.trim().is_empty() && line.width() + 1 + word.width() > width {
            lines.push_str(&line);
            lines.push('\n');
            line = format!("{IN}{word}");
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines + &line + "\n"
}

/// Shortens `text` to at most `width` columns by cutting its middle.
pub fn shortened(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_string();
    }
    let room = width.saturating_sub(1);
    let head: String = take_columns(text.chars(), room.div_ceil(2))
        .into_iter()
        .collect();
    let tail: String = take_columns(text.chars().rev(), room / 2)
        .into_iter()
        .rev()
        .collect();
    format!("{head}…{tail}")
}

/// Takes characters from the front until `room` columns are full.
fn take_columns(characters: impl Iterator<Item = char>, room: usize) -> Vec<char> {
    let mut used = 0;
    characters
        .take_while(|c| {
            used += c.width().unwrap_or(0);
            used <= room
        })
        .collect()
}

/// Returns the number of decimals (0 to 12) that show `digits` significant digits of a positive `size`.
fn decimals(size: f64, digits: i32) -> usize {
    let rounded = format!("{size:.*e}", (digits - 1).max(0) as usize);
    let power: i32 = split_power(rounded).1.parse().unwrap_or(0);
    (digits - 1 - power).clamp(0, 12) as usize
}

fn split_power(scientific: String) -> (String, String) {
    match scientific.split_once('e') {
        Some((digits, power)) => (digits.to_string(), power.to_string()),
        None => (scientific, "0".into()),
    }
}

fn trim_zeros(digits: &str) -> &str {
    if digits.contains('.') {
        digits.trim_end_matches('0').trim_end_matches('.')
    } else {
        digits
    }
}

/// Puts commas between groups of three digits of a whole number.
fn grouped(whole: &str) -> String {
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |d| ("-", d));
    let mut text = String::from(sign);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_four_significant_digits() {
        let cases = [
            (1.923456, "1.923"),
            (12345.6, "12,346"),
            (999.96, "1,000"),
            (9.99996, "10.00"),
            (0.0, "0"),
            (0.001, "0.001000"),
            (0.0001234567, "1.235e-4"),
            (-1.5, "-1.500"),
            (3e15, "3e15"),
            (f64::NAN, "NaN"),
        ];
        for (x, text) in cases {
            assert_eq!(number(x), text);
        }
        assert_eq!(count(1234567), "1,234,567");
        for (x, text) in [
            (1.92345, "1.9235"),
            (31234.5, "31234.5000"),
            (0.0123, "0.0123"),
            (0.00312, "0.003120"),
            (0.0000312149, "3.121e-5"),
            (-0.0000312149, "-3.121e-5"),
            (0.0, "0.0000"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(loss(x), text);
        }
        assert_eq!(fixed(0.25, 3), "0.250");
        assert_eq!(mean_sd(1.47812, Some(0.00123)), "1.4781 ± 0.0012");
        assert_eq!(mean_sd(1.5, Some(0.0)), "1.500 ± 0.000");
        assert_eq!(mean_sd(31234.0, Some(210.4)), "31,234 ± 210.4");
        assert_eq!(signed(0.012345), "+0.01235");
    }

    #[test]
    fn durations_and_sizes_use_two_units() {
        let cases = [
            (0.04, "0.0 s"),
            (59.96, "1 min 00 s"),
            (185.0, "3 min 05 s"),
            (3599.6, "1 h 00 min"),
        ];
        for (s, text) in cases {
            assert_eq!(duration(s), text);
        }
        assert_eq!(duration(3725.0), "1 h 02 min");
        assert_eq!(duration(2.0 * 86400.0 + 3.0 * 3600.0), "2 d 03 h");
        assert_eq!(bytes(1536), "1.50 KiB");
        assert_eq!(bytes(1024 * 1024), "1.00 MiB");
    }

    #[test]
    fn hostile_text_stays_in_its_cell() {
        assert_eq!(plain("a\u{1b}[2Jb\n"), "a\u{fffd}[2Jb\u{fffd}");
        assert_eq!(shortened("abcdefghij", 5), "ab…ij");
        let lines = "note: one two\n      three\n";
        assert_eq!(wrapped("note: one two three", 14), lines);
        assert_eq!(shortened("日本語日本語", 5), "日…本語".replace('本', ""));
    }
}
