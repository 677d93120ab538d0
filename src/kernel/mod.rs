//! Fused tensor operations for training transformers, each with its own backward pass.
//!
//! Operations take and return Burn tensors and, optimizer steps aside, may be differentiated. On the CPU backend
//! (flex), float32 tensors go through a Burn backend extension whose kernels (`flex/`) use SIMD chosen at run time and
//! all threads. Most operations also have kernels for GPUs (`cube/`). Every other device or type runs the same formula
//! from plain tensor operations ([`composed`]), which the kernels are also tested against.
//!
//! Results on flex are bit-identical from run to run and for any number of threads: work is divided by size only,
//! never by thread.

mod activation;
mod adaptive;
mod attention;
pub mod composed;
mod convolution;
mod cross_entropy;
pub mod ctc;
#[cfg(all(feature = "gpu", not(feature = "fusion")))]
mod cube;
pub mod custom_op;
pub mod delta_rule;
#[cfg(feature = "kernels")]
mod derivative;
mod descent;
mod dropout;
mod dynamic_tanh;
mod elementwise;
mod embedding;
#[cfg(feature = "kernels")]
pub mod extension;
#[cfg(feature = "flex")]
pub mod flex;
pub mod generalized_delta;
pub mod grouped;
mod linear;
pub mod linear_attention;
mod norm;
mod optim;
mod precision;
pub mod profile;
mod readback;
mod recurrent;
pub mod relative;
pub mod replay;
mod rotary;
mod score_bias;
mod segment_visibility;
pub mod selective_scan;
pub mod short_convolution;
#[cfg(feature = "kernels")]
mod sinks;
pub mod sorted_chunks;
pub mod ssd;
#[cfg(feature = "kernels")]
mod tracked;
mod visibility;
pub mod wkv;

pub use activation::{Activation, activate, gated};
pub use adaptive::{AdaptiveArgs, AdemamixArgs, AdoptArgs, adaptive_step, adopt_step, mean_step};
pub use attention::{
    AttentionOptions, Positional, QuerySelection, attention, attention_entropy, attention_weights,
};
pub use composed::to_f32;
pub use convolution::{ConvolutionSettings, convolution};
pub use cross_entropy::{
    Head, HeadLoss, IGNORE_INDEX, cross_entropy_sum, head_loss, logits_loss, soft_cross_entropy_sum,
};
pub use descent::{DescentArgs, LionArgs, MomentumArgs};
pub use dropout::{DropKey, drop_path, dropout};
pub use dynamic_tanh::dynamic_tanh;
pub use elementwise::{
    ElementwiseStep, ScheduledStep, Updated, elementwise_step, elementwise_step_batched,
    elementwise_step_if,
};
pub use embedding::embedding;
pub use linear::{Operand, PANEL, PANEL_MARK, add, add_dropped, linear, repacked};
pub use norm::{l2_normalise, layer_norm, layer_norm_of_sum, rms_norm, rms_norm_of_sum};
pub use optim::{
    AdamwArgs, StepDecision, adamw_step, batch_launches, decide_step, mean_step_batched,
    mean_step_if, scale, squared_distance, sum_of_squares, sum_of_squares_on_device,
};
pub use precision::{allow_tf32, allows_tf32, round_operands, rounds_operands};
pub use readback::{read, read_count, read_scalars};
pub use recurrent::{Cell, Recurrence, RecurrenceSettings, Sequences, recurrent, zero_state};
pub use relative::{DistanceRows, DistanceTable, Relative};
pub use rotary::rotary;
pub use score_bias::{ScoreBias, diagonals_to_pairs};
pub use visibility::{Documents, Globals, KeyPattern, Pattern, Query, Span, Visibility, Window};

/// An environment variable and the values it accepts.
pub type Switch = (&'static str, &'static [&'static str]);

/// Environment variables that choose among kernels. An empty one counts as unset.
pub const SWITCHES: &[Switch] = &[
    #[cfg(feature = "flex")]
    (flex::simd::SWITCH, flex::simd::SWITCHES),
    #[cfg(all(feature = "gpu", not(feature = "fusion")))]
    (cube::attention::SWITCH, cube::attention::SWITCHES),
    #[cfg(all(feature = "gpu", not(feature = "fusion")))]
    (cube::multiply::SWITCH, cube::multiply::SWITCHES),
];

/// Returns a tensor's value without its autodiff graph, for measurements beside training.
pub fn untracked<const D: usize>(x: burn::tensor::Tensor<D>) -> burn::tensor::Tensor<D> {
    if x.device().is_autodiff() {
        x.inner()
    } else {
        x
    }
}

/// Returns whether a tensor is in host memory, so that reading it does not wait for a device.
pub fn is_on_host<const D: usize>(x: &burn::tensor::Tensor<D>) -> bool {
    #[cfg(feature = "flex")]
    {
        use burn::backend::DispatchDevice;
        let device = x.device().without_autodiff();
        matches!(device.as_dispatch(), DispatchDevice::Flex(_))
    }
    #[cfg(not(feature = "flex"))]
    {
        let _ = x;
        false
    }
}

/// Maximum number of elements of a tensor that the GPU kernels accept: they index in 32 bits.
#[cfg(feature = "kernels")]
const MAX_INDEXED: usize = u32::MAX as usize;

/// Returns whether a tensor is on a CubeCL device (without Burn's fusion) and small enough for 32-bit indices.
#[cfg(feature = "kernels")]
fn is_on_cube<const D: usize>(x: &burn::tensor::Tensor<D>) -> bool {
    #[cfg(all(feature = "gpu", not(feature = "fusion")))]
    return x.shape().num_elements() <= MAX_INDEXED
        && matches!(
            x.device().without_autodiff().as_dispatch(),
            burn::backend::DispatchDevice::Cube(_)
        );
    #[cfg(not(all(feature = "gpu", not(feature = "fusion"))))]
    {
        let _ = x;
        false
    }
}

/// Returns whether every flex kernel accepts a tensor: float32 on flex.
#[cfg(feature = "kernels")]
fn has_flex_kernels<const D: usize>(x: &burn::tensor::Tensor<D>) -> bool {
    x.dtype() == burn::tensor::DType::F32 && is_on_host(x)
}

/// Returns whether the kernels of [`extension`] accept a tensor: float32 on flex or on a GPU.
#[cfg(feature = "kernels")]
fn has_kernels<const D: usize>(x: &burn::tensor::Tensor<D>) -> bool {
    x.dtype() == burn::tensor::DType::F32 && (is_on_host(x) || is_on_cube(x))
}
