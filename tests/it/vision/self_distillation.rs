//! Self-distillation against the paper's formulas in torch with HF's `ViTModel` (`tests/goldens/make_self_distillation.py`):
//! loss, all gradients, the next centre, the teacher after averaging, k-nearest-neighbour votes.

mod contracts;
mod runs;

use crate::oracle::{Oracle, difference, hf_folder, values};
use crate::transfer::{gradients_of, put, values_of};
use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::Device;
use formwork::data::Shape;
use formwork::data::batch::Views;
use formwork::data::images::ViewsConfig;
use formwork::evaluate::neighbours::KnnEmbeddings;
use formwork::interop::read_hf;
use formwork::interop::rename::Table;
use formwork::interop::weights::Array;
use formwork::model::{BuildContext, ModelConfig};
use formwork::nn::pass::Pass;
use formwork::task::{KeptVectors, SelfDistillation, SelfDistillationConfig, Task};
use formwork::train::ema::{DecayRule, Ema};
use formwork::train::parameters::{materialize, name_parameters};
use std::collections::BTreeMap;

type Arrays = BTreeMap<String, Array>;

fn task(
    model: &ModelConfig,
    config: &SelfDistillationConfig,
    image: [usize; 3],
) -> SelfDistillation {
    let shape = Shape {
        image: Some(image),
        ..Shape::default()
    };
    let inputs = BuildContext {
        shape: &shape,
        seed: 5,
        device: &Device::flex().autodiff(),
    };
    let ModelConfig::Vision(model) = model else {
        unreachable!("a vision transformer is wanted")
    };
    let task = SelfDistillation::new(model, config, &inputs).unwrap();
    materialize(name_parameters(task))
}

/// Returns an oracle's arrays under a prefix, by Formwork's paths and in the shapes of `like`.
fn ours(oracle: &Oracle, prefix: &str, table: &Table, like: &Arrays) -> Arrays {
    let theirs = oracle.arrays(|name| name.strip_prefix(prefix));
    let named = theirs.into_iter().map(|(name, array)| {
        let path = match name.strip_prefix("head.") {
            Some(of_head) => format!("projection_head.{of_head}"),
            None => {
                let mut rules = table.rules.iter();
                let rule = rules.find(|rule| rule.theirs == [name.as_str()]);
                let rule = rule.unwrap_or_else(|| panic!("the table does not know {name}"));
                rule.ours[0].clone()
            }
        };
        let shape = like[&path].shape.clone();
        let Array { values, .. } = array;
        (path, Array { shape, values })
    });
    named.collect()
}

/// Writes the oracle's network as a classifier's folder.
fn folder(oracle: &Oracle) -> tempfile::TempDir {
    let mut tensors = oracle.arrays(|name| {
        let name = name.strip_prefix("weight.")?;
        name.starts_with("vit.").then_some(name)
    });
    for (name, shape) in [
        ("classifier.weight", vec![2, 24]),
        ("classifier.bias", vec![2]),
    ] {
        let values = vec![0.0; shape.iter().product()];
        tensors.insert(name.into(), Array { shape, values });
    }
    hf_folder(&oracle.config(), &tensors)
}

#[test]
fn a_step_is_the_papers() {
    let oracle = Oracle::open("self_distillation");
    let folder = folder(&oracle);
    let hf = read_hf(folder.path(), &[]).unwrap();
    let (model, table) = (&hf.shape.model, hf.table());
    let config = SelfDistillationConfig {
        d_hidden: 13,
        d_bottleneck: 7,
        d_out: 11,
        teacher_temperature: 0.05,
        views: ViewsConfig {
            local: 3,
            local_size: 8,
            ..ViewsConfig::default()
        },
        ..SelfDistillationConfig::default()
    };
    let image = [3, 12, 12];
    let fresh = task(model, &config, image);
    let like = values_of(&fresh);
    let weights = |prefix: &str| {
        let mut weights = ours(&oracle, prefix, &table, &like);
        weights.insert("centre".into(), oracle.array("centre"));
        weights
    };
    let before = weights("weight.");
    let student = put(fresh.clone(), &before);
    let teacher = put(fresh, &weights("teacher."));
    let taught = student.with_teacher(&teacher);
    let views = Views {
        global: oracle.array("global").values,
        local: oracle.array("local").values,
        side: 8,
    };
    let pass = Pass::evaluation();
    let made = taught.compare(&views, (4, image), Some(0), &pass);
    let scalar = |name: &str| oracle.array(name).values;
    let loss = made.loss / 4.0;
    for (ours, name) in [
        (values(loss.clone()), "loss"),
        (values(made.usage), "usage"),
        (values(made.targets / 4.0), "targets"),
    ] {
        let off = difference(&ours, &scalar(name));
        assert!(off < 1e-5, "{name} is off by {off:e}");
    }
    let gradients = GradientsParams::from_grads(loss.backward(), &taught);
    let found = gradients_of(&taught, &gradients);
    let wanted = ours(&oracle, "grad.", &table, &like);
    assert!(found.keys().eq(wanted.keys()), "other gradients");
    for (path, theirs) in &wanted {
        let off = difference(&found[path].values, &theirs.values);
        assert!(off < 2e-4, "{path} is off by {off:e}");
    }

    taught.store_kept(&KeptVectors {
        sum: made.told,
        count: 8.0,
    });
    let centre = values_of(&taught)["centre"].values.clone();
    let off = difference(&centre, &scalar("next_centre"));
    assert!(off < 1e-5, "the centre is off by {off:e}");

    let mut after = before;
    for (path, gradient) in &wanted {
        let weights = after.get_mut(path).unwrap().values.iter_mut();
        weights
            .zip(&gradient.values)
            .for_each(|(weight, gradient)| *weight -= 0.5 * gradient);
    }
    after.get_mut("centre").unwrap().values = centre.clone();
    let moved = put(taught, &after);
    let rule = DecayRule::Teacher {
        from: 0.9,
        steps: 10,
    };
    let average = Ema::from_average(rule, 3, teacher.valid()).update(&moved);
    let found = values_of(average.model());
    for (path, theirs) in &ours(&oracle, "average.", &table, &like) {
        let off = difference(&found[path].values, &theirs.values);
        assert!(off < 1e-5, "{path} of the teacher is off by {off:e}");
    }
    // The centre itself is not averaged with the teacher's weights.
    assert_eq!(found["centre"].values, centre);
}

#[test]
fn global_views_alone_are_compared_with_each_other() {
    let oracle = Oracle::open("self_distillation");
    let folder = folder(&oracle);
    let hf = read_hf(folder.path(), &[]).unwrap();
    let config = SelfDistillationConfig {
        d_hidden: 13,
        d_bottleneck: 7,
        d_out: 11,
        teacher_temperature: 0.05,
        views: ViewsConfig {
            local: 0,
            ..ViewsConfig::default()
        },
        ..SelfDistillationConfig::default()
    };
    let fresh = task(&hf.shape.model, &config, [3, 12, 12]);
    let (like, table) = (values_of(&fresh), hf.table());
    let of = |prefix: &str| {
        let mut weights = ours(&oracle, prefix, &table, &like);
        weights.insert("centre".into(), oracle.array("centre"));
        put(fresh.clone(), &weights)
    };
    let taught = of("weight.").with_teacher(&of("teacher."));
    let views = Views {
        global: oracle.array("global").values,
        ..Views::default()
    };
    let made = taught.compare(&views, (4, [3, 12, 12]), Some(0), &Pass::evaluation());
    let off = difference(
        &values(made.loss / 4.0),
        &oracle.array("global_alone.loss").values,
    );
    assert!(off < 1e-5, "the loss is off by {off:e}");
}

#[test]
fn neighbours_vote_as_in_torch() {
    let oracle = Oracle::open("self_distillation");
    let vectors = oracle.array("vectors").values;
    let (classes, told) = (oracle.integers("classes").1, oracle.integers("told").1);
    let right = told.iter().zip(&classes).filter(|(a, b)| a == b).count();
    let found = KnnEmbeddings::new(6, &vectors, &classes).accuracy();
    assert_eq!(found, right as f64 / 60.0);
}
