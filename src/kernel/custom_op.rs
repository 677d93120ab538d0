//! Operations of Burn's autodiff graph whose output is computed outside the graph and whose gradients the caller
//! computes. Activation checkpointing uses them to recompute activations in the backward pass instead of keeping
//! them.
//!
//! The gradients may come from separate graphs, which begin at leaves of their own ([`backward_from`]). Burn's server
//! holds the lock of the outer graph while one of its steps runs, so no leaf of that graph may be read then.
//! Parameter gradients are registered at the nodes of the outer graph by node id ([`Leaves`]).

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

/// Maximum number of inputs of one operation.
const MAX_INPUTS: usize = 6;

/// The trainable parameters of a module, in visiting order.
#[derive(Clone, Debug, Default)]
pub struct Leaves(Vec<DispatchTensor>);

impl Leaves {
    /// Collects the trainable parameters of a module.
    pub fn of_module<M: Module>(module: &M) -> Self {
        let mut leaves = Self::default();
        module.visit(&mut leaves);
        leaves
    }

    /// Returns the parameters' gradients, without a graph; `None` for a parameter that the loss does not depend on.
    pub fn gradients(&self, of: &burn::tensor::Gradients) -> Vec<Option<DispatchTensor>> {
        let each = self.0.iter().map(|leaf| {
            // A gradient is looked up by the leaf's id, so the rank does not matter.
            let gradient = Tensor::<1>::from_dispatch(leaf.clone()).grad(of);
            gradient.map(Tensor::into_dispatch)
        });
        each.collect()
    }

    /// Appends other parameters. A parameter that occurs twice gets the sum of the gradients computed for it.
    pub fn extend(&mut self, more: Self) {
        self.0.extend(more.0);
    }

    /// Returns the number of parameters.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no trainable parameters.
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

/// Adds two lists of gradients of the same parameters; either gradient of a pair may be absent.
pub fn add_gradients(
    sums: Vec<Option<DispatchTensor>>,
    more: Vec<Option<DispatchTensor>>,
) -> Vec<Option<DispatchTensor>> {
    let both = sums.into_iter().zip(more);
    both.map(|pair| match pair {
        (Some(sum), Some(more)) => Some(match sum.shape().num_dims() {
            1 => sum_tensors::<1>(sum, more),
            2 => sum_tensors::<2>(sum, more),
            3 => sum_tensors::<3>(sum, more),
            _ => sum_tensors::<4>(sum, more),
        }),
        (sum, more) => sum.or(more),
    })
    .collect()
}

fn sum_tensors<const D: usize>(x: DispatchTensor, y: DispatchTensor) -> DispatchTensor {
    (Tensor::<D>::from_dispatch(x) + Tensor::<D>::from_dispatch(y)).into_dispatch()
}

/// The gradients that a hand-written derivative returns, all without a graph.
#[derive(Debug)]
pub struct CustomGradients {
    /// Gradients of the inputs, in order; `None` if the output does not depend on an input.
    pub inputs: Vec<Option<Tensor<3>>>,
    /// Gradients of the parameters, in order.
    pub parameters: Vec<Option<DispatchTensor>>,
}

impl CustomGradients {
    /// Adds the gradients that the inputs after the first already had.
    pub fn plus_earlier(mut self, so_far: EarlierGradients) -> Self {
        for (made, before) in self.inputs.iter_mut().skip(1).zip(so_far) {
            *made = match (made.take(), before) {
                (Some(made), Some(before)) => Some(made + before),
                (made, before) => made.or(before),
            };
        }
        self
    }
}

/// A derivative: maps the gradient of the output to the gradients of the inputs and parameters.
type Derivative = Box<dyn FnOnce(Tensor<3>, EarlierGradients) -> CustomGradients + Send>;

/// Gradients that the inputs after the first already have from other operations, in order. The gradient that a
/// derivative returns for such an input replaces this one, so the derivative must add its shares to it, in the order
/// in which a graph of all operations would.
pub type EarlierGradients = Vec<Option<Tensor<3>>>;

/// Registers `output` as an operation of the graph with the given derivative. `output` and the derivative's gradients
/// have no graph. There are one to six `inputs`; the parameters are leaves.
pub fn custom_op(
    inputs: Vec<Tensor<3>>,
    parameters: &Leaves,
    output: Tensor<3>,
    derivative: impl FnOnce(Tensor<3>, EarlierGradients) -> CustomGradients + Send + 'static,
) -> Tensor<3> {
    assert!(
        (1..=MAX_INPUTS).contains(&inputs.len()),
        "an operation by hand has one to {MAX_INPUTS} inputs"
    );
    let derivative: Derivative = Box::new(derivative);
    #[cfg(feature = "flex")]
    if is_plain_on::<Flex>(&output) {
        return register_on::<Flex>(inputs, parameters, output, derivative);
    }
    #[cfg(feature = "ndarray")]
    if is_plain_on::<NdArray>(&output) {
        return register_on::<NdArray>(inputs, parameters, output, derivative);
    }
    #[cfg(any(feature = "wgpu", feature = "vulkan", feature = "cuda"))]
    if is_plain_on::<Cube>(&output) {
        return register_on::<Cube>(inputs, parameters, output, derivative);
    }
    unreachable!("a tensor lives on a backend that is compiled in, and the output has no graph")
}

/// Runs a backward pass that starts in the middle of a network and returns its gradients. `pairs` holds tensors and
/// the gradients with which to start at each of them.
pub fn backward_from(pairs: Vec<(Tensor<3>, Tensor<3>)>) -> burn::tensor::Gradients {
    let (outputs, gradients): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    let device: Device = gradients[0].device();
    let zero = Tensor::zeros([1, 1, 1], &device);
    let inputs = gradients.into_iter().map(Some).collect();
    let made = CustomGradients {
        inputs,
        parameters: Vec::new(),
    };
    custom_op(outputs, &Leaves::default(), zero, |_, so_far| {
        made.plus_earlier(so_far)
    })
    .backward()
}

/// Returns whether a tensor is on this backend and has no graph.
fn is_plain_on<B: Backend>(x: &Tensor<3>) -> bool
where
    DispatchTensor: DispatchKindConversion<B>,
{
    x.clone().try_into_primitive::<B>().is_ok()
}

/// Registers the operation on the tensors' backend.
fn register_on<B: Backend>(
    inputs: Vec<Tensor<3>>,
    parameters: &Leaves,
    output: Tensor<3>,
    derivative: Derivative,
) -> Tensor<3>
where
    DispatchTensor: DispatchKindConversion<B> + DispatchKindConversion<Autodiff<B>>,
{
    let plain = to_plain::<B, 3>(output);
    let nodes = parameters.0.iter();
    let nodes: Vec<NodeId> = nodes.map(|leaf| to_node::<B>(leaf.clone()).id()).collect();
    let mut inputs: Vec<FloatTensor<Autodiff<B>>> = inputs
        .into_iter()
        .map(|input| to_node::<B>(input.into_dispatch()))
        .collect();
    if inputs.iter().all(|input| !input.is_tracked()) {
        // Burn drops the derivative of an operation without tracked inputs, but its parameters may still be trainable.
        inputs[0] = inputs[0].clone().require_grad();
    }
    let saved = Saved::<B> {
        further: inputs[1..].to_vec(),
        derivative: Arc::new(Mutex::new(Some(derivative))),
        nodes,
    };
    let guards: Vec<NodeGuard> = inputs.iter().map(|input| input.node()).collect();
    let output = match guards.len() {
        1 => register_node::<B, 1>(guards, saved, plain),
        2 => register_node::<B, 2>(guards, saved, plain),
        3 => register_node::<B, 3>(guards, saved, plain),
        4 => register_node::<B, 4>(guards, saved, plain),
        5 => register_node::<B, 5>(guards, saved, plain),
        _ => register_node::<B, MAX_INPUTS>(guards, saved, plain),
    };
    Tensor::from_primitive::<Autodiff<B>>(output)
}

/// Converts a tensor to a node of the graph; one without a graph becomes a constant.
fn to_node<B: Backend>(x: DispatchTensor) -> FloatTensor<Autodiff<B>>
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

fn register_node<B: Backend, const N: usize>(
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

/// State of the step that the graph keeps for the backward pass.
#[derive(Clone)]
struct Saved<B: Backend> {
    /// The inputs after the first, used to look up the gradients they already have.
    further: Vec<FloatTensor<Autodiff<B>>>,
    derivative: Arc<Mutex<Option<Derivative>>>,
    /// Node ids of the parameters.
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
                grads.register::<B>(node.id, to_plain::<B, 3>(gradient));
            }
        }
        for (node, gradient) in nodes.into_iter().zip(made.parameters) {
            if let Some(gradient) = gradient {
                let gradient = Tensor::from_dispatch(gradient);
                grads.register::<B>(node, to_plain::<B, 1>(gradient));
            }
        }
    }
}

fn to_plain<B: Backend, const D: usize>(x: Tensor<D>) -> FloatTensor<B>
where
    DispatchTensor: DispatchKindConversion<B>,
{
    match x.try_into_primitive::<B>() {
        Ok(x) => x,
        Err(_) => unreachable!("gradients live on the backend of their tensors, without a graph"),
    }
}
