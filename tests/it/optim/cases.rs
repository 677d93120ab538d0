//! The optimizers of `make_optimizers.py`, by the names of their trajectories.

use formwork::train::optim::{
    AdafactorConfig, AdamConfig, AdamwConfig, AdemamixConfig, AdoptConfig, LambConfig, LionConfig,
    MuonConfig, NadamConfig, OptimizerConfig, RadamConfig, ScheduleFreeConfig, SgdConfig,
    muon::AdjustLr,
};

/// Every optimizer.
pub fn cases() -> Vec<(&'static str, OptimizerConfig)> {
    let muon = |adjust_lr| {
        OptimizerConfig::Muon(MuonConfig {
            lr: 2e-2,
            adjust_lr,
            matrices: "wide|tall".into(),
            adamw_lr: 3e-3,
            ..MuonConfig::default()
        })
    };
    let sgd = |lr, momentum, nesterov, weight_decay| {
        OptimizerConfig::Sgd(SgdConfig {
            lr,
            momentum,
            nesterov,
            weight_decay,
            ..SgdConfig::default()
        })
    };
    vec![
        (
            "adamw",
            OptimizerConfig::Adamw(AdamwConfig {
                lr: 3e-2,
                betas: [0.9, 0.95],
                weight_decay: 0.1,
                ..AdamwConfig::default()
            }),
        ),
        (
            "adamw_slow",
            OptimizerConfig::Adamw(AdamwConfig {
                lr: 1e-2,
                ..AdamwConfig::default()
            }),
        ),
        (
            "adam",
            OptimizerConfig::Adam(AdamConfig {
                lr: 3e-2,
                weight_decay: 0.1,
                ..AdamConfig::default()
            }),
        ),
        ("sgd", sgd(1e-1, 0.9, false, 0.1)),
        ("sgd_nesterov", sgd(5e-2, 0.9, true, 0.0)),
        ("sgd_plain", sgd(1e-1, 0.0, false, 0.0)),
        (
            "adafactor",
            OptimizerConfig::Adafactor(AdafactorConfig {
                lr: 1e-1,
                weight_decay: 0.1,
                ..AdafactorConfig::default()
            }),
        ),
        ("muon", muon(AdjustLr::Original)),
        ("muon_rms", muon(AdjustLr::MatchRmsAdamw)),
        (
            "lion",
            OptimizerConfig::Lion(LionConfig {
                lr: 1e-2,
                weight_decay: 0.3,
                ..LionConfig::default()
            }),
        ),
        (
            "lamb",
            OptimizerConfig::Lamb(LambConfig {
                lr: 1e-2,
                weight_decay: 0.1,
                ..LambConfig::default()
            }),
        ),
    ]
    .into_iter()
    .chain(beside_adam())
    .chain(cautious())
    .collect()
}

/// Variants of Adam.
fn beside_adam() -> Vec<(&'static str, OptimizerConfig)> {
    let (lr, weight_decay) = (3e-2, 0.1);
    let ademamix = |slow_warmup| {
        OptimizerConfig::Ademamix(AdemamixConfig {
            lr: 1e-2,
            betas: [0.9, 0.99, 0.999],
            slow_warmup,
            weight_decay,
            ..AdemamixConfig::default()
        })
    };
    vec![
        (
            "radam",
            OptimizerConfig::Radam(RadamConfig {
                lr,
                betas: [0.9, 0.99],
                weight_decay,
                ..RadamConfig::default()
            }),
        ),
        (
            "nadam",
            OptimizerConfig::Nadam(NadamConfig {
                lr,
                weight_decay,
                ..NadamConfig::default()
            }),
        ),
        (
            "adopt",
            OptimizerConfig::Adopt(AdoptConfig {
                lr,
                betas: [0.9, 0.99],
                weight_decay,
                ..AdoptConfig::default()
            }),
        ),
        ("ademamix", ademamix(12)),
        ("ademamix_whole", ademamix(0)),
        (
            "schedule_free",
            OptimizerConfig::ScheduleFree(ScheduleFreeConfig {
                lr,
                betas: [0.9, 0.99],
                weight_decay,
                ..ScheduleFreeConfig::default()
            }),
        ),
    ]
}

/// Optimizers with masked updates.
fn cautious() -> Vec<(&'static str, OptimizerConfig)> {
    vec![
        (
            "adamw_cautious",
            OptimizerConfig::Adamw(AdamwConfig {
                lr: 3e-2,
                betas: [0.9, 0.95],
                weight_decay: 0.1,
                cautious: true,
                ..AdamwConfig::default()
            }),
        ),
        (
            "lion_cautious",
            OptimizerConfig::Lion(LionConfig {
                lr: 1e-2,
                weight_decay: 0.3,
                cautious: true,
                ..LionConfig::default()
            }),
        ),
    ]
}
