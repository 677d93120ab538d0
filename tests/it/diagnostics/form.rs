//! Faults of form: reading stops at the first one, which is reported with its line or its `--set`.

use super::Case;

pub const CASES: &[Case] = &[
    Case {
        title: "unknown key, near",
        edits: &[("theta = 10000.0", "thetta = 10000.0")],
        sets: &[],
        says: "x.toml:11: [model.position] has no key `thetta`; did you mean `theta`?",
    },
    Case {
        title: "unknown key, far, of a kind",
        edits: &[(
            r#"kind = "rotary", theta = 10000.0"#,
            r#"kind = "alibi", theta = 10000.0"#,
        )],
        sets: &[],
        says: r#"x.toml:11: [model.position] with kind = "alibi" has no key `theta`; allowed: `max_exponent`, `scaled`; a key of kind = "rotary", "rotary_2d", "rotary_centred" or "xpos""#,
    },
    Case {
        title: "unknown key of a kind that takes none",
        edits: &[(r#"kind = "rotary", theta"#, r#"kind = "none", theta"#)],
        sets: &[],
        says: r#"x.toml:11: [model.position] with kind = "none" has no key `theta`; it accepts no keys; a key of kind = "rotary", "rotary_2d", "rotary_centred" or "xpos""#,
    },
    Case {
        title: "unknown key at the top",
        edits: &[("seed = 1337", "sede = 1337")],
        sets: &[],
        says: "x.toml:2: there is no key `sede`; did you mean `seed`?",
    },
    Case {
        title: "unknown section",
        edits: &[("[optimizer]", "[optimiser]")],
        sets: &[],
        says: "x.toml:26: there is no section [optimiser]; did you mean [optimizer]?",
    },
    Case {
        title: "unknown section, far",
        edits: &[("[expect]", "[hardware]")],
        sets: &[],
        says: "x.toml:41: there is no section [hardware]; allowed: `name`, `seed`, `model`, `tokenizer`, `init`, `lora`, `data`, `task`, `optimizer`, `schedule`, `train`, `diagnostics`, `journal`, `decode`, `expect`, `ablation`",
    },
    Case {
        title: "unknown section that begins with one",
        edits: &[("[train]", "[training]")],
        sets: &[],
        says: "x.toml:34: there is no section [training]; did you mean [train]?",
    },
    Case {
        title: "unknown key at the top, of a section",
        edits: &[],
        sets: &["norm_placement=post"],
        says: "--set norm_placement=post: there is no key `norm_placement` here; did you mean `model.norm_placement`?",
    },
    Case {
        title: "kind of a table without kinds",
        edits: &[],
        sets: &[r#"task={ kind = "masked_lm", masking = { kind = "bert" } }"#],
        says: r#"--set task={ kind = "masked_lm", masking = { kind = "bert" } }: [task.masking] has no key `kind`; allowed: `share`, `masked`, `random`, `unit`, `mean_span`, `longest_span`, `longest_ngram`, `copies`"#,
    },
    Case {
        title: "unknown key in a section",
        edits: &[("steps = 5000", "step = 5000")],
        sets: &[],
        says: "x.toml:35: [train] has no key `step`; did you mean `steps`?",
    },
    Case {
        title: "unknown key two tables down",
        edits: &[(
            "theta = 10000.0",
            r#"scaling = { kind = "linear", faktor = 2.0 }"#,
        )],
        sets: &[],
        says: "x.toml:11: [model.position.scaling] has no key `faktor`; did you mean `factor`?",
    },
    Case {
        title: "unknown key in a list of tables",
        edits: &[(
            "lr = 1e-3",
            "lr = 1e-3\ngroups = [{ match = \"norm\", lr_scal = 0.1 }]",
        )],
        sets: &[],
        says: "x.toml:29: [[optimizer.groups]] 1 has no key `lr_scal`; did you mean `lr_scale`?",
    },
    Case {
        title: "the learning rate of a group",
        edits: &[(
            "lr = 1e-3",
            "lr = 1e-3\ngroups = [{ match = \"norm\", lr = 1e-4 }]",
        )],
        sets: &[],
        says: "x.toml:29: [[optimizer.groups]] 1 has no key `lr`; did you mean `lr_scale`?",
    },
    Case {
        title: "unknown kind",
        edits: &[(r#"kind = "rotary""#, r#"kind = "rotery""#)],
        sets: &[],
        says: r#"x.toml:11: [model.position] kind = "rotery" is not known; did you mean `rotary`?"#,
    },
    Case {
        title: "unknown kind, far",
        edits: &[(r#"kind = "cosine""#, r#"kind = "exponential""#)],
        sets: &[],
        says: r#"x.toml:31: [schedule] kind = "exponential" is not known; allowed: `constant`, `linear`, `cosine`, `inverse_sqrt`, `noam`, `wsd`, `polynomial`, `cosine_restarts`"#,
    },
    Case {
        title: "unknown kind of model",
        edits: &[(r#"kind = "decoder""#, r#"kind = "mamba""#)],
        sets: &[],
        says: r#"x.toml:5: [model] kind = "mamba" is not known; allowed: `decoder`, `encoder`, `encoder_decoder`, `vision`, `resnet`, `swin`, `recurrent`, `convolutional`, `two_towers`, `vision_language`, `speech_encoder_decoder`, `speech_encoder`"#,
    },
    Case {
        title: "unknown string of a list",
        edits: &[(r#"activation = "silu""#, r#"activation = "gelu_new""#)],
        sets: &[],
        says: r#"x.toml:13: [model.feed_forward] activation = "gelu_new" is not known; allowed: `relu`, `gelu`, `gelu_tanh`, `silu`, `relu_squared`, `quick_gelu`, `sigmoid`"#,
    },
    Case {
        title: "unknown placement",
        edits: &[(r#""pre""#, r#""prenorm""#)],
        sets: &[],
        says: r#"x.toml:10: [model] norm_placement = "prenorm" is not known; allowed: `pre`, `post`, `sandwich`, `res_post`, `parallel`, `deepnorm`"#,
    },
    Case {
        title: "no kind",
        edits: &[(r#"kind = "rotary", "#, "")],
        sets: &[],
        says: r#"x.toml:11: [model.position] with kind = "learned" has no key `theta`; allowed: `max_len`, `first`; a key of kind = "rotary", "rotary_2d", "rotary_centred" or "xpos""#,
    },
    Case {
        title: "no kind of a section",
        edits: &[("kind = \"adamw\"\n", "")],
        sets: &[],
        says: r#"x.toml:26: [optimizer] has no `kind`; it must be one of "adamw", "adam", "sgd", "lion", "adafactor", "lamb", "muon", "radam", "nadam", "adopt", "ademamix", "schedule_free", "soap""#,
    },
    Case {
        title: "kind of the wrong type",
        edits: &[(r#"kind = "rotary""#, "kind = 3")],
        sets: &[],
        says: r#"x.toml:11: [model.position] kind = 3 must be one of "none", "sinusoidal", "sinusoidal_2d", "learned", "learned_per_layer", "learned_2d", "axial", "rotary", "rotary_2d", "rotary_centred", "xpos", "alibi", "kerple", "relative_bias", "relative_bias_2d", "relative_bias_2d_per_layer", "dynamic_bias", "fire", "shaw", "transformer_xl", "disentangled""#,
    },
    Case {
        title: "missing section",
        edits: &[("[task]\nkind = \"causal_lm\"\n", "")],
        sets: &[],
        says: r#"x.toml: the section [task] is missing; its kind is one of "causal_lm", "masked_lm", "translation", "text_classification", "multi_label_classification", "token_classification", "regression", "text_embedding", "question_answering", "image_classification", "masked_image", "self_distillation", "image_text", "captioning", "transcription", "ctc", "contrastive_speech", "distillation", "preference", "reward", "grpo", "span_corruption", "denoising", "replaced_token", "permuted_lm""#,
    },
    Case {
        title: "missing train",
        edits: &[("[train]", "[train_]")],
        sets: &[],
        says: "x.toml:34: there is no section [train_]; did you mean [train]?",
    },
    Case {
        title: "missing name",
        edits: &[("name = \"x\"\n", "")],
        sets: &[],
        says: "x.toml: `name` is missing: it names the run folder",
    },
    Case {
        title: "missing key of a kind",
        edits: &[("theta = 10000.0", r#"scaling = { kind = "linear" }"#)],
        sets: &[],
        says: r#"x.toml:11: [model.position.scaling] with kind = "linear" needs the key `factor`"#,
    },
    Case {
        title: "a string for a number",
        edits: &[("n_layers = 6", r#"n_layers = "six""#)],
        sets: &[],
        says: r#"x.toml:6: [model] n_layers = "six" must be a whole number, 0 or more"#,
    },
    Case {
        title: "a number for a string",
        edits: &[(r#"norm_placement = "pre""#, "norm_placement = 1")],
        sets: &[],
        says: r#"x.toml:10: [model] norm_placement = 1 must be one of "pre", "post", "sandwich", "res_post", "parallel", "deepnorm""#,
    },
    Case {
        title: "a float for a whole number",
        edits: &[("n_layers = 6", "n_layers = 6.5")],
        sets: &[],
        says: "x.toml:6: [model] n_layers = 6.5 must be a whole number, 0 or more",
    },
    Case {
        title: "a whole float for a whole number",
        edits: &[("steps = 5000", "steps = 5e3")],
        sets: &[],
        says: "x.toml:35: [train] steps = 5000.0 must be a whole number, 1 or more; write 5000",
    },
    Case {
        title: "a negative count",
        edits: &[("n_heads = 6", "n_heads = -6")],
        sets: &[],
        says: "x.toml:12: [model.attention] n_heads = -6 must not be negative",
    },
    Case {
        title: "a string for true or false",
        edits: &[("dropout = 0.2", r#"tie_embeddings = "yes""#)],
        sets: &[],
        says: r#"x.toml:8: [model] tie_embeddings = "yes" must be true or false"#,
    },
    Case {
        title: "a number for a table",
        edits: &[(r#"norm = { kind = "rms" }"#, "norm = 1")],
        sets: &[],
        says: "x.toml:9: [model] norm = 1 must be a table with a `kind`, or the kind alone as a string",
    },
    Case {
        title: "a table for a number",
        edits: &[("n_layers = 6", "n_layers = { value = 6 }")],
        sets: &[],
        says: "x.toml:6: [model] n_layers must be a whole number, 0 or more, not a table",
    },
    Case {
        title: "a list for a number",
        edits: &[("steps = 5000", "steps = [5000]")],
        sets: &[],
        says: "x.toml:35: [train] steps must be a whole number, 1 or more, not a list",
    },
    Case {
        title: "a table for a list entry",
        edits: &[("lr = 1e-3", "lr = 1e-3\nbetas = [0.9, \"high\"]")],
        sets: &[],
        says: r#"x.toml:29: [optimizer] betas: "high" must be a number"#,
    },
    Case {
        title: "too short a list",
        edits: &[("lr = 1e-3", "lr = 1e-3\nbetas = [0.9]")],
        sets: &[],
        says: "x.toml:29: [optimizer] betas has 1 items; it must be a list of 2",
    },
    Case {
        title: "too long a list",
        edits: &[("lr = 1e-3", "lr = 1e-3\nbetas = [0.9, 0.95, 0.999]")],
        sets: &[],
        says: "x.toml:29: [optimizer] betas has 3 items; it must be a list of 2",
    },
    Case {
        title: "a date",
        edits: &[("steps = 5000", "steps = 1979-05-27")],
        sets: &[],
        says: "x.toml:35: [train] steps: 1979-05-27 is a date or a time, which no key accepts; put text in quotes",
    },
    Case {
        title: "not a number",
        edits: &[("lr = 1e-3", "lr = nan")],
        sets: &[],
        says: "x.toml:28: [optimizer] lr: nan is not a finite number",
    },
    Case {
        title: "too large a number",
        edits: &[("seed = 1337", "seed = 99999999999999999999")],
        sets: &[],
        says: "x.toml:2: seed: 99999999999999999999 is out of range; whole numbers are -9223372036854775808 to 9223372036854775807",
    },
    Case {
        title: "duplicate key",
        edits: &[("d_model = 384", "n_layers = 7")],
        sets: &[],
        says: "x.toml:7: [model] duplicate key `n_layers`; line 6 already sets it; remove one of them",
    },
    Case {
        title: "duplicate table",
        edits: &[("[task]", "[model]")],
        sets: &[],
        says: "x.toml:23: there are two tables [model]",
    },
    Case {
        title: "bad TOML: no value",
        edits: &[("steps = 5000", "steps =")],
        sets: &[],
        says: "x.toml:35: not valid TOML: a value is missing",
    },
    Case {
        title: "bad TOML: no quotes",
        edits: &[(r#"norm_placement = "pre""#, "norm_placement = pre")],
        sets: &[],
        says: "x.toml:10: not valid TOML: pre is not a value; put a string in quotes",
    },
    Case {
        title: "bad TOML: unclosed string",
        edits: &[(r#"norm_placement = "pre""#, r#"norm_placement = "pre"#)],
        sets: &[],
        says: r#"x.toml:10: not valid TOML: invalid basic string, expected `"`"#,
    },
    Case {
        title: "bad TOML: unclosed table",
        edits: &[(r#"{ kind = "rms" }"#, r#"{ kind = "rms""#)],
        sets: &[],
        says: "x.toml:10: not valid TOML: missing comma between key-value pairs, expected `,`",
    },
    Case {
        title: "unknown preset",
        edits: &[(r#"kind = "decoder""#, r#"preset = "gpt-2""#)],
        sets: &[],
        says: r#"x.toml:5: [model] preset = "gpt-2" is not known; did you mean `gpt2`?"#,
    },
    Case {
        title: "preset of the wrong type",
        edits: &[(r#"kind = "decoder""#, "preset = 2")],
        sets: &[],
        says: "x.toml:5: [model] preset = 2 must be a string",
    },
    Case {
        title: "list of expect",
        edits: &[("at_most = 1.48", "at_mots = 1.48")],
        sets: &[],
        says: "x.toml:42: [expect.valid_loss] has no key `at_mots`; did you mean `at_most`?",
    },
    Case {
        title: "key of diagnostics",
        edits: &[("[expect]", "[diagnostics]\nevry = 10\n[expect]")],
        sets: &[],
        says: "x.toml:42: [diagnostics] has no key `evry`; did you mean `every`?",
    },
    Case {
        title: "key of the journal",
        edits: &[("[expect]", "[journal]\ntensorbord = true\n[expect]")],
        sets: &[],
        says: "x.toml:42: [journal] has no key `tensorbord`; did you mean `tensorboard`?",
    },
    Case {
        title: "bad TOML: a bare word",
        edits: &[("steps = 5000", "steps 5000")],
        sets: &[],
        says: "x.toml:35: not valid TOML: key with no value, expected `=`",
    },
    Case {
        title: "nested too deep",
        edits: &[(
            "lr = 1e-3",
            "lr = 1e-3\na.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a = 1",
        )],
        sets: &[],
        says: "x.toml:29: more than 16 nested tables",
    },
    Case {
        title: "scaling as a string",
        edits: &[("theta = 10000.0", r#"scaling = "linear""#)],
        sets: &[],
        says: r#"x.toml:11: [model.position.scaling] with kind = "linear" needs the key `factor`"#,
    },
];

#[test]
fn every_fault_of_form_says_what_it_should() {
    super::all_say(CASES);
}
