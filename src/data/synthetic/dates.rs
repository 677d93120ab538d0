//! `the 3rd of May 1998` to `1998-05-03`: dates as people write them, and in ISO 8601.
//!
//! Days range from 1950 to 2049, so that `98` means only one year; a number before a slash is the month
//! (5/3/98). Weekdays are the correct ones. A date that is held out is held out in every wording.

use super::phrases::{Family, PhrasesConfig};
use crate::rng::Stream;

/// `kind = "dates"`.
pub type DatesConfig = PhrasesConfig<Dates>;

/// Dates in ten wordings.
#[derive(Clone, Debug, PartialEq)]
pub struct Dates;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];
/// Year whose first day was a Sunday; until 2049 every fourth year is a leap year.
const FIRST_YEAR: u64 = 1950;
const DAYS: u64 = 100 * 365 + 25;

/// A day of the calendar.
#[derive(Clone, Copy)]
struct Date {
    year: u64,
    /// Month, from 0.
    month: usize,
    day: u64,
    /// Weekday, from 0 for Sunday.
    weekday: usize,
}

impl Date {
    /// Returns the day that is this many days after the first of January 1950.
    fn after(days: u64) -> Self {
        let weekday = (days % 7) as usize;
        let (mut year, mut day) = (FIRST_YEAR, days);
        let leap = |year: u64| year.is_multiple_of(4);
        while day >= 365 + u64::from(leap(year)) {
            day -= 365 + u64::from(leap(year));
            year += 1;
        }
        let mut month = 0;
        let length = |month: usize| match month {
            1 => 28 + u64::from(leap(year)),
            3 | 5 | 8 | 10 => 30,
            _ => 31,
        };
        while day >= length(month) {
            day -= length(month);
            month += 1;
        }
        Self {
            year,
            month,
            day: day + 1,
            weekday,
        }
    }

    fn iso(self) -> String {
        format!("{:04}-{:02}-{:02}", self.year, self.month + 1, self.day)
    }

    fn worded(self, wording: u64) -> String {
        let (year, day) = (self.year, self.day);
        let (number, month) = (self.month + 1, MONTHS[self.month]);
        let weekday = WEEKDAYS[self.weekday];
        let short = year % 100;
        let end = match day {
            1 | 21 | 31 => "st",
            2 | 22 => "nd",
            3 | 23 => "rd",
            _ => "th",
        };
        match wording {
            0 => format!("the {day}{end} of {month} {year}"),
            1 => format!("{month} {day}, {year}"),
            2 => format!("{day} {month} {year}"),
            3 => format!("{weekday}, {day} {month} {year}"),
            4 => format!("{number}/{day}/{short:02}"),
            5 => format!("{month} {day}{end}, {year}"),
            6 => format!("{weekday}, {month} {day}{end} {year}"),
            7 => format!("{day} {} '{short:02}", &month[..3]),
            8 => format!("{} {day} {year}", month.to_lowercase()),
            _ => format!("{number:02}/{day:02}/{year}"),
        }
    }
}

const WORDINGS: u64 = 10;

impl Family for Dates {
    const ALPHABET: &'static str = "0123456789-/,' abcdefghijklmnopqrstuvwxyzADFJMNOSTW";
    const LONGEST: usize = "Wednesday, September 22nd 1998".len();
    const EXAMPLE: &'static str = "the 3rd of May 1998";

    fn draw(stream: &mut Stream) -> (String, String) {
        let date = Date::after(stream.below(DAYS));
        (date.worded(stream.below(WORDINGS)), date.iso())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calendar() {
        // The moon landing on Sunday, 20 July 1969; the last days of February and of the range.
        let day = |iso: &str| {
            let date = (0..DAYS).map(Date::after).find(|d| d.iso() == iso).unwrap();
            date.worded(3)
        };
        assert_eq!(day("1969-07-20"), "Sunday, 20 July 1969");
        assert_eq!(day("2000-02-29"), "Tuesday, 29 February 2000");
        assert_eq!(day("1998-05-03"), "Sunday, 3 May 1998");
        assert_eq!(Date::after(0).iso(), "1950-01-01");
        assert_eq!(Date::after(DAYS - 1).iso(), "2049-12-31");
    }

    #[test]
    fn wordings_stay_within_alphabet_and_length() {
        for days in 0..DAYS {
            let date = Date::after(days);
            for wording in 0..WORDINGS {
                let text = date.worded(wording);
                assert!(text.len() <= Dates::LONGEST, "{text}");
                assert!(text.chars().all(|c| Dates::ALPHABET.contains(c)), "{text}");
            }
        }
    }
}
