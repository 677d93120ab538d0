//! Measures time and memory of one attention kind at one length.

use super::super::{median_ms, median_ms_after};
use super::AttentionArgs;
use super::kinds::causal;
use crate::nn::attention::{Attention, AttentionConfig, AttentionShape, Visibility};
use crate::nn::init::{Init, InitConfig};
use crate::nn::layer::LayerContext;
use crate::nn::pass::Pass;
use crate::rng::{Purpose, Stream};
use crate::train::bench::peak_rss_mb;
use burn::tensor::{Device, Tensor, TensorData};
use serde_json::{Value, json};

/// Measures time and memory at one length.
pub(super) fn measure_length(
    args: &AttentionArgs,
    config: &AttentionConfig,
    length: usize,
    device: &Device,
) -> Value {
    let width = args.head_width;
    let mut stream = Stream::new(0, Purpose::Init, (0, 0, 0));
    let values: Vec<f32> = (0..args.batch * length * width)
        .map(|_| stream.normal())
        .collect();
    let input = TensorData::new(values, [args.batch, length, width]);
    let input = Tensor::<3>::from_data(input, device);
    let init = Init::new(device, 0, InitConfig::default(), 1, 1.0);
    let causal = causal(args, config);
    let shape = AttentionShape {
        causal,
        ..AttentionShape::standalone(width, length)
    };
    let attention = config.init(&shape, &init);
    let visible = Visibility {
        causal,
        ..Visibility::default()
    };
    // A first call excludes the one-time costs of parameters and kernels.
    let few = input.clone().narrow(1, 0, length.min(64));
    drop(attend(&attention, few, &visible).into_data());
    let before = peak_rss_mb();
    let plain = input.clone().inner();
    let valid = burn::module::Module::valid(&attention);
    let forward = median_ms(args.rounds, || {
        drop(attend(&valid, plain.clone(), &visible).into_data());
    });
    let forwarded = || {
        let leaf = input.clone().detach().require_grad();
        let sum = attend(&attention, leaf.clone(), &visible).sum();
        // Forces the computation on devices that compute lazily.
        drop(sum.clone().into_data());
        (leaf, sum)
    };
    let backward = median_ms_after(args.rounds, forwarded, |(leaf, sum)| {
        let grads = sum.backward();
        drop(leaf.grad(&grads).map(Tensor::into_data));
    });
    json!({
        "kind": config.kind(),
        "engine": args.device,
        "causal": causal,
        "context": length,
        "forward_ms": forward,
        "backward_ms": backward,
        "peak_mb": peak_rss_mb() - before,
    })
}

fn attend(attention: &Attention, x: Tensor<3>, visible: &Visibility) -> Tensor<3> {
    let [_, length, _] = x.dims();
    let pass = Pass::evaluation();
    let mut cx = LayerContext {
        visible,
        ..LayerContext::standalone(length, &pass)
    };
    attention.layer().forward(x, &mut cx)
}
