//! Generated pairs: correct forms, held-out pairs never trained on, exact lengths for measuring speed.

use std::collections::BTreeSet;

use super::pairs::{Folder, pair, texts};
use formwork::data::Split;

#[test]
fn generated_translations() {
    let folder = Folder::with(&[]);
    for kind in ["dates", "number_words"] {
        let keys = format!("kind = \"{kind}\"\nvalid_items = 200\ntest_items = 100");
        let data = folder.prepare(&keys, "").unwrap();
        let (valid, test) = (data.valid.as_ref().unwrap(), data.test.as_ref().unwrap());
        assert_eq!((valid.len(), test.len()), (200, 100));
        assert_eq!((valid.split(), test.split()), (Split::Valid, Split::Test));
        let forms = |texts: Vec<(String, String)>| -> BTreeSet<String> {
            texts.into_iter().map(|pair| pair.1).collect()
        };
        let held_out = texts(&data, valid);
        let known = data.pairs.valid.as_ref().unwrap();
        let same = |(i, pair): (usize, &(String, String))| {
            pair.0 == known.sources[i] && [pair.1.clone()] == *known.references[i]
        };
        assert!(held_out.iter().enumerate().all(same), "{kind}");
        let (valid, test) = (forms(held_out), forms(texts(&data, test)));
        let train = forms(texts(&data, &data.train));
        assert!(
            data.train.is_endless() && train.len() > 1000,
            "{kind}: {}",
            train.len()
        );
        assert!(
            train.is_disjoint(&valid) && train.is_disjoint(&test),
            "{kind}"
        );
        assert!(valid.is_disjoint(&test), "{kind}");
        for sample in 0..500 {
            let pair = pair(&data.train, sample);
            assert_eq!(
                data.train.size(sample),
                pair.source.len().max(pair.target.len())
            );
            assert!(data.train.size(sample) <= data.shape.context);
            let ids = pair.source.iter().chain(&pair.target);
            assert!(
                ids.into_iter()
                    .all(|id| (*id as usize) < data.shape.vocab_size)
            );
        }
    }
}

#[test]
fn random_pairs_have_exact_lengths() {
    let folder = Folder::with(&[]);
    let keys = "kind = \"random_pairs\"\nvocab_size = 8000\nsource_len = 24\ntarget_len = 32\nvalid_items = 3";
    let data = folder.prepare(keys, "").unwrap();
    let item = pair(&data.train, 5);
    assert_eq!((item.source.len(), item.target.len()), (24, 33));
    assert_eq!(item, pair(&data.train, 5));
    assert_ne!(item, pair(data.valid.as_ref().unwrap(), 1));
    assert_eq!((data.shape.context, data.shape.vocab_size), (32, 8000));
    assert_eq!(data.valid.unwrap().len(), 3);
    assert!(data.test.is_none());
}
