//! Articles: ranks against scikit-learn's counts, sources and targets, splits by article, faults.

use std::collections::BTreeSet;

use super::pairs::{Folder, pair};
use super::shared;
use formwork::data::pairs::articles::rank::tf_idf;
use formwork::data::{Data, Split, Texts};
use serde_json::Value;

const WORDS: &str = "kind = \"word\"";

/// Articles that share words, each with a title, two lead paragraphs and three section paragraphs.
fn articles(titles: &[&str]) -> String {
    let article = |title: &&str| {
        format!(
            " \n = {title} = \n \n {title} is here . \n Second of {title} . \n \n = = Past = = \n \n An old wall . \n \
             Of the {title} and a wall . \n \n = = = Part = = = \n \n The {title} , {title} . \n"
        )
    };
    titles.iter().map(article).collect()
}

/// Returns a source and a target as text, including the special tokens around them.
fn written(data: &Data, split: Split, sample: u64) -> (String, String) {
    let item = pair(data.source(split).unwrap(), sample);
    let tokenizer = data.tokenizers.text.as_ref().unwrap();
    let text = |ids: &[i32]| tokenizer.decode(&ids.iter().map(|id| *id as u32).collect::<Vec<_>>());
    (text(&item.source), text(&item.target))
}

fn texts(data: &Data, split: Split) -> &Texts {
    data.pairs.get(split).as_deref().unwrap()
}

#[test]
fn paragraphs_rank_as_scikit_learn_counts_them() {
    let golden = include_str!("../../goldens/long_tasks.json");
    let golden: Value = serde_json::from_str(golden).unwrap();
    let mut different = 0;
    for article in golden["articles"].as_array().unwrap() {
        let list = |key: &str| article[key].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let paragraphs: Vec<String> = list("paragraphs").map(text).collect();
        let scores = tf_idf(article["title"].as_str().unwrap(), &paragraphs);
        let wanted: Vec<f64> = list("scores").map(|s| s.as_f64().unwrap()).collect();
        assert_eq!(scores.len(), wanted.len());
        for (ours, theirs) in scores.iter().zip(&wanted) {
            assert!((ours - theirs).abs() < 1e-9, "{ours} {theirs}");
        }
        let mut order: Vec<u64> = (0..scores.len() as u64).collect();
        order.sort_by(|a, b| scores[*b as usize].total_cmp(&scores[*a as usize]));
        let wanted: Vec<u64> = list("order").map(|n| n.as_u64().unwrap()).collect();
        assert_eq!(order, wanted);
        different += usize::from(!order.is_sorted());
    }
    assert!(
        different > 5,
        "hardly any article is put into another order"
    );
}

#[test]
fn a_source_is_the_title_and_the_best_paragraphs() {
    let folder = Folder::with(&[("a.txt", articles(&["Fox", "Owl", "Elk"]).as_bytes())]);
    let read = |keys: &str| {
        let data = format!("kind = \"articles\"\npath = \"a.txt\"\nvalid_fraction = 0.3\n{keys}");
        folder.prepare(&data, WORDS).unwrap()
    };
    let data = read("");
    assert_eq!((data.train.len(), data.left_out), (2, 0));
    // One paragraph has "the" only as "The": a paragraph that contains the title twice ranks first, one without it last.
    let sections = "The Fox , Fox . Of the Fox and a wall . An old wall .";
    let lead = "Fox is here . Second of Fox .";
    let (source, target) = written(&data, Split::Train, 0);
    assert_eq!(source, format!("Fox {sections} </s>"));
    assert_eq!(target, format!("<s> {lead} </s>"));
    let (held_out, references) = texts(&data, Split::Valid).pair(0);
    assert!(
        held_out.starts_with("Elk The Elk , Elk .") && references[0].starts_with("Elk is here .")
    );

    let data = read("ranking = \"order\"\ntitle = false\nmax_source = 9\nmax_target = 5");
    let (source, target) = written(&data, Split::Train, 0);
    assert_eq!(source, "An old wall . Of the Fox and </s>");
    assert_eq!(target, "<s> Fox is here .");
    assert_eq!((data.shape.context, data.train.size(0)), (9, 9));

    let data = read("lead_ends = 3");
    let (source, target) = written(&data, Split::Train, 0);
    assert_eq!(source, "Fox The Fox , Fox . </s>");
    assert_eq!(
        target,
        format!("<s> {lead} An old wall . Of the Fox and a wall . </s>")
    );
}

#[test]
fn a_random_order_is_the_same_for_every_run() {
    let titles: Vec<String> = (0..12).map(|n| format!("T{n}")).collect();
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    let folder = Folder::with(&[("a.txt", articles(&titles).as_bytes())]);
    let read = |ranking: &str| {
        let data = format!("kind = \"articles\"\npath = \"a.txt\"\nranking = \"{ranking}\"");
        let data = folder.prepare(&data, WORDS).unwrap();
        let sources: Vec<String> = (0..data.train.len() as u64)
            .map(|n| written(&data, Split::Train, n).0)
            .collect();
        let words = |text: &String| text.split(' ').map(str::to_owned).collect::<BTreeSet<_>>();
        let sets: Vec<_> = sources.iter().map(words).collect();
        (sources, sets)
    };
    let (random, in_order) = (read("random"), read("order"));
    assert_eq!(random.1, in_order.1, "other paragraphs");
    assert_ne!(random.0, in_order.0);
    assert_eq!(random, read("random"));
}

#[test]
fn splits_are_made_between_articles() {
    let titles: Vec<String> = (0..20).map(|n| format!("T{n}")).collect();
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    let folder = Folder::with(&[("a.txt", articles(&titles).as_bytes())]);
    let keys = "kind = \"articles\"\npath = \"a.txt\"\nvalid_fraction = 0.2\ntest_fraction = 0.1";
    let data = folder.prepare(keys, WORDS).unwrap();
    assert_eq!(data.train.len(), 14);
    let first = |text: &String| text.split(' ').next().unwrap().to_owned();
    let of = |split| {
        texts(&data, split)
            .sources
            .iter()
            .map(first)
            .collect::<Vec<_>>()
    };
    assert_eq!(of(Split::Valid), ["T14", "T15", "T16", "T17"]);
    assert_eq!(of(Split::Test), ["T18", "T19"]);
}

#[test]
fn articles_without_a_lead_or_sections_are_left_out() {
    let text = format!(
        "{} \n = Bare = \n \n Only a lead . \n",
        articles(&["Fox", "Owl"])
    );
    let folder = Folder::with(&[
        ("a.txt", text.as_bytes()),
        ("bare.txt", b" = Bare = \n \n Only a lead . \n"),
        ("prose.txt", b"No title at all .\n"),
    ]);
    let keys = |file: &str| format!("kind = \"articles\"\npath = \"{file}\"\nvalid_fraction = 0.0");
    let data = folder.prepare(&keys("a.txt"), WORDS).unwrap();
    assert_eq!((data.train.len(), data.left_out), (2, 1));
    let none = folder.refused(&keys("bare.txt"), WORDS);
    assert!(
        none.contains("none of the 1 article(s) of the train split"),
        "{none}"
    );
    let prose = folder.refused(&keys("prose.txt"), WORDS);
    assert!(
        prose.contains("begins with a line ` = Title = `"),
        "{prose}"
    );
}

#[test]
fn wikitext2() {
    if shared("wikitext2/train.txt").is_none() {
        return;
    }
    let folder = Folder::with(&[]);
    let keys = "kind = \"articles\"\npath = \"wikitext2/valid.txt\"\nvalid_path = \"wikitext2/test.txt\"\n\
                max_source = 400\nmax_target = 100";
    let data = folder.prepare(keys, WORDS).unwrap();
    assert_eq!((data.train.len(), data.left_out), (60, 0));
    assert_eq!(texts(&data, Split::Valid).len(), 60);
    for sample in 0..data.train.len() as u64 {
        let item = pair(&data.train, sample);
        assert!(item.source.len() <= 400 && (3..=100).contains(&item.target.len()));
    }
    let bytes = data.bytes_per_token.train.unwrap();
    assert!((4.0..7.0).contains(&bytes), "{bytes}");
}
