//! Products of matrices: which of CubeK's forms are tried for them. The fastest is measured for a size and kept with the other tuned
//! kernels.
//!
//! Burn tries up to 33 forms, among them such as NVIDIA's compiler takes half a minute for, and takes tensor cores for 32-bit numbers
//! wherever these are the fastest. Here a product on tensor cores has ten forms at most, and one whose operands nothing may round
//! ([`crate::kernel::precision`]) the ones that multiply single numbers. Devices without tensor cores have Burn's choice.

use burn::backend::TensorMetadata;
use burn::tensor::DType;
use burn_cubecl::CubeTuneId;
use burn_cubecl::kernel::matmul::{MatmulStrategy, init_matmul_output, matmul};
use burn_cubecl::tensor::CubeTensor;
use cubecl::ir::{ElemType, FloatKind};
use cubecl::tune::{LocalTuner, Tunable, TunableSet, TuneGroup, local_tuner};
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

use crate::kernel::allows_tf32;

/// Both operands, and the place of the result.
type Problem = [CubeTensor; 3];

type Forms = TunableSet<MatmulAutotuneKey, Problem, CubeTensor>;

type Tuner = LocalTuner<MatmulAutotuneKey, CubeTuneId>;

/// The product of two matrices, or of two batches of them, of one format; the result has 32 bits.
pub fn product(x: CubeTensor, y: CubeTensor) -> CubeTensor {
    static CORES: Tuner = local_tuner!("cores");
    static SINGLE: Tuner = local_tuner!("single");
    let multiplied = match x.dtype() {
        DType::BF16 => FloatKind::BF16,
        _ => FloatKind::TF32,
    };
    let exact = multiplied == FloatKind::TF32 && !allows_tf32();
    if has_cores(&x, multiplied) {
        match exact {
            true => fastest(&SINGLE, single_forms, x, y),
            false => fastest(&CORES, forms_on_cores, x, y),
        }
    } else {
        matmul(x, y, None, MatmulStrategy::default(), DType::F32)
            .expect("products have a kernel for every shape")
    }
}

/// Whether a device has tensor cores that multiply this.
fn has_cores(x: &CubeTensor, multiplied: FloatKind) -> bool {
    let multiplied = ElemType::Float(multiplied);
    let all = &x.client.properties().features.matmul;
    all.cmma.iter().any(|form| form.a_type == multiplied)
}

fn fastest(
    tuner: &'static Tuner,
    forms: fn() -> Forms,
    x: CubeTensor,
    y: CubeTensor,
) -> CubeTensor {
    let out = init_matmul_output(&x, &y, DType::F32);
    if out.shape().num_elements() == 0 {
        return out;
    }
    let client = x.client.clone();
    let id = CubeTuneId::new(&client, &x.device);
    let forms = tuner.init(&id, forms);
    tuner.execute(&id, &client, forms, [x, y, out.clone()]);
    out
}

/// Which of the forms of a set a size tries.
#[derive(Clone, Copy)]
enum Tried {
    Always,
    /// Sizes that keep tensor cores busy.
    Large,
    /// Where no other form does a problem. There is one in each set.
    AtLast,
}

impl Tried {
    /// Forms of the highest number are tried; those below zero never are.
    fn priority(self, key: &MatmulAutotuneKey) -> i8 {
        let small = matches!(key.analysis.scale_global, MatmulGlobalScale::Small);
        match self {
            Self::Always => 1,
            Self::Large if small => -1,
            Self::Large => 1,
            Self::AtLast => 0,
        }
    }
}

fn forms_on_cores() -> Forms {
    let simple = |tile_matmul, multi_rows| SimpleArgs {
        multi_rows,
        tile_matmul,
    };
    let ordered = |row_count| {
        Strategy::OrderedDoubleMma(Inferred(OrderedSelectionArgs {
            partition_k: Some(2),
            row_count: Some(row_count),
            rows_per_plane: Some(2),
            tile_matmul: Mma,
        }))
    };
    let double = Strategy::DoubleCyclicMma(Inferred(DoubleBufferingArgs {
        specialized: false,
        tile_matmul: Mma,
    }));
    // The first one is what CubeCL falls back on.
    set([
        (Strategy::Naive, Tried::AtLast),
        (
            Strategy::SimpleCyclicCmma(Inferred(simple(Cmma, false))),
            Tried::Always,
        ),
        (
            Strategy::SimpleCyclicMma(Inferred(simple(Mma, false))),
            Tried::Always,
        ),
        (
            Strategy::SimpleCyclicCmma(Inferred(simple(Cmma, true))),
            Tried::Large,
        ),
        (
            Strategy::SimpleCyclicMma(Inferred(simple(Mma, true))),
            Tried::Large,
        ),
        (ordered(4), Tried::Large),
        (ordered(8), Tried::Large),
        (double, Tried::Large),
        (
            Strategy::SpecializedCyclicMma(Inferred(().into())),
            Tried::Large,
        ),
        (
            Strategy::SimpleTmaMma(Inferred(simple(Mma, true))),
            Tried::Large,
        ),
        (
            Strategy::SpecializedTmaMma(Inferred(().into())),
            Tried::Large,
        ),
    ])
}

fn single_forms() -> Forms {
    let simple = SimpleUnitSelectionArgs {
        tile_size: MaxTileSize,
    };
    let double = DoubleUnitSelectionArgs {
        tile_size: MaxTileSize,
    };
    set([
        (Strategy::Naive, Tried::Always),
        (Strategy::Gemm(Inferred(Default::default())), Tried::Always),
        (Strategy::SimpleUnit(Inferred(simple)), Tried::Always),
        (Strategy::DoubleUnit(Inferred(double)), Tried::Large),
    ])
}

fn set<const N: usize>(forms: [(Strategy, Tried); N]) -> Forms {
    let group = TuneGroup::new("products", |_: &MatmulAutotuneKey| 1);
    let fresh = |_: &MatmulAutotuneKey, [x, y, out]: &Problem| [x.clone(), y.clone(), out.copy()];
    forms
        .into_iter()
        .fold(Forms::new(key, fresh), |set, (strategy, tried)| {
            let name = strategy.to_string();
            let form = move |problem: Problem| launched(&strategy, problem);
            let form = Tunable::new(&name, form);
            set.with(form.group(&group, move |key| tried.priority(key)))
        })
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

/// What the choice depends on.
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
