//! Faults of sense in `[model]`, each with its line and the remedy.

use super::Case;

pub const CASES: &[Case] = &[
    Case {
        title: "kv heads",
        edits: &[("n_kv_heads = 2", "n_kv_heads = 4")],
        sets: &[],
        says: "x.toml:12: [model.attention] n_heads = 6 is not a multiple of n_kv_heads = 4",
    },
    Case {
        title: "heads",
        edits: &[("d_model = 384", "d_model = 100")],
        sets: &[],
        says: "x.toml:7: [model] d_model = 100 is not a multiple of [model.attention] n_heads = 6; change one, or set d_head",
    },
    Case {
        title: "odd rotary",
        edits: &[(
            "n_heads = 6, n_kv_heads = 2",
            "n_heads = 128, n_kv_heads = 2",
        )],
        sets: &[],
        says: "x.toml:12: [model.position] rotary positions rotate pairs of elements, but fraction = 1.0 of a head of 3 is 3; \
               make this number even and at least 2",
    },
    Case {
        title: "narrow rotary",
        edits: &[("theta = 10000.0", "fraction = 0.01")],
        sets: &[],
        says: "x.toml:11: [model.position] rotary positions rotate pairs of elements, but fraction = 0.01 of a head of 64 is 0; \
               make this number even and at least 2",
    },
    Case {
        title: "a first norm where no layer has one before it",
        edits: &[(
            "norm_placement = \"pre\"",
            "norm_placement = \"post\"\nfirst_norm = false",
        )],
        sets: &[],
        says: "x.toml:11: [model] first_norm = false has no effect: norm_placement = \"post\" puts no separate norm before the first layer; remove it, or use \"pre\" or \"sandwich\"",
    },
    Case {
        title: "a first norm that others share",
        edits: &[(
            "norm_placement = \"pre\"",
            "norm_placement = \"pre\"\nfirst_norm = false\nshare_layers = \"all\"",
        )],
        sets: &[],
        says: "x.toml:11: [model] first_norm = false removes the norm of the first layer, which other layers share through \
               share_layers; remove one of them",
    },
    Case {
        title: "no layers",
        edits: &[("n_layers = 6", "n_layers = 0")],
        sets: &[],
        says: "x.toml:6: [model] n_layers = 0 is not between 1 and 1000",
    },
    Case {
        title: "too many layers",
        edits: &[("n_layers = 6", "n_layers = 1000000")],
        sets: &[],
        says: "x.toml:6: [model] n_layers = 1000000 is not between 1 and 1000",
    },
    Case {
        title: "dropout",
        edits: &[("dropout = 0.2", "dropout = 1.0")],
        sets: &[],
        says: "x.toml:8: [model] dropout = 1.0 must be at least 0 and below 1",
    },
    Case {
        title: "dropout without effect",
        edits: &[(
            "dropout = 0.2",
            "dropout = 0.2\ndropout_embedding = 0.1\ndropout_attention = 0.1\ndropout_residual = 0.0",
        )],
        sets: &[],
        says: "x.toml:8: [model] dropout = 0.2 has no effect: each of its places has its own key; remove it",
    },
    Case {
        title: "eps",
        edits: &[(r#"kind = "rms""#, r#"kind = "rms", eps = 0.0"#)],
        sets: &[],
        says: "x.toml:9: [model.norm] eps = 0.0 must be above 0",
    },
    Case {
        title: "deepnorm without norm",
        edits: &[
            (r#"kind = "rms""#, r#"kind = "none""#),
            (r#""pre""#, r#""deepnorm""#),
        ],
        sets: &[],
        says: r#"x.toml:10: [model] norm_placement = "deepnorm" places norms, but norm is "none"; use "pre" or another norm"#,
    },
    Case {
        title: "final norm after post",
        edits: &[(r#""pre""#, "\"post\"\nfinal_norm = true")],
        sets: &[],
        says: r#"x.toml:11: [model] final_norm = true repeats a norm: with norm_placement = "post" the last block already ends in a norm; remove it"#,
    },
    Case {
        title: "final norm without norm",
        edits: &[
            (r#"kind = "rms""#, r#"kind = "none""#),
            (r#""pre""#, "\"pre\"\nfinal_norm = true"),
        ],
        sets: &[],
        says: r#"x.toml:11: [model] final_norm = true has no effect: norm is "none""#,
    },
    Case {
        title: "shared norm without parallel",
        edits: &[(r#""pre""#, "\"pre\"\nshared_parallel_norm = false")],
        sets: &[],
        says: r#"x.toml:11: [model] shared_parallel_norm = false has no effect: norm_placement is not "parallel"; remove it"#,
    },
    Case {
        title: "learned too short",
        edits: &[(
            r#"kind = "rotary", theta = 10000.0"#,
            r#"kind = "learned", max_len = 128"#,
        )],
        sets: &[],
        says: "x.toml:11: [model.position] max_len = 128 is shorter than the context of 256 tokens; remove it to follow the data, \
               or shorten texts with data.context = 128",
    },
    Case {
        title: "learned too short by set",
        edits: &[(
            r#"kind = "rotary", theta = 10000.0"#,
            r#"kind = "learned", max_len = 256"#,
        )],
        sets: &["data.context=512"],
        says: "--set data.context=512: [model.position] max_len = 256 is shorter than the context of 512 tokens; remove it to \
               follow the data, or shorten texts with data.context = 256",
    },
    Case {
        title: "buckets",
        edits: &[(
            r#"kind = "rotary", theta = 10000.0"#,
            r#"kind = "relative_bias", buckets = 64, max_distance = 16"#,
        )],
        sets: &[],
        says: "x.toml:11: [model.position] max_distance = 16 is not between 32, half of the buckets, and 16777216",
    },
    Case {
        title: "factor",
        edits: &[(
            "theta = 10000.0",
            r#"scaling = { kind = "linear", factor = 0.5 }"#,
        )],
        sets: &[],
        says: "x.toml:11: [model.position.scaling] factor = 0.5 must be 1 or more",
    },
    Case {
        title: "llama3 factors",
        edits: &[(
            "theta = 10000.0",
            r#"scaling = { kind = "llama3", factor = 8.0, original_context = 8192, low_freq_factor = 4.0, high_freq_factor = 1.0 }"#,
        )],
        sets: &[],
        says: "x.toml:11: [model.position.scaling] high_freq_factor = 1.0 must be above low_freq_factor = 4.0, and both above 0",
    },
    Case {
        title: "an inner width of nothing",
        edits: &[("d_ff = 1024", "d_ff = 0")],
        sets: &[],
        says: "x.toml:13: [model.feed_forward] d_ff = 0 is not between 1 and 16777216",
    },
    Case {
        title: "ntk of one pair",
        edits: &[(
            r#"kind = "rotary", theta = 10000.0"#,
            r#"kind = "rotary", fraction = 0.04, scaling = { kind = "ntk", factor = 2.0 }"#,
        )],
        sets: &[],
        says: r#"x.toml:11: [model.position.scaling] kind = "ntk" needs 4 or more rotated elements in a head"#,
    },
    Case {
        title: "final norm of deepnorm",
        edits: &[(r#""pre""#, "\"deepnorm\"\nfinal_norm = true")],
        sets: &[],
        says: r#"x.toml:11: [model] final_norm = true repeats a norm: with norm_placement = "deepnorm" the last block already ends in a norm; remove it"#,
    },
    Case {
        title: "a bias of a head that is not there",
        edits: &[("dropout = 0.2", "head_bias = true")],
        sets: &[],
        says: "x.toml:8: [model] head_bias = true has no effect: the head is the embedding table; remove it or set tie_embeddings \
               = false",
    },
    Case {
        title: "dropout on the output",
        edits: &[("dropout = 0.2", "dropout_output = 1.5")],
        sets: &[],
        says: "x.toml:8: [model] dropout_output = 1.5 must be at least 0 and below 1",
    },
    Case {
        title: "initial weights of zero",
        edits: &[(
            "dropout = 0.2",
            "init = { kind = \"t5\", factor = 0.0, head_std = -1.0 }",
        )],
        sets: &[],
        says: "x.toml:8: [model.init] factor = 0.0 must be above 0\nx.toml:8: [model.init] head_std = -1.0 must be above 0",
    },
    Case {
        title: "drop path of one layer",
        edits: &[
            ("n_layers = 6", "n_layers = 1"),
            ("dropout = 0.2", "drop_path = 0.2"),
        ],
        sets: &[],
        says: "x.toml:8: [model] drop_path = 0.2 has no effect: it rises from 0 at the first layer, and there is only one \
               layer; remove it",
    },
];

#[test]
fn every_fault_of_a_model_says_what_it_should() {
    super::all_say(CASES);
}
