//! Layers of configuration: files over files, presets under files, `--set` on top, and the origin of each value.

use super::{RIGHT, judged};
use formwork::data::SpeechShape;
use formwork::experiment::{LoadedExperiment, Origin, annotated_toml};
use formwork::experiment::{load, load_text, resolved_toml};
use formwork::generate::beam::{GnmtConfig, LengthPenalty};
use formwork::model::preset::{names, parse_preset};
use formwork::model::{DecoderConfig, ModelConfig};
use formwork::nn::position::PositionConfig;
use formwork::stack::BlockConfig;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

fn right(sets: &[&str]) -> LoadedExperiment {
    let sets: Vec<String> = sets.iter().map(|s| s.to_string()).collect();
    judged(RIGHT, &sets).unwrap()
}

fn decoder(loaded: &LoadedExperiment) -> &DecoderConfig {
    match &loaded.experiment.model {
        ModelConfig::Decoder(decoder) => decoder,
        other => panic!("a model of kind {}", other.kind()),
    }
}

fn line(loaded: &LoadedExperiment, key: &str) -> usize {
    match loaded.origin(key) {
        Origin::File { line, .. } => *line,
        other => panic!("{key} comes from {other:?}"),
    }
}

#[test]
fn placement_and_position_are_one_key() {
    let loaded = right(&["model.norm_placement=post", "model.position=alibi"]);
    assert!(matches!(
        decoder(&loaded).stack.position,
        PositionConfig::Alibi(_)
    ));
    let origin = loaded.origin("model.position.kind");
    assert_eq!(*origin, Origin::Set("model.position=alibi".into()));
    for kind in [
        "none",
        "sinusoidal",
        "learned",
        "learned_per_layer",
        "rotary",
        "alibi",
        "relative_bias",
        "xpos",
        "kerple",
        "dynamic_bias",
        "fire",
    ] {
        for set in [
            format!("model.position={kind}"),
            format!("model.position.kind={kind}"),
        ] {
            judged(RIGHT, &[set]).unwrap();
        }
    }
    for placement in [
        "pre", "post", "sandwich", "res_post", "parallel", "deepnorm",
    ] {
        judged(RIGHT, &[format!("model.norm_placement={placement}")]).unwrap();
    }
}

#[test]
fn the_same_kind_keeps_the_keys_below_and_another_drops_them() {
    let theta = |loaded: &LoadedExperiment| match &decoder(loaded).stack.position {
        PositionConfig::Rotary(c) => c.theta,
        other => panic!("{other:?}"),
    };
    let text = RIGHT.replace("theta = 10000.0", "theta = 77.0");
    let set = |set: &str| judged(&text, &[set.into()]).unwrap();
    assert_eq!(theta(&set("model.position.fraction=0.5")), 77.0);
    assert_eq!(theta(&set("model.position=rotary")), 77.0);
    assert_eq!(
        theta(&set("model.position={ kind = \"rotary\", fraction = 0.5 }")),
        77.0
    );
    assert!(matches!(
        decoder(&set("model.position=learned")).stack.position,
        PositionConfig::Learned(_)
    ));
    // The order of overrides does not matter.
    for sets in [
        ["model.position.max_len=300", "model.position=learned"],
        ["model.position=learned", "model.position.max_len=300"],
    ] {
        let loaded = right(&sets);
        let PositionConfig::Learned(c) = &decoder(&loaded).stack.position else {
            panic!("{:?}", decoder(&loaded).stack.position);
        };
        assert_eq!(c.max_len, Some(300));
    }
}

#[test]
fn extended_files_lie_below() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir(path("base")).unwrap();
    std::fs::write(path("base/right.toml"), RIGHT).unwrap();
    std::fs::write(
        path("base/middle.toml"),
        "extends = \"right.toml\"\n[train]\nsteps = 7_000\n",
    )
    .unwrap();
    let text =
        "extends = \"base/middle.toml\"\nname = \"top\"\n[model]\nposition = \"sinusoidal\"\n";
    std::fs::write(path("top.toml"), text).unwrap();
    let loaded = load(&path("top.toml"), &["train.batch_size=8".into()]).unwrap();
    assert_eq!(loaded.experiment.name, "top");
    assert_eq!(loaded.experiment.train.steps, 7000);
    assert_eq!(loaded.experiment.train.batch_size, 8);
    assert_eq!(decoder(&loaded).n_layers(), 6);
    assert!(matches!(
        decoder(&loaded).stack.position,
        PositionConfig::Sinusoidal(_)
    ));
    assert_eq!(loaded.source, text);
    assert_eq!(line(&loaded, "name"), 2);
    assert_eq!(line(&loaded, "model.position.kind"), 4);
    let Origin::File { path, line } = loaded.origin("train.steps") else {
        panic!("{:?}", loaded.origin("train.steps"));
    };
    assert!(path.ends_with("base/middle.toml") && *line == 3);
    assert_eq!(*loaded.origin("train.keep"), Origin::Default);
}

#[test]
fn presets_lie_below_the_file() {
    let text = RIGHT.replace("kind = \"decoder\"\n", "preset = \"llama-7b\"\n");
    let loaded = judged(&text, &[]).unwrap();
    // Keys of the file win over those of the preset; the preset's other keys remain.
    assert_eq!(decoder(&loaded).n_layers(), 6);
    assert!(!decoder(&loaded).tie_embeddings);
    let Origin::Preset { name, by } = loaded.origin("model.tie_embeddings") else {
        panic!("{:?}", loaded.origin("model.tie_embeddings"));
    };
    assert!(name == "llama-7b" && matches!(**by, Origin::File { .. }));
    // Another preset replaces the first one entirely.
    let loaded = right(&["model.preset=gpt2", "model.n_layers=3"]);
    assert_eq!(
        (decoder(&loaded).n_layers(), decoder(&loaded).stack.d_model),
        (3, 768)
    );
    let gpt2 = parse_preset("gpt2").unwrap().model;
    let gpt2 = gpt2.transformer().unwrap();
    assert_eq!(decoder(&loaded).stack.attention, gpt2.stack.attention);
}

/// If a key of a preset does not fit the data, the fault is reported at the data's key; if no key of the file is at fault, at the
/// line that names the preset.
#[test]
fn faults_of_a_preset_s_keys_have_a_place() {
    let text = fs::read_to_string("experiments/bench/vit_b.toml").unwrap();
    let sizes =
        "kind = \"random_images\"\nchannels = 3\nheight = 224\nwidth = 224\nclasses = 1000\n";
    for (from, to, wanted) in [
        ("height = 224", "height = 1", "height = 1"),
        (sizes, "kind = \"shapes\"\n", "preset ="),
    ] {
        let text = text.replace(from, to);
        let error = judged(&text, &[]).unwrap_err().to_string();
        let line = text.lines().position(|line| line.starts_with(wanted));
        let place = format!("x.toml:{}: ", line.unwrap() + 1);
        assert!(error.starts_with(&place), "{error}, and not at {place}");
    }
}

#[test]
fn every_preset_makes_sense() {
    for name in names() {
        let model = parse_preset(name).unwrap().model;
        let task = match &model {
            ModelConfig::Decoder(_) | ModelConfig::Recurrent(_) => "causal_lm",
            ModelConfig::Encoder(_) => "masked_lm",
            ModelConfig::EncoderDecoder(_) => "translation",
            ModelConfig::Convolutional(_) => "text_classification",
            ModelConfig::TwoTowers(_) | ModelConfig::VisionLanguage(_) => {
                let loaded = judged(&of_captions(name, &model), &[]).unwrap();
                assert_eq!(loaded.experiment.model, model, "{name}");
                continue;
            }
            ModelConfig::SpeechEncoderDecoder(_) | ModelConfig::SpeechEncoder(_) => {
                let loaded = judged(&of_speech(name, &model), &[]).unwrap();
                assert_eq!(loaded.experiment.model, model, "{name}");
                continue;
            }
            ModelConfig::Vision(_) | ModelConfig::Resnet(_) | ModelConfig::Swin(_) => {
                let loaded = judged(&of_images(name), &[]).unwrap();
                assert_eq!(loaded.experiment.model, model, "{name}");
                continue;
            }
        };
        let sees = |b: BlockConfig| b.attention.is_some_and(|a| a.facts().sees_globals());
        let globals = match model.transformer().is_some_and(|m| m.blocks().any(sees)) {
            true => ", global_tokens = \"first\"",
            false => "",
        };
        let task = format!("task={{ kind = \"{task}\"{globals} }}");
        let mut sets = vec![format!("model.preset={name}"), task];
        if model.evaluation_memory() > 0 {
            let carried = ["train.carry_state=true", "data.windows=contiguous"];
            sets.extend(carried.map(String::from));
        }
        if model.retrieval().is_some() {
            sets.extend(
                [
                    "data.retrieval={}",
                    "data.context=256",
                    "data.windows=contiguous",
                ]
                .map(String::from),
            );
        }
        match judged(RIGHT, &sets) {
            Ok(loaded) => assert_eq!(loaded.experiment.model, model, "{name}"),
            // The file's data are single texts.
            Err(error) => {
                let error = error.to_string();
                let about_data = error.lines().all(|line| line.contains("[data] kind"));
                let pairs = model.kind() == "encoder_decoder";
                assert!(pairs && about_data, "{name}: {error}");
            }
        }
    }
}

fn of_captions(preset: &str, model: &ModelConfig) -> String {
    let task = match model {
        ModelConfig::TwoTowers(towers) if towers.logit_bias.is_some() => {
            "{ kind = \"image_text\", loss = \"sigmoid\" }"
        }
        ModelConfig::TwoTowers(_) => "{ kind = \"image_text\" }",
        _ => "{ kind = \"captioning\" }",
    };
    format!(
        "name = \"x\"\nmodel.preset = \"{preset}\"\ntask = {task}\n\
         data = {{ kind = \"captioned_shapes\", size = 224 }}\n\
         optimizer = {{ kind = \"adamw\", lr = 1e-3 }}\ntrain = {{ steps = 1, batch_size = 2 }}\n"
    )
}

fn of_speech(preset: &str, model: &ModelConfig) -> String {
    let heard = model.facts().encoder_positions(SpeechShape {
        n_mels: 80,
        n_frames: 3000,
        normalized: false,
    });
    let (task, keys) = match (model, heard) {
        (ModelConfig::SpeechEncoder(_), _) => ("ctc", "n_mels = 0"),
        (_, Some(1500)) => ("transcription", "seconds = 30.0"),
        (_, heard) => panic!("{preset}: {heard:?}"),
    };
    format!(
        "name = \"x\"\nmodel.preset = \"{preset}\"\ntask.kind = \"{task}\"\n\
         data = {{ kind = \"dialled_digits\", {keys} }}\n\
         optimizer = {{ kind = \"adamw\", lr = 1e-3 }}\ntrain = {{ steps = 1, batch_size = 1 }}\n"
    )
}

fn of_images(preset: &str) -> String {
    format!(
        "name = \"x\"\nmodel.preset = \"{preset}\"\ntask.kind = \"image_classification\"\n\
         data = {{ kind = \"random_images\", channels = 3, height = 224, width = 224 }}\n\
         optimizer = {{ kind = \"adamw\", lr = 1e-3 }}\ntrain = {{ steps = 1, batch_size = 1 }}\n"
    )
}

#[test]
fn resolved_files_load_back() {
    for sets in [
        &[][..],
        &["model.preset=llama3.1-8b", "name=a+b"],
        &[
            "optimizer.groups=[{ match = \"norm\", lr_scale = 0.5 }]",
            "train.sample={ prompt = \"a\\nb\\\"c\\t\\u0001\" }",
        ],
        &[
            "expect.valid_loss={ equals = 1e-30, tolerance = 0.0 }",
            "train.ema=0.999",
            "optimizer.lr=1e-12",
        ],
    ] {
        let loaded = right(sets);
        for text in [resolved_toml(&loaded.experiment), annotated_toml(&loaded)] {
            let again = load_text(Path::new("resolved.toml"), text, &[]).unwrap();
            assert_eq!(again.experiment, loaded.experiment);
        }
    }
}

#[test]
fn check_names_the_origin_of_every_value() {
    let text = annotated_toml(&right(&["model.position=alibi", "train.steps=300"]));
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = text.lines().map(words).collect();
    for line in [
        "name = \"x\" # x.toml:1",
        "kind = \"alibi\" # --set model.position=alibi",
        "steps = 300 # --set train.steps=300",
        "eps = 1e-6 # default",
    ] {
        assert!(lines.contains(&line.to_string()), "{line}\n{text}");
    }
    let columns = text.lines().filter_map(|line| line.find("  # "));
    let columns: std::collections::BTreeSet<usize> = columns.collect();
    assert_eq!(columns.len(), 1, "{text}");
    let values = text.lines().filter(|line| line.contains(" = "));
    assert!(values.clone().all(|line| line.contains("  # ")), "{text}");
}

/// Steps that were computed from epochs, and a switch set to its default.
#[test]
fn check_names_what_steps_were_made_of() {
    let mut loaded = right(&["train.epochs=2", "train.tf32=true"]);
    let text = annotated_toml(&loaded);
    assert!(text.contains("tf32 = true"), "{text}");
    (
        loaded.experiment.train.steps,
        loaded.experiment.train.epochs,
    ) = (63, None);
    let text = annotated_toml(&loaded);
    let line = text.lines().find(|line| line.starts_with("steps = 63"));
    let line = line.unwrap_or_else(|| panic!("{text}"));
    assert!(
        line.ends_with("  # from epochs = 2, --set train.epochs=2"),
        "{line}"
    );
    let again = load_text(Path::new("resolved.toml"), text.clone(), &[]).unwrap();
    assert_eq!(again.experiment, loaded.experiment);
}

/// The `[decode]` of a run is not written out if it is all default.
#[test]
fn a_key_of_a_table_that_is_not_written_out_takes_its_kind() {
    let set = "decode.search.length_penalty.alpha=1".to_string();
    let loaded = load_text(Path::new("x.toml"), RIGHT.into(), &[set]).unwrap();
    assert_eq!(
        loaded.experiment.decode.search.length_penalty,
        LengthPenalty::Gnmt(GnmtConfig { alpha: 1.0 })
    );
}
