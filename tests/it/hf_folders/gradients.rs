//! Losses and gradients of imported folders against those of transformers' own classes, under the class's parameter names: a
//! folder's `gradients.safetensors` has inputs with labels, the loss, and the gradient of each parameter.

use super::{Tensors, files, fixture, infer, shown};
use crate::binary::output;
use crate::goldens::TOLERANCE;
use crate::oracle::difference;
use formwork::interop::read_hf;
use formwork::interop::weights::Array;
use std::collections::BTreeMap;

/// Checks that every parameter of the class has its gradient, and that there are no others except for parameters that the class
/// does not train.
fn check(name: &str) {
    let folder = fixture(name);
    let work = tempfile::tempdir().unwrap();
    let run = shown(&work.path().join("run"));
    output(&["import", &shown(&folder), &run]);
    let found = infer(&folder, "gradients", &run, &["--gradients"]);
    let wanted = files::read(&folder.join("gradients.safetensors"));

    let loss = |tensors: &Tensors, key: &str| tensors[key].values[0];
    let (ours, theirs) = (loss(&found, "loss"), loss(&wanted, "expected.loss"));
    assert!((ours - theirs).abs() < 1e-5, "{name}: {ours} and {theirs}");

    let arrays: BTreeMap<String, Array> = found
        .into_iter()
        .filter_map(|(key, x)| Some((key.strip_prefix("grad.")?.to_string(), x)))
        .map(|(key, x)| (key, (x.shape, x.values)))
        .map(|(key, (shape, values))| (key, Array { shape, values }))
        .collect();
    let mut ours = read_hf(&folder, &[]).unwrap().table().export(&arrays);
    // BART's constant on the logits is a buffer of its class, and sinusoidal tables are not trained.
    let sines = |key: &str| {
        key.starts_with("roformer.encoder.embed")
            || name.starts_with("pegasus") && key.ends_with("embed_positions.weight")
            || name.starts_with("whisper") && key == "model.encoder.embed_positions.weight"
    };
    ours.retain(|key, _| key != "final_logits_bias" && !sines(key));
    if !wanted.contains_key("expected.grad.transformer.mask_emb") {
        // XLNet's classes have a query embedding, and those for whole texts never read it.
        ours.remove("transformer.mask_emb");
    }
    let theirs: Tensors = wanted
        .into_iter()
        .filter_map(|(key, x)| Some((key.strip_prefix("expected.grad.")?.to_string(), x)))
        .filter(|(key, _)| !sines(key))
        .collect();
    assert!(
        ours.keys().eq(theirs.keys()),
        "{name}: gradients of {:?}, there of {:?}",
        ours.keys(),
        theirs.keys()
    );
    let mut worst = (0.0, "");
    for (key, theirs) in &theirs {
        assert_eq!(ours[key].shape, theirs.shape, "{name}: shape of `{key}`");
        let off = difference(&ours[key].values, &theirs.values);
        assert!(
            off < TOLERANCE,
            "{name}: the gradient of `{key}` is off by {off:e}"
        );
        if off > worst.0 {
            worst = (off, key);
        }
    }
    println!("{name}: {:.1e} at {}", worst.0, worst.1);
}

macro_rules! gradients {
    ($($name:ident)+) => {
        $(#[test]
        fn $name() {
            check(stringify!($name));
        })+

        /// Every file of gradients is tested.
        #[test]
        fn every_file_is_in_a_test() {
            let tested = [$(stringify!($name)),+];
            for folder in std::fs::read_dir(fixture("")).unwrap() {
                let folder = folder.unwrap();
                if folder.path().join("gradients.safetensors").exists() {
                    let name = folder.file_name().into_string().unwrap();
                    assert!(tested.contains(&name.as_str()), "{name} is in no test");
                }
            }
        }
    };
}

gradients! {
    whisper_1
    whisper_2
    gpt_oss_1
    gpt_oss_2
    qwen3_next_1
    qwen3_next_2
    roformer_4
    distilbert_1
    distilbert_2
    electra_1
    electra_2
    electra_3
    t5_1
    t5_2
    mt5_1
    mt5_2
    bart_1
    mbart_1
    m2m_100_1
    pegasus_1
    gpt_neo_1
    longformer_1
    led_1
    big_bird_2
    bert_5
    bert_several
    llama_several
    bert_6
    roberta_3
    roberta_4
    roformer_7
    albert_5
    albert_6
    deberta_4
    deberta_v2_4
    distilbert_4
    distilbert_5
    electra_6
    electra_7
    longformer_3
    big_bird_4
    bert_7
    roberta_5
    roformer_8
    albert_7
    deberta_5
    deberta_v2_5
    distilbert_6
    electra_8
    fnet_1
    fnet_2
    fnet_5
    fnet_6
    xlnet_2
    xlnet_4
    xlnet_6
    mamba_1
    modernbert_1
    modernbert_2
    modernbert_3
    modernbert_4
    modernbert_5
    modernbert_6
    modernbert_several
    olmo_1
    diffllama_1
    diffllama_2
    opt_1
    opt_2
    phi_1
    phi_2
    phi3_1
    phi3_2
    phi3_3
    phi3_4
    llama_3
    olmoe_1
    olmoe_2
    mpt_2
    olmo2_2
    smollm3_1
    starcoder2_1
    starcoder2_2
    stablelm_1
    stablelm_2
    gemma2_1
    gemma3_1
    mamba2_1
    mamba2_2
    deepseek_v2_1
    deepseek_v3_1
    deepseek_v3_2
    rwkv_1
    gpt2_classes
    llama_classes
    llama_number
}
