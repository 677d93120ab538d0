//! Matrix products: chooses which of CubeK's kernels are tried for a size. The fastest is measured once per size and
//! cached with the other tuned kernels.
//!
//! Burn tries up to 33 kernels, some of which take NVIDIA's compiler half a minute, and it uses tensor cores for
//! 32-bit numbers wherever they are fastest. Here a product on tensor cores has at most seven candidates, one of
//! which is our own ([`pipelined`]). A product whose operands must not be rounded ([`crate::kernel::precision`]) has
//! only the kernels without tensor cores. Devices without tensor cores use Burn's choice.

use std::sync::OnceLock;

use burn::backend::TensorMetadata;
use burn::tensor::DType;
use burn_cubecl::CubeTuneId;
use burn_cubecl::kernel::matmul::{MatmulStrategy, init_matmul_output, matmul};
use burn_cubecl::tensor::CubeTensor;
use cubecl::ir::{ElemType, FloatKind};
use cubecl::tune::{LocalTuner, Tunable, TunableSet, TuneGroup, local_tuner};
use cubecl::zspace::metadata::Metadata;
use cubek::matmul::definition::{MatmulElems, MatmulGlobalElems};
use cubek::matmul::launch::launch_ref;
use cubek::matmul::multi_level::Strategy;
use cubek::matmul::multi_level::components::tile::TileMatmulKind::{Cmma, Mma};
use cubek::matmul::multi_level::routines::TileSizeSelection::MaxTileSize;
use cubek::matmul::multi_level::routines::batch::double_buffering::DoubleBufferingArgs;
use cubek::matmul::multi_level::routines::batch::double_unit::DoubleUnitSelectionArgs;
use cubek::matmul::multi_level::routines::batch::ordered_double_buffering::OrderedSelectionArgs;
use cubek::matmul::multi_level::routines::batch::simple::SimpleArgs;
use cubek::matmul::multi_level::routines::batch::simple_unit::SimpleUnitSelectionArgs;
use cubek::matmul::routine::BlueprintStrategy::Inferred;
use cubek::matmul::tune_key::{MatmulAutotuneKey, MatmulGlobalScale};
use cubek::std::InputBinding;

use super::launch::zeros;
use crate::kernel::allows_tf32;

mod pipelined;

/// Both operands, and the tensor for the result.
type Problem = [CubeTensor; 3];

type KernelSet = TunableSet<MatmulAutotuneKey, Problem, CubeTensor>;

type Tuner = LocalTuner<MatmulAutotuneKey, CubeTuneId>;

const HALF: ElemType = ElemType::Float(FloatKind::BF16);

/// Multiplies two matrices, or two batches of them, of one format; the result has 32 bits.
pub fn product(x: CubeTensor, y: CubeTensor) -> CubeTensor {
    static CORES: Tuner = local_tuner!("cores");
    static SINGLE: Tuner = local_tuner!("single");
    let out = init_matmul_output(&x, &y, DType::F32);
    if [&x, &y].iter().any(|x| x.shape().num_elements() == 0) {
        return zeros(&x, out.shape());
    }
    let problem = [x.clone(), y.clone(), out.clone()];
    if is_own() && pipelined::launched(problem).is_ok() {
        return out;
    }
    match (x.dtype(), allows_tf32()) {
        (DType::BF16, _) if on_cores(&x, &out, FloatKind::BF16) => {
            fastest(&CORES, tensor_core_kernels, [x, y, out])
        }
        (DType::F32, true) if on_cores(&x, &out, FloatKind::TF32) => {
            fastest(&CORES, tensor_core_kernels, [x, y, out])
        }
        (DType::F32, false) if has_cores(&x, FloatKind::TF32) => {
            fastest(&SINGLE, single_precision_kernels, [x, y, out])
        }
        _ => matmul(x, y, None, MatmulStrategy::default(), DType::F32)
            .expect("products have a kernel for every shape"),
    }
}

/// Environment variable that chooses how bfloat16 matrices are multiplied.
pub const SWITCH: &str = "FORMWORK_PRODUCTS";

/// Its values: `fastest` measures every size, `pipelined` uses our own kernel wherever it applies.
pub const SWITCHES: &[&str] = &["fastest", "pipelined"];

fn is_own() -> bool {
    static OWN: OnceLock<bool> = OnceLock::new();
    *OWN.get_or_init(|| std::env::var(SWITCH).as_deref() == Ok("pipelined"))
}

/// Returns whether a device has tensor cores for this format.
fn has_cores(x: &CubeTensor, multiplied: FloatKind) -> bool {
    let multiplied = ElemType::Float(multiplied);
    let all = &x.client.properties().features.matmul;
    all.mma.iter().any(|form| form.a_type == multiplied)
}

/// Returns whether a product should run on tensor cores. Products with a vector are left to Burn's own kernels.
fn on_cores(x: &CubeTensor, out: &CubeTensor, multiplied: FloatKind) -> bool {
    let is_vector = out.shape().iter().rev().take(2).any(|size| *size == 1);
    !is_vector && has_cores(x, multiplied)
}

fn fastest(tuner: &'static Tuner, forms: fn() -> KernelSet, [x, y, out]: Problem) -> CubeTensor {
    let [x, y] = [x, y].map(with_regular_strides);
    let client = x.client.clone();
    let id = CubeTuneId::new(&client, &x.device);
    let forms = tuner.init(&id, forms);
    tuner.execute(&id, &client, forms, [x, y, out.clone()]);
    out
}

/// Replaces the strides of dimensions of size one by the distance to where a next element would begin. Splitting off
/// a single head leaves another stride there, which CubeK's TMA would take for the distance between batches.
fn with_regular_strides(mut x: CubeTensor) -> CubeTensor {
    let shape = x.shape();
    let mut strides = x.meta.strides().to_vec();
    for at in (0..shape.len().saturating_sub(2))
        .rev()
        .filter(|at| shape[*at] == 1)
    {
        let behind = at + 1..shape.len();
        strides[at] = behind.map(|i| shape[i] * strides[i]).max().unwrap_or(1);
    }
    *x.meta = Metadata::new(shape, strides);
    x
}

/// The sizes for which a candidate kernel is tried.
#[derive(Clone, Copy)]
enum CandidateSizes {
    Always,
    /// Small sizes, which keep few processors busy.
    Small,
    /// Large sizes.
    Large,
    /// Large sizes with bfloat16 operands.
    LargeHalves,
    /// Only if no other kernel supports a problem. Each set contains one such kernel.
    LastResort,
    /// Small sizes, and otherwise only if no other kernel supports a problem.
    SmallOrLastResort,
}

impl CandidateSizes {
    /// Returns the priority of a kernel: those with the highest one are tried, those below zero never.
    fn priority(self, key: &MatmulAutotuneKey) -> i8 {
        let small = matches!(key.analysis.scale_global, MatmulGlobalScale::Small);
        match self {
            Self::Small if !small => -1,
            Self::Large | Self::LargeHalves if small => -1,
            Self::LargeHalves if key.definition.elem_lhs != HALF => -1,
            Self::SmallOrLastResort if !small => 0,
            Self::LastResort => 0,
            _ => 1,
        }
    }
}

/// The Burn kernels that were the fastest for 49 of 51 sizes of GPT-2, BERT-base, ViT-B and a small decoder on an
/// NVIDIA H200, 2026-11-27. For the other two, of 21 and 29 microseconds, they are at most 16 % slower. The one with
/// TMA won for 41 sizes, including all of the largest; GPUs without TMA use the others.
fn tensor_core_kernels() -> KernelSet {
    let simple = |tile_matmul, multi_rows| SimpleArgs {
        multi_rows,
        tile_matmul,
    };
    let ordered = OrderedSelectionArgs {
        partition_k: Some(2),
        row_count: Some(8),
        rows_per_plane: Some(2),
        tile_matmul: Mma,
    };
    let double = DoubleBufferingArgs {
        specialized: false,
        tile_matmul: Mma,
    };
    let specialized = Strategy::SpecializedCyclicMma(Inferred(().into()));
    let with_tma = Strategy::SpecializedTmaMma(Inferred(().into()));
    let plain = Strategy::SimpleCyclicCmma(Inferred(simple(Cmma, false)));
    // CubeCL falls back on the first one.
    let set = set([
        (Strategy::Naive, CandidateSizes::LastResort),
        (plain, CandidateSizes::Small),
        (
            Strategy::SimpleCyclicMma(Inferred(simple(Mma, false))),
            CandidateSizes::Always,
        ),
        (
            Strategy::SimpleCyclicMma(Inferred(simple(Mma, true))),
            CandidateSizes::Large,
        ),
        (
            Strategy::OrderedDoubleMma(Inferred(ordered)),
            CandidateSizes::Large,
        ),
        (
            Strategy::DoubleCyclicMma(Inferred(double)),
            CandidateSizes::Large,
        ),
        (specialized, CandidateSizes::Large),
        (with_tma, CandidateSizes::Large),
    ]);
    let own = Tunable::new("pipelined", own_or_simple);
    set.with(own.group(&group(), |key| CandidateSizes::LargeHalves.priority(key)))
}

/// Runs our own kernel, or one of CubeK's if the strides of this problem differ from those of the measured one.
fn own_or_simple(problem: Problem) -> Result<CubeTensor, String> {
    pipelined::launched(problem.clone()).or_else(|_| {
        let simple = SimpleArgs {
            multi_rows: false,
            tile_matmul: Mma,
        };
        launched(&Strategy::SimpleCyclicMma(Inferred(simple)), problem)
    })
}

fn single_precision_kernels() -> KernelSet {
    let simple = SimpleUnitSelectionArgs {
        tile_size: MaxTileSize,
    };
    let double = DoubleUnitSelectionArgs {
        tile_size: MaxTileSize,
    };
    set([
        (Strategy::Naive, CandidateSizes::SmallOrLastResort),
        (
            Strategy::Gemm(Inferred(Default::default())),
            CandidateSizes::Always,
        ),
        (
            Strategy::SimpleUnit(Inferred(simple)),
            CandidateSizes::Always,
        ),
        (
            Strategy::DoubleUnit(Inferred(double)),
            CandidateSizes::Large,
        ),
    ])
}

fn set<const N: usize>(forms: [(Strategy, CandidateSizes); N]) -> KernelSet {
    let fresh = |_: &MatmulAutotuneKey, [x, y, out]: &Problem| [x.clone(), y.clone(), out.copy()];
    forms
        .into_iter()
        .fold(KernelSet::new(key, fresh), |set, (strategy, tried)| {
            let name = strategy.to_string();
            let form = move |problem: Problem| launched(&strategy, problem);
            let form = Tunable::new(&name, form);
            set.with(form.group(&group(), move |key| tried.priority(key)))
        })
}

fn group() -> TuneGroup<MatmulAutotuneKey> {
    TuneGroup::new("products", |_: &MatmulAutotuneKey| 1)
}

fn format(x: &CubeTensor) -> ElemType {
    ElemType::Float(match x.dtype() {
        DType::BF16 => FloatKind::BF16,
        _ => FloatKind::F32,
    })
}

fn launched(strategy: &Strategy, [x, y, out]: Problem) -> Result<CubeTensor, String> {
    let client = out.client.clone();
    let mut formats = MatmulElems::from_globals(&MatmulGlobalElems {
        lhs: format(&x),
        rhs: format(&y),
        out: format(&out),
    });
    let [x, y] = [x, y].map(|x| {
        let format = format(&x);
        InputBinding::new(x.binding(), format)
    });
    let (strategy, place) = (strategy.clone().into(), out.clone().binding());
    match launch_ref(&strategy, &client, x, y, place, &mut formats) {
        Ok(()) => Ok(out),
        Err(fault) => Err(format!("{fault:?}")),
    }
}

/// Returns the properties that the choice depends on.
fn key([x, y, out]: &Problem) -> MatmulAutotuneKey {
    MatmulAutotuneKey::generate(
        &x.client,
        x.meta.shape(),
        y.meta.shape(),
        x.meta.strides(),
        y.meta.strides(),
        x.meta.tiling,
        y.meta.tiling,
        format(x),
        format(y),
        format(out),
        None,
        None,
    )
}
