//! HuBERT (Hsu et al. 2021): wav2vec 2.0's network under other names, which may do without the norm of its features.

use super::wav2vec2_names::table;
use super::{Family, wav2vec2};

/// Its row of the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "hubert",
    summary: "HuBERT: wav2vec 2.0's network, trained on clusters of its own states",
    read: |hf| wav2vec2::read(hf, "hubert", &CLASSES),
    write: |of| wav2vec2::write(of, CLASSES[0], false),
    table: |of| table(of, "hubert."),
    declined: None,
};

/// The classes whose weights are read.
const CLASSES: [&str; 3] = ["HubertForCTC", "HubertForPreTraining", "HubertModel"];
