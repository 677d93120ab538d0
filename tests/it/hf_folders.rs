//! Folders of Hugging Face (`tests/goldens/make_hf_folders.py` makes them with transformers 5) through the commands: import,
//! equal outputs of `infer`, export of the same tensors, and import of the exported folder.

mod beams;
mod begun;
mod corners;
mod edges;
pub mod files;
mod gradients;
mod harmless;
mod hostile;
mod image_bodies;
mod image_keys;
mod keys;
mod longer_tables;
mod multilingual;
mod padding;
mod pairs;
mod released;
mod sentences;
mod settings;
mod shorter;
mod ties;
mod used;
mod whole;

use crate::binary::{output, shipped};
use files::Numbers;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Largest difference of an output from transformers'.
const TOLERANCE: f32 = 1e-4;

pub type Tensors = BTreeMap<String, Numbers>;

/// Returns the path of one of the folders.
fn fixture(name: &str) -> PathBuf {
    shipped("tests/fixtures/hf").join(name)
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Takes a folder through all commands.
fn round_trip(name: &str) {
    let folder = fixture(name);
    let work = tempfile::tempdir().unwrap();
    let at = |part: &str| shown(&work.path().join(part));
    output(&["import", &shown(&folder), &at("run")]);
    let outputs = infer(&folder, "reference", &at("run"), &[]);
    assert_outputs(name, &folder, "reference", &outputs);
    if folder.join("details.safetensors").exists() {
        let options: &[&str] = match name {
            "resnet_1" | "bit_1" | "swin_1" | "swinv2_1" | "longformer_1" | "led_1" | "mamba_1"
            | "mamba2_1" | "rwkv_1" | "fnet_1" => &["--hidden-states"],
            _ => &["--hidden-states", "--attentions"],
        };
        let details = infer(&folder, "details", &at("run"), options);
        assert_outputs(name, &folder, "details", &details);
    }
    output(&["export", &at("run"), &at("exported")]);
    if !UNREAD.contains(&name) {
        assert_tensors(name, &folder, Path::new(&at("exported")));
    }
    output(&["import", &at("exported"), &at("again")]);
    let weights =
        |run: &str| files::read(&Path::new(&at(run)).join("steps/00000000/model.safetensors"));
    assert!(
        weights("run") == weights("again"),
        "{name}: an exported folder is another model"
    );
    assert!(
        outputs == infer(&folder, "reference", &at("again"), &[]),
        "{name}: an exported folder gives other outputs"
    );
}

/// Returns the outputs of a run for a file's inputs.
fn infer(folder: &Path, file: &str, run: &str, options: &[&str]) -> Tensors {
    let work = tempfile::tempdir().unwrap();
    let (inputs, outputs) = (
        work.path().join("in.safetensors"),
        work.path().join("out.safetensors"),
    );
    files::write_inputs(&folder.join(format!("{file}.safetensors")), &inputs);
    let (inputs, outputs_shown) = (shown(&inputs), shown(&outputs));
    let mut arguments = vec![
        "infer",
        run,
        "--inputs",
        &inputs,
        "--outputs",
        &outputs_shown,
    ];
    arguments.extend(options);
    output(&arguments);
    files::read(&outputs)
}

/// Checks that every expected output exists and is close, except at padding, whose values mean nothing.
fn assert_outputs(name: &str, folder: &Path, file: &str, ours: &Tensors) {
    let reference = files::read(&folder.join(format!("{file}.safetensors")));
    let expected = reference
        .iter()
        .filter_map(|(key, numbers)| Some((key.strip_prefix("expected.")?, numbers)));
    let mut compared = 0;
    for (key, theirs) in expected {
        let Some(ours) = ours.get(key) else {
            panic!(
                "{name}: `infer` gives no `{key}`; it gives {:?}",
                ours.keys()
            );
        };
        assert_eq!(ours.shape, theirs.shape, "{name}: shape of `{key}`");
        let seen = tokens(key, &theirs.shape, &reference);
        let pairs = ours.values.iter().zip(&theirs.values);
        let worst = pairs
            .enumerate()
            .filter(|(place, _)| seen(*place))
            .map(|(_, (a, b))| (a - b).abs())
            .fold(0.0, f32::max);
        assert!(
            worst <= TOLERANCE,
            "{name}: `{key}` is {worst:e} from transformers'"
        );
        compared += 1;
    }
    assert!(compared > 0, "{name}: nothing was compared");
}

/// Returns whether an element of an output belongs to a token rather than to padding.
fn tokens<'a>(
    key: &str,
    shape: &'a [usize],
    reference: &'a Tensors,
) -> impl Fn(usize) -> bool + 'a {
    // Attention weights are [batch, head, query, key]; all other outputs over tokens are [batch, token, …].
    let axis = if key.contains("attentions") { 2 } else { 1 };
    let decoder = reference.contains_key("decoder_input_ids") && !key.starts_with("encoder_");
    let mask = if decoder {
        "decoder_attention_mask"
    } else {
        "attention_mask"
    };
    let mask = reference.get(mask).filter(|mask| {
        shape.len() > axis && shape[0] == mask.shape[0] && shape[axis] == mask.shape[1]
    });
    let per_token: usize = shape.iter().skip(axis + 1).product();
    let per_row: usize = shape.iter().skip(1).product();
    move |place| {
        mask.is_none_or(|mask| {
            let (row, token) = (place / per_row, place / per_token % mask.shape[1]);
            mask.values[row * mask.shape[1] + token] == 1.0
        })
    }
}

/// Folders whose weights the test does not compare: they are in PyTorch's format, or arranged differently (experts fused in one
/// tensor, branches of gated layers in two), or contain a pooler that nothing reads. For these, only the equality of the
/// exported model is checked.
const UNREAD: [&str; 10] = [
    "gpt2_bin",
    "llama_shards_bin",
    "mixtral_new",
    "deepseek_v3_new",
    "qwen3_next_new",
    "dinov2_with_registers_new",
    "big_bird_4",
    "bert_body",
    "albert_body",
    "roberta_sentences",
];

/// Checks that the exported tensors are those of the folder, bit for bit, under the names that its class saves.
fn assert_tensors(name: &str, folder: &Path, exported: &Path) {
    let expected: Tensors = files::read_folder(folder)
        .into_iter()
        .filter_map(|(key, numbers)| Some((saved_as(name, key)?, numbers)))
        .collect();
    let mut exported = files::read_folder(exported);
    exported.retain(|key, _| !without_effect(name, key));
    let names = |tensors: &Tensors| tensors.keys().cloned().collect::<Vec<_>>();
    assert_eq!(
        names(&exported),
        names(&expected),
        "{name}: names of the exported tensors"
    );
    for (key, theirs) in &expected {
        let ours = &exported[key];
        assert_eq!(ours.shape, theirs.shape, "{name}: shape of `{key}`");
        // A sinusoidal table is computed from the configuration, so its last bit may differ.
        let of_sines = name.starts_with("roformer") || name.starts_with("pegasus");
        let of_whisper =
            key == "model.encoder.embed_positions.weight" && name.starts_with("whisper");
        let allowed = if of_whisper {
            // The class computes angles in 32 bits.
            1e-5
        } else if key.ends_with("embed_positions.weight") && of_sines {
            1e-6
        } else {
            0.0
        };
        let pairs = ours.values.iter().zip(&theirs.values);
        let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || (a - b).abs() <= allowed;
        assert!(pairs.clone().all(same), "{name}: `{key}` changed");
    }
}

/// Whether a tensor is saved by the folder's class but never read, so that an exported folder may have other values or none.
fn without_effect(name: &str, key: &str) -> bool {
    match name {
        // The common table or bias of a model that shares neither.
        "bart_3" | "mbart_3" | "m2m_100_3" | "pegasus_3" => key == "model.shared.weight",
        "led_2" => key == "led.shared.weight",
        "albert_4" => key == "predictions.bias",
        // The fixtures have only the older of two names.
        "reformer_1" | "reformer_2" => key == "lm_head.decoder.bias",
        "big_bird_2" | "big_bird_3" => key.starts_with("bert.pooler."),
        // Poolers that no head reads.
        "fnet_1" | "fnet_5" | "fnet_6" => key.starts_with("fnet.pooler."),
        "fnet_4" => key.starts_with("fnet.pooler.") || key == "cls.predictions.bias",
        "bert_4" | "roformer_5" | "deberta_3" => key == "cls.predictions.bias",
        // The query embedding, which is zero in folders for other tasks.
        _ if name.starts_with("xlnet") => key.ends_with("mask_emb"),
        // The mask embedding of image patches, which is zero in exported folders.
        _ if ["dinov2", "dinov3", "beit"]
            .iter()
            .any(|family| name.starts_with(family)) =>
        {
            key.ends_with("embeddings.mask_token")
        }
        // This bias adds the same number to all scores of a query.
        "deberta_v2_3" => key.ends_with("pos_key_proj.bias"),
        _ => key.ends_with("num_batches_tracked"),
    }
}

/// Returns the name under which transformers saves a tensor of a fixture; `None` for copies of tied tensors, buffers, and
/// tensors that the folder's class lacks.
fn saved_as(name: &str, key: String) -> Option<String> {
    if without_effect(name, &key) {
        return None;
    }
    match name {
        "gpt2_bare"
            if key.starts_with("lm_head")
                || key.ends_with(".attn.bias")
                || key.ends_with("masked_bias") =>
        {
            None
        }
        "gpt2_bare" => Some(format!("transformer.{key}")),
        "gpt_neo_hub"
            if key.starts_with("lm_head")
                || key.ends_with("attn.attention.bias")
                || key.ends_with("masked_bias") =>
        {
            None
        }
        "mamba_hub" | "mamba2_hub" if key.starts_with("lm_head") => None,
        "opt_hub" if key.starts_with("lm_head") || key == "decoder.version" => None,
        "opt_hub" => Some(format!("model.{key}")),
        "bert_hub" if key.contains("pooler") || key.contains("seq_relationship") => None,
        "bert_hub" if key.contains("predictions.decoder") || key.ends_with("position_ids") => None,
        "bert_hub" => Some(
            key.replace("LayerNorm.gamma", "LayerNorm.weight")
                .replace("LayerNorm.beta", "LayerNorm.bias"),
        ),
        "albert_hub" if key.contains("pooler") || key.contains("sop_classifier") => None,
        "albert_hub" if key.contains("predictions.decoder") || key.ends_with("position_ids") => {
            None
        }
        // Exported with the head of the standard class, with the same values.
        "deberta_new" => Some(
            key.replace("lm_predictions.lm_head.bias", "cls.predictions.bias")
                .replace("lm_predictions.lm_head", "cls.predictions.transform"),
        ),
        "swin_new" => Some(renamed(
            key,
            &[
                (
                    "attention.relative_position_bias.relative_position_bias_table",
                    "attention.self.relative_position_bias_table",
                ),
                ("attention.q_proj", "attention.self.query"),
                ("attention.k_proj", "attention.self.key"),
                ("attention.v_proj", "attention.self.value"),
                ("attention.o_proj", "attention.output.dense"),
                ("mlp.fc1", "intermediate.dense"),
                ("mlp.fc2", "output.dense"),
            ],
        )),
        "dinov2_new" => Some(renamed(
            key,
            &[
                ("attention.q_proj", "attention.attention.query"),
                ("attention.k_proj", "attention.attention.key"),
                ("attention.v_proj", "attention.attention.value"),
                ("attention.o_proj", "attention.output.dense"),
            ],
        )),
        "beit_new" => Some(renamed(
            key,
            &[
                ("beit.layers.", "beit.encoder.layer."),
                (
                    "relative_position_bias.relative",
                    "attention.attention.relative_position_bias.relative",
                ),
                ("attention.q_proj", "attention.attention.query"),
                ("attention.k_proj", "attention.attention.key"),
                ("attention.v_proj", "attention.attention.value"),
                ("attention.o_proj", "attention.output.dense"),
                ("mlp.fc1", "intermediate.dense"),
                ("mlp.fc2", "output.dense"),
            ],
        )),
        "dinov3_vit_new" => Some(renamed(key, &[("model.layer.", "layer.")])),
        "vit_new" | "deit_new" => Some(renamed(
            key,
            &[
                ("vit.layers.", "vit.encoder.layer."),
                ("deit.layers.", "deit.encoder.layer."),
                ("attention.q_proj", "attention.attention.query"),
                ("attention.k_proj", "attention.attention.key"),
                ("attention.v_proj", "attention.attention.value"),
                ("attention.o_proj", "attention.output.dense"),
                ("mlp.fc1", "intermediate.dense"),
                ("mlp.fc2", "output.dense"),
            ],
        )),
        _ => Some(key),
    }
}

/// Returns a tensor's name with newer parts of names replaced by older ones.
fn renamed(key: String, parts: &[(&str, &str)]) -> String {
    let older = |key: String, (new, old): &(&str, &str)| key.replace(new, old);
    parts.iter().fold(key, older)
}
