//! Whole networks: ids in, logits out.
