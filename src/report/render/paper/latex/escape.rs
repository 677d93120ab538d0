//! Escaping of text and numbers for LaTeX with OT1, the default font encoding of a document that selects no other.

use crate::report::render::terminal::plain;

/// Characters that are written as formulas, because the default text fonts lack them.
const FORMULAS: [(char, &str); 63] = [
    ('α', "\\alpha"),
    ('β', "\\beta"),
    ('γ', "\\gamma"),
    ('δ', "\\delta"),
    ('ε', "\\varepsilon"),
    ('ϵ', "\\epsilon"),
    ('ζ', "\\zeta"),
    ('η', "\\eta"),
    ('θ', "\\theta"),
    ('ϑ', "\\vartheta"),
    ('ι', "\\iota"),
    ('κ', "\\kappa"),
    ('λ', "\\lambda"),
    ('μ', "\\mu"),
    ('\u{b5}', "\\mu"),
    ('ν', "\\nu"),
    ('ξ', "\\xi"),
    ('ο', "o"),
    ('π', "\\pi"),
    ('ρ', "\\rho"),
    ('σ', "\\sigma"),
    ('ς', "\\varsigma"),
    ('τ', "\\tau"),
    ('υ', "\\upsilon"),
    ('φ', "\\varphi"),
    ('ϕ', "\\phi"),
    ('χ', "\\chi"),
    ('ψ', "\\psi"),
    ('ω', "\\omega"),
    ('Γ', "\\Gamma"),
    ('Δ', "\\Delta"),
    ('Θ', "\\Theta"),
    ('Λ', "\\Lambda"),
    ('Ξ', "\\Xi"),
    ('Π', "\\Pi"),
    ('Σ', "\\Sigma"),
    ('Υ', "\\Upsilon"),
    ('Φ', "\\Phi"),
    ('Ψ', "\\Psi"),
    ('Ω', "\\Omega"),
    ('±', "\\pm"),
    ('−', "-"),
    ('×', "\\times"),
    ('·', "\\cdot"),
    ('÷', "\\div"),
    ('°', "^\\circ"),
    ('¹', "^1"),
    ('²', "^2"),
    ('³', "^3"),
    ('≤', "\\leq"),
    ('≥', "\\geq"),
    ('≠', "\\neq"),
    ('≈', "\\approx"),
    ('→', "\\rightarrow"),
    ('←', "\\leftarrow"),
    ('∞', "\\infty"),
    ('√', "\\surd"),
    ('∂', "\\partial"),
    ('∇', "\\nabla"),
    ('∈', "\\in"),
    ('∑', "\\Sigma"),
    ('∏', "\\Pi"),
    ('¬', "\\neg"),
];

/// Greek capitals that look like Latin letters, each followed by that letter.
const CAPITALS: &str = "ΑAΒBΕEΖZΗHΙIΚKΜMΝNΟOΡPΤTΧX";

/// Escapes text so that every character stands for itself.
pub fn escape(text: &str) -> String {
    let mut safe = String::new();
    for c in plain(text).chars() {
        match c {
            '\\' => safe.push_str("\\textbackslash{}"),
            '{' | '}' | '$' | '&' | '#' | '%' | '_' => safe.extend(['\\', c]),
            '~' => safe.push_str("\\textasciitilde{}"),
            '^' => safe.push_str("\\textasciicircum{}"),
            '<' => safe.push_str("\\textless{}"),
            '>' => safe.push_str("\\textgreater{}"),
            '|' => safe.push_str("\\textbar{}"),
            // \textquotedbl exists only in T1; typewriter fonts have a straight quote in every encoding.
            '"' => safe.push_str("\\texttt{\\char34}"),
            '–' => safe.push_str("--"),
            '…' => safe.push_str("\\dots{}"),
            '\u{fffd}' => safe.push('?'),
            c => match formula(c) {
                Some(formula) => safe.push_str(&formula),
                None => safe.push(c),
            },
        }
    }
    safe
}

fn formula(c: char) -> Option<String> {
    let known = FORMULAS.iter().find(|(sign, _)| *sign == c);
    let of_known = known.map(|(_, name)| format!("${name}$"));
    let capital = || {
        let mut pairs = CAPITALS.chars();
        while let (Some(greek), Some(latin)) = (pairs.next(), pairs.next()) {
            if greek == c {
                return Some(format!("$\\mathrm{{{latin}}}$"));
            }
        }
        None
    };
    let low = ('₀'..='₉').zip('0'..='9').find(|(low, _)| *low == c);
    let index = || low.map(|(_, digit)| format!("$_{digit}$"));
    of_known.or_else(capital).or_else(index)
}

/// Writes a number, or several with their signs, in math mode, where a hyphen is a minus sign. Other texts are escaped.
pub fn number(text: &str) -> String {
    let sound = |c: char| c.is_ascii_digit() || " +-.,[]()±<e".contains(c);
    if !text.chars().all(sound) {
        return escape(text);
    }
    let mut formula = String::new();
    let characters: Vec<char> = text.chars().collect();
    for (i, &c) in characters.iter().enumerate() {
        match c {
            '±' => formula.push_str("\\pm"),
            // A comma before a digit groups digits; any other comma separates numbers.
            ',' if characters.get(i + 1).is_some_and(char::is_ascii_digit) => {
                formula.push_str("{,}")
            }
            '[' => formula.push_str("\\;["),
            'e' => formula.push_str("\\mathrm{e}"),
            // The sign of an exponent, not an operator.
            '+' | '-' if i > 0 && characters[i - 1] == 'e' => formula.extend(['{', c, '}']),
            c => formula.push(c),
        }
    }
    format!("${formula}$")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sign_stands_for_itself() {
        assert_eq!(
            escape("a_b & 50% {x} ~ \\ # $5 ^ <1>"),
            "a\\_b \\& 50\\% \\{x\\} \\textasciitilde{} \\textbackslash{} \\# \\$5 \\textasciicircum{} \\textless{}1\\textgreater{}"
        );
        assert_eq!(number("1.513 ± 0.016"), "$1.513 \\pm 0.016$");
        assert_eq!(number("-0.03 [-0.06, -0.01]"), "$-0.03 \\;[-0.06, -0.01]$");
        assert_eq!(number("12,346"), "$12{,}346$");
        assert_eq!(number("1e-30"), "$1\\mathrm{e}{-}30$");
        assert_eq!(number("3 min"), "3 min");
    }

    #[test]
    fn quotes_and_greek_letters_need_no_encoding() {
        assert_eq!(
            escape("{ kind = \"rms\" }"),
            "\\{ kind = \\texttt{\\char34}rms\\texttt{\\char34} \\}"
        );
        assert_eq!(escape("β₂ Δ Α"), "$\\beta$$_2$ $\\Delta$ $\\mathrm{A}$");
        assert_eq!(escape("2 ± 1 − 3…"), "2 $\\pm$ 1 $-$ 3\\dots{}");
    }
}
