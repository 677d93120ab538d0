//! An operation of Burn's graph whose output is computed outside of the graph, and whose gradients the caller makes: how
//! activations are computed anew on the way back instead of being kept.
//!
//! The gradients may come of graphs of their own, which begin at leaves of their own ([`backward_from`]): Burn's server holds
//! the lock of the outer graph while a step of it runs, and no leaf of that graph may be read then. Gradients of
//! parameters are handed to the nodes of the outer graph by their numbers ([`Leaves`]).

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

#[cfg(any(feature = "wgpu", feature = "vulkan", feature = "cuda"))]
use burn::backend::Cube;
#[cfg(feature = "flex")]
use burn::backend::Flex;
#[cfg(feature = "ndarray")]
use burn::backend::NdArray;
use burn::backend::autodiff::{
    NodeId,
    checkpoint::{base::Checkpointer, strategy::NoCheckpointing},
    grads::Gradients,
    ops::{Backward, NodeGuard, Ops, OpsKind},
};
use burn::backend::{
    Autodiff, Backend, DispatchKindConversion, DispatchTensor, TensorMetadata, tensor::FloatTensor,
};
use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Tensor};

/// Inputs of one operation at most.
const MOST: usize = 6;

/// The parameters of a module that learn, in the order of a visit.
#[derive(Clone, Debug, Default)]
pub struct Leaves(Vec<DispatchTensor>);

impl Leaves {
    /// Those of a module.
    pub fn of<M: Module>(module: &M) -> Self {
        let mut leaves = Self::default();
        module.visit(&mut leaves);
        leaves
    }

    /// Their gradients, without a graph; `None` of one that the loss did not depend on.
    pub fn gradients(&self, of: &burn::tensor::Gradients) -> Vec<Option<DispatchTensor>> {
        let each = self.0.iter().map(|leaf| {
            // A gradient is found by the leaf's number; the rank is not looked at.
            let gradient = Tensor::<1>::from_dispatch(leaf.clone()).grad(of);
            gradient.map(Tensor::into_dispatch)
        });
        each.collect()
    }

    /// These and more behind them; one that stands there twice gets the sum of what is made for it.
    pub fn extend(&mut self, more: Self) {
        self.0.extend(more.0);
    }

    /// Their number.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no parameter learns.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl ModuleVisitor for Leaves {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let value = param.val();
        if value.is_require_grad() {
            self.0.push(value.into_dispatch());
        }
    }
}

/// Sums of gradients of the same parameters, of which some may be absent.
pub fn added(
    sums: Vec<Option<DispatchTensor>>,
    more: Vec<Option<DispatchTensor>>,
) -> Vec<Option<DispatchTensor>> {
    let both = sums.into_iter().zip(more);
    both.map(|pair| match pair {
        (Some(sum), Some(more)) => Some(match sum.shape().num_dims() {
            1 => sum_of::<1>(sum, more),
            2 => sum_of::<2>(sum, more),
            3 => sum_of::<3>(sum, more),
            _ => sum_of::<4>(sum, more),
        }),
        (sum, more) => sum.or(more),
    })
    .collect()
}

fn sum_of<const D: usize>(x: DispatchTensor, y: DispatchTensor) -> DispatchTensor {
    (Tensor::<D>::from_dispatch(x) + Tensor::<D>::from_dispatch(y)).into_dispatch()
}

/// The gradients that a derivative made by hand gives, all without a graph.
#[derive(Debug)]
pub struct Made {
    /// Of the inputs, in their order; `None` where the output does not depend on one.
    pub inputs: Vec<Option<Tensor<3>>>,
    /// Of the parameters, in their order.
    pub parameters: Vec<Option<DispatchTensor>>,
}

impl Made {
    /// The same with what the inputs had before added.
    pub fn after(mut self, so_far: SoFar) -> Self {
        for (made, before) in self.inputs.iter_mut().skip(1).zip(so_far) {
            *made = match (made.take(), before) {
                (Some(made), Some(before)) => Some(made + before),
                (made, before) => made.or(before),
            };
        }
        self
    }
}

/// The derivative: from the gradient of the output to those of what it was made from.
type Derivative = Box<dyn FnOnce(Tensor<3>, SoFar) -> Made + Send>;

/// The gradients that the inputs behind the first have from operations that ran before, in their order. What a derivative gives
/// for such an input takes their place, so that it can add its shares one by one, as a graph of all operations would.
pub type SoFar = Vec<Option<Tensor<3>>>;

/// `output` as an operation of the graph, with the derivative that is given. `output` and the derivative's gradients have no
/// graph; `inputs` are at most six, and the parameters are leaves.
pub fn by_hand(
    inputs: Vec<Tensor<3>>,
    parameters: &Leaves,
    output: Tensor<3>,
    derivative: impl FnOnce(Tensor<3>, SoFar) -> Made + Send + 'static,
) -> Tensor<3> {
    assert!(
        (1..=MOST).contains(&inputs.len()),
        "an operation by hand has one to {MOST} inputs"
    );
    let derivative: Derivative = Box::new(derivative);
    #[cfg(feature = "flex")]
    if lives_on::<Flex>(&output) {
        return on::<Flex>(inputs, parameters, output, derivative);
    }
    #[cfg(feature = "ndarray")]
    if lives_on::<NdArray>(&output) {
        return on::<NdArray>(inputs, parameters, output, derivative);
    }
    #[cfg(any(feature = "wgpu", feature = "vulkan", feature = "cuda"))]
    if lives_on::<Cube>(&output) {
        return on::<Cube>(inputs, parameters, output, derivative);
    }
    unreachable!("a tensor lives on a backend that is compiled in, and the output has no graph")
}

/// A number `[1, 1, 1]` whose gradients with respect to these tensors are the given ones: the beginning of a backward pass
/// from the middle of a network.
pub fn backward_from(pairs: Vec<(Tensor<3>, Tensor<3>)>) -> burn::tensor::Gradients {
    let (outputs, gradients): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    let device: Device = gradients[0].device();
    let zero = Tensor::zeros([1, 1, 1], &device);
    let inputs = gradients.into_iter().map(Some).collect();
    let made = Made {
        inputs,
        parameters: Vec::new(),
    };
    by_hand(outputs, &Leaves::default(), zero, |_, so_far| {
        made.after(so_far)
    })
    .backward()
}

/// Whether a tensor is one of this backend, without a graph.
fn lives_on<B: Backend>(x: &Tensor<3>) -> bool
where
    DispatchTensor: DispatchKindConversion<B>,
{
    x.clone().try_into_primitive::<B>().is_ok()
}

/// The operation on the backend of its tensors.
fn on<B: Backend>(
    inputs: Vec<Tensor<3>>,
    parameters: &Leaves,
    output: Tensor<3>,
    derivative: Derivative,
) -> Tensor<3>
where
    DispatchTensor: DispatchKindConversion<B> + DispatchKindConversion<Autodiff<B>>,
{
    let plain = plain::<B, 3>(output);
    let nodes = parameters.0.iter();
    let nodes: Vec<NodeId> = nodes.map(|leaf| tracked::<B>(leaf.clone()).id()).collect();
    let mut inputs: Vec<FloatTensor<Autodiff<B>>> = inputs
        .into_iter()
        .map(|input| tracked::<B>(input.into_dispatch()))
        .collect();
    if inputs.iter().all(|input| !input.is_tracked()) {
        // An operation none of whose inputs is tracked has no derivative, and parameters may learn all the same.
        inputs[0] = inputs[0].clone().require_grad();
    }
    let saved = Saved::<B> {
        further: inputs[1..].to_vec(),
        derivative: Arc::new(Mutex::new(Some(derivative))),
        nodes,
    };
    let guards: Vec<NodeGuard> = inputs.iter().map(|input| input.node()).collect();
    let output = match guards.len() {
        1 => registered::<B, 1>(guards, saved, plain),
        2 => registered::<B, 2>(guards, saved, plain),
        3 => registered::<B, 3>(guards, saved, plain),
        4 => registered::<B, 4>(guards, saved, plain),
        5 => registered::<B, 5>(guards, saved, plain),
        _ => registered::<B, MOST>(guards, saved, plain),
    };
    Tensor::from_primitive::<Autodiff<B>>(output)
}

/// A tensor as it stands in the graph; one without a graph is a constant.
fn tracked<B: Backend>(x: DispatchTensor) -> FloatTensor<Autodiff<B>>
where
    DispatchTensor: DispatchKindConversion<B> + DispatchKindConversion<Autodiff<B>>,
{
    let x = Tensor::<3>::from_dispatch(x);
    let x = match x.is_autodiff() {
        true => x,
        false => x.autodiff(),
    };
    match x.try_into_primitive::<Autodiff<B>>() {
        Ok(x) => x,
        Err(_) => unreachable!("all tensors of a model live on one backend"),
    }
}

fn registered<B: Backend, const N: usize>(
    guards: Vec<NodeGuard>,
    saved: Saved<B>,
    output: FloatTensor<B>,
) -> FloatTensor<Autodiff<B>>
where
    DispatchTensor: DispatchKindConversion<B>,
{
    let Ok(guards) = <[NodeGuard; N]>::try_from(guards) else {
        unreachable!("as many guards as inputs")
    };
    let prepared = Backward::<B, N>::prepare::<NoCheckpointing>(Step, guards);
    match prepared.compute_bound().stateful() {
        OpsKind::Tracked(prepared) => prepared.finish(saved, output),
        OpsKind::UnTracked(prepared) => prepared.finish(output),
    }
}

/// The state of the step.
#[derive(Clone)]
struct Saved<B: Backend> {
    /// The inputs behind the first, by which their gradients are found.
    further: Vec<FloatTensor<Autodiff<B>>>,
    derivative: Arc<Mutex<Option<Derivative>>>,
    /// The nodes of the parameters.
    nodes: Vec<NodeId>,
}

impl<B: Backend> fmt::Debug for Saved<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Saved").finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Step;

impl<B: Backend, const N: usize> Backward<B, N> for Step
where
    DispatchTensor: DispatchKindConversion<B>,
{
    type State = Saved<B>;

    fn backward(self, ops: Ops<Saved<B>, N>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = grads.consume::<B>(&ops.node);
        let Saved {
            further,
            derivative,
            nodes,
        } = ops.state;
        let so_far = further.iter().map(|input| grads.remove::<B>(input));
        let so_far = so_far.map(|x| x.map(Tensor::from_primitive::<B>)).collect();
        let derivative = derivative
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(derivative) = derivative else {
            unreachable!("a step of the graph runs once")
        };
        let made = derivative(Tensor::from_primitive::<B>(gradient), so_far);
        for (parent, gradient) in ops.parents.into_iter().zip(made.inputs) {
            if let (Some(node), Some(gradient)) = (parent, gradient) {
                grads.register::<B>(node.id, plain::<B, 3>(gradient));
            }
        }
        for (node, gradient) in nodes.into_iter().zip(made.parameters) {
            if let Some(gradient) = gradient {
                let gradient = Tensor::from_dispatch(gradient);
                grads.register::<B>(node, plain::<B, 1>(gradient));
            }
        }
    }
}

fn plain<B: Backend, const D: usize>(x: Tensor<D>) -> FloatTensor<B>
where
    DispatchTensor: DispatchKindConversion<B>,
{
    match x.try_into_primitive::<B>() {
        Ok(x) => x,
        Err(_) => unreachable!("gradients live on the backend of their tensors, without a graph"),
    }
}
