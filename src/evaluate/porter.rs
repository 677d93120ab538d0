//! The Porter stemmer with NLTK's extensions, as ROUGE's `use_stemmer` uses it.
//!
//! Porter 1980, "An algorithm for suffix stripping". NLTK's default mode departs from the paper: a list of
//! irregular words; `ied` and four-letter `ies` keep an e; y becomes i after a consonant; `alli` is resolved before the
//! other suffixes of step 2; `bli`, `fulli` and `logi` are added.
//!
//! Words are ASCII and lower-cased: letters and digits, digits counting as consonants.

/// Irregular words with their stems.
const IRREGULAR: &[(&str, &str)] = &[
    ("sky", "sky"),
    ("skies", "sky"),
    ("dying", "die"),
    ("lying", "lie"),
    ("tying", "tie"),
    ("news", "news"),
    ("innings", "inning"),
    ("inning", "inning"),
    ("outings", "outing"),
    ("outing", "outing"),
    ("cannings", "canning"),
    ("canning", "canning"),
    ("howe", "howe"),
    ("proceed", "proceed"),
    ("exceed", "exceed"),
    ("succeed", "succeed"),
];

/// Step 2: double suffixes become single ones if m > 0.
const STEP_2: &[(&str, &str)] = &[
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("bli", "ble"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
    ("fulli", "ful"),
];

/// Step 3: suffixes are shortened or dropped if m > 0.
const STEP_3: &[(&str, &str)] = &[
    ("icate", "ic"),
    ("ative", ""),
    ("alize", "al"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ful", ""),
    ("ness", ""),
];

/// Step 4: suffixes are dropped if m > 1; `ion` only after s or t.
const STEP_4: &[&str] = &[
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou",
    "ism", "ate", "iti", "ous", "ive", "ize",
];

/// Returns the stem of a word.
pub(super) fn stem(word: &str) -> String {
    if let Some((_, stem)) = IRREGULAR.iter().find(|(irregular, _)| *irregular == word) {
        return (*stem).to_string();
    }
    if word.len() <= 2 {
        return word.to_string();
    }
    let steps = [
        plural,
        past,
        final_y,
        double_suffix,
        step_3,
        step_4,
        final_e,
        double_l,
    ];
    steps
        .iter()
        .fold(word.to_string(), |word, step| step(&word))
}

/// Returns for each letter whether it is a consonant; y is one at the start and after a vowel.
fn consonants(word: &str) -> Vec<bool> {
    let mut flags: Vec<bool> = Vec::with_capacity(word.len());
    for letter in word.bytes() {
        flags.push(match letter {
            b'a' | b'e' | b'i' | b'o' | b'u' => false,
            b'y' => flags.last().is_none_or(|before| !before),
            _ => true,
        });
    }
    flags
}

/// Returns the paper's m: how often a consonant follows a vowel.
fn measure(stem: &str) -> usize {
    consonants(stem)
        .array_windows()
        .filter(|[a, b]| !a & b)
        .count()
}

fn has_vowel(stem: &str) -> bool {
    consonants(stem).contains(&false)
}

fn ends_in_double_consonant(word: &str) -> bool {
    let [.., a, b] = word.as_bytes() else {
        return false;
    };
    a == b && consonants(word).last() == Some(&true)
}

/// Returns whether the word meets the paper's *o: it ends in consonant, vowel, consonant other than w, x, y. NLTK adds words of
/// a vowel and a consonant.
fn ends_in_cvc(word: &str) -> bool {
    match consonants(word)[..] {
        [.., true, false, true] => !word.ends_with(['w', 'x', 'y']),
        [false, true] => true,
        _ => false,
    }
}

/// Replaces a suffix if the word has it and the remaining stem meets the condition.
fn replace_suffix(
    word: &str,
    rule: (&str, &str),
    condition: impl Fn(&str) -> bool,
) -> Option<String> {
    let stem = word.strip_suffix(rule.0)?;
    condition(stem).then(|| format!("{stem}{}", rule.1))
}

/// Applies the first rule whose suffix matches; later rules are not tried, even if its condition does not hold.
fn first_rule(word: &str, rules: &[(&str, &str)], condition: impl Fn(&str) -> bool) -> String {
    let rule = rules.iter().find(|(suffix, _)| word.ends_with(suffix));
    rule.and_then(|rule| replace_suffix(word, *rule, condition))
        .unwrap_or_else(|| word.to_string())
}

/// Step 1a: plurals.
fn plural(word: &str) -> String {
    if word.len() == 4 && word.ends_with("ies") {
        return word[..3].to_string();
    }
    let rules = [("sses", "ss"), ("ies", "i"), ("ss", "ss"), ("s", "")];
    first_rule(word, &rules, |_| true)
}

/// Step 1b: `ed` and `ing`.
fn past(word: &str) -> String {
    if let Some(stem) = word.strip_suffix("ied") {
        return format!("{stem}{}", if word.len() == 4 { "ie" } else { "i" });
    }
    if word.ends_with("eed") {
        return first_rule(word, &[("eed", "ee")], |stem| measure(stem) > 0);
    }
    let without = ["ed", "ing"]
        .iter()
        .find_map(|suffix| replace_suffix(word, (suffix, ""), has_vowel));
    let Some(stem) = without else {
        return word.to_string();
    };
    if ["at", "bl", "iz"].iter().any(|end| stem.ends_with(end)) {
        format!("{stem}e")
    } else if ends_in_double_consonant(&stem) {
        let single = !stem.ends_with(['l', 's', 'z']);
        stem[..stem.len() - usize::from(single)].to_string()
    } else if measure(&stem) == 1 && ends_in_cvc(&stem) {
        format!("{stem}e")
    } else {
        stem
    }
}

/// Step 1c: final y.
fn final_y(word: &str) -> String {
    let behind_consonant = |stem: &str| stem.len() > 1 && consonants(stem).last() == Some(&true);
    first_rule(word, &[("y", "i")], behind_consonant)
}

/// Step 2: double suffixes.
fn double_suffix(word: &str) -> String {
    let positive = |stem: &str| measure(stem) > 0;
    if let Some(shorter) = replace_suffix(word, ("alli", "al"), positive) {
        return double_suffix(&shorter);
    }
    // The l of `logi` counts as part of the stem here, so that `geo` and `theo` are long enough.
    if word.ends_with("logi") {
        return first_rule(word, &[("ogi", "og")], positive);
    }
    first_rule(word, STEP_2, positive)
}

fn step_3(word: &str) -> String {
    first_rule(word, STEP_3, |stem| measure(stem) > 0)
}

fn step_4(word: &str) -> String {
    let Some(suffix) = STEP_4.iter().find(|suffix| word.ends_with(*suffix)) else {
        return word.to_string();
    };
    let fits = |stem: &str| *suffix != "ion" || stem.ends_with(['s', 't']);
    first_rule(word, &[(suffix, "")], |stem| {
        measure(stem) > 1 && fits(stem)
    })
}

/// Step 5a: final e.
fn final_e(word: &str) -> String {
    let droppable = |stem: &str| match measure(stem) {
        0 => false,
        1 => !ends_in_cvc(stem),
        _ => true,
    };
    first_rule(word, &[("e", "")], droppable)
}

/// Step 5b: double l.
fn double_l(word: &str) -> String {
    let long = |stem: &str| measure(&word[..=stem.len()]) > 1;
    first_rule(word, &[("ll", "l")], long)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_of_the_paper() {
        for (word, wanted) in [
            ("caresses", "caress"),
            ("ponies", "poni"),
            ("agreed", "agre"),
            ("feed", "feed"),
            ("hopping", "hop"),
            ("falling", "fall"),
            ("filing", "file"),
            ("relational", "relat"),
            ("rational", "ration"),
            ("electricity", "electr"),
            ("adoption", "adopt"),
            ("rate", "rate"),
            ("cease", "ceas"),
            ("controlling", "control"),
            ("rolling", "roll"),
        ] {
            assert_eq!(stem(word), wanted, "{word}");
        }
    }

    #[test]
    fn departures_of_nltk() {
        for (word, wanted) in [
            ("dies", "die"),
            ("died", "die"),
            ("cried", "cri"),
            ("enjoy", "enjoy"),
            ("skies", "sky"),
            ("geology", "geolog"),
            ("hopefully", "hope"),
        ] {
            assert_eq!(stem(word), wanted, "{word}");
        }
    }

    #[test]
    fn stems_are_those_of_nltk() {
        let golden = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/goldens/text_metrics.json"
        );
        let golden: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(golden).unwrap()).unwrap();
        let stems = golden["stems"].as_object().unwrap();
        assert!(stems.len() > 500);
        for (word, wanted) in stems {
            assert_eq!(stem(word), wanted.as_str().unwrap(), "{word}");
        }
    }
}
