//! Two-dimensional positions: MAE's table, and PyTorch's bicubic resampling.

use super::tensor;
use crate::oracle::{Oracle, difference, values};
use burn::tensor::Device;
use formwork::nn::position::resample::resample_grid;
use formwork::nn::position::{Grid, sinusoidal_2d};

#[test]
fn sinusoidal_tables_of_a_grid_are_mae_s() {
    let oracle = Oracle::open("sincos_2d");
    for (name, rows, cols) in [("sincos_3x4", 3, 4), ("sincos_4x4", 4, 4)] {
        let grid = |class_token| Grid {
            rows,
            cols,
            class_token,
        };
        let theirs = oracle.array(name).values;
        let ours = sinusoidal_2d::table(grid(false), 16, 10_000.0);
        assert!(difference(&ours, &theirs) < 1e-6, "{name}");
        let behind_class_token = sinusoidal_2d::table(grid(true), 16, 10_000.0);
        assert_eq!(behind_class_token[..16], [0.0; 16]);
        assert_eq!(behind_class_token[16..], ours);
    }
}

#[test]
fn resampled_tables_are_pytorch_s() {
    let oracle = Oracle::open("sincos_2d");
    let device = Device::flex();
    let flat = |name: &str| {
        let mut array = oracle.array(name);
        if let [rows, cols, d] = array.shape[..] {
            array.shape = vec![rows * cols, d];
        }
        tensor::<2>(&array, &device)
    };
    for (from, to, sizes, class_token) in [
        ("grid_3x3", "grid_5x4", [5, 4], false),
        ("grid_3x3", "grid_2x2", [2, 2], false),
        ("positions_3x3", "positions_5x4", [5, 4], true),
    ] {
        let ours = resample_grid(flat(from), [3, 3], sizes, class_token, false);
        let off = difference(&values(ours), &values(flat(to)));
        assert!(off < 1e-6, "{to} is off by {off:e}");
    }
    for (from, to, sizes) in [
        ("grid_3x3", "antialiased_5x4", [[3, 3], [5, 4]]),
        ("grid_3x3", "antialiased_2x2", [[3, 3], [2, 2]]),
        ("wide_5x9", "antialiased_3x4", [[5, 9], [3, 4]]),
    ] {
        let ours = resample_grid(flat(from), sizes[0], sizes[1], false, true);
        let off = difference(&values(ours), &values(flat(to)));
        assert!(off < 1e-6, "{to} is off by {off:e}");
    }
    let table = flat("positions_3x3");
    let same = resample_grid(table.clone(), [3, 3], [3, 3], true, false);
    assert_eq!(values(same), values(table));
}
