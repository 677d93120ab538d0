//! Named models have their published parameter counts; none of the models is allocated.

mod published;

use burn::module::{ModuleVisitor, Param};
use burn::tensor::{Device, Tensor};
use formwork::model::BuildContext;
use formwork::model::preset::{names, parse_preset};
use formwork::nn::path::Path;
use formwork::plan::{ModelCost, PlanRequest, plan};
use formwork::task::{CausalLmConfig, ROLES, TaskConfig};
use published::PUBLISHED;

/// Trained parameters of HF's `MarianModel` and `WhisperForConditionalGeneration` (without their sinusoidal tables),
/// `Wav2Vec2ForCTC` and `HubertForCTC`, and of torch's `nn.Transformer` between shared embeddings, without the norms after its
/// stacks, which the paper does not have.
const COUNTED: &[(&str, usize)] = &[
    ("marian-base", 73_886_208),
    ("whisper-tiny", 37_184_640),
    ("whisper-base", 71_825_920),
    ("whisper-small", 240_582_912),
    ("whisper-medium", 762_321_920),
    ("whisper-large-v3", 1_541_570_560),
    ("whisper-large-v3-turbo", 806_958_080),
    ("wav2vec2-base", 94_396_320),
    ("wav2vec2-large-lv60", 315_471_520),
    ("hubert-base", 94_396_320),
    ("hubert-large", 315_471_520),
    ("transformer-tiny", 2_605_056),
    ("transformer-base", 63_082_496),
    ("transformer-big", 214_245_376),
];

/// Table 2.1 of the GPT-3 paper, in millions.
const GPT3: &[(&str, f64)] = &[
    ("gpt3-small", 125.0),
    ("gpt3-medium", 350.0),
    ("gpt3-large", 760.0),
    ("gpt3-xl", 1300.0),
    ("gpt3-2.7b", 2700.0),
    ("gpt3-6.7b", 6700.0),
    ("gpt3-13b", 13_000.0),
    ("gpt3-175b", 175_000.0),
];

/// Table 1 of Al-Rfou et al. 2019, in millions: of the model alone, and with the output maps of its auxiliary losses.
const AL_RFOU: &[(&str, usize, usize)] = &[("al-rfou-12", 41, 44), ("al-rfou-64", 219, 235)];

/// Tables 1 and 2 of the Transformer-XL paper, in millions. For the large model on WikiText-103, the count follows from the
/// sizes in its released code (the paper says 257).
const TRANSFORMER_XL: &[(&str, f64)] = &[
    ("transformer-xl-enwik8-12", 41.0),
    ("transformer-xl-enwik8-18", 88.0),
    ("transformer-xl-enwik8-24", 277.0),
    ("transformer-xl-wt103", 151.0),
    ("transformer-xl-wt103-large", 285.0),
];

/// Section 7.2 of the Sparse Transformer paper, in millions.
const SPARSE: &[(&str, f64)] = &[("sparse-transformer-enwik8", 95.0)];

/// Table 2 of the RETRO paper, in millions and without embeddings. The paper's cross-attention has its own relative positions,
/// with one more matrix per such layer than here: 1.4 to 2 % of the total.
const RETRO: &[(&str, f64)] = &[
    ("retro-172m", 172.0),
    ("retro-425m", 425.0),
    ("retro-1.5b", 1451.0),
    ("retro-7.5b", 7532.0),
];

/// Image networks with a classifier for 1000 classes, and a second one if they have a distillation token. Counts are
/// torchvision's. For models that it lacks, they are the paper's in millions, or those of transformers (DeiT, Swin, BEiT;
/// DINOv2 and DINOv3 without the mask token, which only self-supervised training uses).
const CLASSIFIERS: &[(&str, usize)] = &[
    ("vit-tiny-16", 5_717_416),
    ("vit-small-16", 22_050_664),
    ("vit-base-16", 86_567_656),
    ("vit-base-32", 88_224_232),
    ("vit-large-16", 304_326_632),
    ("vit-huge-14", 632_045_800),
    ("deit-small", 22_436_432),
    ("deit-base", 87_338_192),
    ("swin-tiny", 28_288_354),
    ("swin-small", 49_606_258),
    ("swin-base", 87_768_224),
    ("swin-large", 196_532_476),
    ("swinv2-tiny", 28_347_154),
    ("swinv2-small", 49_728_418),
    ("swinv2-base", 87_918_816),
    ("dinov2-small", 22_825_192),
    ("dinov2-base", 88_116_712),
    ("dinov2-large", 306_416_616),
    ("dinov2-giant", 1_139_552_232),
    ("dinov3-small", 22_365_160),
    ("dinov3-small-plus", 29_461_480),
    ("dinov3-base", 87_196_648),
    ("dinov3-large", 305_177_576),
    ("dinov3-huge-plus", 843_152_360),
    ("dinov3-7b", 6_724_223_976),
    ("beit-base", 86_530_984),
    ("beit-large", 304_430_568),
    ("vit-r26-small-32", 36_431_912),
    ("vit-r50-base-16", 98_659_112),
    ("vit-r50-large-32", 328_994_856),
    ("resnet18", 11_689_512),
    ("resnet34", 21_797_672),
    ("resnet50", 25_557_032),
    ("resnet101", 44_549_160),
    ("bit-r50x1", 25_549_352),
    ("bit-r50x3", 217_319_080),
    ("bit-r101x1", 44_541_480),
    ("bit-r101x3", 387_934_888),
    ("bit-r152x2", 236_335_208),
    ("bit-r152x4", 936_533_224),
];

fn planned(name: &str) -> ModelCost {
    planned_for(name, None)
}

fn planned_for(name: &str, task: Option<&TaskConfig>) -> ModelCost {
    let preset = parse_preset(name).unwrap();
    let shape = preset.shape();
    let question = PlanRequest {
        task,
        ..PlanRequest::of(&preset.model, &shape)
    };
    plan(&question, &Device::default()).unwrap()
}

/// 12.9 billion of 46.7 (Jiang et al. 2024, table 1), 37 of 671 (DeepSeek-AI 2024, section 1), 1.3 of 6.9 (Muennighoff et al.
/// 2024, OLMoE); a dense model uses all of its parameters.
#[test]
fn a_token_uses_some_of_the_experts() {
    let mixtral = planned("mixtral-8x7b");
    assert_eq!(mixtral.active, 12_879_925_248);
    assert_eq!(planned("deepseek-v3").active, 37_552_282_624);
    assert_eq!(planned("olmoe-1b-7b").active, 1_282_017_280);
    // The model card, table 1, counts 3.61 and 5.13 billion, without the embedding table.
    assert_eq!(planned("gpt-oss-20b").active, 4_187_440_704);
    assert_eq!(planned("gpt-oss-120b").active, 5_711_982_912);
    let mistral = planned("mistral-7b-v0.2");
    assert_eq!(mistral.active, mistral.params);
    // One more expert in each layer, and the router.
    let more = 32.0 * (3 * 4096 * 14336 + 8 * 4096) as f64;
    assert_eq!(mixtral.flops_per_item - mistral.flops_per_item, 6.0 * more);
}

/// Linformer is RoBERTa plus one projection of 512 positions to 128, shared by all layers. In T-DMCA, a token uses two experts;
/// there is no published count, so the parts are counted from their shapes.
#[test]
fn attention_over_fewer_keys_is_counted_by_its_parts() {
    let roberta = planned("roberta-base").params;
    assert_eq!(planned("linformer-base").params, roberta + 128 * 512);
    let plain = planned("t-dmca");
    let d = 1024;
    let (projections, convolutions) = (4 * d * d, 2 * (3 * d + 1) * d);
    let feed_forward = 2 * d * 2048 + 2048 + d;
    let layers = 5 * (projections + feed_forward + 4 * d) + 2 * convolutions;
    assert_eq!(plain.params, layers + 2 * d + 32_000 * d);
    for (name, experts) in [("t-dmca-moe-128", 128), ("t-dmca-moe-256", 256)] {
        let found = planned(name);
        let router = experts * d;
        let more = (experts - 1) * feed_forward + router;
        assert_eq!(found.params, plain.params + more, "{name}");
        assert_eq!(found.active, plain.params + feed_forward + router, "{name}");
    }
}

#[test]
fn every_preset_builds_to_the_count_it_states() {
    for name in names() {
        let preset = parse_preset(name).unwrap();
        assert_eq!(planned(name).params as u64, preset.params, "{name}");
        assert!(!preset.source.is_empty(), "{name} names no source");
    }
}

#[test]
fn published_counts() {
    for (name, params) in PUBLISHED.iter().chain(COUNTED) {
        assert_eq!(parse_preset(name).unwrap().params, *params as u64, "{name}");
    }
    for (name, millions) in GPT3 {
        let params = parse_preset(name).unwrap().params as f64 / 1e6;
        assert!(
            (params / millions - 1.0).abs() < 0.025,
            "{name}: {params} million"
        );
    }
    for (name, millions) in TRANSFORMER_XL.iter().chain(SPARSE) {
        let params = parse_preset(name).unwrap().params as f64 / 1e6;
        let off = params / millions - 1.0;
        assert!(off.abs() < 0.01, "{name}: {params} million");
    }
    for (name, millions) in RETRO {
        let preset = parse_preset(name).unwrap();
        let embeddings = preset.shape().vocab_size * preset.model.d_model();
        let params = (preset.params - embeddings as u64) as f64 / 1e6;
        let off = params / millions - 1.0;
        assert!((-0.025..0.0).contains(&off), "{name}: {params} million");
    }
    // The count of the released code for 12 layers, without the softmax bias.
    let twelve = parse_preset("transformer-xl-enwik8-12").unwrap().params;
    assert_eq!(twelve, 41_055_436 - 204);
    for (name, params) in CLASSIFIERS {
        let preset = parse_preset(name).unwrap();
        let heads = 1 + usize::from(preset.model.has_distillation_token());
        let head = heads * 1000 * (preset.model.d_pooled() + 1);
        assert_eq!(preset.params, (*params - head) as u64, "{name}");
    }
    for (name, millions, with) in AL_RFOU {
        let task = TaskConfig::CausalLm(CausalLmConfig {
            intermediate_layers: true,
            second_target: Some(0.5),
            ..CausalLmConfig::default()
        });
        let cost = planned_for(name, Some(&task));
        let rounded = |params: usize| (params + 500_000) / 1_000_000;
        assert_eq!(rounded(cost.kept), *millions, "{name}");
        assert_eq!(rounded(cost.params), *with, "{name}");
        assert_eq!(cost.kept as u64, parse_preset(name).unwrap().params);
    }
    let counted = |name: &str| {
        let mut exact = PUBLISHED.iter().chain(COUNTED).chain(CLASSIFIERS);
        let mut rounded = GPT3.iter().chain(TRANSFORMER_XL).chain(SPARSE).chain(RETRO);
        exact.any(|(known, _)| *known == name)
            || rounded.any(|(known, _)| *known == name)
            || AL_RFOU.iter().any(|(known, _, _)| *known == name)
    };
    let uncounted: Vec<&str> = names().filter(|name| !counted(name)).collect();
    // Their papers and code give no count.
    let unnamed = [
        "linformer-base",
        "t-dmca",
        "t-dmca-moe-128",
        "t-dmca-moe-256",
    ];
    assert_eq!(uncounted, [&["nano"], &unnamed[..]].concat());
}

#[test]
fn a_name_that_is_not_known_gets_the_nearest() {
    let error = parse_preset("gpt-2").unwrap_err().to_string();
    assert_eq!(error, "there is no preset `gpt-2`; did you mean `gpt2`?");
}

/// The modules that hold parameters declare where these are and what role they have.
#[test]
fn every_parameter_of_every_preset_has_a_role() {
    struct Roles {
        path: Path,
        without: Vec<String>,
    }
    impl ModuleVisitor for Roles {
        fn enter_module(&mut self, name: &str, container: &str) {
            self.path.enter(name, container);
        }

        fn exit_module(&mut self, _name: &str, container: &str) {
            self.path.exit(container);
        }

        fn visit_float<const D: usize>(&mut self, _: &Param<Tensor<D>>) {
            let role = self.path.role(&ROLES);
            if role.kind.is_none() || role.place.is_none() {
                self.without.push(self.path.joined());
            }
        }
    }
    for name in names() {
        let preset = parse_preset(name).unwrap();
        let inputs = BuildContext {
            shape: &preset.shape(),
            seed: 0,
            device: &Device::default(),
        };
        let mut roles = Roles {
            path: Path::default(),
            without: Vec::new(),
        };
        preset.model.visit(&inputs, &mut roles);
        assert!(roles.without.is_empty(), "{name}: {:?}", roles.without);
    }
}
