//! Tasks for contract tests, each with a few of its keys set.

use formwork::data::masked::masking::Pairs;
use formwork::model::generator::TableSharing;
use formwork::model::{EncoderConfig, GlobalTokens};
use formwork::nn::position::PositionConfig;
use formwork::nn::vocabulary::VocabularyConfig;
use formwork::task::replaced_token::GeneratorConfig;
use formwork::task::text_classification::TextClassificationConfig;
use formwork::task::text_embedding::{EmbeddingLoss, TextEmbeddingConfig};
use formwork::task::whole_text::Pooling;
use formwork::task::{
    MaskedLmConfig, MultiLabelConfig, QuestionAnsweringConfig, RegressionConfig,
    ReplacedTokenConfig, RewardConfig, TaskConfig, TokenClassificationConfig, TranslationConfig,
};

pub fn translation(label_smoothing: f64, bidirectional_source: bool) -> TaskConfig {
    TaskConfig::Translation(TranslationConfig {
        label_smoothing,
        bidirectional_source,
        global_tokens: None,
    })
}

/// Label smoothing; an adaptive softmax does not support it.
pub fn smoothing(vocabulary: &VocabularyConfig) -> f64 {
    if vocabulary.is_full() { 0.1 } else { 0.0 }
}

pub fn masked_lm(pairs: Pairs, global_tokens: Option<GlobalTokens>) -> TaskConfig {
    TaskConfig::MaskedLm(MaskedLmConfig {
        pairs,
        global_tokens,
        ..MaskedLmConfig::default()
    })
}

/// Table sharing that the model supports, chosen in turn by `number`.
pub fn replaced_token(number: usize, model: &EncoderConfig) -> TaskConfig {
    use TableSharing::{Disentangled, Shared, Unshared};
    let fixed =
        matches!(&model.stack.position, PositionConfig::Axial(c) if c.axial_widths.is_some());
    let embeddings = match [Shared, Unshared, Disentangled][number % 3] {
        _ if !model.head_transform => Unshared,
        Unshared if fixed => Shared,
        other => other,
    };
    TaskConfig::ReplacedToken(ReplacedTokenConfig {
        embeddings,
        generator: GeneratorConfig {
            size: 0.5,
            n_layers: None,
        },
        ..ReplacedTokenConfig::default()
    })
}

pub fn classification(pooling: Option<Pooling>, global_tokens: Option<GlobalTokens>) -> TaskConfig {
    TaskConfig::TextClassification(TextClassificationConfig {
        pooling,
        global_tokens,
        ..TextClassificationConfig::default()
    })
}

pub fn regression(
    pooling: Option<Pooling>,
    global_tokens: Option<GlobalTokens>,
    towers: bool,
) -> TaskConfig {
    TaskConfig::Regression(RegressionConfig {
        pooling,
        global_tokens,
        towers,
        ..RegressionConfig::default()
    })
}

/// Rewards pulled towards 0; otherwise a component common to all texts has no gradient.
pub fn rewards(pooling: Option<Pooling>, global_tokens: Option<GlobalTokens>) -> TaskConfig {
    TaskConfig::Reward(RewardConfig {
        center_rewards_coefficient: Some(0.5),
        pooling,
        global_tokens,
        ..RewardConfig::default()
    })
}

/// Multi-label classification over three classes.
pub fn several(pooling: Option<Pooling>, global_tokens: Option<GlobalTokens>) -> TaskConfig {
    TaskConfig::MultiLabel(MultiLabelConfig {
        pooling,
        global_tokens,
        ..MultiLabelConfig::default()
    })
}

pub fn tagging(global_tokens: Option<GlobalTokens>) -> TaskConfig {
    TaskConfig::TokenClassification(TokenClassificationConfig {
        global_tokens,
        ..TokenClassificationConfig::default()
    })
}

pub fn answering(global_tokens: Option<GlobalTokens>) -> TaskConfig {
    TaskConfig::QuestionAnswering(QuestionAnsweringConfig {
        global_tokens,
        ..QuestionAnsweringConfig::default()
    })
}

/// Classification of two texts that are encoded separately.
pub fn towers(pooling: Pooling) -> TaskConfig {
    TaskConfig::TextClassification(TextClassificationConfig {
        towers: true,
        pooling: Some(pooling),
        ..TextClassificationConfig::default()
    })
}

/// Text embeddings learned from pairs, `group` rows at a time, or from scores.
pub fn embedding(
    loss: EmbeddingLoss,
    pooling: Pooling,
    group: Option<usize>,
    global_tokens: Option<GlobalTokens>,
) -> TaskConfig {
    TaskConfig::TextEmbedding(TextEmbeddingConfig {
        loss,
        pooling,
        group,
        symmetric: group.is_some(),
        global_tokens,
        ..TextEmbeddingConfig::default()
    })
}
