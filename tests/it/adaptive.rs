//! Adaptive inputs and adaptive softmax against torch's `AdaptiveLogSoftmaxWithLoss` and against Transformer-XL's classes,
//! rebuilt from their definition (`tests/goldens/make_adaptive.py`): outputs, losses and all gradients.

use crate::oracle::{Oracle, difference, values};
use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::{Device, Int, Tensor, TensorData};
use formwork::data::Shape;
use formwork::model::heads::VocabularyHead;
use formwork::model::{BuildContext, ModelConfig};
use formwork::nn::init::{Init, InitConfig};
use formwork::nn::linear::repacked_for_decoding;
use formwork::nn::vocabulary::{TokenHead, TokenTables, TokenVectors, VocabularyConfig};
use formwork::task::TaskConfig;
use formwork::train::checkpoint::weights;
use formwork::train::parameters::{self, name_parameters};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const VOCAB: usize = 30;
const TOLERANCE: f64 = 1e-5;

/// The adaptive embedding and the scores over one vocabulary, with their parameters.
#[derive(Module, Debug)]
struct Vocabulary {
    embedding: TokenVectors,
    head: Option<TokenHead>,
}

impl Vocabulary {
    fn new(keys: &Value, cutoffs: &[usize], vocab: usize, device: &Device) -> Self {
        let config = json!({
            "kind": "adaptive", "cutoffs": cutoffs, "d_embed": keys["d_embed"], "div_val": keys["div_val"],
            "tie_projs": keys["tie_projs"], "bias": keys["bias"],
        });
        let config: VocabularyConfig = serde_json::from_value(config).unwrap();
        let d_model = keys["d_model"].as_u64().unwrap() as usize;
        let tables = TokenTables {
            vocab,
            d_model,
            scale: (d_model as f64).sqrt(),
            norm: None,
            tied: keys["tied"].as_bool().unwrap(),
            head_bias: false,
        };
        let init = Init::new(device, 3, InitConfig::xavier(), 1, 1.0);
        name_parameters(Self {
            embedding: config.embedding(&tables, &init.part("embedding")),
            head: config.head(&tables, &init.part("head")),
        })
    }

    fn scores(&self) -> VocabularyHead<'_> {
        VocabularyHead {
            own: self.head.as_ref(),
            embedding: &self.embedding,
            bias: None,
            factor: 1.0,
            softcap: None,
        }
    }
}

/// One case of the golden file, with its parameters.
struct Case {
    oracle: Oracle,
    name: &'static str,
    module: Vocabulary,
}

impl Case {
    fn open(name: &'static str) -> Self {
        let oracle = Oracle::open("adaptive");
        let keys: Value = serde_json::from_str(&oracle.config()).unwrap();
        let module = Vocabulary::new(&keys[name], &[6, 15], VOCAB, &Device::flex().autodiff());
        let paths = parameters::list(&module).into_iter().map(|p| p.path);
        let prefix = format!("{name}.weight.");
        let named = oracle.names();
        let given: BTreeMap<String, TensorData> = named
            .iter()
            .filter_map(|name| Some((name, name.strip_prefix(&prefix)?)))
            .map(|(name, path)| {
                let array = oracle.array(name);
                (path.to_string(), TensorData::new(array.values, array.shape))
            })
            .collect();
        let paths: Vec<String> = paths.collect();
        assert!(
            given.keys().all(|path| paths.contains(path)),
            "{name}: {paths:?}"
        );
        // Torch's softmax has no input embeddings.
        let absent = paths.iter().filter(|path| !given.contains_key(*path));
        assert!(
            absent
                .clone()
                .all(|path| name.starts_with("torch") && path.starts_with("embedding.")),
            "{name}: nothing is given for {:?}",
            absent.collect::<Vec<_>>()
        );
        let module = weights::fill(module, given).unwrap();
        Self {
            oracle,
            name,
            module,
        }
    }

    fn theirs(&self, what: &str) -> Vec<f32> {
        self.oracle.array(&format!("{}.{what}", self.name)).values
    }

    fn integers<const D: usize>(&self, what: &str) -> Tensor<D, Int> {
        let (shape, values) = self.oracle.integers(&format!("{}.{what}", self.name));
        Tensor::from_data(TensorData::new(values, shape), &Device::flex().autodiff())
    }

    fn equal(&self, what: &str, ours: &[f32]) {
        let off = difference(ours, &self.theirs(what));
        assert!(off < TOLERANCE, "{}: {what} is off by {off:e}", self.name);
    }

    /// Checks log-probabilities, the loss and the correct predictions for hidden states `[batch, seq, d_model]`, then all
    /// gradients.
    fn scored(&self, hidden: Tensor<3>, leaf: Option<&Tensor<3>>) {
        let [batch, seq, _] = hidden.dims();
        let head = self.module.scores();
        let log_p = head.logits(hidden.clone());
        let best = log_p.clone().argmax(2).reshape([batch * seq]);
        self.equal("log_probabilities", &values(log_p));
        let targets = self.integers::<1>("targets");
        let hits = best.equal(targets.clone()).float();
        let loss = head.loss(hidden, targets, 0.0, true);
        self.equal("loss", &values(loss.sum.clone()));
        assert_eq!(values(loss.is_correct), values(hits), "{}", self.name);
        let grads = loss.sum.backward();
        if let Some(leaf) = leaf {
            self.equal("grad.hidden", &values(leaf.grad(&grads).unwrap()));
        }
        let grads = GradientsParams::from_grads(grads, &self.module);
        let named = self.oracle.names();
        for parameter in parameters::list(&self.module) {
            let what = format!("grad.{}", parameter.path);
            if !named.contains(&format!("{}.{what}", self.name)) {
                assert!(self.name.starts_with("torch"), "{}: {what}", self.name);
                continue;
            }
            let ours = match parameter.shape.len() {
                1 => grads.get::<1>(parameter.id).map(values),
                _ => grads.get::<2>(parameter.id).map(values),
            };
            let ours = ours.unwrap_or_else(|| panic!("{}: no {what}", self.name));
            self.equal(&what, &ours);
        }
    }
}

#[test]
fn torch_s_adaptive_softmax() {
    for name in ["torch_1", "torch_2"] {
        let case = Case::open(name);
        let hidden = case.oracle.array(&format!("{name}.hidden"));
        let [rows, d] = [hidden.shape[0], hidden.shape[1]];
        let data = TensorData::new(hidden.values, [1, rows, d]);
        let hidden = Tensor::<3>::from_data(data, &Device::flex().autodiff()).require_grad();
        case.scored(hidden.clone(), Some(&hidden));
    }
}

#[test]
fn transformer_xl_s_vectors_and_softmax() {
    for name in [
        "plain",
        "projected",
        "projected_tied",
        "halved",
        "halved_bare",
        "quartered",
        "quartered_untied",
        "unread",
    ] {
        let case = Case::open(name);
        let vectors = case.module.embedding.forward(case.integers::<2>("ids"));
        case.equal("vectors", &values(vectors.clone()));
        case.scored(vectors.tanh(), None);
    }
}

fn keys(div_val: usize) -> Value {
    json!({ "d_model": 48, "d_embed": 48, "div_val": div_val, "tied": true, "tie_projs": "none", "bias": true })
}

/// Hidden states and targets that fall into several clusters; every ninth position has no target.
fn problem(device: &Device) -> (Tensor<2, Int>, Tensor<1, Int>) {
    let ids: Vec<i32> = (0..600).map(|i| (i * i * 7 + i * 13) % 3000).collect();
    let targets = (0..600).map(|i| {
        if i % 9 == 0 {
            -100
        } else {
            (i * i * 5 + 3) % 3000
        }
    });
    let targets: Vec<i32> = targets.collect();
    (
        Tensor::from_data(TensorData::new(ids, [4, 150]), device),
        Tensor::from_data(TensorData::new(targets, [600]), device),
    )
}

#[test]
fn the_same_bits_on_one_thread() {
    let device = Device::flex().autodiff();
    let run = || -> Vec<Vec<u32>> {
        let module = Vocabulary::new(&keys(4), &[200, 1000], 3000, &device);
        let (ids, targets) = problem(&device);
        let hidden = module.embedding.forward(ids).tanh();
        let loss = module.scores().loss(hidden, targets, 0.0, false).sum;
        let bits = |x: Vec<f32>| x.into_iter().map(f32::to_bits).collect::<Vec<u32>>();
        let mut all = vec![bits(values(loss.clone()))];
        let grads = GradientsParams::from_grads(loss.backward(), &module);
        for parameter in parameters::list(&module) {
            all.push(bits(match parameter.shape.len() {
                1 => values(grads.get::<1>(parameter.id).unwrap()),
                _ => values(grads.get::<2>(parameter.id).unwrap()),
            }));
        }
        all
    };
    let alone = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .unwrap();
    assert!(alone.install(run) == run());
}

/// The probabilities of all tokens sum to 1, and a model stored for decoding gives the same ones.
#[test]
fn log_probabilities_are_those_of_the_whole_vocabulary() {
    let device = Device::flex();
    for div_val in [1, 2] {
        let module = Vocabulary::new(&keys(div_val), &[200, 1000], 3000, &device);
        let (ids, _) = problem(&device);
        let hidden = module.embedding.forward(ids).narrow(1, 0, 2);
        let log_p = module.scores().logits(hidden.clone());
        for sum in values(log_p.clone().exp().sum_dim(2)) {
            assert!((sum - 1.0).abs() < 1e-4, "{sum}");
        }
        let stored = repacked_for_decoding(module);
        let again = values(stored.scores().logits(hidden));
        assert!(difference(&again, &values(log_p)) < 1e-6);
    }
}

/// The number of parameters follows the formula, with a first cluster of frequent tokens and a wide tail.
#[test]
fn parameters_are_counted() {
    let count = |keys: Value| {
        let module = Vocabulary::new(&keys, &[200, 1000], 3000, &Device::flex());
        parameters::count(&module)
    };
    let biases = 3000 + 2;
    assert_eq!(count(keys(1)), 3000 * 48 + 2 * 48 + biases);
    // Embedding widths of 48, 12 and 3; projections in both directions.
    let tables = 200 * 48 + 800 * 12 + 2000 * 3;
    let projections = 2 * 48 * (48 + 12 + 3);
    assert_eq!(count(keys(4)), tables + projections + 2 * 48 + biases);
    let mut tied = keys(4);
    tied["tie_projs"] = "tails".into();
    let shared = 48 * (12 + 3);
    assert_eq!(count(tied), tables + projections - shared + 2 * 48 + biases);
}

#[test]
fn cutoffs_beyond_the_vocabulary_are_an_error() {
    let model = json!({ "kind": "decoder", "n_layers": 1, "vocabulary": { "kind": "adaptive", "cutoffs": [20, 40] } });
    let model: ModelConfig = serde_json::from_value(model).unwrap();
    let task: TaskConfig = serde_json::from_value(json!({ "kind": "causal_lm" })).unwrap();
    let init = |vocab: usize| {
        let inputs = BuildContext {
            shape: &Shape::of_text(8, vocab),
            seed: 1,
            device: &Device::flex(),
        };
        task.init(&model, &inputs, false).map(|_| ())
    };
    assert!(init(41).is_ok());
    let error = init(40).unwrap_err();
    assert_eq!(
        error.to_string(),
        "[model.vocabulary] cutoffs = [20, 40]: the last one must be below the 40 tokens of the vocabulary, which has no \
         token 40"
    );
    assert_eq!(error.exit_status(), 2);
}
