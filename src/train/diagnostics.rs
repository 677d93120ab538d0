//! `diagnostics.jsonl`: how each part of a model learns, measured every few steps.
//!
//! A part is a block of a stack (`blocks.3`, `decoder.blocks.0`) or a module outside the blocks (`embedding`,
//! `final_norm`, `head`). A line holds the requested measures, each an object from parts to numbers:
//!
//! * `gradient_norm`: L2 norm of the gradient of the part's parameters, before clipping;
//! * `update_norm`: L2 norm of the change of these parameters in the step, and `update_ratio`, that norm over their own
//!   norm;
//! * `activation_rms`: root mean square of the residual stream after each block;
//! * `attention_entropy`: mean entropy of each layer's attention weights in nats, cross-attention as `….cross`.
//!
//! The last two are measured on the step's first micro-batch. Parameters without a gradient (frozen ones) do not count.
//! A step that is skipped has no line. Measuring does not change the run, not even its last bit.

use super::gradients::Gradient;
use super::parameters;
use crate::data::loader::Batch;
use crate::kernel;
use crate::nn::probe::{ProbeRequest, Readings};
use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::HashMap;

/// `[diagnostics]`: what is measured of a model besides its loss, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DiagnosticsConfig {
    /// Steps between lines of diagnostics.jsonl.
    pub every: u64,
    /// Whether to measure the gradient norm of each part.
    pub gradient_norms: bool,
    /// Whether to measure the norm of each part's update, also relative to the norm of its parameters.
    pub update_norms: bool,
    /// Whether to measure the root mean square of the residual stream after each block.
    pub activation_norms: bool,
    /// Whether to measure the attention entropy of each layer; by default if the model's attention forms weights.
    pub attention_entropy: bool,
}

impl Default for DiagnosticsConfig {
    fn default() -> Self {
        Self {
            every: 50,
            gradient_norms: true,
            update_norms: true,
            activation_norms: true,
            attention_entropy: true,
        }
    }
}

impl DiagnosticsConfig {
    /// Returns whether the step with this number, from 1, is measured.
    pub fn measures(&self, step: u64) -> bool {
        step.is_multiple_of(self.every.max(1))
    }

    /// Requests readings of a step's first micro-batch.
    pub fn request_readings(&self, batches: &mut [Batch]) {
        let wanted = ProbeRequest {
            activations: self.activation_norms,
            attention: self.attention_entropy,
        };
        if let Some(first) = batches.first_mut()
            && wanted != ProbeRequest::default()
        {
            first.watch = Some(wanted);
        }
    }
}

/// The measurements of one step; a measure that was not requested is missing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diagnosis {
    /// The step, from 1.
    pub step: u64,
    /// Measures by name, each with its values by part: norms of gradients and updates, ratios, readings of the forward pass.
    pub measures: Vec<(&'static str, Vec<(String, f64)>)>,
}

impl Diagnosis {
    /// Builds the line of the journal.
    pub fn line(&self) -> Value {
        let mut line = Map::new();
        line.insert("step".into(), self.step.into());
        for (name, parts) in &self.measures {
            let parts = parts.iter().map(|(part, x)| (part.clone(), (*x).into()));
            line.insert((*name).into(), Value::Object(parts.collect()));
        }
        line.into()
    }
}

/// A step that is being measured: the values known before the weights are updated.
pub struct BeforeUpdate {
    config: DiagnosticsConfig,
    parts: HashMap<ParamId, String>,
    gradients: Squares,
    weights: Option<GradientsParams>,
    readings: Readings,
}

impl BeforeUpdate {
    /// Measures the gradient, and copies the weights if their change is measured.
    pub fn new<M: Module>(config: DiagnosticsConfig, model: &M, gradient: &mut Gradient) -> Self {
        let all = parameters::list(model).into_iter();
        let mut parts: HashMap<ParamId, String> = all.map(|p| (p.id, part_of(&p.path))).collect();
        let mut visitor = GradientSquares {
            gradients: &gradient.gradients,
            parts: &mut parts,
            squares: Squares::default(),
        };
        model.visit(&mut visitor);
        Self {
            config,
            gradients: visitor.squares,
            weights: config.update_norms.then(|| parameters::values(model)),
            readings: gradient.output.readings.take().unwrap_or_default(),
            parts,
        }
    }

    /// Measures the change made by the step with this number, from 1.
    pub fn after<M: Module>(self, step: u64, model: &M) -> Diagnosis {
        let mut measures = Vec::new();
        if self.config.gradient_norms {
            measures.push(("gradient_norm", self.gradients.norms()));
        }
        if let Some(weights) = self.weights {
            let mut visitor = ChangeSquares {
                weights,
                parts: &self.parts,
                moved: Squares::default(),
                whole: Squares::default(),
            };
            model.visit(&mut visitor);
            let (moved, whole) = (visitor.moved.norms(), visitor.whole.norms());
            let ratios = moved.iter().zip(&whole);
            let ratios = ratios.map(|((part, moved), (_, whole))| (part.clone(), moved / whole));
            let ratios = ratios.collect();
            measures.extend([("update_norm", moved), ("update_ratio", ratios)]);
        }
        if self.config.activation_norms {
            measures.push(("activation_rms", self.readings.activation_rms));
        }
        if self.config.attention_entropy {
            measures.push(("attention_entropy", self.readings.attention_entropy));
        }
        Diagnosis { step, measures }
    }
}

/// Returns the part that a parameter belongs to, from its path: a block, or the outermost module outside the blocks.
pub fn part_of(path: &str) -> String {
    // These modules only contain others.
    let holds = |name: &&str| !matches!(*name, "model" | "stack" | "network" | "cells");
    let names: Vec<&str> = path.split('.').filter(holds).collect();
    let inside = matches!(
        names.first(),
        Some(&("encoder" | "decoder" | "generator" | "pixel_decoder" | "image" | "text"))
    );
    let inside = usize::from(inside);
    let depth = match names.get(inside) {
        Some(&("blocks" | "layers")) => 2,
        Some(&"stages") => 4,
        Some(&"stem") if names.get(inside + 1) == Some(&"stages") => 5,
        _ => 1,
    };
    names[..names.len().min(inside + depth)].join(".")
}

/// Sums of squares by part, in the order of the parameters.
#[derive(Default)]
struct Squares(Vec<(String, f64)>);

impl Squares {
    fn add(&mut self, part: &str, squares: f64) {
        match self.0.iter_mut().find(|(name, _)| name == part) {
            Some((_, sum)) => *sum += squares,
            None => self.0.push((part.into(), squares)),
        }
    }

    fn norms(self) -> Vec<(String, f64)> {
        let roots = self.0.into_iter().map(|(part, sum)| (part, sum.sqrt()));
        roots.collect()
    }
}

/// Measures gradients, and drops parameters without a gradient from `parts`.
struct GradientSquares<'a> {
    gradients: &'a GradientsParams,
    parts: &'a mut HashMap<ParamId, String>,
    squares: Squares,
}

impl ModuleVisitor for GradientSquares<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        match (self.gradients.get::<D>(param.id), self.parts.get(&param.id)) {
            (Some(gradient), Some(part)) => {
                self.squares.add(part, kernel::sum_of_squares(&gradient));
            }
            _ => drop(self.parts.remove(&param.id)),
        }
    }
}

/// Measures the change of the parameters and their norm before it.
struct ChangeSquares<'a> {
    weights: GradientsParams,
    parts: &'a HashMap<ParamId, String>,
    moved: Squares,
    whole: Squares,
}

impl ModuleVisitor for ChangeSquares<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let before = self.weights.remove::<D>(param.id);
        if let (Some(before), Some(part)) = (before, self.parts.get(&param.id)) {
            let after = kernel::untracked(param.val());
            self.moved
                .add(part, kernel::squared_distance(&after, &before));
            self.whole.add(part, kernel::sum_of_squares(&before));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::part_of;

    #[test]
    fn parts_are_blocks_and_what_stands_outside() {
        for (path, wanted) in [
            ("model.embedding.weight", "embedding"),
            ("model.embedding.norm.gamma", "embedding"),
            ("model.position.table", "position"),
            ("model.stack.blocks.11.attention.query.weight", "blocks.11"),
            ("model.stack.final_norm.gamma", "final_norm"),
            ("model.head.weight", "head"),
            ("model.cells.layers.1.gates.input", "layers.1"),
            ("model.encoder.layers.0.gates.hidden", "encoder.layers.0"),
            ("head.transform.weight", "head"),
            (
                "generator.network.stack.blocks.1.attention.query.weight",
                "generator.blocks.1",
            ),
            ("generator.head.bias", "generator.head"),
            ("pair_head.bias", "pair_head"),
            (
                "model.encoder.stack.blocks.0.feed_forward.up.weight",
                "encoder.blocks.0",
            ),
            ("model.decoder.position.table", "decoder.position"),
            ("model.decoder.stack.final_norm.gamma", "decoder.final_norm"),
            ("model.source_embedding.weight", "source_embedding"),
            ("model.stem.projection.weight", "stem"),
            ("model.class_token", "class_token"),
            ("model.stack.blocks.2.attention.key.bias", "blocks.2"),
            ("model.stem.convolution.weight", "stem"),
            (
                "model.stages.1.blocks.0.layers.0.norm.gamma",
                "stages.1.blocks.0",
            ),
            (
                "model.stem.network.stages.1.blocks.0.layers.0.norm.gamma",
                "stem.stages.1.blocks.0",
            ),
            ("model.stem.network.stem.norm.gamma", "stem"),
        ] {
            assert_eq!(part_of(path), wanted, "{path}");
        }
    }
}
