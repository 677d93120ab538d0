//! Files in, batches out.
