//! Faults of `--set`: each names the one it is about.

use super::Case;

pub const CASES: &[Case] = &[
    Case {
        title: "set: unknown key",
        edits: &[],
        sets: &["train.step=5"],
        says: "--set train.step=5: [train] has no key `step`; did you mean `steps`?",
    },
    Case {
        title: "set: unknown section",
        edits: &[],
        sets: &["trian.steps=5"],
        says: "--set trian.steps=5: there is no section [trian]; did you mean [train]?",
    },
    Case {
        title: "set: no value",
        edits: &[],
        sets: &["train.steps"],
        says: "--set train.steps: no value; write --set KEY=VALUE",
    },
    Case {
        title: "set: no key",
        edits: &[],
        sets: &["=5"],
        says: "--set =5: a key is words joined by dots, for example train.steps=100",
    },
    Case {
        title: "set: empty part",
        edits: &[],
        sets: &["train..steps=5"],
        says: "--set train..steps=5: a key is words joined by dots, for example train.steps=100",
    },
    Case {
        title: "set: wrong type",
        edits: &[],
        sets: &["train.steps=many"],
        says: r#"--set train.steps=many: [train] steps = "many" must be a whole number, 1 or more"#,
    },
    Case {
        title: "set: unknown kind",
        edits: &[],
        sets: &["model.position=rotery"],
        says: r#"--set model.position=rotery: [model.position] kind = "rotery" is not known; did you mean `rotary`?"#,
    },
    Case {
        title: "set: a key of the kind that was replaced",
        edits: &[],
        sets: &["model.position=alibi", "model.position.theta=5"],
        says: r#"--set model.position.theta=5: [model.position] with kind = "alibi" has no key `theta`; allowed: `max_exponent`, `scaled`; a key of kind = "rotary", "rotary_2d", "rotary_centred" or "xpos""#,
    },
    Case {
        title: "set: below a number",
        edits: &[],
        sets: &["seed.x=3"],
        says: "--set seed.x=3: seed must be a whole number, 0 or more, not a table",
    },
    Case {
        title: "set: broken table",
        edits: &[],
        sets: &[r#"model.norm={ kind = "rms""#],
        says: r#"--set model.norm={ kind = "rms": not valid TOML: unclosed inline table, expected `}`"#,
    },
    Case {
        title: "set: extends",
        edits: &[],
        sets: &["extends=base.toml"],
        says: "--set extends=base.toml: `extends` is allowed only in files; write a file with extends = \"…\" at its top, or \
               --set the keys themselves",
    },
    Case {
        title: "set: base",
        edits: &[],
        sets: &["base=base.toml"],
        says: "--set base=base.toml: `base` is allowed only in files; write a file with base = \"…\" at its top, or --set the \
               keys themselves",
    },
    Case {
        title: "set: preset",
        edits: &[],
        sets: &["model.preset=llama-7"],
        says: r#"--set model.preset=llama-7: [model] preset = "llama-7" is not known; did you mean `llama-7b`?"#,
    },
    Case {
        title: "set: last wins, kinds too",
        edits: &[],
        sets: &[
            "model.position=alibi",
            "model.position=learned",
            "model.position.max_len=3",
        ],
        says: "--set model.position.max_len=3: [model.position] max_len = 3 is shorter than the context of 256 tokens; remove it \
               to follow the data, or shorten texts with data.context = 3",
    },
    Case {
        title: "set: too large a number",
        edits: &[],
        sets: &["seed=9223372036854775808"],
        says: "--set seed=9223372036854775808: 9223372036854775808 is out of range; whole numbers are -9223372036854775808 to 9223372036854775807",
    },
    Case {
        title: "set: a preset in the place of a kind",
        edits: &[],
        sets: &["model=gpt2"],
        says: r#"--set model=gpt2: [model] kind = "gpt2" is not known; it is a preset: preset = "gpt2""#,
    },
    Case {
        title: "set: a key of another kind",
        edits: &[],
        sets: &["model.feed_forward={ n_experts = 4 }"],
        says: r#"--set model.feed_forward={ n_experts = 4 }: [model.feed_forward] with kind = "gated" has no key `n_experts`; allowed: `d_ff`, `activation`, `bias`, `clamp`, `linear_offset`, `chunk`; a key of kind = "moe""#,
    },
    Case {
        title: "set: a line break",
        edits: &[],
        sets: &["name=a\nb"],
        says: r#"--set name=a\nb: name = "a\nb" cannot name a folder because it contains `\n`; use letters of any script, digits, `-`, `_`, `.` and `+`"#,
    },
];

#[test]
fn every_fault_of_an_override_says_what_it_should() {
    super::all_say(CASES);
}
