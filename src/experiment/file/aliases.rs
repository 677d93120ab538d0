//! Where to find keys that users look for in other tables, or under the names of other programs.

use crate::experiment::schema::sections;

/// A key as users write it, the table that has it, and its name there.
const ALIASES: &[(&str, &str, &str)] = &[
    ("name", "", "name"),
    ("seed", "", "seed"),
    ("lr", "optimizer", "lr"),
    ("learning_rate", "optimizer", "lr"),
    ("weight_decay", "optimizer", "weight_decay"),
    ("adam_epsilon", "optimizer", "eps"),
    ("betas", "optimizer", "betas"),
    ("warmup", "schedule", "warmup_steps"),
    ("warmup_steps", "schedule", "warmup_steps"),
    ("num_warmup_steps", "schedule", "warmup_steps"),
    ("warmup_updates", "schedule", "warmup_steps"),
    ("lr_scheduler", "schedule", "kind"),
    ("lr_scheduler_type", "schedule", "kind"),
    ("steps", "train", "steps"),
    ("max_steps", "train", "steps"),
    ("max_iters", "train", "steps"),
    ("max_update", "train", "steps"),
    ("epochs", "train", "epochs"),
    ("num_epochs", "train", "epochs"),
    ("max_epoch", "train", "epochs"),
    ("max_epochs", "train", "epochs"),
    ("num_train_epochs", "train", "epochs"),
    ("batch_size", "train", "batch_size"),
    ("per_device_train_batch_size", "train", "batch_size"),
    ("per_device_eval_batch_size", "train", "eval_batch_size"),
    ("train_batch_size", "train", "batch_size"),
    ("gradient_accumulation_steps", "train", "micro_batch_size"),
    ("update_freq", "train", "micro_batch_size"),
    ("clip_norm", "train", "clip_norm"),
    ("grad_clip", "train", "clip_norm"),
    ("max_grad_norm", "train", "clip_norm"),
    ("gradient_clip_val", "train", "clip_norm"),
    ("precision", "train", "dtype"),
    ("dtype", "train", "dtype"),
    ("bf16", "train", "dtype"),
    ("fp16", "train", "dtype"),
    ("early_stopping", "train", "patience"),
    ("patience", "train", "patience"),
    ("eval_every", "train", "eval_every"),
    ("eval_interval", "train", "eval_every"),
    ("eval_steps", "train", "eval_every"),
    ("save_steps", "train", "checkpoint_every"),
    ("save_total_limit", "train", "keep_last"),
    ("metric_for_best_model", "train", "best_by"),
    ("log_every", "train", "log_every"),
    ("log_interval", "train", "log_every"),
    ("logging_steps", "train", "log_every"),
    ("ema", "train", "ema"),
    ("device", "train", "device"),
    ("gradient_checkpointing", "train", "recompute"),
    ("block_size", "data", "context"),
    ("max_length", "data", "context"),
    ("max_seq_length", "data", "context"),
    ("seq_len", "data", "context"),
    ("context", "data", "context"),
    ("vocab_size", "tokenizer", "vocab_size"),
    ("label_smoothing", "task", "label_smoothing"),
    ("label_smoothing_factor", "task", "label_smoothing"),
    ("d_model", "model", "d_model"),
    ("hidden_size", "model", "d_model"),
    ("n_embd", "model", "d_model"),
    ("n_layers", "model", "n_layers"),
    ("n_layer", "model", "n_layers"),
    ("num_layers", "model", "n_layers"),
    ("num_hidden_layers", "model", "n_layers"),
    ("embed_dim", "model", "d_model"),
    ("depths", "model", "stages"),
    ("window_size", "model", "window"),
    ("mlp_ratio", "model", "ff_ratio"),
    ("dropout", "model", "dropout"),
    ("n_heads", "model.attention", "n_heads"),
    ("n_head", "model.attention", "n_heads"),
    ("num_heads", "model.attention", "n_heads"),
    ("num_attention_heads", "model.attention", "n_heads"),
    ("n_kv_heads", "model.attention", "n_kv_heads"),
    ("num_key_value_heads", "model.attention", "n_kv_heads"),
    ("d_ff", "model.feed_forward", "d_ff"),
    ("intermediate_size", "model.feed_forward", "d_ff"),
    ("activation", "model.feed_forward", "activation"),
    ("hidden_act", "model.feed_forward", "activation"),
    ("beam", "decode.search", "beam"),
    ("num_beams", "decode.search", "beam"),
    ("beam_size", "decode.search", "beam"),
    ("nbest", "decode.search", "n_best"),
    ("num_return_sequences", "decode.search", "n_best"),
    ("max_len_a", "decode.search", "max_len_a"),
    ("max_len_b", "decode.search", "max_len_b"),
    ("max_target_length", "decode.search", "max_len_b"),
    ("min_len", "decode.search", "min_len"),
    ("lenpen", "decode.search", "length_penalty"),
    ("length_penalty", "decode.search", "length_penalty"),
    ("max_new_tokens", "decode.sampling", "tokens"),
];

/// Keys of other frameworks for which one table has a name of its own, different from the one in [`PLACES`].
const TABLE_ALIASES: &[(&str, &str, &str)] = &[
    ("lr", "optimizer.groups", "lr_scale"),
    ("learning_rate", "optimizer.groups", "lr_scale"),
    ("max_tokens", "train", "batch_tokens"),
    ("max_length", "decode.search", "max_len_b"),
    ("max_new_tokens", "decode.search", "max_len_b"),
    ("min_length", "decode.search", "min_len"),
    ("early_stopping", "decode.search", "done_when"),
];

/// The name that a key has in this table; items of lists count as their table.
pub(super) fn table_alias(table: &[String], key: &str) -> Option<&'static str> {
    let named = table.iter().filter(|name| name.parse::<usize>().is_err());
    let (table, lower) = (
        named.cloned().collect::<Vec<_>>().join("."),
        key.to_lowercase(),
    );
    let mut found = TABLE_ALIASES
        .iter()
        .filter(|(word, of, _)| *word == lower && *of == table);
    found.next().map(|(.., ours)| *ours)
}

/// The dotted path of the only subtable that has a key of this name. None if the key belongs to a table with kinds, or if
/// [`PLACES`] has it and the table is not `[decode]`.
pub(super) fn subtable_key(table: &[String], key: &str, allowed: &[&str]) -> Option<&'static str> {
    if table_and_key(key).is_some() && table != ["decode"] {
        return None;
    }
    let before = format!("{}.", table.join("."));
    let is_child = |path: &str| {
        let child = path.strip_prefix(&before);
        child.is_some_and(|child| allowed.contains(&child))
    };
    let mut has = sections().iter().filter(|section| {
        let named = section.keys.iter().any(|own| own.name == key);
        named && section.kind.is_none() && is_child(&section.path)
    });
    let one = has.next()?;
    has.next().is_none().then_some(one.path.as_str())
}

/// The table that has a key, with its name there; `None` for an unknown key.
pub(super) fn table_and_key(key: &str) -> Option<(&'static str, &'static str)> {
    let lower = key.to_lowercase();
    let found = ALIASES.iter().find(|(word, ..)| *word == lower);
    found.map(|(_, table, ours)| (*table, *ours))
}

/// Returns the dotted key that a name from another program stands for: `learning_rate` is `optimizer.lr`.
pub fn key_of(word: &str) -> Option<String> {
    table_and_key(word).map(|(table, ours)| match table {
        "" => ours.to_string(),
        _ => format!("{table}.{ours}"),
    })
}

/// Advice for a tokenizer kind that another program has, if a tokenizer kind is expected here.
pub(super) fn tokenizer_advice(word: &str, kinds: &[&str]) -> Option<&'static str> {
    if !kinds.contains(&"pretrained") {
        return None;
    }
    match word.to_lowercase().as_str() {
        "sentencepiece"
        | "sentence_piece"
        | "spm"
        | "sentencepiece_bpe"
        | "sentencepiece_unigram" => Some(
            "kind = \"pretrained\" with path = \"tokenizer.model\" reads a SentencePiece model, and `unigram` and `bpe` train a \
             new one",
        ),
        "huggingface" | "hf" | "auto" | "tokenizers" | "transformers" => {
            Some("kind = \"pretrained\" reads the tokenizer from the folder or file in `path`")
        }
        _ => None,
    }
}

/// The message about a list where a single value is expected, with a hint at what was probably meant.
pub(super) fn not_a_list(path: &[String]) -> String {
    let seeds = match path == ["ablation", "seeds"] {
        true => {
            ": it is the number of runs of each arm, 1 to 10000; their seeds count up from the file's `seed`"
        }
        false => "",
    };
    format!(", not a list{seeds}")
}

#[cfg(test)]
mod tests {
    use super::{ALIASES, TABLE_ALIASES};
    use crate::experiment::schema::sections;

    #[test]
    fn every_place_is_a_key_of_experiments() {
        let sections = sections();
        // The path of a list of tables, such as groups, has another form.
        let own = TABLE_ALIASES
            .iter()
            .filter(|(_, table, _)| *table != "optimizer.groups");
        for (word, table, ours) in ALIASES.iter().chain(own) {
            let mut tables = sections.iter().filter(|section| section.path == *table);
            let known = tables.any(|section| {
                let named = *ours == "kind" && section.kind.is_some();
                named || section.keys.iter().any(|key| key.name == *ours)
            });
            assert!(known, "{word}: there is no {table}.{ours}");
        }
    }
}
