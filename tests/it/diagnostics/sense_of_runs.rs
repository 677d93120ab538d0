//! Faults of sense outside `[model]`: all at once, each with its line and the remedy.

use super::Case;

pub const CASES: &[Case] = &[
    Case {
        title: "micro batch",
        edits: &[("batch_size = 64", "batch_size = 64\nmicro_batch_size = 65")],
        sets: &[],
        says: "x.toml:37: [train] micro_batch_size = 65 is not between 1 and batch_size = 64",
    },
    Case {
        title: "ema",
        edits: &[("batch_size = 64", "batch_size = 64\nema = 1.0")],
        sets: &[],
        says: "x.toml:37: [train] ema = 1.0 must be between 0 and 1, for example 0.999; 0 disables it",
    },
    Case {
        title: "patience",
        edits: &[("eval_every = 250", "patience = 3")],
        sets: &[],
        says: "x.toml:37: [train] patience has no effect without eval_every; add it or remove patience",
    },
    Case {
        title: "device",
        edits: &[("batch_size = 64", "batch_size = 64\ndevice = \"gpu\"")],
        sets: &[],
        says: "x.toml:37: [train] there is no device `gpu`; did you mean `wgpu`?",
    },
    Case {
        title: "device number",
        edits: &[("batch_size = 64", "batch_size = 64\ndevice = \"flex:1\"")],
        sets: &[],
        says: "x.toml:37: [train] device `flex:1`: flex is a single device; remove the number",
    },
    Case {
        title: "warmup",
        edits: &[],
        sets: &["train.steps=10"],
        says: "--set train.steps=10: [schedule] warmup_steps = 100 is more than [train] steps = 10 (warmup_steps at x.toml:32); it fits with: --set schedule.warmup_steps=9",
    },
    Case {
        title: "lr",
        edits: &[("lr = 1e-3", "lr = 0")],
        sets: &[],
        says: "x.toml:28: [optimizer] lr = 0 is not a positive number",
    },
    Case {
        title: "betas",
        edits: &[("lr = 1e-3", "lr = 1e-3\nbetas = [0.9, 1.0]")],
        sets: &[],
        says: "x.toml:29: [optimizer] betas has the value 1, which is not in [0, 1)",
    },
    Case {
        title: "tokenizer of a generator",
        edits: &[(
            "kind = \"text\"\npath = \"tinyshakespeare/input.txt\"\ncontext = 256",
            r#"kind = "arithmetic""#,
        )],
        sets: &[],
        says: "x.toml:16: [tokenizer] has no effect: data of kind `arithmetic` has its own tokens; remove it",
    },
    Case {
        title: "no tokenizer",
        edits: &[("[tokenizer]\nkind = \"char\"\n", "")],
        sets: &[],
        says: r#"x.toml:17: [data] kind = "text" needs a [tokenizer]; the simplest is kind = "char""#,
    },
    Case {
        title: "no path",
        edits: &[("path = \"tinyshakespeare/input.txt\"\n", "")],
        sets: &[],
        says: "x.toml:19: [data] `path` is missing; name a file or folder of text, or a list of them",
    },
    Case {
        title: "unknown metric",
        edits: &[("valid_loss", "valid_los")],
        sets: &[],
        says: "x.toml:42: [expect] valid_los is not measured; did you mean `valid_loss`?",
    },
    Case {
        title: "metric without answers",
        edits: &[("valid_loss", "valid_exact_match")],
        sets: &[],
        says: "x.toml:42: [expect] valid_exact_match is not measured; allowed: `valid_loss`, `valid_perplexity`, `valid_bits_per_byte`, `valid_best_loss`",
    },
    Case {
        title: "nothing expected",
        edits: &[("{ at_most = 1.48 }", "{}")],
        sets: &[],
        says: "x.toml:42: [expect] valid_loss expects nothing; set at_most, at_least or equals",
    },
    Case {
        title: "tolerance",
        edits: &[("{ at_most = 1.48 }", "{ at_most = 1.48, tolerance = 0.1 }")],
        sets: &[],
        says: "x.toml:42: [expect] valid_loss has a tolerance, which has no effect without equals",
    },
    Case {
        title: "name",
        edits: &[(r#"name = "x""#, r#"name = "runs/x""#)],
        sets: &[],
        says: r#"x.toml:1: name = "runs/x" cannot name a folder because it contains `/`; use letters of any script, digits, `-`, `_`, `.` and `+`"#,
    },
    Case {
        title: "empty name",
        edits: &[(r#"name = "x""#, r#"name = """#)],
        sets: &[],
        says: r#"x.toml:1: name = "" is empty; it names the run folder"#,
    },
    Case {
        title: "no validation split",
        edits: &[("context = 256", "context = 256\nvalid_fraction = 0.0")],
        sets: &[],
        says: "x.toml:38: [train] eval_every has no effect: [data] has no validation split; remove it\nx.toml:43: [expect] valid_loss is not measured: [data] has no validation split",
    },
    Case {
        title: "several",
        edits: &[
            ("n_layers = 6", "n_layers = 0"),
            ("dropout = 0.2", "dropout = -0.1"),
            ("steps = 5000", "steps = 0"),
            (r#""pre""#, "\"pre\"\nshared_parallel_norm = true"),
        ],
        sets: &["optimizer.lr=-1"],
        says: "--set optimizer.lr=-1: [optimizer] lr = -1 is not a positive number\nx.toml:6: [model] n_layers = 0 is not between 1 and 1000\nx.toml:8: [model] dropout = -0.1 must be at least 0 and below 1\nx.toml:11: [model] shared_parallel_norm = true has no effect: norm_placement is not \"parallel\"; remove it\nx.toml:36: [train] steps = 0 must be 1 or more",
    },
    Case {
        title: "a large batch",
        edits: &[("batch_size = 64", "batch_size = 9000000000000000000")],
        sets: &[],
        says: "x.toml:36: [train] batch_size = 9000000000000000000 is not between 1 and 16777216",
    },
    Case {
        title: "a context of nothing",
        edits: &[("context = 256", "context = 0")],
        sets: &[],
        says: "x.toml:21: [data] context = 0 must be at least 1",
    },
    Case {
        title: "splits that leave nothing",
        edits: &[(
            "context = 256",
            "context = 256\nvalid_fraction = 0.5\ntest_fraction = 0.5",
        )],
        sets: &[],
        says: "x.toml:22: [data] valid_fraction and test_fraction leave nothing to train on",
    },
    Case {
        title: "a decay beyond the run",
        edits: &[(
            "kind = \"cosine\"\nwarmup_steps = 100",
            "kind = \"wsd\"\nwarmup_steps = 100\ndecay_steps = 4999",
        )],
        sets: &[],
        says: "x.toml:32: [schedule] warmup_steps = 100 and decay_steps = 4999 are more than [train] steps = 5000 (decay_steps at x.toml:33, steps at x.toml:36); it fits with: --set schedule.warmup_steps=1",
    },
    Case {
        title: "two ends of a schedule",
        edits: &[(
            "warmup_steps = 100",
            "warmup_steps = 100\nmin_lr = 0.0\nfinal_fraction = 0.1",
        )],
        sets: &[],
        says: "x.toml:33: [schedule] min_lr and final_fraction both set the final learning rate; keep one",
    },
    Case {
        title: "sample of no text",
        edits: &[(
            "batch_size = 64",
            "batch_size = 64\nsample = { prompt = \"\", temperature = -1.0 }",
        )],
        sets: &[],
        says: "x.toml:37: [train.sample] prompt is empty; the shortest prompt is a line break, \"\\n\"\nx.toml:37: [train.sample] temperature = -1.0 must be 0 (the most likely token) or more",
    },
    Case {
        title: "evaluations counted but never made",
        edits: &[("eval_every = 250", "eval_batches = 10")],
        sets: &[],
        says: "x.toml:37: [train] eval_batches has no effect without eval_every; add it or remove eval_batches",
    },
    Case {
        title: "state carried where windows are drawn",
        edits: &[("batch_size = 64", "batch_size = 64\ncarry_state = true")],
        sets: &[],
        says: "x.toml:37: [train] carry_state = true needs text whose windows follow each other: [data] kind = \"text\" with windows = \"contiguous\" or \"documents\"",
    },
    Case {
        title: "a momentum of one",
        edits: &[("kind = \"adamw\"\nlr", "kind = \"sgd\"\nmomentum = 1.0\nlr")],
        sets: &[],
        says: "x.toml:28: [optimizer] momentum has the value 1, which is not in [0, 1)",
    },
    Case {
        title: "smoothing",
        edits: &[(
            r#"kind = "causal_lm""#,
            "kind = \"causal_lm\"\nlabel_smoothing = 1.5",
        )],
        sets: &[],
        says: "x.toml:25: [task] label_smoothing = 1.5 must be at least 0 and below 1",
    },
    Case {
        title: "a limit crossed",
        edits: &[("at_most = 1.48", "at_most = 1.0, at_least = 2.0")],
        sets: &[],
        says: "x.toml:42: [expect] valid_loss has at_most below at_least: no value satisfies both",
    },
    Case {
        title: "a value beyond its limit",
        edits: &[(
            "at_most = 1.48",
            "at_most = 1.0, equals = 1.5, tolerance = 0.25",
        )],
        sets: &[],
        says: "x.toml:42: [expect] valid_loss has an equals that its at_most or at_least excludes: no value satisfies both",
    },
    Case {
        title: "bits without bytes",
        edits: &[
            (
                "kind = \"text\"\npath = \"tinyshakespeare/input.txt\"\ncontext = 256",
                r#"kind = "copy""#,
            ),
            ("[tokenizer]\nkind = \"char\"\n", ""),
            ("valid_loss", "valid_bits_per_byte"),
        ],
        sets: &[],
        says: "x.toml:38: [expect] valid_bits_per_byte is not measured; allowed: `valid_loss`, `valid_perplexity`, `valid_accuracy`, `valid_exact_match`, `valid_best_loss`",
    },
    Case {
        title: "digits",
        edits: &[
            (
                "kind = \"text\"\npath = \"tinyshakespeare/input.txt\"\ncontext = 256",
                "kind = \"arithmetic\"\ndigits = 40",
            ),
            ("[tokenizer]\nkind = \"char\"\n", ""),
        ],
        sets: &[],
        says: "x.toml:18: [data] digits = 40 must be between 1 and 9",
    },
    Case {
        title: "operations",
        edits: &[
            (
                "kind = \"text\"\npath = \"tinyshakespeare/input.txt\"\ncontext = 256",
                "kind = \"arithmetic\"\noperations = [\"/\"]",
            ),
            ("[tokenizer]\nkind = \"char\"\n", ""),
        ],
        sets: &[],
        says: "x.toml:18: [data] operations contains `/`; allowed: `+`, `-`, `*`",
    },
    Case {
        title: "a decay of nothing for all",
        edits: &[(
            "lr = 1e-3",
            "lr = 1e-3\nweight_decay = 0.0\ndecay = \"all\"",
        )],
        sets: &[],
        says: "x.toml:30: [optimizer] decay = \"all\" has no effect: weight_decay is 0; set weight_decay or remove decay",
    },
    Case {
        title: "no rounds of Muon",
        edits: &[("kind = \"adamw\"\nlr", "kind = \"muon\"\nns_steps = 0\nlr")],
        sets: &[],
        says: "x.toml:28: [optimizer] ns_steps = 0 is not between 1 and 100",
    },
    Case {
        title: "documents that are not kept apart",
        edits: &[("context = 256", "context = 256\nacross_documents = true")],
        sets: &[],
        says: "x.toml:22: [data] across_documents = true has no effect: windows is not \"documents\"; remove it",
    },
    Case {
        title: "nothing to evaluate on",
        edits: &[
            ("context = 256", "context = 256\nvalid_fraction = 0.0"),
            (
                "eval_every = 250",
                "eval_batch_size = 8\nsample = { prompt = \"a\" }",
            ),
            ("[expect]\nvalid_loss = { at_most = 1.48 }\n", ""),
        ],
        sets: &[],
        says: "x.toml:38: [train] eval_batch_size has no effect: [data] has no validation or test split; remove it\nx.toml:39: [train] sample has no effect: [data] has no validation split to evaluate on; remove it",
    },
    Case {
        title: "a subword vocabulary too small",
        edits: &[(r#"kind = "char""#, "kind = \"bpe\"\nvocab_size = 100")],
        sets: &[],
        says: "x.toml:17: [tokenizer] vocab_size = 100 is too small: 256 bytes and 1 special tokens need 257",
    },
    Case {
        title: "diagnostics that are never due",
        edits: &[],
        sets: &["diagnostics.every=6000"],
        says: "--set diagnostics.every=6000: [diagnostics] every = 6000 is more than [train] steps = 5000: nothing would be measured",
    },
    Case {
        title: "diagnostics at no step",
        edits: &[("[optimizer]", "[diagnostics]\nevery = 0\n\n[optimizer]")],
        sets: &[],
        says: "x.toml:27: [diagnostics] every = 0 must be 1 or more",
    },
    Case {
        title: "diagnostics of nothing",
        edits: &[(
            "[optimizer]",
            "[diagnostics]\ngradient_norms = false\nupdate_norms = false\nactivation_norms = false\nattention_entropy = false\n\n[optimizer]",
        )],
        sets: &[],
        says: "x.toml:26: [diagnostics] every has no effect: gradient_norms, update_norms, activation_norms and attention_entropy are all false; remove [diagnostics] to disable it",
    },
];

#[test]
fn every_fault_of_a_run_says_what_it_should() {
    super::all_say(CASES);
}
