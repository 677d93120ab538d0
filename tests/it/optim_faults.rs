//! Faults of sense in `[optimizer]`, each naming its key.

use formwork::train::optim::{self, OptimizerConfig};

#[test]
fn optimizer_faults_are_named() {
    let faults = |json: serde_json::Value| {
        serde_json::from_value::<OptimizerConfig>(json)
            .unwrap()
            .faults()
    };
    assert!(faults(serde_json::json!({"kind": "adamw"})).is_empty());
    for row in optim::KINDS {
        let config: OptimizerConfig = toml::from_str(row.example).unwrap();
        assert_eq!(config.faults(), Vec::<String>::new(), "{}", row.kind);
    }
    assert_eq!(
        faults(serde_json::json!({"kind": "sgd", "lr": -1.0, "nesterov": true})),
        [
            "nesterov and dampening have no effect with momentum = 0",
            "lr = -1 is not a positive number"
        ]
    );
    assert_eq!(
        faults(
            serde_json::json!({"kind": "adam", "betas": [0.9, 1.0], "groups": [{"match": "x"}]})
        ),
        [
            "[optimizer.groups.0] group `x` has no effect; set `lr_scale` or `weight_decay`",
            "betas has the value 1, which is not in [0, 1)"
        ]
    );
    assert_eq!(
        faults(serde_json::json!({"kind": "muon", "lr": 1e39, "adamw_eps": 0.0})),
        [
            "lr = 1e39 is not between 1e-37 and 1e37: as a 32-bit number it is 0 or infinite, or nearly so",
            "adamw_eps = 0 is not a positive number"
        ]
    );
    assert_eq!(
        faults(serde_json::json!({"kind": "radam", "betas": [1.0, 0.5]})),
        [
            "betas has 0.5 for the second moment, with which radam has no adaptive steps; it must be above 2/3",
            "betas has the value 1, which is not in [0, 1)"
        ]
    );
    assert_eq!(
        faults(serde_json::json!({"kind": "nadam", "momentum_decay": -0.5, "eps": 0.0})),
        [
            "momentum_decay = -0.5 is not between 0 and 1e37",
            "eps = 0 is not a positive number"
        ]
    );
    assert_eq!(
        faults(serde_json::json!({"kind": "adopt", "betas": [-0.1, 0.9999], "lr": 0.0})),
        [
            "lr = 0 is not a positive number",
            "betas has the value -0.1, which is not in [0, 1)"
        ]
    );
    assert_eq!(
        faults(serde_json::json!({"kind": "ademamix", "alpha": -1.0, "betas": [0.9, 0.999, 1.0]})),
        [
            "alpha = -1.0 is not between 0 and 1e37",
            "betas has the value 1, which is not in [0, 1)"
        ]
    );
    assert_eq!(
        faults(serde_json::json!({"kind": "schedule_free", "eps": 0.0, "betas": [1.0, 0.999]})),
        [
            "betas has the value 1, which is not in [0, 1)",
            "eps = 0 is not a positive number"
        ]
    );
}
