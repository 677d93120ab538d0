//! ListOps: expressions with their values.

use super::Folder;
use super::labelled::rows;
use super::masked::{text, viewed};
use formwork::data::{DataSet, ListopsConfig, Split, View};

#[test]
fn expressions_have_their_values_and_held_out_ones_are_never_trained_on() {
    let folder = Folder::new();
    let data =
        "kind = \"listops\"\nmax_length = 20\nmin_length = 4\nvalid_items = 300\ntest_items = 50";
    let data = viewed(&folder.places(), data, None, &View::Plain, 3).unwrap();
    assert_eq!(data.shape.classes.len(), 10);
    let held_out = rows(&data, Split::Valid);
    let texts: std::collections::BTreeSet<&String> =
        held_out.iter().map(|(text, _)| text).collect();
    assert_eq!((held_out.len(), texts.len()), (300, 300));
    let mut answers = [0; 10];
    for sample in 0..3000 {
        let item = text(data.train.as_ref(), sample, sample);
        assert!((6..=22).contains(&item.inputs.len()));
        let ids: Vec<u32> = item.inputs.iter().map(|id| *id as u32).collect();
        let written = data.tokenizers.text.as_ref().unwrap().decode(&ids);
        assert!(!texts.contains(&written));
        let words: Vec<&str> = written.split(' ').collect();
        let inside = &words[1..words.len() - 1];
        assert_eq!((words[0], words[words.len() - 1]), ("[CLS]", "[SEP]"));
        let value = evaluated(&mut inside.iter().copied());
        assert_eq!(value, Some(item.label.unwrap() as usize), "{written}");
        answers[item.label.unwrap() as usize] += 1;
    }
    assert!(answers.iter().all(|n| *n > 50), "{answers:?}");
    let impossible = ListopsConfig {
        max_length: 3,
        ..ListopsConfig::default()
    };
    assert!(!impossible.faults().is_empty());
}

/// Returns the value of the next argument; `None` at the end of an operation.
fn evaluated<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<usize> {
    let word = words.next()?;
    if let Ok(digit) = word.parse() {
        return Some(digit);
    }
    let operation = word.strip_prefix('[')?;
    let mut values = Vec::new();
    while let Some(value) = evaluated(words) {
        values.push(value);
    }
    values.sort_unstable();
    let (n, sum) = (values.len(), values.iter().sum::<usize>());
    Some(match operation {
        "MAX" => values[n - 1],
        "MIN" => values[0],
        "SM" => sum % 10,
        "MED" if n % 2 == 1 => values[n / 2],
        _ => (values[n / 2 - 1] + values[n / 2]) / 2,
    })
}
