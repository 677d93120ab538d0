//! Detects tables whose delimiter differs from what their file name says.

/// Returns a clause for messages if the column names are a single one because the first line uses another
/// delimiter; otherwise `None`.
pub(in crate::data) fn other_delimiter_hint(names: &[String], delimiter: u8) -> Option<String> {
    let [only] = names else {
        return None;
    };
    let (form, between) = match delimiter {
        b'\t' => ("TSV", "tabs"),
        _ => ("CSV", "commas"),
    };
    let (found, remedy) = if only.contains(';') {
        (
            "`;`",
            format!("write the file with {between} between its columns"),
        )
    } else if delimiter != b'\t' && only.contains('\t') {
        ("tabs", "rename the file to end in .tsv".into())
    } else {
        return None;
    };
    Some(format!(
        "the first line is one column and contains {found}, but {form} separates columns with {between}; {remedy}"
    ))
}

#[cfg(test)]
mod tests {
    use super::other_delimiter_hint;

    #[test]
    fn a_line_of_names_with_another_delimiter_is_told() {
        let told = |names: &[&str], delimiter: u8| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            other_delimiter_hint(&names, delimiter).unwrap_or_default()
        };
        assert!(
            told(&["text;score"], b',').ends_with("write the file with commas between its columns")
        );
        assert!(
            told(&["text;score"], b'\t').ends_with("write the file with tabs between its columns")
        );
        assert!(told(&["text\tscore"], b',').ends_with("rename the file to end in .tsv"));
        assert_eq!(told(&["text"], b','), "");
        assert_eq!(told(&["text;score", "more"], b','), "");
    }
}
