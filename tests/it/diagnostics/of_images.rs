//! Faults of models that read images, each with its place and the remedy.

use super::judged;

/// Returns the message about an experiment with this `[model]`.
fn says(model: &str) -> String {
    let text = format!(
        "name = \"x\"\ndata = {{ kind = \"random_images\", channels = 3, height = 28, width = 28 }}\n\
         task = {{ kind = \"image_classification\" }}\noptimizer = {{ kind = \"adamw\", lr = 1e-3 }}\n\
         train = {{ steps = 1, batch_size = 1 }}\n[model]\n{model}\n"
    );
    match judged(&text, &[]) {
        Ok(_) => "nothing".into(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn faults_of_models_that_read_images() {
    let vision = "kind = \"vision\"\nd_model = 32\n";
    let resnet = "kind = \"resnet\"\n";
    let swin = "kind = \"swin\"\n";
    for (model, wanted) in [
        (format!("{vision}stem = {{ kind = \"patches\", size = 7 }}"), "nothing"),
        (
            format!("{vision}stem = {{ kind = \"patches\", size = 5 }}"),
            "x.toml:9: [model.stem] size = 5 does not divide images of 28 by 28 pixels into patches; use 4 or 7, or other images",
        ),
        (
            format!("{vision}stem = {{ kind = \"patches\", size = 0 }}"),
            "x.toml:9: [model.stem] size = 0 is not between 1 and 16777216",
        ),
        (
            format!("{vision}position = {{ kind = \"learned\", max_len = 40 }}"),
            "x.toml:9: [model.position] max_len = 40 has rows for 40 positions, but an image has 50, including the tokens before \
             its patches; remove it to follow the data",
        ),
        (
            format!("{vision}position = {{ kind = \"axial\", axial_shape = [7, 7] }}"),
            "x.toml:9: [model.position] axial_shape = [7, 7] has 49 positions, fewer than the 50 positions of an image; remove it \
             to follow the data",
        ),
        (
            format!("{vision}n_registers = 4\nposition = {{ kind = \"learned\", max_len = 50 }}"),
            "nothing",
        ),
        (
            format!("{vision}n_registers = 4\nposition = {{ kind = \"learned\", max_len = 49 }}"),
            "x.toml:10: [model.position] max_len = 49 has rows for 49 positions, but an image has 50, including the tokens before \
             its patches; remove it to follow the data",
        ),
        (
            format!("{vision}n_registers = 2000"),
            "x.toml:9: [model] n_registers = 2000 is more than 1024",
        ),
        (
            format!("{vision}n_registers = 2\nposition = {{ kind = \"rotary\" }}"),
            "x.toml:9: [model] n_registers = 2 have no position in the grid of position = { kind = \"rotary\" }, which acts in \
             the blocks; use one that is added before the blocks: \"learned\", \"sinusoidal\", \"sinusoidal_2d\", \"learned_2d\", \
             \"axial\" or \"none\"; or \"rotary_centred\", which does not rotate registers",
        ),
        (
            format!("{vision}n_registers = 2\ndistillation_token = true\nposition = {{ kind = \"rotary_2d\" }}"),
            "x.toml:9: [model] n_registers = 2 have no position in the grid of position = { kind = \"rotary_2d\" }, which acts in \
             the blocks; use one that is added before the blocks: \"learned\", \"sinusoidal\", \"axial\" or \"none\"; or \
             \"rotary_centred\", which does not rotate registers",
        ),
        (
            "kind = \"vision\"\nd_model = 30\nattention.n_heads = 3\nattention.kind = \"multi_head\"\n\
             position.kind = \"sinusoidal_2d\""
                .into(),
            "x.toml:8: [model] d_model = 30 is not a multiple of 4, as position kind = \"sinusoidal_2d\" needs",
        ),
        (
            format!("{resnet}stages = [2, 0]"),
            "x.toml:8: [model] stages contains a stage of 0 blocks; remove it",
        ),
        (
            format!("{resnet}stages = []"),
            "x.toml:8: [model] stages = 0 is not between 1 and 8",
        ),
        (
            format!("{resnet}norm = {{ kind = \"group\", groups = 24 }}"),
            "x.toml:8: [model] width = 64 is not a multiple of [model.norm] groups = 24",
        ),
        (
            format!("{resnet}norm = {{ kind = \"batch\", momentum = 0.0 }}"),
            "x.toml:8: [model.norm] momentum = 0.0 must be above 0 and at most 1",
        ),
        (
            format!("{resnet}stride_in_1x1 = true"),
            "x.toml:8: [model] stride_in_1x1 = true has no effect on blocks = \"basic\", which have no 1×1 convolutions; remove it",
        ),
        (
            format!("{resnet}blocks = \"bottleneck\"\nstages = [2]\nstride_in_1x1 = true"),
            "x.toml:10: [model] stride_in_1x1 = true has no effect: a single stage halves the image only with \
             downsample_first_stage = true; remove it or set that key",
        ),
        (
            format!("{resnet}blocks = \"bottleneck\"\nstages = [2]\nstride_in_1x1 = true\ndownsample_first_stage = true"),
            "nothing",
        ),
        (format!("{swin}patch_size = 2"), "nothing"),
        (
            format!("{swin}patch_size = 3"),
            "x.toml:8: [model] patch_size = 3 does not divide images of 28 by 28 pixels into patches; use 2 or 4, or other images",
        ),
        (
            format!("{swin}stages = []"),
            "x.toml:8: [model] stages = [] must have 1 to 8 stages",
        ),
        (
            format!("{swin}stages = [1, 1, 1, 1, 1, 1, 1, 1, 1]"),
            "x.toml:8: [model] stages = [1, 1, 1, 1, 1, 1, 1, 1, 1] must have 1 to 8 stages",
        ),
        (
            format!("{swin}stages = [2, 1]"),
            "x.toml:8: [model] n_heads = [3, 6, 12, 24], the default, must have 2 numbers, one for each of stages = [2, 1]",
        ),
        (
            format!("{swin}stages = [2]\nn_heads = [3]\nd_model = 10"),
            "x.toml:9: [model] n_heads has 3 for stage 0, which does not divide its width 10; use 2 or 5",
        ),
        (
            format!("{swin}n_heads = [3, 6]"),
            "x.toml:8: [model] n_heads = [3, 6] must have 4 numbers, one for each of stages = [2, 2, 6, 2]",
        ),
        (
            format!("{swin}n_heads = [3, 6, 12, 25]"),
            "x.toml:8: [model] n_heads has 25 for stage 3, which does not divide its width 768; use 24 or 32",
        ),
        (
            format!("{swin}norm_placement = \"post\""),
            "x.toml:8: [model] norm_placement = \"post\" is not supported in a Swin Transformer; use \"pre\" or \"res_post\"",
        ),
        (
            format!("{swin}qkv_bias = false\nkey_bias = false"),
            "x.toml:9: [model] key_bias = false has no effect with qkv_bias = false; remove it",
        ),
        (
            format!("{swin}trained_windows = [4, 4, 4, 4]"),
            "x.toml:8: [model] trained_windows has no effect: only position_bias = \"continuous\" uses it; remove it",
        ),
        (
            format!("{swin}position_bias = \"continuous\"\ntrained_windows = [4]"),
            "x.toml:9: [model] trained_windows = [4] must have 4 numbers, one for each of stages = [2, 2, 6, 2]: sides from 2 to \
             256, or 0 for the stage's own windows",
        ),
        (
            format!("{swin}window = 0"),
            "x.toml:8: [model] window = 0 is not between 1 and 256",
        ),
        (
            "kind = \"decoder\"".into(),
            "x.toml:3: [task] kind = \"image_classification\" is not for [model] kind = \"decoder\"; use \"vision\" or \
             \"resnet\" or \"swin\"",
        ),
    ] {
        assert_eq!(says(&model), wanted, "{model}");
    }
}

/// The same for an encoder, whose embeddings may be narrower than its blocks.
#[test]
fn faults_of_narrow_embeddings() {
    let says = |keys: &str, task: &str| {
        let text = format!(
            "name = \"x\"\ndata = {{ kind = \"grammar\", documents = 9 }}\ntask = {{ kind = \"{task}\" }}\n\
             optimizer = {{ kind = \"adamw\", lr = 1e-3 }}\ntrain = {{ steps = 1, batch_size = 1 }}\n\
             [model]\nkind = \"encoder\"\n{keys}\n"
        );
        judged(&text, &[]).map_or_else(|error| error.to_string(), |_| "nothing".into())
    };
    let untransformed = "d_embedding = 16\nhead_transform = false";
    assert_eq!(says("d_embedding = 16", "masked_lm"), "nothing");
    assert_eq!(
        says(
            &format!("{untransformed}\ntie_embeddings = false"),
            "masked_lm"
        ),
        "nothing"
    );
    assert_eq!(
        says(untransformed, "masked_lm"),
        "x.toml:8: [model] the head is the embedding table, whose vectors have d_embedding = 16 elements, and no layer projects \
         hidden states to this width: set head_transform = true or tie_embeddings = false"
    );
    let axial = "d_embedding = 16\nd_model = 32\nposition = { kind = \"axial\"";
    assert_eq!(says(&format!("{axial} }}"), "masked_lm"), "nothing");
    assert_eq!(
        says(&format!("{axial}, axial_widths = [8, 24] }}"), "masked_lm"),
        "x.toml:8: [model] axial positions are added to vectors of d_embedding = 16 elements, but their widths sum to d_model = \
         32; remove axial_widths, and make d_embedding 2 or more"
    );
    assert_eq!(
        says("pooler_activation = \"gelu\"", "masked_lm"),
        "x.toml:8: [model] pooler_activation has no effect without a pooler; set pooler = true or remove it"
    );
    let pooled = "pooler = true\npooler_activation = \"gelu\"";
    assert_eq!(says(pooled, "masked_lm"), "nothing");
    assert_eq!(
        says("d_embedding = 0", "masked_lm"),
        "x.toml:8: [model] d_embedding = 0 is not between 1 and 16777216"
    );
}

#[test]
fn a_grid_is_of_images() {
    for kind in ["sinusoidal", "rotary", "relative_bias", "learned"] {
        let sets = [format!("model.position={{ kind = \"{kind}_2d\" }}")];
        let error = judged(super::RIGHT, &sets).unwrap_err().to_string();
        let rule = format!(
            "kind = \"{kind}_2d\" is for images, but a decoder reads sequences of tokens: use \"{kind}\""
        );
        assert!(error.contains(&rule), "{error}");
    }
}

#[test]
fn a_line_is_no_image() {
    for (kind, other) in [
        ("rotary", "rotary_2d"),
        ("xpos", "rotary_2d"),
        ("alibi", "relative_bias_2d"),
        ("kerple", "relative_bias_2d"),
        ("dynamic_bias", "relative_bias_2d"),
        ("fire", "relative_bias_2d"),
        ("relative_bias", "relative_bias_2d"),
        ("shaw", "relative_bias_2d"),
        ("transformer_xl", "relative_bias_2d"),
        ("disentangled", "relative_bias_2d"),
    ] {
        let model = |kind: &str| format!("kind = \"vision\"\nposition = {{ kind = \"{kind}\" }}");
        assert_eq!(
            says(&model(kind)),
            format!(
                "x.toml:8: [model.position] kind = \"{kind}\" uses distances along a line, but patches are in rows and columns: \
                 use \"{other}\""
            )
        );
    }
}

/// Every two-dimensional position scheme is accepted by the vision model.
#[test]
fn an_image_takes_every_scheme_of_images() {
    for kind in ["sinusoidal", "learned", "rotary", "relative_bias"] {
        let stem = "stem = { kind = \"patches\", size = 7 }";
        let model = format!(
            "kind = \"vision\"\nd_model = 32\n{stem}\nposition = {{ kind = \"{kind}_2d\" }}"
        );
        assert_eq!(says(&model), "nothing", "{kind}_2d");
    }
}

#[test]
fn entropies_of_windows_are_not_measured() {
    let model = "kind = \"swin\"\n[diagnostics]\nevery = 1\n";
    assert_eq!(says(model), "nothing");
    assert_eq!(
        says(&format!("{model}attention_entropy = true")),
        "x.toml:10: [diagnostics] attention_entropy = true has no effect: [model] kind = \"swin\" has attention in windows, \
         whose entropy is not measured; set it to false"
    );
}

/// Key names of other programs, and misspelled names of kinds.
#[test]
fn names_of_released_files_are_understood() {
    for (key, ours) in [
        ("embed_dim = 96", "d_model"),
        ("depths = [2]", "stages"),
        ("window_size = 7", "window"),
        ("mlp_ratio = 4.0", "ff_ratio"),
        ("hidden_act = \"relu\"", "activation"),
    ] {
        let said = says(&format!("kind = \"swin\"\n{key}"));
        assert!(
            said.ends_with(&format!("; did you mean `{ours}`?")),
            "{said}"
        );
    }
    assert_eq!(
        says("kind = \"swin_v2\""),
        "x.toml:7: [model] kind = \"swin_v2\" is not known; did you mean `swin`?"
    );
    assert_eq!(
        says("kind = \"swinv2\""),
        "x.toml:7: [model] kind = \"swinv2\" is not known; did you mean `swin`? It has presets: preset = \"swinv2-tiny\", \
         preset = \"swinv2-small\", preset = \"swinv2-base\""
    );
    assert_eq!(
        says("kind = \"dinov2\""),
        "x.toml:7: [model] kind = \"dinov2\" is not known; did you mean `vision`? It has presets: preset = \"dinov2-small\", \
         preset = \"dinov2-base\", preset = \"dinov2-large\", preset = \"dinov2-giant\""
    );
    assert_eq!(
        says("preset = \"swin\""),
        "x.toml:7: [model] preset = \"swin\" is not known; did you mean one of `swin-tiny`, `swin-small`, `swin-base`, \
         `swin-large`, `swinv2-tiny`, `swinv2-small`, `swinv2-base`?"
    );
}

/// Keys about transformer blocks also apply to blocks in stages, and are refused for networks without blocks.
#[test]
fn keys_of_blocks() {
    for (kind, of_rates, of_activations) in [
        ("swin", "nothing", "nothing"),
        (
            "resnet",
            "x.toml:9: [init] layer_lr_decay has no effect: the model has no transformer blocks; remove it",
            "x.toml:5: [train] recompute = true has no effect: it applies to the blocks of a transformer, and kind = \"resnet\" \
             has none; remove it",
        ),
    ] {
        let decayed = format!("kind = \"{kind}\"\n[init]\nlayer_lr_decay = 0.5\n");
        assert_eq!(says(&decayed), of_rates);
        let text = format!(
            "name = \"x\"\ndata = {{ kind = \"random_images\", channels = 3, height = 28, width = 28 }}\n\
             task = {{ kind = \"image_classification\" }}\noptimizer = {{ kind = \"adamw\", lr = 1e-3 }}\n\
             train = {{ steps = 1, batch_size = 1, recompute = true }}\n[model]\nkind = \"{kind}\"\n"
        );
        let said = judged(&text, &[]).map_or_else(|error| error.to_string(), |_| "nothing".into());
        assert_eq!(said, of_activations);
    }
}

#[test]
fn a_network_without_attention_has_no_entropy_of_it() {
    let model = "kind = \"resnet\"\n[diagnostics]\nevery = 1\n";
    // Entropy is measured only if there is attention, and refused if it is asked for without.
    assert_eq!(says(model), "nothing");
    assert_eq!(
        says(&format!("{model}attention_entropy = true")),
        "x.toml:10: [diagnostics] attention_entropy = true has no effect: [model] kind = \"resnet\" has no attention; \
         set it to false"
    );
    assert_eq!(
        says(&format!("{model}attention_entropy = false")),
        "nothing"
    );
}
