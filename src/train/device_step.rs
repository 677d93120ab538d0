//! A training step whose loss and norm stay on the device, and its replays ([`crate::kernel::replay`]).

use super::ema::Ema;
use super::gradients::{self, Gradient};
use super::norms;
use super::parameters;
use super::verdict::Verdict;
use crate::data::batch::{Batch, Content};
use crate::device;
use crate::error::{Error, Result};
use crate::kernel::replay::{self, Replay, StepValues};
use crate::task::{StepOutput, TrainableModel};
use burn::module::{ModuleVisitor, Param, ParamId};
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{Tensor, TensorData};

/// The model, optimizer and average that a step updates.
pub struct StepTargets<'a, M> {
    /// The weights; always `Some` between steps.
    pub model: &'a mut Option<M>,
    /// The optimizer with its moments.
    pub optimizer: &'a mut ModuleOptimizer,
    /// The moving average of the weights.
    pub ema: &'a mut Option<Ema<M>>,
}

/// A model with its optimizer, outside a run.
pub struct ModelWithOptimizer<M> {
    model: Option<M>,
    optimizer: ModuleOptimizer,
    ema: Option<Ema<M>>,
}

impl<M: TrainableModel> ModelWithOptimizer<M> {
    /// Builds the pair, without a moving average.
    pub fn new(model: M, optimizer: ModuleOptimizer) -> Self {
        Self {
            model: Some(model),
            optimizer,
            ema: None,
        }
    }

    /// Returns the model between two steps.
    pub fn model(&self) -> &M {
        between(self.model.as_ref())
    }

    /// Borrows what a step on the device updates.
    pub fn step_targets(&mut self) -> StepTargets<'_, M> {
        StepTargets {
            model: &mut self.model,
            optimizer: &mut self.optimizer,
            ema: &mut self.ema,
        }
    }

    /// Updates the weights with gradients that the host has accepted.
    pub fn optimize(&mut self, lr: f64, gradients: GradientsParams) {
        let model = between(self.model.take());
        self.model = Some(model.optimize(&mut self.optimizer, lr.into(), gradients));
    }
}

/// Unwraps a model that no step has taken out.
fn between<T>(model: Option<T>) -> T {
    match model {
        Some(model) => model,
        None => unreachable!("a step puts the model back"),
    }
}

/// A step that was taken, as far as the host knows.
pub struct QueuedStep {
    /// Sums of the step, still unread on the device.
    pub output: StepOutput,
    /// Squared norm of the gradient, `[1]`.
    pub squares: Tensor<1>,
    /// Parameters that have a gradient in this step.
    pub updated: Vec<ParamId>,
}

impl QueuedStep {
    /// Copies the sums into buffers that the next replay does not overwrite; `scored` is the number of values that the
    /// step scored.
    fn copy_sums(&self, scored: usize) -> Self {
        let mut all = self.output.unread.tensors();
        all.push(self.squares.clone());
        let count = all.len();
        // `cat` of one tensor would not copy; there are at least two, a loss and a squared norm.
        let all = Tensor::cat(all, 0);
        let mut each = (0..count).map(|i| all.clone().narrow(0, i, 1));
        let mut output = self.output.clone();
        output.unread.replace(each.by_ref());
        output.loss.weight = scored as f64;
        Self {
            output,
            squares: each.next().unwrap_or_else(|| self.squares.clone()),
            updated: self.updated.clone(),
        }
    }
}

impl<M: TrainableModel> StepTargets<'_, M> {
    fn model(&self) -> &M {
        between(self.model.as_ref())
    }

    /// Updates everything with a gradient that is not read, unless it is bad; `states` holds the batch norms'
    /// statistics before the step.
    ///
    /// # Errors
    /// If no parameter has a gradient.
    pub fn update_with(
        &mut self,
        mut gradient: Gradient,
        states: GradientsParams,
        (lr, clip_norm): (f64, f64),
        before: Option<Tensor<1>>,
    ) -> Result<(QueuedStep, Verdict)> {
        let verdict = Verdict::new(&gradient, clip_norm, before);
        let (Some(verdict), Some(squares)) = (verdict, gradient.squares.take()) else {
            return Err(Error::run("a step has no gradient of any parameter"));
        };
        let model = between(self.model.take());
        let own = std::mem::replace(&mut gradient.gradients, GradientsParams::new());
        let moved = norms::with_gradient(&model, &own);
        let optimizer = &mut *self.optimizer;
        let model = verdict.run_under(|| model.optimize(optimizer, lr.into(), own));
        model.store_kept(&gradient.output);
        let model = verdict.restore_unless_taken(model, states);
        let ema = self.ema.take();
        *self.ema = ema.map(|ema| ema.update_if(&model, &verdict));
        *self.model = Some(model);
        let taken = QueuedStep {
            output: gradient.output,
            squares,
            updated: moved,
        };
        Ok((taken, verdict))
    }
}

/// Sizes that the host puts into the launches of a step besides the batch's data.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LaunchSizes(Vec<[usize; 8]>);

impl LaunchSizes {
    fn of(batches: &[Batch]) -> Self {
        let each = batches.iter().map(|batch| {
            [
                batch.rows,
                batch.first_row,
                // Targets at the ends of packed documents are not scored; the device reads how many others there are.
                if is_packed(batch) { 0 } else { batch.scored },
                batch.second,
                batch.tokens,
                batch.step_second,
                batch.step_tokens,
                batch.step_rows,
            ]
        });
        Self(each.collect())
    }
}

/// Whether rows hold several documents that are masked from each other.
fn is_packed(batch: &Batch) -> bool {
    match &batch.content {
        Content::Text(texts) => texts.documents.is_some(),
        Content::Pairs(_) | Content::Images(_) | Content::Captioned(_) | Content::Spoken(_) => {
            false
        }
    }
}

/// Steps of equal size that are recorded and replayed.
#[derive(Default)]
pub struct Replays {
    replay: Option<Replay>,
    sizes: Option<LaunchSizes>,
    /// Whether all steps so far were good, `[1]`; replays read and write this buffer.
    all_taken: Option<Tensor<1>>,
    /// Sums of the recorded step; every replay overwrites them.
    taken: Option<QueuedStep>,
}

impl Replays {
    /// Returns whether the next step is a replay, if its size fits.
    pub fn are_ready(&self) -> bool {
        self.taken.is_some()
    }

    /// Returns whether steps were taken in preparation of a recording or from one.
    pub fn are_under_way(&self) -> bool {
        self.replay.is_some()
    }

    /// Returns whether a step has the size of the replayed steps.
    pub fn fit(&self, batches: &[Batch]) -> bool {
        self.sizes
            .as_ref()
            .is_none_or(|own| *own == LaunchSizes::of(batches))
    }

    /// Starts over after a step that was not a replay.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// Takes a step, by running it or by replaying it.
    ///
    /// # Errors
    /// If the task's steps cannot be replayed.
    pub fn step<M: TrainableModel>(
        &mut self,
        mut moving: StepTargets<'_, M>,
        batches: Vec<Batch>,
        (lr, clip_norm): (f64, f64),
    ) -> Result<QueuedStep> {
        let inputs = inputs(moving.model(), &batches)?;
        self.sizes = Some(LaunchSizes::of(&batches));
        let replay = match &mut self.replay {
            Some(replay) => replay,
            none => none.insert(begin_replay(moving.model())?),
        };
        // The first pass is an ordinary step.
        let good = match replay.is_first_pass() {
            true => None,
            false => Some(
                self.all_taken
                    .get_or_insert_with(|| one(moving.model()))
                    .clone(),
            ),
        };
        let places = good.as_ref().map(|_| weight_addresses(moving.model()));
        let step = batches.first().map_or(0, |batch| batch.step);
        let scored = batches.iter().map(|batch| batch.scored).sum();
        let made = replay.step(StepValues { step, lr }, inputs, || {
            let gradient = gradients::accumulate(moving.model(), batches);
            let none = GradientsParams::new();
            let (taken, verdict) =
                moving.update_with(gradient, none, (lr, clip_norm), good.clone())?;
            if let Some(good) = &good {
                replay::overwrite(good, verdict.taken());
            }
            Ok::<_, Error>(taken)
        })?;
        let Some(taken) = made.transpose()? else {
            let taken = self.taken.as_ref().map(|taken| taken.copy_sums(scored));
            return taken.ok_or_else(|| Error::run("no recorded step can be replayed"));
        };
        if places.is_some_and(|places| places != self::weight_addresses(moving.model())) {
            return Err(Error::run(
                "the step cannot be replayed: it moves weights to other buffers; remove `replay` from [train]",
            ));
        }
        let copied = taken.copy_sums(scored);
        self.taken = replay.is_recorded().then_some(taken);
        Ok(copied)
    }
}

/// Begins a replay with nothing recorded yet.
fn begin_replay<M: TrainableModel>(model: &M) -> Result<Replay> {
    if !parameters::states(model).is_empty() {
        return Err(Error::usage(
            "[train] replay = true does not support the running averages of batch norms; remove it",
        ));
    }
    let device = model.devices().into_iter().next();
    let replay = device.and_then(|device| Replay::new(&device));
    replay.ok_or_else(|| {
        Error::usage("[train] replay = true needs a GPU and a build without `fusion`; remove it")
    })
}

/// Returns a tensor of 1 on the model's device.
fn one<M: TrainableModel>(model: &M) -> Tensor<1> {
    let device = model
        .devices()
        .into_iter()
        .next()
        .unwrap_or_else(device::host);
    Tensor::ones([1], &device.without_autodiff())
}

/// Returns the addresses of a model's weights in device memory.
fn weight_addresses<M: TrainableModel>(model: &M) -> Vec<u64> {
    let mut places = WeightAddresses(Vec::new());
    model.visit(&mut places);
    places.0
}

struct WeightAddresses(Vec<u64>);

impl ModuleVisitor for WeightAddresses {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.extend(replay::buffer_id(&param.val()));
    }
}

fn inputs<M: TrainableModel>(model: &M, batches: &[Batch]) -> Result<Vec<TensorData>> {
    let mut all = Vec::new();
    for batch in batches {
        let Some(own) = model.inputs(batch) else {
            return Err(Error::usage(
                "[train] replay = true supports only steps of one shape: next-token prediction and masked_lm with texts of one length \
                 (no padding, no pairs, no auxiliary losses) and image_classification; remove it",
            ));
        };
        all.extend(own);
    }
    Ok(all)
}
