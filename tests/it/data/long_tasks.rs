//! Long inputs: ListOps as long as in the Long Range Arena, joined texts, halves of articles, images as sequences.

use std::collections::{BTreeMap, BTreeSet};

use super::images::{grey, idx};
use super::{Folder, data_config, get, items, letters, prepared, shared};
use formwork::data::{Data, SearchPath, Split, TextItem};
use serde_json::Value;

/// The value of an expression, read from the right; an operation's arguments lie on the stack above its closing mark.
fn value(words: &[&str]) -> i64 {
    let mut stack: Vec<Option<i64>> = Vec::new();
    for word in words.iter().rev() {
        let Some(operation) = word.strip_prefix('[') else {
            stack.push(word.parse().ok());
            continue;
        };
        let mut values: Vec<i64> = Vec::new();
        while let Some(Some(value)) = stack.pop() {
            values.push(value);
        }
        values.sort_unstable();
        let n = values.len();
        assert!(n >= 2, "{operation} of {n}");
        stack.push(Some(match operation {
            "MIN" => values[0],
            "MAX" => values[n - 1],
            "SM" => values.iter().sum::<i64>() % 10,
            "MED" if n % 2 == 1 => values[n / 2],
            "MED" => (values[n / 2 - 1] + values[n / 2]) / 2,
            other => panic!("{other}"),
        }));
    }
    assert_eq!(stack.len(), 1);
    stack[0].unwrap()
}

#[test]
fn long_listops_are_those_of_the_arena() {
    let golden = include_str!("../../goldens/long_tasks.json");
    let golden: Value = serde_json::from_str(golden).unwrap();
    let golden = &golden["listops"];
    let places = SearchPath::with_folders(None, Vec::new(), "none".into());
    // The arena's depth also counts the digits below the last operation.
    let keys = "kind = \"listops\"\nmax_depth = 9\nmax_args = 10\nmin_length = 501\nmax_length = 1999\nvalid_items = 2";
    let data = prepared(keys, None, &places, 1).unwrap();
    assert_eq!(data.shape.context, 2001);
    let tokenizer = data.tokenizers.text.as_ref().unwrap();
    let count = 1500;
    let mut lengths = Vec::new();
    let (mut operations, mut deepest) = (0, 0);
    let mut values = [0.0; 10];
    for sample in 0..count {
        let item = get(&data.train, sample);
        let inside = &item.inputs[1..item.inputs.len() - 1];
        let token = |id: &i32| tokenizer.token(*id as u32).unwrap();
        let words: Vec<String> = inside.iter().map(token).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert!((501..=1999).contains(&words.len()));
        assert_eq!(value(&words), i64::from(item.label.unwrap()));
        values[item.label.unwrap() as usize] += 1.0 / count as f64;
        lengths.push(words.len() as f64);
        let mut depth = 0;
        for word in &words {
            depth += i32::from(word.starts_with('[')) - i32::from(*word == "]");
            operations += usize::from(word.starts_with('['));
            deepest = deepest.max(depth);
        }
    }
    assert_eq!(deepest, 9);
    let number = |value: &Value| value.as_f64().unwrap();
    let mean = lengths.iter().sum::<f64>() / count as f64;
    let wanted = number(&golden["length"]["mean"]);
    assert!((mean / wanted - 1.0).abs() < 0.04, "{mean} {wanted}");
    let each = lengths.iter().sum::<f64>() / operations as f64;
    assert!(
        (each / number(&golden["tokens_per_operation"]) - 1.0).abs() < 0.01,
        "{each}"
    );
    lengths.sort_by(f64::total_cmp);
    let quantiles = golden["length"]["quantiles"].as_array().unwrap();
    for (share, wanted) in [0.1, 0.25, 0.5, 0.75, 0.9].into_iter().zip(quantiles) {
        let ours = lengths[(share * count as f64) as usize];
        assert!(
            (ours / number(wanted) - 1.0).abs() < 0.08,
            "{share}: {ours} {wanted}"
        );
    }
    // 4 deviations of a share of 1/6 among 1,500.
    for (ours, theirs) in values.iter().zip(golden["values"].as_array().unwrap()) {
        assert!((ours - number(theirs)).abs() < 0.04, "{values:?}");
    }
}

/// 40 rows for each of two classes; a row's letters tell its class, its digits its number.
fn rows() -> String {
    let row = |n: usize| format!("{}{n:02}\t{}\n", ["x", "y"][n % 2], ["x", "y"][n % 2]);
    (0..80).map(row).collect()
}

#[test]
fn rows_of_one_class_are_joined_until_the_context_is_full() {
    let folder = Folder::with(&[("a.tsv", rows().as_bytes())]);
    let keys = "kind = \"labelled_text\"\npath = \"a.tsv\"\njoin = true\ncontext = 10\nvalid_fraction = 0.25";
    let data = folder.prepare(keys, "kind = \"byte\"").unwrap();
    let parts = |item: &TextItem| -> Vec<String> {
        let text = letters(&item.inputs);
        let class = ["x", "y"][item.label.unwrap() as usize];
        assert!(text.split(' ').all(|row| row.starts_with(class)), "{text}");
        text.split(' ').map(str::to_owned).collect()
    };
    // Three letters, a blank, three letters, a blank, the first two letters of the next row.
    let valid = data.valid.as_ref().unwrap();
    let mut held_out = BTreeSet::new();
    for item in items(valid) {
        assert_eq!(item.inputs.len(), 10);
        for row in parts(&item).into_iter().filter(|row| row.len() == 3) {
            assert!(held_out.insert(row.clone()), "{row} stands in two texts");
        }
    }
    // Three rows fill a text; two of 20 rows are left over, whatever their classes.
    assert_eq!(valid.len(), 6);
    assert_eq!(data.train.len(), 60);
    let mut seen = BTreeSet::new();
    for sample in 0..60 {
        let item = get(&data.train, sample);
        assert_eq!((item.inputs.len(), data.train.size(sample)), (10, 10));
        let rows = parts(&item);
        for row in rows.iter().filter(|row| row.len() == 3) {
            assert!(!held_out.contains(row), "{row} is held out");
            seen.insert(row.clone());
        }
    }
    assert_eq!(seen.len(), 60, "a text begins with each row");
    let at = |draw| data.train.get(3, draw).unwrap();
    assert_eq!(at(5), at(5));
    let different: BTreeSet<Vec<i32>> = (0..20)
        .map(|draw| at(draw).text().unwrap().inputs)
        .collect();
    assert!(different.len() > 10, "later rows are drawn anew");
    assert!(
        different
            .iter()
            .all(|ids| ids[..3] == at(0).text().unwrap().inputs[..3])
    );
}

#[test]
fn joining_says_what_it_cannot_do() {
    let folder = Folder::with(&[("a.tsv", b"a\tb\t0\n\tb\t1\n")]);
    let says = |keys: &str| {
        let keys = format!(
            "kind = \"labelled_text\"\npath = \"a.tsv\"\njoin = true\nvalid_fraction = 0.0\n{keys}"
        );
        folder
            .prepare(&keys, "kind = \"byte\"")
            .err()
            .unwrap()
            .to_string()
    };
    let empty = says("label = 3");
    assert!(empty.contains("a.tsv:2: the text is empty"), "{empty}");
}

/// An article of 60 letters that only it contains.
fn article(letter: char) -> String {
    let half = |end: &str| format!("{}{end}", letter.to_string().repeat(30));
    format!(
        " = {letter} = \n \n {} \n \n = = S = = \n \n {} \n \n",
        half("1"),
        half("2")
    )
}

#[test]
fn halves_are_of_one_article_or_of_two() {
    let text: String = ('a'..='t').map(article).collect();
    let folder = Folder::with(&[("a.txt", text.as_bytes())]);
    let keys = "kind = \"article_halves\"\npath = \"a.txt\"\ncontext = 24\nvalid_fraction = 0.25";
    let data = folder.prepare(keys, "kind = \"byte\"").unwrap();
    assert_eq!(data.shape.classes, ["two articles", "one article"]);
    let tokenizer = data.tokenizers.text.as_ref().unwrap();
    let halves = |item: &TextItem| -> (char, char) {
        assert_eq!(item.inputs.len(), 3 + 2 * 10);
        let segments = item.segments.as_ref().unwrap();
        let split = segments.iter().filter(|s| **s == 0).count();
        assert_eq!(split, 12);
        let text = tokenizer.decode(&item.inputs.iter().map(|id| *id as u32).collect::<Vec<_>>());
        let inside = text
            .strip_prefix("[CLS]")
            .unwrap()
            .strip_suffix("[SEP]")
            .unwrap();
        let (first, second) = inside.split_once("[SEP]").unwrap();
        // The middle of an article is the blank between its paragraphs.
        assert!(!first.contains('2') && !second.contains('1'), "{text}");
        (
            first.chars().next().unwrap(),
            second.trim().chars().next().unwrap(),
        )
    };
    let check = |item: TextItem| {
        let (first, second) = halves(&item);
        assert_eq!(item.label == Some(1), first == second);
        [first, second]
    };
    let valid = data.valid.as_ref().unwrap();
    let held_out: BTreeSet<char> = items(valid).into_iter().flat_map(check).collect();
    assert_eq!((valid.len(), held_out), (10, ('p'..='t').collect()));
    // Halves have about 31 letters, and windows 10; the counts are articles for training, examples for validation.
    assert_eq!((data.cut.train, data.cut.valid), (15, 10));
    let wide = keys.replace("24", "200");
    let wide = folder.prepare(&wide, "kind = \"byte\"").unwrap();
    assert_eq!((wide.cut.train, wide.cut.valid), (0, 0));
    let same: i32 = items(valid).iter().map(|item| item.label.unwrap()).sum();
    assert_eq!(same, 5);
    let (mut same, mut seen) = (0, BTreeSet::new());
    for draw in 0..400 {
        let item = data.train.get(draw % 15, draw).unwrap().text().unwrap();
        same += item.label.unwrap();
        seen.extend(check(item));
    }
    assert_eq!(seen, ('a'..='o').collect(), "training reads other articles");
    // 400 coin tosses: 4 deviations are 40.
    assert!((160..=240).contains(&same), "{same}");
    assert_eq!(data.train.get(3, 8).unwrap(), data.train.get(3, 8).unwrap());
    let begins: BTreeSet<Vec<i32>> = (0..30)
        .map(|draw| data.train.get(0, draw).unwrap().text().unwrap().inputs)
        .collect();
    assert!(begins.len() > 1);
}

#[test]
fn a_single_article_has_no_other_one() {
    let folder = Folder::with(&[("a.txt", article('a').as_bytes())]);
    let keys = "kind = \"article_halves\"\npath = \"a.txt\"\nvalid_fraction = 0.0";
    let error = folder
        .prepare(keys, "kind = \"byte\"")
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("has 1 article(s)"), "{error}");
}

fn sequences(folder: &Folder, keys: &str) -> Data {
    let keys = format!(
        "kind = \"images\"\npath = \"i\"\nlabels = \"l\"\nsequence = true\nchannels = 1\n{keys}"
    );
    prepared(&keys, None, &folder.places(), 7).unwrap()
}

#[test]
fn images_are_read_row_by_row() {
    let pixels: Vec<u8> = (0..36).map(|n| n * 7).collect();
    let folder = Folder::with(&[
        ("i", &idx(&pixels, 2, 3)),
        ("l", &idx(&[0, 1, 0, 1, 0, 1], 0, 0)),
    ]);
    let data = sequences(&folder, "size = [2, 3]\nvalid_fraction = 0.0");
    assert_eq!((data.shape.context, data.shape.vocab_size), (6, 256));
    assert!(data.shape.image.is_none() && data.shape.mean.is_empty());
    assert_eq!(data.shape.classes, ["0", "1"]);
    for sample in 0..6 {
        let item = get(&data.train, sample as u64);
        let wanted = pixels[6 * sample..][..6].iter().map(|p| i32::from(*p));
        assert_eq!(item.inputs, wanted.collect::<Vec<_>>());
        assert_eq!(item.label, Some(sample as i32 % 2));
    }
    let data = sequences(
        &folder,
        "size = [2, 3]\nvalid_fraction = 0.0\naugment = { flip = true }",
    );
    let seen: BTreeSet<Vec<i32>> = (0..20)
        .map(|draw| data.train.get(1, draw).unwrap().text().unwrap().inputs)
        .collect();
    let (plain, mirrored) = (vec![42, 49, 56, 63, 70, 77], vec![56, 49, 42, 77, 70, 63]);
    assert_eq!(seen, BTreeSet::from([plain, mirrored]));
}

#[test]
fn a_folder_of_images_is_a_sequence_too() {
    let folder = Folder::with(&[
        ("f/cat/1.png", &grey(&[1, 2, 3, 4], 2, 2)),
        ("f/dog/1.png", &grey(&[5, 6, 7, 8], 2, 2)),
    ]);
    let keys = "kind = \"images\"\npath = \"f\"\nsequence = true\nchannels = 1\nsize = [2, 2]\nvalid_fraction = 0.0";
    let data = prepared(keys, None, &folder.places(), 1).unwrap();
    assert_eq!(get(&data.train, 1).inputs, [5, 6, 7, 8]);
    assert_eq!(data.shape.classes, ["cat", "dog"]);
    let file = folder.write("one.png", &grey(&[9, 8, 7, 6], 2, 2));
    let read = |keys: &str| data_config(keys).read_sequence(&file).unwrap();
    assert_eq!(read(keys).unwrap().inputs, [9, 8, 7, 6]);
    assert!(read("kind = \"pathfinder\"").is_none());
    let drawn = read("kind = \"pathfinder\"\nsequence = true\nsize = 16").unwrap();
    assert_eq!(drawn.inputs.len(), 256);
}

/// Reads the development data of the shipped experiments.
#[test]
fn real_data() {
    if shared("ag_news/train_10k.tsv").is_none() {
        return;
    }
    let folder = Folder::new();
    let places = SearchPath::with_folders(
        None,
        SearchPath::new(None).roots().to_vec(),
        folder.places().cache().to_path_buf(),
    );
    let byte = toml::from_str("kind = \"byte\"").unwrap();
    let keys =
        "kind = \"labelled_text\"\npath = \"ag_news/train_10k.tsv\"\njoin = true\ncontext = 4000";
    let data = prepared(keys, Some(&byte), &places, 1).unwrap();
    let item = get(&data.train, 3);
    assert_eq!((item.inputs.len(), data.shape.classes.len()), (4000, 4));
    let mut classes = BTreeMap::<i32, usize>::new();
    for item in items(data.source(Split::Valid).unwrap()) {
        assert_eq!(item.inputs.len(), 4000);
        *classes.entry(item.label.unwrap()).or_default() += 1;
    }
    assert!(
        classes.len() == 4 && classes.values().all(|n| *n > 5),
        "{classes:?}"
    );

    let keys = "kind = \"images\"\npath = \"cifar10/subset_train.bin\"\nsequence = true\nchannels = 1\nsize = [32, 32]";
    let data = prepared(keys, None, &places, 1).unwrap();
    assert_eq!(
        (get(&data.train, 0).inputs.len(), data.shape.classes.len()),
        (1024, 10)
    );

    let keys = "kind = \"article_halves\"\npath = \"wikitext2/valid.txt\"\nvalid_path = \"wikitext2/test.txt\"\ncontext = 8003";
    let data = prepared(keys, Some(&byte), &places, 1).unwrap();
    assert_eq!(data.valid.as_ref().unwrap().len(), 120);
    let lengths = items(data.valid.as_ref().unwrap())
        .into_iter()
        .map(|item| item.inputs.len());
    assert_eq!(lengths.max(), Some(8003));
}
