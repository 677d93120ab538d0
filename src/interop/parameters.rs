//! The parameters of a module by their dotted paths: their values under HF's names, and their shapes.

use super::rename::Table;
use super::weights::Array;
use crate::nn::path::Path;
use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::Tensor;
use std::collections::BTreeMap;

/// The weights of `module` under HF's names.
pub fn to_hf<M: Module>(module: &M, table: &Table) -> BTreeMap<String, Array> {
    table.export(&arrays(module))
}

/// The values of every parameter, by dotted path.
pub fn arrays<M: Module>(module: &M) -> BTreeMap<String, Array> {
    struct Values {
        path: Path,
        found: BTreeMap<String, Array>,
    }
    impl ModuleVisitor for Values {
        fn enter_module(&mut self, name: &str, container: &str) {
            self.path.enter(name, container);
        }
        fn exit_module(&mut self, _name: &str, container: &str) {
            self.path.exit(container);
        }
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let tensor = param.val();
            let shape = tensor.dims().to_vec();
            let values = tensor.into_data().iter::<f32>().collect();
            self.found
                .insert(self.path.joined(), Array { shape, values });
        }
    }
    let mut visitor = Values {
        path: Path::default(),
        found: BTreeMap::new(),
    };
    module.visit(&mut visitor);
    visitor.found
}

/// The shape of every parameter, by dotted path, without making one.
pub fn shapes<M: Module>(module: &M) -> BTreeMap<String, Vec<usize>> {
    struct Shapes {
        path: Path,
        found: BTreeMap<String, Vec<usize>>,
    }
    impl ModuleVisitor for Shapes {
        fn enter_module(&mut self, name: &str, container: &str) {
            self.path.enter(name, container);
        }
        fn exit_module(&mut self, _name: &str, container: &str) {
            self.path.exit(container);
        }
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.found
                .insert(self.path.joined(), param.lazy_shape().to_vec());
        }
    }
    let mut visitor = Shapes {
        path: Path::default(),
        found: BTreeMap::new(),
    };
    module.visit(&mut visitor);
    visitor.found
}
