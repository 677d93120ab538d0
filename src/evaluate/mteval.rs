//! Tokenizations of NIST's mteval scripts, parts of which BLEU (13a, 14 international) and tercom share.
//!
//! They are chains of substitutions, each made from left to right without overlap. The quirks of these chains (the
//! second of two consecutive points stays joined, a year keeps its final point) are part of the scores.

use regex::Regex;
use std::sync::LazyLock;

/// Substitutions in order.
struct Chain(Vec<(Regex, &'static str)>);

impl Chain {
    fn new(rules: &[(&str, &'static str)]) -> Self {
        let compile = |(pattern, with): &(&str, &'static str)| {
            (Regex::new(pattern).expect("a constant pattern"), *with)
        };
        Self(rules.iter().map(compile).collect())
    }

    fn apply(&self, text: &str) -> String {
        self.0.iter().fold(text.to_string(), |text, (rule, with)| {
            rule.replace_all(&text, *with).into_owned()
        })
    }
}

/// Spaces around every ASCII symbol except ' , - and the point.
static SYMBOLS: LazyLock<Chain> =
    LazyLock::new(|| Chain::new(&[(r"([{-~\[-` -&(-+:-@/])", " $1 ")]));

/// Points and commas are split off unless digits are on both sides; a dash is split off after a digit.
static POINTS: LazyLock<Chain> = LazyLock::new(|| {
    Chain::new(&[
        (r"([^0-9])([.,])", "$1 $2 "),
        (r"([.,])([^0-9])", " $1 $2"),
        (r"([0-9])(-)", "$1 $2 "),
    ])
});

/// Unicode punctuation is split off unless numbers are on both sides; symbols are always split off.
static INTERNATIONAL: LazyLock<Chain> = LazyLock::new(|| {
    Chain::new(&[
        (r"(\P{N})(\p{P})", "$1 $2 "),
        (r"(\p{P})(\P{N})", " $1 $2"),
        (r"(\p{S})", " $1 "),
    ])
});

/// Resolves the four character entities of translation data, one kind after the other, so that `&amp;lt;` becomes `<`.
pub(super) fn unescape(text: &str) -> String {
    text.replace("&quot;", "\"")
        .replace("&amp;", "&")
        .replace("&lt;", "<")
        .replace("&gt;", ">")
}

/// Applies the 13a tokenization (`mteval-v13a.pl`), the default of BLEU.
pub(super) fn v13a(text: &str) -> String {
    let joined = text
        .replace("<skipped>", "")
        .replace("-\n", "")
        .replace('\n', " ");
    POINTS.apply(&SYMBOLS.apply(&format!(" {} ", unescape(&joined))))
}

/// Applies the international tokenization (`mteval-v14.pl --international-tokenization`).
pub(super) fn international(text: &str) -> String {
    INTERNATIONAL.apply(text)
}

/// Applies tercom's normalization of Western text. A final `'s` needs no rule: text always ends in a space here.
pub(super) fn tercom(text: &str) -> String {
    let joined = text.replace("\n-", "").replace('\n', " ");
    let apart = SYMBOLS.apply(&format!(" {} ", unescape(&joined)));
    POINTS.apply(&apart.replace("'s ", " 's "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::whitespace::words;

    fn pieces(text: &str) -> Vec<&str> {
        words(text).collect()
    }

    #[test]
    fn numbers_keep_their_points() {
        let text = v13a("It cost $1,000.50, i.e. a 3-4% loss.");
        let wanted = "It cost $ 1,000.50 , i . e . a 3 - 4 % loss .";
        assert_eq!(pieces(&text), pieces(wanted));
    }

    #[test]
    fn entities_and_line_ends() {
        let text = v13a("&quot;A&quot; &amp;lt; B<skipped> hyphen-\nated\nend");
        assert_eq!(pieces(&text), pieces("\" A \" < B hyphenated end"));
    }

    #[test]
    fn international_knows_quotes_of_all_scripts() {
        let text = international("„Ja“, 5€ in 1999.");
        assert_eq!(pieces(&text), pieces("„ Ja “ , 5 € in 1999."));
    }

    #[test]
    fn tercom_parts_possessives() {
        let text = tercom("the dog's tail");
        assert_eq!(pieces(&text), pieces("the dog 's tail"));
    }
}
