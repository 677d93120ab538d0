//! The extension under autodiff: registers every operation with its derivative in Burn's graph.

use std::marker::PhantomData;

use burn::backend::autodiff::{
    checkpoint::strategy::CheckpointStrategy,
    ops::{Backward, NodeGuard, OpsKind},
};
use burn::backend::{
    Autodiff, Backend, TensorMetadata,
    tensor::{FloatTensor, IntTensor},
};

use super::derivative::{
    Activated, ActivatedLinear, Add, Attention, Convolved, CrossEntropy, Derivative, Dropped,
    DroppedOnto, Gated, HeadLoss, Linear, Norm, NormOfSum, Rotated, Rows, Step,
};
use super::extension::{AttentionSettings, BackwardOps, KernelOps, Maybe, NormSettings};
use super::{Activation, ConvolutionSettings, DropKey};

/// Registers an operation. `run(true)` returns the output and its derivative with the saved values; `run(false)`,
/// called if no input is tracked, may omit the derivative.
pub(super) fn track<B, S, D, const N: usize>(
    nodes: [NodeGuard; N],
    run: impl FnOnce(bool) -> (FloatTensor<B>, Option<D>),
) -> FloatTensor<Autodiff<B, S>>
where
    B: Backend,
    S: CheckpointStrategy,
    D: Derivative<B, N>,
{
    let step = Step(PhantomData);
    let prepared = Backward::<B, N>::prepare::<S>(step, nodes);
    match prepared.compute_bound().stateful() {
        OpsKind::Tracked(prepared) => match run(true) {
            (out, Some(derivative)) => prepared.finish(derivative, out),
            (_, None) => unreachable!("a tracked operation saves what its derivative needs"),
        },
        OpsKind::UnTracked(prepared) => prepared.finish(run(false).0),
    }
}

/// Strips the graph from an optional input.
pub(super) fn inner<B: Backend, S: CheckpointStrategy>(x: Maybe<Autodiff<B, S>>) -> Maybe<B> {
    match x {
        Maybe::Some(x) => Maybe::Some(x.into_primitive()),
        Maybe::None => Maybe::None,
    }
}

impl<B: KernelOps + BackwardOps, S: CheckpointStrategy> KernelOps for Autodiff<B, S> {
    fn affine(
        x: FloatTensor<Self>,
        rounded: Maybe<Self>,
        weight: FloatTensor<Self>,
        bias: Maybe<Self>,
    ) -> FloatTensor<Self> {
        let (x_node, weight_node) = (x.node(), weight.node());
        let (x, weight) = (x.into_primitive(), weight.into_primitive());
        let rounded = inner(rounded);
        let run = |bias: Maybe<B>, track: bool| {
            let saved = track.then(|| Linear {
                x: rounded.clone().into_option().unwrap_or_else(|| x.clone()),
                weight: weight.clone(),
            });
            (B::affine(x, rounded, weight, bias), saved)
        };
        match bias {
            Maybe::None => track::<B, S, _, _>([x_node, weight_node], |on| run(Maybe::None, on)),
            Maybe::Some(bias) => {
                let nodes = [x_node, weight_node, bias.node()];
                track::<B, S, _, _>(nodes, |on| run(Maybe::Some(bias.into_primitive()), on))
            }
        }
    }

    fn activated_affine(
        x: FloatTensor<Self>,
        rounded: Maybe<Self>,
        weight: FloatTensor<Self>,
        bias: Maybe<Self>,
        activation: Activation,
    ) -> FloatTensor<Self> {
        let (x_node, weight_node) = (x.node(), weight.node());
        let (x, weight) = (x.into_primitive(), weight.into_primitive());
        let rounded = inner(rounded);
        let run = |bias: Maybe<B>, track: bool| {
            if !track {
                let out = B::activated_affine(x, rounded, weight, bias, activation);
                return (out, None);
            }
            let (out, saved) = B::activated_affine_saving(x, rounded, weight, bias, activation);
            (out, Some(ActivatedLinear(saved, activation)))
        };
        match bias {
            Maybe::None => track::<B, S, _, _>([x_node, weight_node], |on| run(Maybe::None, on)),
            Maybe::Some(bias) => {
                let nodes = [x_node, weight_node, bias.node()];
                track::<B, S, _, _>(nodes, |on| run(Maybe::Some(bias.into_primitive()), on))
            }
        }
    }

    fn residual_add(x: FloatTensor<Self>, y: FloatTensor<Self>) -> FloatTensor<Self> {
        track::<B, S, _, _>([x.node(), y.node()], |_| {
            let out = B::residual_add(x.into_primitive(), y.into_primitive());
            (out, Some(Add))
        })
    }

    fn dropped_onto(x: FloatTensor<Self>, y: FloatTensor<Self>, key: DropKey) -> FloatTensor<Self> {
        track::<B, S, _, _>([x.node(), y.node()], |_| {
            let out = B::dropped_onto(x.into_primitive(), y.into_primitive(), key);
            (out, Some(DroppedOnto(key)))
        })
    }

    fn norm(
        x: FloatTensor<Self>,
        gamma: Maybe<Self>,
        beta: Maybe<Self>,
        settings: NormSettings,
    ) -> FloatTensor<Self> {
        let x_node = x.node();
        let run = |on: bool, x: FloatTensor<Self>, gamma: Maybe<Self>, beta: Maybe<Self>| {
            let (x, gamma) = (x.into_primitive(), inner(gamma));
            let saved = on.then(|| Norm {
                x: x.clone(),
                gamma: gamma.clone(),
                settings,
            });
            (B::norm(x, gamma, inner(beta), settings), saved)
        };
        match (gamma, beta) {
            (Maybe::Some(gamma), Maybe::Some(beta)) => {
                let nodes = [x_node, gamma.node(), beta.node()];
                track::<B, S, _, _>(nodes, |on| {
                    run(on, x, Maybe::Some(gamma), Maybe::Some(beta))
                })
            }
            (Maybe::Some(gamma), Maybe::None) => {
                let nodes = [x_node, gamma.node()];
                track::<B, S, _, _>(nodes, |on| run(on, x, Maybe::Some(gamma), Maybe::None))
            }
            (Maybe::None, Maybe::None) => {
                track::<B, S, _, _>([x_node], |on| run(on, x, Maybe::None, Maybe::None))
            }
            (Maybe::None, Maybe::Some(_)) => unreachable!("a shift comes with a scale"),
        }
    }

    fn norm_of_sum(
        x: FloatTensor<Self>,
        y: FloatTensor<Self>,
        gamma: Maybe<Self>,
        beta: Maybe<Self>,
        factor: f64,
        settings: NormSettings,
    ) -> FloatTensor<Self> {
        let terms = [x.node(), y.node()];
        let run = |on: bool, gamma: Maybe<Self>, beta: Maybe<Self>| {
            let (x, y) = (x.into_primitive(), y.into_primitive());
            let (gamma, beta) = (inner(gamma), inner(beta));
            if !on {
                return (B::norm_of_sum(x, y, gamma, beta, factor, settings), None);
            }
            let [sum, out] = B::norm_of_sum_saving([x, y], gamma.clone(), beta, factor, settings);
            let norm = Norm {
                x: sum,
                gamma,
                settings,
            };
            (out, Some(NormOfSum(norm, factor)))
        };
        let [x, y] = terms;
        match (gamma, beta) {
            (Maybe::Some(gamma), Maybe::Some(beta)) => {
                let nodes = [x, y, gamma.node(), beta.node()];
                track::<B, S, _, _>(nodes, |on| run(on, Maybe::Some(gamma), Maybe::Some(beta)))
            }
            (Maybe::Some(gamma), Maybe::None) => {
                let nodes = [x, y, gamma.node()];
                track::<B, S, _, _>(nodes, |on| run(on, Maybe::Some(gamma), Maybe::None))
            }
            (Maybe::None, Maybe::None) => {
                track::<B, S, _, _>([x, y], |on| run(on, Maybe::None, Maybe::None))
            }
            (Maybe::None, Maybe::Some(_)) => unreachable!("a shift comes with a scale"),
        }
    }

    fn activation(x: FloatTensor<Self>, activation: Activation) -> FloatTensor<Self> {
        track::<B, S, _, _>([x.node()], |on| {
            let x = x.into_primitive();
            let saved = on.then(|| Activated::<B>(x.clone(), activation));
            (B::activation(x, activation), saved)
        })
    }

    fn gated(
        gate: FloatTensor<Self>,
        up: FloatTensor<Self>,
        activation: Activation,
    ) -> FloatTensor<Self> {
        track::<B, S, _, _>([gate.node(), up.node()], |on| {
            let (gate, up) = (gate.into_primitive(), up.into_primitive());
            let saved = on.then(|| Gated::<B> {
                gate: gate.clone(),
                up: up.clone(),
                activation,
            });
            (B::gated(gate, up, activation), saved)
        })
    }

    fn fused_attention(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        bias: Maybe<Self>,
        settings: AttentionSettings,
    ) -> FloatTensor<Self> {
        let (q_node, k_node, v_node) = (q.node(), k.node(), v.node());
        let run = |on: bool, bias: Maybe<B>| {
            let (q, k, v) = (q.into_primitive(), k.into_primitive(), v.into_primitive());
            if on {
                let saved = B::attention_saving(q, k, v, bias, settings.clone());
                (saved.out.clone(), Some(Attention(saved, settings)))
            } else {
                (B::fused_attention(q, k, v, bias, settings), None)
            }
        };
        match bias {
            Maybe::None => track::<B, S, _, _>([q_node, k_node, v_node], |on| run(on, Maybe::None)),
            Maybe::Some(bias) => {
                let nodes = [q_node, k_node, v_node, bias.node()];
                track::<B, S, _, _>(nodes, |on| run(on, Maybe::Some(bias.into_primitive())))
            }
        }
    }

    fn dropped(x: FloatTensor<Self>, key: DropKey, rows: bool) -> FloatTensor<Self> {
        track::<B, S, _, _>([x.node()], |_| {
            let out = B::dropped(x.into_primitive(), key, rows);
            (out, Some(Dropped(key, rows)))
        })
    }

    fn cross_entropy_total(
        logits: FloatTensor<Self>,
        targets: IntTensor<Self>,
        label_smoothing: f64,
    ) -> FloatTensor<Self> {
        track::<B, S, _, _>([logits.node()], |on| {
            let logits = logits.into_primitive();
            if on {
                let [loss, grad] = B::cross_entropy_saving(logits, targets, label_smoothing);
                (loss, Some(CrossEntropy::<B>(grad)))
            } else {
                let loss = B::cross_entropy_total(logits, targets, label_smoothing);
                (loss, None)
            }
        })
    }

    fn rotate(
        x: FloatTensor<Self>,
        cos: FloatTensor<Self>,
        sin: FloatTensor<Self>,
        interleaved: bool,
        opposite: bool,
    ) -> FloatTensor<Self> {
        track::<B, S, _, _>([x.node()], |_| {
            let saved = Rotated::<B> {
                cos: cos.into_primitive(),
                sin: sin.into_primitive(),
                interleaved,
                opposite,
            };
            let (cos, sin) = (saved.cos.clone(), saved.sin.clone());
            let out = B::rotate(x.into_primitive(), cos, sin, interleaved, opposite);
            (out, Some(saved))
        })
    }

    fn rows(weight: FloatTensor<Self>, ids: IntTensor<Self>) -> FloatTensor<Self> {
        track::<B, S, _, _>([weight.node()], |_| {
            let weight = weight.into_primitive();
            let saved = Rows::<B>(ids.clone(), weight.shape()[0]);
            (B::rows(weight, ids), Some(saved))
        })
    }

    fn head_loss(
        hidden: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Maybe<Self>,
        targets: IntTensor<Self>,
        label_smoothing: f64,
    ) -> FloatTensor<Self> {
        let (hidden_node, weight_node) = (hidden.node(), weight.node());
        let (hidden, weight) = (hidden.into_primitive(), weight.into_primitive());
        let run = |bias: Maybe<B>, on: bool| {
            if on {
                let saved = B::head_loss_saving(hidden, weight, bias, targets, label_smoothing);
                (saved.out.clone(), Some(HeadLoss(saved)))
            } else {
                (
                    B::head_loss(hidden, weight, bias, targets, label_smoothing),
                    None,
                )
            }
        };
        match bias {
            Maybe::None => {
                track::<B, S, _, _>([hidden_node, weight_node], |on| run(Maybe::None, on))
            }
            Maybe::Some(bias) => {
                let nodes = [hidden_node, weight_node, bias.node()];
                track::<B, S, _, _>(nodes, |on| run(Maybe::Some(bias.into_primitive()), on))
            }
        }
    }

    fn convolved(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        settings: ConvolutionSettings,
    ) -> FloatTensor<Self> {
        track::<B, S, _, _>([x.node(), weight.node()], |_| {
            let (x, weight) = (x.into_primitive(), weight.into_primitive());
            let saved = Convolved::<B> {
                x: x.clone(),
                weight: weight.clone(),
                settings,
            };
            (B::convolved(x, weight, settings), Some(saved))
        })
    }
}
