//! The round trip of every folder, with a test for each family.

use super::hostile::refused;
use super::{fixture, round_trip, shown};
use crate::binary::{failure, formwork, output, shipped};

/// Defines a test for each family that takes its folders on their round trip, and the list of all names.
macro_rules! families {
    ($($family:ident: $($name:literal)+;)+) => {
        $(#[test]
        fn $family() {
            for name in [$($name),+] {
                round_trip(name);
            }
        })+

        /// Every folder is tested.
        #[test]
        fn every_folder_is_in_a_test() {
            let tested = [$($($name),+),+];
            let folders = std::fs::read_dir(shipped("tests/fixtures/hf")).unwrap();
            for folder in folders {
                let name = folder.unwrap().file_name().into_string().unwrap();
                assert!(tested.contains(&name.as_str()), "{name} is in no test");
            }
        }
    };
}

/// Neither import nor export knows an architecture that transformers has dropped, and both say so.
#[test]
fn an_architecture_that_transformers_dropped_is_named() {
    let folder = super::files::copy(&fixture("vit_1"));
    let config = folder.path().join("config.json");
    let text = std::fs::read_to_string(&config).unwrap();
    let old = text.replace("\"vit\"", "\"vit-hybrid\"");
    assert_ne!(old, text);
    std::fs::write(&config, old).unwrap();
    let words = ["`model_type` \"vit-hybrid\"", "transformers 5 has no class"];
    refused("vit-hybrid", folder.path(), &words);

    let work = tempfile::tempdir().unwrap();
    let at = |name: &str| shown(&work.path().join(name));
    let experiment = "name = \"hybrid\"\ntask = { kind = \"image_classification\" }\n\
                      data = { kind = \"shapes\", valid_items = 2 }\n\
                      optimizer = { kind = \"adamw\", lr = 1e-3 }\ntrain = { steps = 1, batch_size = 2 }\n\
                      [model]\nkind = \"vision\"\nn_layers = 1\nd_model = 16\nposition = { kind = \"learned\" }\n\
                      stem = { kind = \"resnet\", stages = [1, 1], width = 4 }\n";
    std::fs::write(at("hybrid.toml"), experiment).unwrap();
    output(&["train", &at("hybrid.toml"), "--run", &at("run"), "--quiet"]);
    let (status, said) = failure(&["export", &at("run"), &at("out")]);
    assert!(status == 2 && said.contains("`vit-hybrid`"), "{said}");
}

/// The class of transformers computes with another exponent than the folder says: import and export both report it.
#[test]
fn an_exponent_of_mpt_s_slopes_is_told() {
    let work = tempfile::tempdir().unwrap();
    let at = |name: &str| shown(&work.path().join(name));
    let told = |arguments: &[&str]| {
        let done = formwork(arguments).output().unwrap();
        assert!(done.status.success());
        String::from_utf8_lossy(&done.stderr).contains("`alibi_bias_max` = 4")
    };
    assert!(told(&["import", &shown(&fixture("mpt_3")), &at("run")]));
    assert!(told(&["export", &at("run"), &at("out")]));
    assert!(!told(&["import", &shown(&fixture("mpt_1")), &at("other")]));
}

/// Sources and targets keep separate tokenizers, and the files of an exported folder are read as the same two.
#[test]
fn both_of_marian_s_tokenizers_go_out_again() {
    let work = tempfile::tempdir().unwrap();
    let at = |name: &str| shown(&work.path().join(name));
    output(&["import", &shown(&fixture("marian_3")), &at("run")]);
    output(&["export", &at("run"), &at("out")]);
    output(&["import", &at("out"), &at("again")]);
    for side in ["tokenizer.json", "target_tokenizer.json"] {
        let of = |run: &str| std::fs::read(work.path().join(run).join(side)).unwrap();
        assert!(of("run") == of("again"), "{side} changed");
    }
}

families! {
    gpt2: "gpt2_1" "gpt2_2" "gpt2_bare" "gpt2_bin";
    openai_gpt: "openai_gpt_1" "openai_gpt_2";
    gpt_neox: "gpt_neox_1" "gpt_neox_2" "gpt_neox_shards";
    gptj: "gptj_1" "gptj_2";
    reformer: "reformer_1" "reformer_2";
    gpt_neo: "gpt_neo_1" "gpt_neo_2" "gpt_neo_hub";
    llama: "llama_1" "llama_2" "llama_3" "llama_shards_bin";
    mistral: "mistral_1" "mistral_2" "mistral_bf16";
    qwen2: "qwen2_1" "qwen2_2" "qwen2_f16";
    qwen3: "qwen3_1" "qwen3_2";
    olmo: "olmo_1" "olmo_2";
    diffllama: "diffllama_1" "diffllama_2";
    olmo2: "olmo2_1" "olmo2_2";
    olmoe: "olmoe_1" "olmoe_2";
    opt: "opt_1" "opt_2" "opt_3" "opt_hub";
    phi: "phi_1" "phi_2";
    phi3: "phi3_1" "phi3_2" "phi3_3" "phi3_4";
    smollm3: "smollm3_1" "smollm3_2";
    starcoder2: "starcoder2_1" "starcoder2_2" "starcoder2_hub";
    stablelm: "stablelm_1" "stablelm_2" "stablelm_hub";
    gemma: "gemma_1" "gemma_2";
    gemma2: "gemma2_1" "gemma2_2";
    gemma3: "gemma3_1" "gemma3_2" "gemma3_hub";
    falcon: "falcon_1" "falcon_2" "falcon_3";
    bloom: "bloom_1" "bloom_2";
    mpt: "mpt_1" "mpt_2" "mpt_3";
    mamba: "mamba_1" "mamba_2" "mamba_hub";
    mamba2: "mamba2_1" "mamba2_2" "mamba2_hub";
    rwkv: "rwkv_1" "rwkv_2";
    mixtral: "mixtral_1" "mixtral_2" "mixtral_new";
    qwen3_next: "qwen3_next_1" "qwen3_next_2" "qwen3_next_new" "qwen3_next_hub";
    gpt_oss: "gpt_oss_1" "gpt_oss_2" "gpt_oss_hub";
    deepseek_v2: "deepseek_v2_1" "deepseek_v2_2" "deepseek_v2_hub";
    deepseek_v3: "deepseek_v3_1" "deepseek_v3_2" "deepseek_v3_3" "deepseek_v3_new" "deepseek_v3_hub";
    bert: "bert_1" "bert_2" "bert_3" "bert_4" "bert_5" "bert_6" "bert_7" "bert_several" "bert_hub";
    roberta: "roberta_1" "roberta_2" "roberta_3" "roberta_4" "roberta_5";
    roformer: "roformer_1" "roformer_2" "roformer_3" "roformer_4" "roformer_5" "roformer_6" "roformer_7" "roformer_8";
    modernbert: "modernbert_1" "modernbert_2" "modernbert_7" "modernbert_hub" "modernbert_body";
    modernbert_heads: "modernbert_3" "modernbert_4" "modernbert_5" "modernbert_6" "modernbert_several";
    t5: "t5_1" "t5_2" "t5_again";
    mt5: "mt5_1" "mt5_2";
    bart: "bart_1" "bart_2" "bart_3" "bart_f16";
    longformer: "longformer_1" "longformer_2" "longformer_3";
    led: "led_1" "led_2";
    marian: "marian_1" "marian_2" "marian_3";
    mbart: "mbart_1" "mbart_2" "mbart_3";
    m2m_100: "m2m_100_1" "m2m_100_2" "m2m_100_3";
    pegasus: "pegasus_1" "pegasus_2" "pegasus_3";
    albert: "albert_1" "albert_2" "albert_3" "albert_4" "albert_5" "albert_6" "albert_7" "albert_hub";
    vit: "vit_1" "vit_2" "vit_new";
    deit: "deit_1" "deit_2" "deit_new";
    clip: "clip_1" "clip_2" "clip_3";
    siglip: "siglip_1" "siglip_2";
    whisper: "whisper_1" "whisper_2" "whisper_hub";
    swin: "swin_1" "swin_2" "swin_new";
    swinv2: "swinv2_1" "swinv2_2";
    dinov2: "dinov2_1" "dinov2_2" "dinov2_new";
    dinov2_with_registers: "dinov2_with_registers_1" "dinov2_with_registers_new";
    dinov3_vit: "dinov3_vit_1" "dinov3_vit_2" "dinov3_vit_new";
    beit: "beit_1" "beit_2" "beit_3" "beit_new";
    resnet: "resnet_1" "resnet_2" "resnet_3" "resnet_4";
    bit: "bit_1" "bit_2" "bit_3";
    distilbert: "distilbert_1" "distilbert_2" "distilbert_3" "distilbert_4" "distilbert_5" "distilbert_6";
    electra: "electra_1" "electra_2" "electra_3" "electra_4" "electra_5" "electra_6" "electra_7" "electra_8";
    fnet: "fnet_1" "fnet_2" "fnet_3" "fnet_4" "fnet_5" "fnet_6" "fnet_7";
    xlnet: "xlnet_1" "xlnet_2" "xlnet_3" "xlnet_4" "xlnet_5" "xlnet_6" "xlnet_body";
    deberta: "deberta_1" "deberta_2" "deberta_3" "deberta_4" "deberta_5" "deberta_hub" "deberta_new";
    big_bird: "big_bird_1" "big_bird_2" "big_bird_3" "big_bird_4";
    deberta_v2: "deberta_v2_1" "deberta_v2_2" "deberta_v2_3" "deberta_v2_4" "deberta_v2_5";
    xlm_roberta: "xlm_roberta_1";
    camembert: "camembert_1" "camembert_2";
    bodies: "bert_body" "bert_unnamed" "roberta_body" "xlm_roberta_body" "distilbert_body" "albert_body";
    bodies_of_other_kin: "electra_body" "deberta_body" "deberta_v2_body" "roformer_body" "longformer_body" "big_bird_body" "fnet_body";
    sentence_transformers: "bert_sentences" "roberta_sentences" "gpt2_sentences" "qwen3_sentences";
    decoders_of_texts: "gpt2_classes" "openai_gpt_classes" "gpt_neox_classes" "gpt_neo_classes" "gptj_classes" "falcon_classes" "opt_classes" "phi_classes";
    decoders_of_texts_with_rotation: "llama_classes" "llama_number" "llama_several" "mistral_classes" "mixtral_classes" "deepseek_v2_classes" "deepseek_v3_classes" "diffllama_classes" "gpt_oss_classes" "qwen2_classes" "qwen3_classes" "qwen3_next_classes";
    decoders_of_texts_with_other_norms: "starcoder2_classes" "stablelm_classes" "olmo_classes" "olmo2_classes" "phi3_classes" "smollm3_classes" "gemma_classes" "gemma2_classes";
    decoders_of_texts_with_slopes: "bloom_classes" "mpt_classes";
}

/// Import reports the family, its parameters, keys without effect, and tensors without a place.
#[test]
fn import_says_what_it_read() {
    let work = tempfile::tempdir().unwrap();
    let run = shown(&work.path().join("run"));
    let folder = shown(&fixture("bert_hub"));
    let done = formwork(&["import", &folder, &run]).output().unwrap();
    let said = [done.stdout, done.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    for part in [
        "bert",
        "gradient_checkpointing",
        "bert.pooler.dense.weight",
        "cls.seq_relationship.bias",
    ] {
        assert!(said.contains(part), "{part} is missing:\n{said}");
    }
}

/// A reference is compared on import; that of another model fails, and the message names the output that differs.
#[test]
fn a_reference_is_compared() {
    let work = tempfile::tempdir().unwrap();
    let folder = fixture("t5_1");
    let reference = shown(&folder.join("reference.safetensors"));
    let run = shown(&work.path().join("run"));
    let said = output(&["import", &shown(&folder), &run, "--reference", &reference]);
    for part in ["logits", "last_hidden_state", "encoder_last_hidden_state"] {
        assert!(said.contains(part), "{part} is missing:\n{said}");
    }
    let listed = output(&["runs", &shown(work.path())]);
    assert!(
        listed.contains("imported") && !listed.contains("stopped"),
        "{listed}"
    );

    let other = super::files::copy(&fixture("gpt2_1"));
    let config = other.path().join("config.json");
    let text = std::fs::read_to_string(&config).unwrap();
    let scaled = "\"scale_attn_by_inverse_layer_idx\": true";
    assert!(text.contains(scaled));
    std::fs::write(
        &config,
        text.replace(scaled, &scaled.replace("true", "false")),
    )
    .unwrap();
    let reference = shown(&other.path().join("reference.safetensors"));
    let (other, run) = (shown(other.path()), shown(&work.path().join("other")));
    let (status, said) = failure(&["import", &other, &run, "--reference", &reference]);
    assert!(status == 1 && said.contains("logits"), "{status}: {said}");
    assert!(!std::path::Path::new(&run).exists(), "a run is left");
    let (status, said) = failure(&["import", &other, &run, "--python", "/no/python"]);
    assert!(
        status == 2 && said.contains("/no/python"),
        "{status}: {said}"
    );
    assert!(!std::path::Path::new(&run).exists(), "a run is left");
}

/// The hub's cache stores weights as links to files elsewhere.
#[cfg(unix)]
#[test]
fn links_to_files_are_files() {
    let (folder, elsewhere) = (
        super::files::copy(&fixture("llama_1")),
        tempfile::tempdir().unwrap(),
    );
    let (weights, blob) = (
        folder.path().join("model.safetensors"),
        elsewhere.path().join("blob"),
    );
    std::fs::rename(&weights, &blob).unwrap();
    std::os::unix::fs::symlink(&blob, &weights).unwrap();
    output(&[
        "import",
        &shown(folder.path()),
        &shown(&elsewhere.path().join("run")),
    ]);
}
