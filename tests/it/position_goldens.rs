//! Position schemes with relative position vectors, against brute force, against the attention of Transformer-XL's released
//! code, and against HF's XLNet, DeBERTa and DeBERTa-v2 in whole small models; learned tables of two axes against HF's Reformer
//! and by hand (`tests/goldens/make_relative.py`).

use crate::oracle::{Oracle, difference, values, write_weights};
use crate::transfer::gradients_of;
use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::{Device, Int, Tensor, TensorData};
use formwork::data::Shape;
use formwork::interop::weights::Array;
use formwork::model::decoder::DecoderInput;
use formwork::model::encoder::EncoderInput;
use formwork::model::{BuildContext, LanguageModel, ModelConfig};
use formwork::nn::init::{Init, InitConfig};
use formwork::nn::pass::Pass;
use formwork::nn::position::axial::{Axial, AxialConfig};
use formwork::nn::position::learned_2d::{Learned2d, Learned2dConfig};
use formwork::nn::position::{Grid, PositionScheme, PositionShape, TokenPositions, disentangled};
use formwork::train::checkpoint::load_weights;
use formwork::train::parameters::{self, name_parameters};
use serde_json::{Value, json};

/// Largest difference, relative to the largest value.
const TOLERANCE: f64 = 1e-4;

/// The models of the oracle.
const CASES: [&str; 14] = [
    "shaw_causal",
    "shaw_heads",
    "shaw_biases",
    "xl_causal",
    "xl_clamped",
    "xl_both_ways",
    "disentangled_causal",
    "disentangled_c2p",
    "disentangled_p2c",
    "memtransformer_partial",
    "memtransformer_learnable",
    "xlnet",
    "deberta",
    "deberta_v2",
];

struct Case {
    oracle: Oracle,
    name: String,
    config: Value,
    ids: Tensor<2, Int>,
}

impl Case {
    fn open(name: &str) -> Self {
        let oracle = Oracle::open(&format!("relative_{name}"));
        let (shape, ids) = oracle.integers("ids");
        Self {
            config: serde_json::from_str(&oracle.config()).unwrap(),
            ids: Tensor::from_data(TensorData::new(ids, shape), &Device::flex()),
            name: name.into(),
            oracle,
        }
    }

    fn shape(&self) -> Shape {
        let number = |key: &str| self.config[key].as_u64().unwrap() as usize;
        Shape::of_text(number("context"), number("vocab"))
    }

    /// Loads the oracle's weights into a module. Key biases that shift all scores of a query alike are not in the file.
    fn loaded<M: Module>(&self, module: M) -> M {
        let module = name_parameters(module);
        let mut arrays = self.oracle.arrays(|name| name.strip_prefix("weight."));
        for parameter in parameters::list(&module) {
            if parameter.path.ends_with("key.bias") {
                let shape = parameter.shape.clone();
                let values = vec![0.0; shape.iter().product()];
                arrays
                    .entry(parameter.path)
                    .or_insert(Array { shape, values });
            }
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        write_weights(file.path(), &arrays);
        load_weights(module, file.path()).unwrap()
    }

    /// Compares hidden states and gradients of a module with the oracle's.
    fn check<M: Module>(&self, module: &M, hidden: Tensor<3>) {
        let theirs = self.oracle.array("hidden");
        let [_, seq, d] = hidden.dims();
        let mut ours = values(hidden.clone());
        for (row, length) in self.lengths().into_iter().flatten().enumerate() {
            ours[(row * seq + length) * d..(row + 1) * seq * d].fill(0.0);
        }
        let off = difference(&ours, &theirs.values);
        println!("{}: hidden states are off by {off:.1e}", self.name);
        assert!(off < TOLERANCE, "{}: hidden states, {off:e}", self.name);
        let cotangent = self.oracle.array("cotangent");
        let cotangent = TensorData::new(cotangent.values, cotangent.shape);
        let cotangent = Tensor::<3>::from_data(cotangent, &hidden.device());
        let gradients = (hidden * cotangent).sum().backward();
        let found = gradients_of(module, &GradientsParams::from_grads(gradients, module));
        let mut compared = 0;
        for name in self.oracle.names() {
            let Some(path) = name.strip_prefix("grad.") else {
                continue;
            };
            let theirs = self.oracle.array(&name);
            assert_eq!(found[path].shape, theirs.shape, "{}: {path}", self.name);
            let off = difference(&found[path].values, &theirs.values);
            assert!(off < TOLERANCE, "{}: {path} by {off:e}", self.name);
            compared += 1;
        }
        assert!(compared >= 17, "{}", self.name);
    }

    fn lengths(&self) -> Option<Vec<usize>> {
        let lengths = self.config.get("lengths")?.as_array()?.iter();
        Some(lengths.map(|n| n.as_u64().unwrap() as usize).collect())
    }
}

#[test]
fn whole_models_are_the_oracles() {
    let device = Device::flex().autodiff();
    for name in CASES {
        let case = Case::open(name);
        let model: ModelConfig = serde_json::from_value(case.config["model"].clone()).unwrap();
        let shape = case.shape();
        let inputs = BuildContext {
            shape: &shape,
            seed: 1,
            device: &device,
        };
        let ids = Tensor::from_data(case.ids.to_data(), &device);
        match &model {
            ModelConfig::Decoder(config) => {
                let model = case.loaded(config.init(&inputs));
                let hidden = model.forward(DecoderInput::new(ids), None, &Pass::evaluation());
                case.check(&model, hidden);
            }
            ModelConfig::Encoder(config) => {
                let model = case.loaded(config.init(&inputs));
                let input = EncoderInput {
                    ids,
                    segments: None,
                    lengths: case.lengths(),
                    globals: None,
                };
                case.check(&model, model.forward(input, &Pass::evaluation()));
            }
            other => panic!("{} has no oracle here", other.kind()),
        }
    }
}

/// DeBERTa-v2's logarithmic buckets, including those beyond the largest distance.
#[test]
fn buckets_are_hf_s() {
    let oracle = Oracle::open("relative_buckets");
    assert_eq!(oracle.names().len(), 5);
    for name in oracle.names() {
        let (_, theirs) = oracle.integers(&name);
        let (buckets, furthest) = name.split_once('.').unwrap();
        let [buckets, furthest] = [buckets, furthest].map(|n| n.parse().unwrap());
        for (distance, theirs) in (-700..=700).zip(theirs) {
            let ours = disentangled::bucket(distance, buckets, furthest);
            assert_eq!(ours, i64::from(theirs), "{name}: {distance}");
        }
    }
}

fn shape(d_model: usize, context: usize, grid: Option<Grid>) -> PositionShape {
    PositionShape {
        d_model,
        n_heads: 2,
        d_head: 3,
        n_layers: 1,
        context,
        causal: false,
        grid,
        layers_without_attention: Vec::new(),
        layers_sharing_parameters: Vec::new(),
        dropout: 0.0,
    }
}

#[test]
fn axial_positions_are_reformer_s() {
    let (oracle, device) = (Oracle::open("relative_axial"), Device::flex().autodiff());
    let init = Init::new(&device, 1, InitConfig::default(), 2, 1.0);
    let config = AxialConfig {
        axial_shape: Some([3, 4]),
        axial_widths: Some([2, 4]),
        ..AxialConfig::default()
    };
    let scheme = name_parameters(Axial::new(&config, &shape(6, 12, None), &init));
    let file = tempfile::NamedTempFile::new().unwrap();
    let tables = oracle.arrays(|name| ["rows", "columns"].contains(&name).then_some(name));
    write_weights(file.path(), &tables);
    let scheme = load_weights(scheme, file.path()).unwrap();
    let at = |offset: usize, seq: usize, ids: Option<&[i32]>| {
        let places = TokenPositions {
            offset,
            ids: ids.map(|ids| {
                let data = TensorData::new(ids.to_vec(), [1, ids.len()]);
                Tensor::<2, Int>::from_data(data, &device)
            }),
            segments: None,
        };
        scheme.embed(Tensor::zeros([1, seq, 6], &device), &places)
    };
    let some = oracle.array("positions").values;
    assert!(difference(&values(at(5, 4, None)), &some) < 1e-6);
    assert!(difference(&values(at(0, 4, Some(&[5, 6, 7, 8]))), &some) < 1e-6);
    let whole = at(0, 12, None);
    assert!(difference(&values(whole.clone()), &oracle.array("whole").values) < 1e-6);
    let cotangent = oracle.array("cotangent");
    let cotangent = TensorData::new(cotangent.values, cotangent.shape);
    let grads = (whole * Tensor::<3>::from_data(cotangent, &device))
        .sum()
        .backward();
    let found = gradients_of(&scheme, &GradientsParams::from_grads(grads, &scheme));
    for name in ["rows", "columns"] {
        let theirs = oracle.array(&format!("grad.{name}")).values;
        assert!(difference(&found[name].values, &theirs) < 1e-6, "{name}");
    }
}

/// Patch (y, x) of a grid gets the vectors of column x and row y; the class token has its own vector before them.
#[test]
fn patches_have_the_vectors_of_their_row_and_column() {
    let device = Device::flex();
    let init = Init::new(&device, 7, InitConfig::default(), 2, 1.0);
    let (rows, cols) = (2, 3);
    for (joined, class_token) in [("halves", true), ("halves", false), ("sum", true)] {
        let config: Learned2dConfig = serde_json::from_value(json!({ "joined": joined })).unwrap();
        let grid = Grid {
            rows,
            cols,
            class_token,
        };
        let scheme = Learned2d::new(&config, &shape(6, grid.positions(), Some(grid)), &init);
        let places = TokenPositions {
            offset: 0,
            ids: None,
            segments: None,
        };
        let found = values(scheme.embed(Tensor::zeros([1, grid.positions(), 6], &device), &places));
        let [of_rows, of_columns] = [&scheme.rows, &scheme.columns]
            .map(|table| (table.val().dims()[1], values(table.val())));
        let vector = |(width, table): &(usize, Vec<f32>), n: usize| {
            table[n * width..(n + 1) * width].to_vec()
        };
        let mut wanted = match &scheme.class_token {
            Some(token) => values(token.val()),
            None => Vec::new(),
        };
        for (y, x) in (0..rows).flat_map(|y| (0..cols).map(move |x| (y, x))) {
            let (column, row) = (vector(&of_columns, x), vector(&of_rows, y));
            match joined {
                "halves" => wanted.extend([column, row].concat()),
                _ => wanted.extend(column.iter().zip(&row).map(|(a, b)| a + b)),
            }
        }
        assert_eq!(found, wanted, "{joined}");
    }
}
