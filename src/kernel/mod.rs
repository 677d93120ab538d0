//! Fused tensor operations (composed stand-ins).
use crate::rng::{Purpose, Stream, unit};
use burn::tensor::{Bool, Int, Tensor, TensorData, activation};

/// Which nonlinearity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// relu
    Relu,
    /// gelu
    Gelu,
    /// gelu tanh
    GeluTanh,
    /// silu
    Silu,
    /// relu squared
    ReluSquared,
}
/// Dropout key.
#[derive(Clone, Copy, Debug)]
pub struct DropKey {
    /// p
    pub p: f64,
    /// seed
    pub seed: u64,
    /// step
    pub step: u64,
    /// first row
    pub first_row: u64,
    /// site
    pub site: u64,
}
/// Mask.
#[derive(Clone, Debug, Default)]
pub struct AttentionMask {
    /// causal
    pub causal: bool,
    /// offset
    pub offset: usize,
    /// blocked
    pub blocked: Option<Tensor<4, Bool>>,
}
/// Options.
#[derive(Clone, Copy, Debug)]
pub struct AttentionOptions {
    /// scale
    pub scale: f64,
    /// softcap
    pub softcap: Option<f64>,
    /// dropout
    pub dropout: Option<DropKey>,
}
/// linear
pub fn linear(x: Tensor<3>, w: Tensor<2>, b: Option<Tensor<1>>) -> Tensor<3> {
    let [n, s, d] = x.dims();
    let o = w.dims()[1];
    let y = x.reshape([n * s, d]).matmul(w);
    let y = match b {
        Some(b) => y + b.unsqueeze_dim(0),
        None => y,
    };
    y.reshape([n, s, o])
}
/// tied head
pub fn linear_transposed(x: Tensor<3>, w: Tensor<2>) -> Tensor<3> {
    linear(x, w.transpose(), None)
}
/// layer norm
pub fn layer_norm(x: Tensor<3>, g: Tensor<1>, b: Option<Tensor<1>>, eps: f64) -> Tensor<3> {
    let c = x.clone() - x.mean_dim(2);
    let v = c.clone().square().mean_dim(2);
    let y = c / (v + eps).sqrt() * g.unsqueeze();
    match b {
        Some(b) => y + b.unsqueeze(),
        None => y,
    }
}
/// rms norm
pub fn rms_norm(x: Tensor<3>, g: Option<Tensor<1>>, eps: f64) -> Tensor<3> {
    let y = x.clone() / (x.square().mean_dim(2) + eps).sqrt();
    match g {
        Some(g) => y * g.unsqueeze(),
        None => y,
    }
}
/// activation
pub fn activate(x: Tensor<3>, a: Activation) -> Tensor<3> {
    match a {
        Activation::Relu => activation::relu(x),
        Activation::Gelu => activation::gelu(x),
        Activation::GeluTanh => activation::gelu_approximate(x),
        Activation::Silu => activation::silu(x),
        Activation::ReluSquared => activation::relu(x).square(),
    }
}
/// gated
pub fn gated(g: Tensor<3>, u: Tensor<3>, a: Activation) -> Tensor<3> {
    activate(g, a) * u
}
/// attention
pub fn attention(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    bias: Option<Tensor<4>>,
    mask: AttentionMask,
    o: AttentionOptions,
) -> Tensor<4> {
    let [b, h, n, d] = q.dims();
    let [_, hk, m, _] = k.dims();
    let widen = |t: Tensor<4>| {
        if hk == h {
            t
        } else {
            t.reshape([b, hk, 1, m * d])
                .expand([b, hk, h / hk, m * d])
                .reshape([b, h, m, d])
        }
    };
    let (k, v) = (widen(k), widen(v));
    let mut s = q.matmul(k.swap_dims(2, 3)) * o.scale;
    if let Some(c) = o.softcap {
        s = (s / c).tanh() * c;
    }
    if let Some(bias) = bias {
        s = s + bias;
    }
    if mask.causal {
        let t: Vec<bool> = (0..n)
            .flat_map(|i| (0..m).map(move |j| j > mask.offset + i))
            .collect();
        let t = Tensor::<4, Bool>::from_data(TensorData::new(t, [1, 1, n, m]), &s.device());
        s = s.mask_fill(t.expand([b, h, n, m]), -1e30);
    }
    if let Some(t) = mask.blocked {
        s = s.mask_fill(t.expand([b, h, n, m]), -1e30);
    }
    let w = activation::softmax(s, 3);
    let w = match o.dropout {
        Some(key) => drop(w, key),
        None => w,
    };
    w.matmul(v)
}
fn drop<const D: usize>(x: Tensor<D>, key: DropKey) -> Tensor<D> {
    let dims = x.dims();
    let row: usize = dims[1..].iter().product();
    let keep = 1.0 / (1.0 - key.p as f32);
    let mut v = Vec::with_capacity(dims[0] * row);
    for r in 0..dims[0] {
        let s = Stream::new(
            key.seed,
            Purpose::Dropout,
            (key.step, key.first_row + r as u64, key.site),
        );
        for b in 0..row.div_ceil(4) {
            for w in s.block(b as u64) {
                if v.len() < (r + 1) * row {
                    v.push(if unit(w) < key.p as f32 { 0.0 } else { keep });
                }
            }
        }
    }
    let dev = x.device();
    x * Tensor::<D>::from_data(TensorData::new(v, dims), &dev)
}
/// dropout
pub fn dropout(x: Tensor<3>, key: DropKey) -> Tensor<3> {
    drop(x, key)
}
/// drop path
pub fn drop_path(x: Tensor<3>, key: DropKey) -> Tensor<3> {
    let [b, _, _] = x.dims();
    let dev = x.device();
    let v: Vec<f32> = (0..b)
        .map(|r| {
            let w = Stream::new(
                key.seed,
                Purpose::DropPath,
                (key.step, key.first_row + r as u64, key.site),
            )
            .block(0)[0];
            if unit(w) < key.p as f32 {
                0.0
            } else {
                1.0 / (1.0 - key.p as f32)
            }
        })
        .collect();
    x * Tensor::<3>::from_data(TensorData::new(v, [b, 1, 1]), &dev)
}
/// sum of cross entropies
pub fn cross_entropy_sum(logits: Tensor<2>, targets: Tensor<1, Int>, _smoothing: f64) -> Tensor<1> {
    let l = activation::log_softmax(logits, 1);
    let scored = targets.clone().greater_equal_scalar(0).float();
    let t = targets.clamp_min(0).unsqueeze_dim::<2>(1);
    let nll = l.gather(1, t).squeeze_dim::<1>(1);
    (nll * scored).sum().neg()
}
/// rotary
pub fn rotary(x: Tensor<4>, cos: Tensor<2>, sin: Tensor<2>, interleaved: bool) -> Tensor<4> {
    let [b, h, s, d] = x.dims();
    let half = cos.dims()[1];
    let r = 2 * half;
    let rest = (r < d).then(|| x.clone().slice([0..b, 0..h, 0..s, r..d]));
    let x = x.slice([0..b, 0..h, 0..s, 0..r]);
    let (cos, sin) = (cos.unsqueeze::<4>(), sin.unsqueeze::<4>());
    let y = if interleaved {
        let p = x.reshape([b, h, s, half, 2]);
        let a = p
            .clone()
            .slice([0..b, 0..h, 0..s, 0..half, 0..1])
            .reshape([b, h, s, half]);
        let c = p
            .slice([0..b, 0..h, 0..s, 0..half, 1..2])
            .reshape([b, h, s, half]);
        let y1 = a.clone() * cos.clone() - c.clone() * sin.clone();
        let y2 = a * sin + c * cos;
        Tensor::stack::<5>(vec![y1, y2], 4).reshape([b, h, s, r])
    } else {
        let a = x.clone().slice([0..b, 0..h, 0..s, 0..half]);
        let c = x.slice([0..b, 0..h, 0..s, half..r]);
        Tensor::cat(
            vec![
                a.clone() * cos.clone() - c.clone() * sin.clone(),
                a * sin + c * cos,
            ],
            3,
        )
    };
    match rest {
        Some(rest) => Tensor::cat(vec![y, rest], 3),
        None => y,
    }
}
/// embedding
pub fn embedding(w: Tensor<2>, ids: Tensor<2, Int>) -> Tensor<3> {
    burn::tensor::module::embedding(w, ids)
}
