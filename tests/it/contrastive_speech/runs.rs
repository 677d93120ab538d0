//! Runs of contrastive pretraining: resumed to the same bits, used for embeddings and as the start of a CTC run, imported and
//! exported; and what is refused.

use crate::binary::{failure, output, shipped};
use crate::ctc::folders::{hub, settings, vocab};
use crate::in_folder::{goes_on_to_the_same_bits, written};
use crate::inspect::looked::json;
use crate::oracle::Oracle;
use crate::transcription::{dialled, wav};
use safetensors::SafeTensors;
use serde_json::Value;
use std::fs;
use std::path::Path;

fn smoke() -> String {
    fs::read_to_string(shipped("experiments/smoke/contrastive_speech.toml")).unwrap()
}

#[test]
fn a_run_goes_on_to_the_same_bits_and_becomes_a_ctc_run() {
    let folder = tempfile::tempdir().unwrap();
    let run = goes_on_to_the_same_bits(folder.path(), &smoke(), [10, 40]);
    let journal = fs::read_to_string(Path::new(&run).join("metrics.jsonl")).unwrap();
    for metric in [
        "diversity_loss",
        "code_perplexity",
        "feature_penalty",
        "accuracy",
    ] {
        assert!(journal.contains(metric), "{metric} is not in the journal");
    }
    let scores = json(&output(&["eval", &run, "--json"]));
    assert!(
        scores["perplexity"].is_null() && scores["loss"].is_number(),
        "{scores}"
    );

    let file = folder.path().join("7.wav");
    fs::write(&file, wav(&dialled("7"))).unwrap();
    let file = file.display().to_string();
    let out = folder.path().join("vectors.jsonl").display().to_string();
    output(&["encode", &run, &file, "--out", &out]);
    let line = json(&fs::read_to_string(&out).unwrap());
    assert_eq!(line["vector"].as_array().unwrap().len(), 32);

    let tuned = smoke()
        .replace("kind = \"contrastive_speech\"", "kind = \"ctc\"")
        .replace("feature_penalty = 1.0\n", "");
    let tuned: Vec<&str> = tuned
        .lines()
        .filter(|line| {
            let keys = ["entries", "d_code", "d_compared", "negatives", "gumbel"];
            !keys.iter().any(|key| line.starts_with(key))
        })
        .collect();
    let init = format!("\n[init]\nfrom = {run:?}\nnew = [\"^model\\\\.head\"]\n");
    let text = tuned.join("\n") + &init;
    let file = written(folder.path(), "tuned.toml", &text);
    let tuned = folder.path().join("tuned").display().to_string();
    let said = output(&["train", &file, "--quiet", "--run", &tuned]);
    assert!(!said.contains("contrastive_head"), "{said}");
    let first = |run: &str, step: &str| {
        let path = Path::new(run).join(format!("steps/{step}/model.safetensors"));
        let bytes = fs::read(path).unwrap();
        let all = SafeTensors::deserialize(&bytes).unwrap();
        let names: Vec<String> = all.names().into_iter().map(String::from).collect();
        names
    };
    assert!(
        first(&run, "00000040")
            .iter()
            .any(|name| name.starts_with("contrastive_head."))
    );
    assert!(
        !first(&tuned, "00000040")
            .iter()
            .any(|name| name.starts_with("contrastive_head."))
    );
}

#[test]
fn folders_go_in_and_out() {
    let work = tempfile::tempdir().unwrap();
    let at = |name: &str| work.path().join(name).display().to_string();
    let folder = hub("wav2vec2_pretraining", &settings(), &vocab(0));
    output(&["import", &folder.path().display().to_string(), &at("run")]);
    output(&["export", &at("run"), &at("exported")]);
    let read = |name: &str| fs::read(work.path().join("exported").join(name)).unwrap();
    let config: Value = serde_json::from_slice(&read("config.json")).unwrap();
    let wanted: Value =
        serde_json::from_str(&Oracle::open("wav2vec2_pretraining").config()).unwrap();
    assert_eq!(config["architectures"][0], "Wav2Vec2ForPreTraining");
    for key in [
        "num_codevector_groups",
        "num_codevectors_per_group",
        "codevector_dim",
        "proj_codevector_dim",
        "num_negatives",
        "contrastive_logits_temperature",
        "diversity_loss_weight",
        "mask_time_prob",
        "mask_time_length",
    ] {
        assert_eq!(config[key], wanted[key], "{key}");
    }
    let given = fs::read(folder.path().join("model.safetensors")).unwrap();
    let (given, exported) = (given, read("model.safetensors"));
    let [given, exported] = [&given, &exported].map(|b| SafeTensors::deserialize(b).unwrap());
    assert_eq!(given.len(), exported.len());
    for (name, tensor) in given.iter() {
        let ours = exported.tensor(name).unwrap();
        assert!(
            ours.shape() == tensor.shape() && ours.data() == tensor.data(),
            "{name}"
        );
    }
}

#[test]
fn what_cannot_be_is_told_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    for (from, to, expected) in [
        (
            "time_share = 0.5",
            "time_share = 0.0",
            "time_share = 0.0 masks no frames, but [task] kind = \"contrastive_speech\" learns from masked frames",
        ),
        (
            "time_width = 4",
            "time_width = 80",
            "time_width = 80 is more than the 74 frames of the longest recording, so that no frame is masked; set time_width = 19",
        ),
        (
            "entries = 16",
            "entries = 1",
            "entries = 1 cannot distinguish frames",
        ),
        (
            "d_code = 16",
            "d_code = 15",
            "d_code = 15 must be a multiple of codebooks = 2; 16 is one",
        ),
        (
            "negatives = 10",
            "negatives = 0",
            "negatives = 0 is not between 1 and 10000",
        ),
        (
            "gumbel = { from = 2.0",
            "gumbel = { from = 0.0",
            "from = 0.0 must be between 0.001 and 1000.0",
        ),
        (
            "decay = 0.97",
            "decay = 1.5",
            "decay = 1.5 must be above 0 and at most 1",
        ),
        (
            "negatives = 10",
            "negatives = 10\nfeature_gradient = 2.0",
            "feature_gradient = 2.0 must be between 0.0 and 1.0",
        ),
        (
            "n_mels = 0",
            "n_mels = 40",
            "n_mels = 40 produces log-mel features, but the model reads samples; set n_mels = 0",
        ),
        ("negatives = 10", "negative = 10", "negatives"),
    ] {
        let text = smoke().replace(from, to);
        assert_ne!(text, smoke(), "{from}");
        let file = written(folder.path(), "x.toml", &text);
        let (status, said) = failure(&["check", &file]);
        assert!(status == 2 && said.contains(expected), "{to}\n{said}");
        assert!(said.contains("x.toml:"), "{said}");
        assert_eq!(said.matches("x.toml:").count(), 1, "{said}");
    }
}

#[test]
fn recordings_need_no_transcripts() {
    let folder = tempfile::tempdir().unwrap();
    let sounds = folder.path().join("sounds");
    fs::create_dir(&sounds).unwrap();
    for number in 0..12 {
        let file = sounds.join(format!("{number}.wav"));
        fs::write(file, wav(&dialled(&number.to_string()))).unwrap();
    }
    fs::write(sounds.join("notes.txt"), "not a recording").unwrap();
    let smoke = smoke();
    let (before, rest) = smoke.split_once("[data]").unwrap();
    let (_, after) = rest.split_once("[task]").unwrap();
    let data = "[data]\nkind = \"transcribed_speech\"\npath = \"sounds\"\ntranscripts = false\nn_mels = 0\nseconds = 0.3\n\
                valid_fraction = 0.25\n\n[task]";
    let text = format!("{before}{data}{after}")
        .replace("steps = 40", "steps = 4")
        .replace("batch_size = 16\nmicro_batch_size = 8", "batch_size = 4");
    let file = written(folder.path(), "x.toml", &text);
    let run = folder.path().join("run").display().to_string();
    output(&["train", &file, "--quiet", "--run", &run]);
    let scores = json(&output(&["eval", &run, "--json"]));
    assert!(scores["loss"].as_f64().unwrap().is_finite(), "{scores}");
    let given = sounds.display().to_string();
    let others = json(&output(&["eval", &run, "--data", &given, "--json"]));
    assert!(others["loss"].is_number(), "{others}");
    for (from, to, expected) in [
        (
            "seconds = 0.3",
            "seconds = 0.3\ntranscript = \"text\"",
            "transcript has no effect with transcripts = false",
        ),
        ("path = \"sounds\"", "path = \"none\"", "none"),
        ("n_mels = 0", "n_mels = 80", "set n_mels = 0"),
    ] {
        let file = written(folder.path(), "y.toml", &text.replacen(from, to, 1));
        let (status, said) = failure(&["check", &file]);
        assert!(status == 2 && said.contains(expected), "{to}\n{said}");
    }
    let (before, _) = text.split_once("[task]").unwrap();
    let (_, after) = text.split_once("[optimizer]").unwrap();
    let ctc = format!("{before}[task]\nkind = \"ctc\"\n[optimizer]{after}");
    let file = written(folder.path(), "ctc.toml", &ctc);
    let (status, said) = failure(&["check", &file]);
    let rule = "transcripts = false leaves out the transcripts that [task] kind = \"ctc\" reads";
    assert!(status == 2 && said.contains(rule), "{said}");
}
