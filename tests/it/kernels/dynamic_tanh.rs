//! Dynamic tanh against its composed form: the value, and the gradients of all inputs.

use burn::tensor::Tensor;
use formwork::kernel::{self, composed};

use super::{random, same};

#[test]
fn dynamic_tanhs() {
    for [b, s, d] in [[1, 1, 1], [2, 3, 5], [1, 1, 64], [3, 50, 33], [5, 70, 192]] {
        let x = random([b, s, d], 6) * 2.0 + 0.5;
        let [gamma, beta] = [random([1, 1, d], 7), random([1, 1, d], 8)];
        let alpha = random([1, 1, 1], 9).abs() + 0.1;
        type Of = fn(Tensor<3>, Tensor<1>, Tensor<1>, Tensor<1>) -> Tensor<3>;
        let of = |f: Of| {
            move |[x, a, g, b]: [Tensor<3>; 4]| f(x, a.reshape([1]), g.reshape([d]), b.reshape([d]))
        };
        let all = [x.clone(), alpha.clone(), gamma.clone(), beta.clone()];
        let name = format!("dynamic tanh {:?}", [b, s, d]);
        same(
            &name,
            all,
            of(kernel::dynamic_tanh),
            of(composed::dynamic_tanh),
        );
        let turned = |[x, a, g, b]: [Tensor<3>; 4]| [x.swap_dims(0, 1), a, g, b];
        same(
            &format!("{name} of a view"),
            turned([x, alpha, gamma, beta]),
            |all| of(kernel::dynamic_tanh)(turned(all)),
            |all| of(composed::dynamic_tanh)(turned(all)),
        );
    }
}
