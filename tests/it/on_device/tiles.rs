//! Attention of bfloat16 operands, in tiles on tensor cores and by separate products, against the CPU's attention of rounded
//! operands: under every visibility rule, with soft caps, biases, dropout and shared key-value heads.
//!
//! The number format and the algorithm of attention are set for a whole process, so each algorithm runs in a separate one. WGSL
//! has no bfloat16.

use std::process::Command;

use burn::tensor::{Device, Tensor};
use formwork::kernel::{
    self, AttentionOptions, Documents, DropKey, Positional, ScoreBias, Visibility, Window,
};

use super::{device, name, random, values};

/// The variable that makes the test below do its work in a separate process.
const PART: &str = "FORMWORK_TEST_PART";

/// One problem: rows, heads, key-value heads, queries, keys, head width.
struct Case {
    sizes: [usize; 6],
    visible: Visibility,
    offset: usize,
    softcap: Option<f64>,
    dropout: f64,
    /// Whether scores have a bias by distance, and whether that has a gradient.
    bias: Option<bool>,
}

impl Case {
    fn new(sizes: [usize; 6], visible: Visibility) -> Self {
        Self {
            sizes,
            visible,
            offset: 0,
            softcap: None,
            dropout: 0.0,
            bias: None,
        }
    }

    /// Returns the output and the gradients of queries, keys, values and the bias.
    fn run(&self, device: &Device) -> Vec<Vec<f32>> {
        let [b, h, kv, q, k, d] = self.sizes;
        let device = &device.clone().autodiff();
        let leaf = |dims: [usize; 4], seed| random(dims, seed).on(device).require_grad();
        // In the layout of a projection's output: heads beside each other.
        let leaves = [
            leaf([b, q, h, d], 1),
            leaf([b, k, kv, d], 2),
            leaf([b, k, kv, d], 3),
        ];
        let [queries, keys, values_] = leaves.clone().map(|x| x.swap_dims(1, 2));
        let bias = random([h, q + k - 1], 4).on(device);
        let bias: Option<Tensor<2>> = self.bias.map(|tracked| match tracked {
            true => bias.require_grad(),
            false => bias,
        });
        let relations = Positional {
            visible: self.visible.clone(),
            offset: self.offset,
            bias: bias.clone().map_or(ScoreBias::None, ScoreBias::ByDistance),
            ..Positional::default()
        };
        let options = AttentionOptions {
            scale: 1.0 / (d as f64).sqrt(),
            softcap: self.softcap,
            dropout: Some(DropKey {
                p: self.dropout,
                seed: 11,
                step: 5,
                first_row: 3,
                site: 99,
            }),
        };
        let y = kernel::attention(queries, keys, values_, relations, options);
        let grads = (y.clone() * random(y.dims(), 99).on(device))
            .sum()
            .backward();
        let mut all = vec![values(&y)];
        all.extend(leaves.iter().map(|x| values(&x.grad(&grads).unwrap())));
        if self.bias == Some(true) {
            all.push(values(&bias.unwrap().grad(&grads).unwrap()));
        }
        all
    }
}

fn cases() -> Vec<(&'static str, Case)> {
    let causal = Visibility::causal;
    let window = Visibility {
        window: Some(Window {
            before: 40,
            after: 0,
            dilation: [1, 2].into(),
        }),
        ..causal()
    };
    let numbers: Vec<i32> = (0..2 * 130).map(|i| i / 50).collect();
    let documents = Visibility {
        documents: Some(Documents::new(&numbers, 130)),
        ..causal()
    };
    let prefix = Visibility {
        prefix: Some([70, 0].into()),
        ..causal()
    };
    vec![
        (
            "everything",
            Case::new([2, 2, 2, 100, 70, 16], Visibility::ALL),
        ),
        ("causal", Case::new([2, 4, 2, 130, 130, 64], causal())),
        (
            "lengths",
            Case::new([2, 2, 2, 64, 130, 32], Visibility::from_lengths(&[130, 0])),
        ),
        ("a window", Case::new([1, 2, 2, 200, 200, 16], window)),
        ("documents", Case::new([2, 2, 1, 130, 130, 16], documents)),
        ("a prefix", Case::new([2, 2, 2, 130, 130, 16], prefix)),
        (
            "behind keys, capped",
            Case {
                offset: 67,
                softcap: Some(2.0),
                ..Case::new([2, 2, 2, 3, 70, 48], causal())
            },
        ),
        (
            "dropout, wide heads",
            Case {
                dropout: 0.3,
                ..Case::new([2, 2, 1, 128, 128, 128], causal())
            },
        ),
        (
            "dropout of uneven rows",
            Case {
                dropout: 0.3,
                ..Case::new([2, 2, 2, 70, 70, 16], causal())
            },
        ),
        (
            "a constant bias",
            Case {
                bias: Some(false),
                ..Case::new([2, 2, 2, 90, 90, 16], causal())
            },
        ),
        (
            "a learned bias",
            Case {
                bias: Some(true),
                ..Case::new([2, 2, 2, 90, 90, 16], causal())
            },
        ),
    ]
}

/// With each of the algorithms of attention.
#[test]
fn attention_in_bfloat16() {
    let Some(name) = name().filter(|name| name.starts_with("cuda")) else {
        eprintln!("skipped: no device that multiplies bfloat16");
        return;
    };
    if std::env::var(PART).is_ok() {
        return compare(&name);
    }
    let ways = [
        ("tiles", "fastest"),
        ("products", "fastest"),
        ("products", "pipelined"),
    ];
    for (way, products) in ways {
        let output = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "on_device::tiles::attention_in_bfloat16",
                "--nocapture",
            ])
            .envs([
                (PART, "1"),
                ("FORMWORK_ATTENTION", way),
                ("FORMWORK_PRODUCTS", products),
            ])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{way}, {products}: {said}");
    }
}

fn compare(name: &str) {
    kernel::round_operands(true);
    let device = device().unwrap();
    for (what, case) in cases() {
        let both = case.run(&device).into_iter().zip(case.run(&Device::flex()));
        for (number, (ours, wanted)) in both.enumerate() {
            let largest = wanted.iter().fold(0.0f32, |m, x| m.max(x.abs()));
            let farthest = ours.iter().zip(&wanted).map(|(x, y)| (x - y).abs());
            let farthest = farthest.fold(0.0f32, |m, x| if x > m || x.is_nan() { x } else { m });
            eprintln!("{name}: {what}, {number}: {farthest} of {largest}");
            // The device rounds weights to 8 bits, the CPU does not.
            assert!(
                farthest <= 0.012 * largest,
                "{what}, {number}: {farthest} of {largest}"
            );
        }
    }
}
