//! Metrics of text and of classes against sacreBLEU, rouge-score and scikit-learn (`tests/goldens/make_text_metrics.py`): every
//! number within 1e-9 of theirs, every printed line the same.

use formwork::evaluate::PrecisionRecall;
use formwork::evaluate::bleu::{Bleu, BleuOptions, BleuTokenizer, Smoothing};
use formwork::evaluate::chrf::{Chrf, ChrfOptions};
use formwork::evaluate::classification::{Confusion, TopK};
use formwork::evaluate::rouge::{Rouge, RougeOptions, RougeScores};
use formwork::evaluate::ter::{Ter, TerOptions};
use serde_json::{Map, Value};

fn golden() -> Value {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens");
    let text = std::fs::read_to_string(folder.join("text_metrics.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    list(value).iter().map(|v| v.as_f64().unwrap()).collect()
}

fn integers(value: &Value) -> Vec<usize> {
    list(value)
        .iter()
        .map(|v| v.as_u64().unwrap() as usize)
        .collect()
}

fn strings(value: &Value) -> Vec<&str> {
    list(value).iter().map(|v| v.as_str().unwrap()).collect()
}

fn assert_near(ours: &[f64], theirs: &[f64], what: &str) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    for (i, (a, b)) in ours.iter().zip(theirs).enumerate() {
        assert!(
            (a - b).abs() <= 1e-9 * b.abs().max(1e-12),
            "{what}, number {i}: {a} instead of {b}"
        );
    }
}

/// One metric for each combination of options, in the golden file's order.
struct Metrics {
    bleu: Vec<Bleu>,
    chrf: Vec<Chrf>,
    ter: Vec<Ter>,
    rouge: Vec<Rouge>,
}

impl Metrics {
    fn new(options: &Value) -> Self {
        let all = |kind: &str| list(&options[kind]).iter().map(|o| o.as_object());
        Self {
            bleu: all("bleu")
                .map(|o| Bleu::new(bleu_options(o.unwrap())))
                .collect(),
            chrf: all("chrf")
                .map(|o| Chrf::new(chrf_options(o.unwrap())))
                .collect(),
            ter: all("ter")
                .map(|o| Ter::new(ter_options(o.unwrap())))
                .collect(),
            rouge: list(&options["rouge_stemmer"])
                .iter()
                .map(|stemmer| stemmer.as_bool().unwrap())
                .map(|stemmer| Rouge::new(RougeOptions { stemmer }))
                .collect(),
        }
    }

    fn add(&mut self, hypothesis: &str, references: &[&str]) {
        self.bleu
            .iter_mut()
            .for_each(|m| m.add(hypothesis, references));
        self.chrf
            .iter_mut()
            .for_each(|m| m.add(hypothesis, references));
        self.ter
            .iter_mut()
            .for_each(|m| m.add(hypothesis, references));
        for metric in &mut self.rouge {
            metric.add(hypothesis, references);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.bleu
            .iter_mut()
            .zip(&other.bleu)
            .for_each(|(a, b)| a.merge(b));
        self.chrf
            .iter_mut()
            .zip(&other.chrf)
            .for_each(|(a, b)| a.merge(b));
        self.ter
            .iter_mut()
            .zip(&other.ter)
            .for_each(|(a, b)| a.merge(b));
        self.rouge
            .iter_mut()
            .zip(&other.rouge)
            .for_each(|(a, b)| a.merge(b));
    }

    /// Returns only the scores, as the golden file keeps them for one sentence.
    fn scores(&self) -> Vec<f64> {
        let bleu = self.bleu.iter().map(|m| m.score().score);
        let chrf = self.chrf.iter().map(|m| m.score().score);
        let ter = self.ter.iter().map(|m| m.score().score);
        let rouge = self
            .rouge
            .iter()
            .flat_map(|m| rouges(m.score()).map(|s| s.f1));
        bleu.chain(chrf).chain(ter).chain(rouge).collect()
    }

    /// Returns the scores with their components, as the golden file keeps them for a corpus.
    fn breakdown(&self) -> Vec<f64> {
        let mut all = Vec::new();
        for score in self.bleu.iter().map(Bleu::score) {
            all.push(score.score);
            all.extend(score.precisions);
            all.extend([
                score.brevity_penalty,
                score.sys_len as f64,
                score.ref_len as f64,
            ]);
        }
        all.extend(self.chrf.iter().map(|m| m.score().score));
        for score in self.ter.iter().map(Ter::score) {
            all.extend([score.score, score.edits as f64, score.ref_len]);
        }
        for score in self.rouge.iter().flat_map(|m| rouges(m.score())) {
            all.extend(three(score));
        }
        all
    }

    fn lines(&self) -> Vec<String> {
        let bleu = self.bleu.iter().map(|m| m.score().to_string());
        let chrf = self.chrf.iter().map(|m| m.score().to_string());
        let ter = self.ter.iter().map(|m| m.score().to_string());
        bleu.chain(chrf).chain(ter).collect()
    }

    fn signatures(&self) -> Vec<String> {
        let bleu = self.bleu.iter().map(Bleu::signature);
        let chrf = self.chrf.iter().map(Chrf::signature);
        bleu.chain(chrf)
            .chain(self.ter.iter().map(Ter::signature))
            .collect()
    }
}

fn rouges(scores: RougeScores) -> [PrecisionRecall; 4] {
    [
        scores.rouge_1,
        scores.rouge_2,
        scores.rouge_l,
        scores.rouge_lsum,
    ]
}

fn three(score: PrecisionRecall) -> [f64; 3] {
    [score.precision, score.recall, score.f1]
}

/// Maps sacreBLEU's keyword arguments to Formwork's options; panics on unknown ones.
fn bleu_options(given: &Map<String, Value>) -> BleuOptions {
    let mut options = BleuOptions::default();
    let value = |or: f64| {
        given
            .get("smooth_value")
            .map_or(or, |v| v.as_f64().unwrap())
    };
    for (key, argument) in given {
        match (key.as_str(), argument.as_str()) {
            ("tokenize", Some(_)) => {
                options.tokenizer =
                    serde_json::from_value::<BleuTokenizer>(argument.clone()).unwrap();
            }
            ("lowercase", None) => options.lowercase = argument.as_bool().unwrap(),
            ("effective_order", None) => options.effective_order = argument.as_bool().unwrap(),
            ("smooth_method", Some("none")) => options.smoothing = Smoothing::None,
            ("smooth_method", Some("floor")) => options.smoothing = Smoothing::Floor(value(0.1)),
            ("smooth_method", Some("add-k")) => options.smoothing = Smoothing::AddK(value(1.0)),
            ("smooth_value", None) => {}
            (key, _) => panic!("option {key}"),
        }
    }
    options
}

fn chrf_options(given: &Map<String, Value>) -> ChrfOptions {
    let mut options = ChrfOptions::default();
    for (key, value) in given {
        let number = || value.as_u64().unwrap() as usize;
        match key.as_str() {
            "char_order" => options.char_order = number(),
            "word_order" => options.word_order = number(),
            "beta" => options.beta = number() as u32,
            "lowercase" => options.lowercase = value.as_bool().unwrap(),
            "whitespace" => options.whitespace = value.as_bool().unwrap(),
            "eps_smoothing" => options.eps_smoothing = value.as_bool().unwrap(),
            _ => panic!("option {key}"),
        }
    }
    options
}

fn ter_options(given: &Map<String, Value>) -> TerOptions {
    let mut options = TerOptions::default();
    for (key, value) in given {
        let on = value.as_bool().unwrap();
        match key.as_str() {
            "case_sensitive" => options.case_sensitive = on,
            "normalized" => options.normalized = on,
            "no_punct" => options.no_punct = on,
            _ => panic!("option {key}"),
        }
    }
    options
}

#[test]
fn sentences_score_as_in_the_references() {
    let golden = golden();
    let (segments, expected) = (list(&golden["segments"]), list(&golden["sentence"]));
    assert!(segments.len() >= 250 && segments.len() == expected.len());
    for (segment, expected) in segments.iter().zip(expected) {
        let texts = strings(segment);
        for system in [0, 1] {
            let mut metrics = Metrics::new(&golden["options"]);
            metrics.add(texts[system], &texts[2..]);
            assert_near(
                &metrics.scores(),
                &numbers(&expected[system]),
                &format!("{texts:?}, hypothesis {system}"),
            );
        }
    }
}

#[test]
fn corpora_score_as_in_the_references() {
    let golden = golden();
    for (number, corpus) in list(&golden["corpus"]).iter().enumerate() {
        let system = corpus["system"].as_u64().unwrap() as usize;
        let mut whole = Metrics::new(&golden["options"]);
        let mut sum = Metrics::new(&golden["options"]);
        for batch in list(&corpus["chosen"]).chunks(7) {
            let mut part = Metrics::new(&golden["options"]);
            for chosen in batch.iter().map(integers) {
                let texts = strings(&golden["segments"][chosen[0]]);
                whole.add(texts[system], &texts[2..2 + chosen[1]]);
                part.add(texts[system], &texts[2..2 + chosen[1]]);
            }
            sum.merge(&part);
        }
        for metrics in [whole, sum] {
            let what = format!("corpus {number}");
            assert_near(&metrics.breakdown(), &numbers(&corpus["scores"]), &what);
            assert_eq!(metrics.lines(), strings(&corpus["lines"]), "{what}");
            assert_eq!(
                metrics.signatures(),
                strings(&corpus["signatures"]),
                "{what}"
            );
        }
    }
}

#[test]
fn classes_score_as_in_scikit_learn() {
    for case in list(&golden()["classes"]) {
        let n_classes = case["classes"].as_u64().unwrap() as usize;
        let (truth, predicted) = (integers(&case["truth"]), integers(&case["predicted"]));
        let scores: Vec<Vec<f32>> = list(&case["scores"])
            .iter()
            .map(|row| numbers(row).iter().map(|v| *v as f32).collect())
            .collect();

        let mut confusion = Confusion::new((0..n_classes).map(|c| c.to_string()).collect());
        let mut tops: Vec<TopK> = (1..n_classes).map(TopK::new).collect();
        for (i, truth) in truth.iter().enumerate() {
            confusion.add(*truth, predicted[i]);
            for top in &mut tops {
                top.add(&scores[i], *truth);
            }
        }
        let near = |ours: &[f64], key: &str| assert_near(ours, &numbers(&case[key]), key);
        near(&three(confusion.macro_average()), "macro");
        near(&three(confusion.micro_average()), "micro");
        if n_classes == 2 {
            near(&three(confusion.binary()), "binary");
        }
        near(
            &tops.iter().map(TopK::accuracy).collect::<Vec<f64>>(),
            "top",
        );
        let single = [confusion.matthews(), confusion.accuracy()];
        let expected = [&case["matthews"], &case["accuracy"]].map(|v| v.as_f64().unwrap());
        assert_near(&single, &expected, "matthews and accuracy");
        for (truth, row) in list(&case["confusion"]).iter().enumerate() {
            for (predicted, count) in integers(row).into_iter().enumerate() {
                assert_eq!(confusion.count(truth, predicted), count as u64);
            }
        }
    }
}
