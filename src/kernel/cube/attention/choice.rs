//! Which of two ways attention takes: the faster one, measured once for a form and its sizes and kept with the other tuned kernels.
//! `FORMWORK_ATTENTION` settles it: `products` or `tiles`.

use std::sync::OnceLock;

use burn_cubecl::CubeTuneId;
use burn_cubecl::tensor::CubeTensor;
use cubecl::tune::{AutotuneOutput, LocalTuner, Tunable, TunableSet, local_tuner};

use super::{Backward, Pass, products, tiles};
use crate::kernel::relative::extension::Wanted;

/// The variable that settles it.
pub const SWITCH: &str = "FORMWORK_ATTENTION";

/// Its values.
pub const SWITCHES: &[&str] = &["products", "tiles"];

/// What a way gives.
struct Made<const N: usize>([CubeTensor; N]);

impl<const N: usize> AutotuneOutput for Made<N> {}

/// Inputs of a pass, and the two ways.
trait Ways<const N: usize>: Clone + Send + Sync + 'static {
    /// Forward or backward.
    const NAME: &'static str;

    fn pass(&self) -> &Pass;

    fn by_products(self) -> Made<N>;

    fn in_tiles(self) -> Made<N>;
}

impl Ways<2> for Pass {
    const NAME: &'static str = "forward";

    fn pass(&self) -> &Pass {
        self
    }

    fn by_products(self) -> Made<2> {
        Made(products::forward(&self, None))
    }

    fn in_tiles(self) -> Made<2> {
        Made(tiles::forward(&self))
    }
}

impl Ways<3> for Backward {
    const NAME: &'static str = "backward";

    fn pass(&self) -> &Pass {
        &self.pass
    }

    fn by_products(self) -> Made<3> {
        let none = Wanted {
            bias: false,
            tensors: [false; 5],
        };
        let d = products::backward(&self, None, none).attention;
        Made([d.q, d.k, d.v])
    }

    fn in_tiles(self) -> Made<3> {
        Made(tiles::backward(&self))
    }
}

/// Results and log-sum-exps.
pub fn forward(pass: Pass) -> [CubeTensor; 2] {
    static TUNER: LocalTuner<String, CubeTuneId> = local_tuner!();
    faster(&TUNER, pass)
}

/// Gradients of queries, keys and values.
pub fn backward(backward: Backward) -> [CubeTensor; 3] {
    static TUNER: LocalTuner<String, CubeTuneId> = local_tuner!();
    faster(&TUNER, backward)
}

fn faster<const N: usize, I: Ways<N>>(
    tuner: &'static LocalTuner<String, CubeTuneId>,
    inputs: I,
) -> [CubeTensor; N] {
    match asked() {
        Some("products") => return inputs.by_products().0,
        Some("tiles") => return inputs.in_tiles().0,
        _ => {}
    }
    let (client, device) = (inputs.pass().q.client.clone(), &inputs.pass().q.device);
    let id = CubeTuneId::new(&client, device);
    let ways = tuner.init(&id, || {
        TunableSet::<String, I, Made<N>>::new_cloning_inputs(key::<N, I>)
            .with(Tunable::new("tiles", |inputs: I| {
                Ok::<_, String>(inputs.in_tiles())
            }))
            .with(Tunable::new("products", |inputs: I| {
                Ok::<_, String>(inputs.by_products())
            }))
    });
    tuner.execute(&id, &client, ways, inputs).0
}

/// What the choice depends on.
fn key<const N: usize, I: Ways<N>>(inputs: &I) -> String {
    let pass = inputs.pass();
    let form = pass.softmax.form(0, false, false);
    format!("attention {} {:?} {form:?}", I::NAME, pass.dims)
}

/// The way that the environment asks for.
fn asked() -> Option<&'static str> {
    static ASKED: OnceLock<Option<String>> = OnceLock::new();
    let asked = ASKED.get_or_init(|| std::env::var(SWITCH).ok());
    asked.as_deref()
}
