//! The heads of wav2vec 2.0 and HuBERT: character logits for CTC, and the codebooks of training without transcripts.

use super::HfShape;
use super::wav2vec2::write;
use crate::interop::HfConfig;
use crate::task::ctc::CtcReduction;
use crate::task::{ContrastiveSpeechConfig, CtcConfig, TaskConfig};
use serde_json::{Value, json};

/// The class with codebooks.
pub(super) const PRETRAINING: &str = "Wav2Vec2ForPreTraining";
/// Keys of the codebooks of training without transcripts.
const CODEBOOK_KEYS: [&str; 8] = [
    "feat_quantizer_dropout",
    "num_codevectors_per_group",
    "num_codevector_groups",
    "contrastive_logits_temperature",
    "num_negatives",
    "codevector_dim",
    "proj_codevector_dim",
    "diversity_loss_weight",
];

/// Reads the task of a model: pretraining if the weights have codebooks and the model masks frames, otherwise CTC.
pub(super) fn task(hf: &HfConfig, masks_frames: bool) -> TaskConfig {
    let ctc = ctc(hf);
    let has_codebooks = hf.has_tensor("quantizer.codevectors");
    if hf.architecture() == Some(PRETRAINING) && has_codebooks && masks_frames {
        return TaskConfig::ContrastiveSpeech(contrastive(hf));
    }
    for key in CODEBOOK_KEYS {
        hf.get(key);
    }
    TaskConfig::Ctc(ctc)
}

/// The settings of CTC.
fn ctc(hf: &HfConfig) -> CtcConfig {
    CtcConfig {
        reduction: match hf.word("ctc_loss_reduction", "sum") {
            "mean" => CtcReduction::Mean,
            "sum" => CtcReduction::Sum,
            other => {
                hf.fault(format!(
                    "`ctc_loss_reduction` = \"{other}\" must be \"mean\" or \"sum\""
                ));
                CtcReduction::Mean
            }
        },
        zero_infinity: hf.flag("ctc_zero_infinity", false),
    }
}

/// The settings of training without transcripts. Files have neither a penalty of features nor the temperature of codes.
fn contrastive(hf: &HfConfig) -> ContrastiveSpeechConfig {
    let usual = ContrastiveSpeechConfig::default();
    ContrastiveSpeechConfig {
        codebooks: hf.count(&["num_codevector_groups"], usual.codebooks),
        entries: hf.count(&["num_codevectors_per_group"], usual.entries),
        d_code: hf.count(&["codevector_dim"], usual.d_code),
        d_compared: hf.count(&["proj_codevector_dim"], usual.d_compared),
        negatives: hf.count(&["num_negatives"], usual.negatives),
        temperature: hf.real("contrastive_logits_temperature", usual.temperature),
        diversity_weight: hf.real("diversity_loss_weight", usual.diversity_weight),
        dropout_features: hf.real("feat_quantizer_dropout", usual.dropout_features),
        ..usual
    }
}

/// Writes a network with a CTC head.
pub(super) fn write_ctc(of: &HfShape, class: &str, normed: bool) -> Option<Value> {
    let TaskConfig::Ctc(task) = &of.task else {
        return None;
    };
    let mut written = write(of, class, normed)?;
    written["ctc_loss_reduction"] = json!(match task.reduction {
        CtcReduction::Mean => "mean",
        CtcReduction::Sum => "sum",
    });
    written["ctc_zero_infinity"] = json!(task.zero_infinity);
    Some(written)
}

/// Writes a network with codebooks.
pub(super) fn write_pretraining(of: &HfShape, task: &ContrastiveSpeechConfig) -> Option<Value> {
    let mut written = write(of, PRETRAINING, true)?;
    for (key, value) in [
        ("num_codevector_groups", json!(task.codebooks)),
        ("num_codevectors_per_group", json!(task.entries)),
        ("codevector_dim", json!(task.d_code)),
        ("proj_codevector_dim", json!(task.d_compared)),
        ("num_negatives", json!(task.negatives)),
        ("contrastive_logits_temperature", json!(task.temperature)),
        ("diversity_loss_weight", json!(task.diversity_weight)),
        ("feat_quantizer_dropout", json!(task.dropout_features)),
    ] {
        written[key] = value;
    }
    Some(written)
}
