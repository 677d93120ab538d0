//! torchvision's residual networks (`tests/goldens/make_vision.py`): outputs, gradients and running averages, in training and
//! in evaluation.

use super::{classifier, collect, images, tensor, with_weights};
use crate::goldens::TOLERANCE;
use crate::oracle::{Oracle, difference, values};
use burn::module::Module;
use burn::tensor::{Device, Tensor};
use formwork::interop::weights::Array;
use formwork::kernel::cross_entropy_sum;
use formwork::model::resnet::{BlockShape, Blocks, ResidualBlock, Resnet, StemSize};
use formwork::model::{ImageModel, ModelConfig, ResnetConfig};
use formwork::nn::init::{Init, InitConfig};
use formwork::nn::pass::{Draws, Pass};
use formwork::task::{ImageClassification, ImageClassificationConfig, Objective};
use formwork::train::parameters::name_parameters;
use std::collections::BTreeMap;

fn training() -> Pass {
    Pass::training(Draws {
        seed: 0,
        step: 0,
        first_row: 0,
    })
}

/// Maps a tensor of torchvision to Formwork's path and layout.
fn ours(name: &str, array: Array, conv1: &str, prefix: &str) -> (String, Array) {
    let mut parts: Vec<&str> = name.split('.').collect();
    let kind = parts.pop().unwrap();
    if parts == ["fc"] {
        return (format!("head.{kind}"), array);
    }
    let mut path = String::new();
    if let Some(stage) = parts[0].strip_prefix("layer") {
        let stage = stage.parse::<usize>().unwrap() - 1;
        path = format!("{prefix}stages.{stage}.blocks.{}.", parts[1]);
        parts.drain(..2);
    }
    let inside = !path.is_empty();
    let (layer, norm) = match parts[..] {
        ["downsample", "0"] => ("shortcut".into(), false),
        ["downsample", "1"] => ("shortcut".into(), true),
        ["conv1" | "bn1"] if !inside => (format!("{prefix}{conv1}"), parts[0] == "bn1"),
        [one] => {
            let number = one[one.len() - 1..].parse::<usize>().unwrap() - 1;
            (format!("layers.{number}"), one.starts_with("bn"))
        }
        _ => unreachable!("{name}"),
    };
    let kind = match (norm, kind) {
        (false, _) => "convolution.weight".into(),
        (true, "weight") => "norm.gamma".into(),
        (true, "bias") => "norm.beta".into(),
        (true, running) => format!("norm.{running}"),
    };
    (format!("{path}{layer}.{kind}"), array)
}

/// A case of the oracle, with its tensors by Formwork's paths.
struct Case<'a> {
    name: &'a str,
    oracle: Oracle,
    /// Formwork's name for torchvision's first convolution.
    conv1: &'a str,
    /// Prefix of Formwork's paths in the network.
    prefix: &'a str,
}

impl Case<'_> {
    fn tensors(&self, kind: &str) -> BTreeMap<String, Array> {
        let prefix = format!("{}.{kind}.", self.name);
        let found = self.oracle.arrays(|name| name.strip_prefix(&prefix));
        found
            .into_iter()
            .map(|(name, array)| ours(&name, array, self.conv1, self.prefix))
            .collect()
    }

    fn array(&self, name: &str) -> Array {
        self.oracle.array(&format!("{}.{name}", self.name))
    }

    fn near(&self, what: &str, ours: &[f32], theirs: &[f32]) {
        let off = difference(ours, theirs);
        let name = self.name;
        assert!(off < TOLERANCE, "{name}: {what} is off by {off:e}");
    }

    /// Checks both modes of `module`; `forward` returns the output and the loss.
    fn check<M: Module>(
        &self,
        module: M,
        forward: impl Fn(&M, Tensor<4>, &Pass) -> (Vec<f32>, Tensor<1>),
    ) {
        let weights = self.tensors("weight");
        let module = with_weights(name_parameters(module), &weights);
        let device = Device::flex().autodiff();
        for (mode, pass) in [("eval", Pass::evaluation()), ("train", training())] {
            let input = tensor::<4>(&self.array("input"), &device).require_grad();
            let (output, loss) = forward(&module, input.clone(), &pass);
            let theirs = |what: &str| self.array(&format!("{mode}.{what}")).values;
            self.near(mode, &output, &theirs("output"));
            self.near(mode, &values(loss.clone()), &theirs("loss"));
            let gradients = loss.backward();
            let gradient = input.grad(&gradients).unwrap();
            self.near(mode, &values(gradient), &theirs("grad_input"));
            let found = collect(&module, Some(&gradients));
            let wanted = self.tensors(&format!("{mode}.grad"));
            assert!(found.keys().eq(wanted.keys()), "{}: {mode}", self.name);
            for (path, theirs) in &wanted {
                let what = format!("{mode} gradient of {path}");
                self.near(&what, &found[path].values, &theirs.values);
            }
            let state = collect(&module, None);
            let wanted = match mode {
                "eval" => weights.clone(),
                _ => self.tensors("running"),
            };
            for (path, theirs) in &wanted {
                let what = format!("{path} after {mode}");
                self.near(&what, &state[path].values, &theirs.values);
            }
        }
    }

    /// Returns the output and a loss for a case without labels: the output's product with a fixed cotangent.
    fn cotangent(&self, output: Tensor<4>) -> (Vec<f32>, Tensor<1>) {
        let device = Device::flex().autodiff();
        let cotangent = tensor::<4>(&self.array("cotangent"), &device);
        (values(output.clone()), (output * cotangent).sum())
    }
}

fn case(name: &'static str) -> Case<'static> {
    let block = ["basic", "basic_down", "bottleneck"].contains(&name);
    Case {
        name,
        oracle: Oracle::open("resnet"),
        conv1: if block { "layers.0" } else { "stem" },
        prefix: if name == "net" { "model." } else { "" },
    }
}

fn init(device: &Device) -> Init<'_> {
    Init::new(device, 1, InitConfig::default(), 1, 1.0)
}

fn block(shape: BlockShape) -> ResidualBlock {
    let device = Device::flex().autodiff();
    ResnetConfig::default().block(&shape, &init(&device))
}

#[test]
fn blocks_are_torchvision_s() {
    for (name, blocks, inputs, planes, stride) in [
        ("basic", Blocks::Basic, 6, 6, 1),
        ("basic_down", Blocks::Basic, 6, 8, 2),
        ("bottleneck", Blocks::Bottleneck, 12, 4, 2),
    ] {
        let case = case(name);
        let shape = BlockShape {
            blocks,
            inputs,
            planes,
            stride,
            stride_first: false,
        };
        case.check(block(shape), |block: &ResidualBlock, x, pass| {
            case.cotangent(block.forward(x, pass))
        });
    }
}

fn network(
    config: &ResnetConfig,
    image: [usize; 3],
    classes: usize,
) -> Objective<ImageClassification> {
    let model = ModelConfig::Resnet(config.clone());
    classifier(
        &model,
        &ImageClassificationConfig::default(),
        image,
        classes,
    )
}

fn body(task: Objective<ImageClassification>) -> Resnet {
    match task.0.model {
        ImageModel::Resnet(network) => network,
        ImageModel::Vision(_) | ImageModel::Swin(_) => unreachable!(),
    }
}

#[test]
fn the_stem_is_torchvision_s() {
    let config = ResnetConfig {
        stages: Vec::new(),
        width: 6,
        stem: StemSize::Large,
        ..ResnetConfig::default()
    };
    let case = case("stem");
    let network = body(network(&config, [3, 11, 12], 2));
    case.check(network, |network: &Resnet, x, pass| {
        case.cotangent(network.stem(x, pass))
    });
}

#[test]
fn a_network_is_torchvision_s() {
    let config = ResnetConfig {
        stages: vec![1, 1],
        width: 8,
        ..ResnetConfig::default()
    };
    let case = case("net");
    let (_, labels) = case.oracle.integers("net.labels");
    let task = network(&config, [3, 8, 8], 5);
    case.check(task, |task: &Objective<ImageClassification>, x, pass| {
        let features = task.model.pooled(x, pass);
        let logits = formwork::model::heads::class_scores(&task.head, features);
        let labels_there = Tensor::from_data(&labels[..], &logits.device());
        let loss = cross_entropy_sum(logits.clone(), labels_there, 0.0);
        (values(logits), loss / labels.len() as f64)
    });
    // The task's own number of scored rows is the same.
    let batch = images(&case.array("input").values, [3, 8, 8], &labels);
    assert_eq!(batch.scored, 4);
}
