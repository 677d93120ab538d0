//! The disagreement of heads (`src/nn/attention/diversity.rs`) against a few lines of torch.

use crate::experts::{TOLERANCE, device, tensor};
use crate::oracle::{Oracle, difference, values};
use burn::tensor::Tensor;
use formwork::nn::attention::diversity;

#[test]
fn heads_disagree_as_in_the_paper() {
    let oracle = Oracle::open("experts");
    let heads = tensor::<4>(&oracle, "diversity.heads").require_grad();
    let mean = diversity::similarity(heads.clone(), Some(&[5, 3])).unwrap();
    let theirs = oracle.array("diversity.mean").values;
    assert!(difference(&values(mean.clone()), &theirs) < TOLERANCE);
    let of = values(heads.grad(&mean.backward()).unwrap());
    assert!(difference(&of, &oracle.array("diversity.grad").values) < TOLERANCE);
    let alike = Tensor::<4>::ones([2, 3, 5, 4], &device());
    assert!((values(diversity::similarity(alike.clone(), None).unwrap())[0] - 1.0).abs() < 1e-6);
    let zeros = (alike * 0.0).require_grad();
    let of_zeros = diversity::similarity(zeros.clone(), None)
        .unwrap()
        .backward();
    assert!(
        values(zeros.grad(&of_zeros).unwrap())
            .iter()
            .all(|g| *g == 0.0)
    );
    assert!(diversity::similarity(zeros, Some(&[0, 0])).is_none());
}
