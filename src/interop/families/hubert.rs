//! HuBERT (Hsu et al. 2021): wav2vec 2.0's network under other names; the norm of its features may be absent.

use super::wav2vec2_names::table;
use super::{Family, wav2vec2, wav2vec2_heads};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "hubert",
    summary: "HuBERT: the network of wav2vec 2.0, trained on clusters of its hidden states",
    read: |hf| wav2vec2::read(hf, "hubert", &CLASSES),
    write: |of| wav2vec2_heads::write_ctc(of, CLASSES[0], false),
    table: |of| table(of, "hubert."),
    declined: None,
};

/// The classes whose weights can be imported.
const CLASSES: [&str; 3] = ["HubertForCTC", "HubertForPreTraining", "HubertModel"];
