//! Admin's residual scales against admin-torch's modules and the formula of the paper (`tests/goldens/make_admin.py`), and what
//! is refused.

use crate::diagnostics::says;
use crate::oracle::{Oracle, difference, values};
use crate::transfer::{Arrays, gradients_of, put, values_of};
use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::{Device, Int, Tensor, TensorData};
use formwork::data::Shape;
use formwork::model::decoder::DecoderInput;
use formwork::model::{
    BuildContext, DecoderConfig, EncoderDecoder, EncoderDecoderConfig, LanguageModel,
};
use formwork::nn::branches::ResidualMoments;
use formwork::nn::pass::Pass;
use formwork::stack::residual_scale::admin;
use formwork::train::parameters::{materialize, name_parameters};
use serde_json::{Value, json};

fn keys(own: Value) -> Value {
    let mut keys = json!({
        "d_model": 8, "norm_placement": "post", "residual_scale": { "kind": "admin" }, "tie_embeddings": true,
        "attention": { "kind": "multi_head", "n_heads": 2 },
        "feed_forward": { "kind": "dense", "d_ff": 16, "activation": "gelu" },
    });
    let Value::Object(own) = own else {
        unreachable!("a table")
    };
    keys.as_object_mut().unwrap().extend(own);
    keys
}

struct Case {
    name: &'static str,
    oracle: Oracle,
}

impl Case {
    fn new(name: &'static str) -> Self {
        let oracle = Oracle::open("admin");
        Self { name, oracle }
    }

    fn ids(&self, name: &str) -> Tensor<2, Int> {
        let (shape, ids) = self.oracle.integers(&format!("{}.{name}", self.name));
        Tensor::from_data(TensorData::new(ids, shape), &Device::flex().autodiff())
    }

    /// The module with the oracle's weights; residual scales are 1.
    fn weights<M: Module>(&self, module: M) -> M {
        let module = materialize(name_parameters(module));
        let mut arrays = values_of(&module);
        for (path, array) in &mut arrays {
            match path.ends_with(".omega") {
                true => assert!(array.values.iter().all(|x| *x == 1.0), "{path}"),
                false => *array = self.oracle.array(&format!("{}.weight.{path}", self.name)),
            }
        }
        put(module, &arrays)
    }

    /// Checks the residual scales of a stack against the oracle's, connection by connection; each is the same for all channels.
    fn scales(&self, found: &Arrays, stack: &str, theirs: &str) {
        let wanted = self
            .oracle
            .doubles(&format!("{}.omegas.{theirs}", self.name));
        let crosses = theirs == "decoder" && self.name == "encoder_decoder";
        let parts: &[&str] = match crosses {
            true => &[
                "attention_residual",
                "cross.residual",
                "feed_forward_residual",
            ],
            false => &["attention_residual", "feed_forward_residual"],
        };
        assert_eq!(wanted.len(), 3 * parts.len());
        for (number, wanted) in wanted.into_iter().enumerate() {
            let (block, part) = (number / parts.len(), parts[number % parts.len()]);
            let path = format!("{stack}.blocks.{block}.{part}.skip.omega");
            for found in &found[&path].values {
                let off = (f64::from(*found) / wanted - 1.0).abs();
                assert!(off < 1e-6, "{path}: {found} in place of {wanted}");
            }
        }
    }

    /// Checks logits and gradients of a module with its scales.
    fn passes<M: Module>(&self, module: &M, logits: Tensor<3>) {
        let stored = |name: &str| self.oracle.array(&format!("{}.{name}", self.name));
        let off = difference(&values(logits.clone()), &stored("logits").values);
        assert!(off < 5e-6, "{}: scores are off by {off:e}", self.name);
        let weights = stored("weights");
        let weights = TensorData::new(weights.values, weights.shape);
        let weights = Tensor::<3>::from_data(weights, &logits.device());
        let gradients = (logits * weights).sum().backward();
        let gradients = GradientsParams::from_grads(gradients, module);
        for (path, array) in gradients_of(module, &gradients) {
            let off = difference(&array.values, &stored(&format!("grad.{path}")).values);
            assert!(off < 1e-4, "{}: {path} is off by {off:e}", self.name);
        }
    }
}

fn shape() -> Shape {
    Shape::of_text(6, 11)
}

#[test]
fn a_decoder_begins_and_learns_as_admin_torch_s() {
    let case = Case::new("decoder");
    let config = keys(json!({ "n_layers": 3, "position": { "kind": "learned" } }));
    let config: DecoderConfig = serde_json::from_value(config).unwrap();
    let model = case.weights(config.init(&BuildContext {
        shape: &shape(),
        seed: 5,
        device: &Device::flex().autodiff(),
    }));
    let of = |ids| DecoderInput::new(ids);
    // One row after the other, as runs measure the scales.
    let mut branches = ResidualMoments::default();
    for row in 0..3 {
        let pass = Pass::evaluation().with_branch_measurement(branches);
        model.forward(of(case.ids("ids").narrow(0, row, 1)), None, &pass);
        branches = pass.take_branches();
    }
    let model = admin::with_measured_scales(model, &branches).unwrap();
    case.scales(&values_of(&model), "stack", "decoder");
    let hidden = model.forward(of(case.ids("ids")), None, &Pass::evaluation());
    case.passes(&model, model.logits(hidden));
}

#[test]
fn an_encoder_decoder_begins_and_learns_as_admin_torch_s() {
    let case = Case::new("encoder_decoder");
    let config = keys(json!({
        "n_encoder_layers": 3, "n_decoder_layers": 3, "position": { "kind": "none" },
    }));
    let config: EncoderDecoderConfig = serde_json::from_value(config).unwrap();
    let model = case.weights(config.init(&BuildContext {
        shape: &shape(),
        seed: 5,
        device: &Device::flex().autodiff(),
    }));
    let hidden = |model: &EncoderDecoder, pass: &Pass| {
        let source = model.encode(case.ids("source"), None, pass);
        model.decode(case.ids("ids"), &source, None, pass)
    };
    let pass = Pass::evaluation().with_branch_measurement(ResidualMoments::default());
    hidden(&model, &pass);
    let model = admin::with_measured_scales(model, &pass.take_branches()).unwrap();
    let found = values_of(&model);
    case.scales(&found, "encoder.stack", "encoder");
    case.scales(&found, "decoder.stack", "decoder");
    let states = hidden(&model, &Pass::evaluation());
    case.passes(&model, model.logits(states));
}

const HEADER: &str = r#"name = "admin"
[model]
kind = "decoder"
norm_placement = "post"
residual_scale = { kind = "admin" }
[tokenizer]
kind = "char"
[data]
kind = "text"
path = "text.txt"
context = 8
[task]
kind = "causal_lm"
[optimizer]
kind = "adamw"
lr = 1e-2
[train]
steps = 8
"#;

#[test]
fn what_skips_cannot_be_is_refused() {
    for (from, to, rule) in [
        (
            "\"post\"",
            "\"pre\"",
            "x.toml:5: [model.residual_scale] kind = \"admin\" scales the residual sums before a norm, but norm_placement is \
             \"pre\"; set it to \"post\"",
        ),
        (
            "\"post\"",
            "\"deepnorm\"",
            "norm_placement is \"deepnorm\"; set it to \"post\"",
        ),
        (
            "\"admin\" }",
            "\"admin\" }\nshare_layers = { kind = \"all\" }",
            "layers that share parameters (share_layers) have one scale; remove one of them",
        ),
        (
            "\"admin\" }",
            "\"admin\", examples = 0 }",
            "x.toml:5: [model.residual_scale] examples = 0 is not between 1 and 4096",
        ),
        (
            "kind = \"admin\"",
            "kind = \"admn\"",
            "did you mean `admin`?",
        ),
    ] {
        let text = HEADER.replacen(from, to, 1);
        assert_ne!(text, HEADER, "{from}");
        says(&text, rule);
    }
}
