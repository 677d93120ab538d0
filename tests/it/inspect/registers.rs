//! `inspect` on networks with registers: registers have no position embeddings, are not counted in the mean over patches, and
//! do not replace a class token.

use super::looked::{images, inferred, json, numbers, run, trained};
use super::pictures::weights;
use crate::binary::output;
use formwork::inspect::rollout::rollouts;
use serde_json::Value;

const REGISTERS: usize = 3;
const PATCHES: usize = 16;

#[test]
fn registers_are_neither_patches_nor_a_class_token() {
    let folder = tempfile::tempdir().unwrap();
    for (pooling, class_token) in [
        ("class", true),
        ("class_and_mean", true),
        ("mean", false),
        ("attention", false),
    ] {
        let keys = format!("d_model = 16\nn_registers = {REGISTERS}\npooling = {pooling:?}\n");
        let experiment = trained::VISION.replace("d_model = 16\n", &keys);
        let run = run(folder.path(), pooling, &experiment);
        let before = usize::from(class_token);
        let found = json(&output(&["inspect", &run, "positions", "--json"]));
        let cosines = found["similarity"][0]["cosines"].as_array().unwrap();
        assert_eq!(cosines.len(), before + PATCHES, "{pooling}");
        let arguments = ["inspect", &run, "rollout", "--examples", "1", "--json"];
        let found = json(&output(&arguments));
        let of_network = &found["examples"][0]["networks"][0];
        let read_at = if class_token { "first" } else { "mean" };
        assert_eq!(of_network["read_at"], read_at, "{pooling}");
        let arrays = inferred(&run, &images(&run, 1), "--attentions");
        let all = rollouts(&weights(&arrays, 0, 2)).remove("").unwrap();
        let (all, first) = (all.unwrap(), before + REGISTERS);
        let wanted = match class_token {
            true => all.row(0).to_vec(),
            false => all.mean(first..first + PATCHES),
        };
        let ours = numbers(&of_network["read"]);
        assert_eq!(ours.len(), PATCHES, "{pooling}");
        for (ours, wanted) in ours.iter().zip(&wanted[first..]) {
            assert!((ours - wanted).abs() < 1e-6, "{pooling}: {ours} {wanted}");
        }
        let attention = ["inspect", &run, "attention", "--example", "0", "--json"];
        let found = json(&output(&attention));
        let tokens: Vec<&str> = found["tokens"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(Value::as_str)
            .collect();
        let class = class_token.then_some("[class]");
        let registers = ["[register 0]", "[register 1]", "[register 2]"];
        let named: Vec<&str> = class.into_iter().chain(registers).collect();
        assert_eq!(tokens[..named.len()], named, "{pooling}");
        assert_eq!(
            tokens[named.len()..][..5],
            ["0,0", "0,1", "0,2", "0,3", "1,0"]
        );
        assert_eq!(tokens.len(), first + PATCHES, "{pooling}");
    }
}
