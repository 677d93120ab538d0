//! `four hundred and seven` to `407`: whole numbers below a million, in English words and in digits.
//!
//! `and` and hyphens are optional. A number that is held out is held out in every wording.

use super::phrases::{Family, PhrasesConfig};
use crate::rng::Stream;

/// `kind = "number_words"`.
pub type NumberWordsConfig = PhrasesConfig<Numbers>;

/// Numbers in up to four wordings.
#[derive(Clone, Debug, PartialEq)]
pub struct Numbers;

const SMALL: [&str; 20] = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
];
const TENS: [&str; 10] = [
    "", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety",
];
/// Number of digits of the largest number.
const DIGITS: u64 = 6;

/// The way in which a number is put into words.
#[derive(Clone, Copy)]
struct Wording {
    and: &'static str,
    hyphen: &'static str,
}

impl Wording {
    fn below_thousand(self, number: usize) -> String {
        let (hundreds, rest) = (number / 100, number % 100);
        if hundreds == 0 {
            return self.below_hundred(rest);
        }
        let hundreds = format!("{} hundred", SMALL[hundreds]);
        match rest {
            0 => hundreds,
            _ => format!("{hundreds}{}{}", self.and, self.below_hundred(rest)),
        }
    }

    fn below_hundred(self, number: usize) -> String {
        match (number / 10, number % 10) {
            (0 | 1, _) => SMALL[number].into(),
            (tens, 0) => TENS[tens].into(),
            (tens, ones) => format!("{}{}{}", TENS[tens], self.hyphen, SMALL[ones]),
        }
    }

    fn of(self, number: usize) -> String {
        let (thousands, rest) = (number / 1000, number % 1000);
        if thousands == 0 {
            return self.below_thousand(rest);
        }
        let thousands = format!("{} thousand", self.below_thousand(thousands));
        let between = if rest < 100 { self.and } else { " " };
        match rest {
            0 => thousands,
            _ => format!("{thousands}{between}{}", self.below_thousand(rest)),
        }
    }
}

impl Family for Numbers {
    const ALPHABET: &'static str = "0123456789- abcdefghijklmnopqrstuvwxyz";
    const LONGEST: usize =
        "three hundred and seventy-three thousand three hundred and seventy-three".len();
    const EXAMPLE: &'static str = "four hundred and seven";

    fn draw(stream: &mut Stream) -> (String, String) {
        // Draw the number of digits first, so that short numbers are as frequent as long ones.
        let digits = stream.below(DIGITS) as u32 + 1;
        let number = stream.below(10u64.pow(digits)) as usize;
        let wording = Wording {
            and: if stream.below(2) == 0 { " and " } else { " " },
            hyphen: if stream.below(2) == 0 { "-" } else { " " },
        };
        (wording.of(number), number.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_words() {
        let full = Wording {
            and: " and ",
            hyphen: "-",
        };
        let bare = Wording {
            and: " ",
            hyphen: " ",
        };
        for (number, words) in [
            (0, "zero"),
            (13, "thirteen"),
            (40, "forty"),
            (407, "four hundred and seven"),
            (1_005, "one thousand and five"),
            (20_300, "twenty thousand three hundred"),
            (
                999_999,
                "nine hundred and ninety-nine thousand nine hundred and ninety-nine",
            ),
        ] {
            assert_eq!(full.of(number), words);
        }
        assert_eq!(bare.of(100_042), "one hundred thousand forty two");
        let longest = (0..1_000_000).map(|n| full.of(n).len()).max();
        assert_eq!(longest, Some(Numbers::LONGEST));
    }
}
