//! The faults of `[model.retrieval]` and `[data.retrieval]`, each reported at its line.

use super::runs::written;
use crate::binary::{failure, output};
use crate::in_folder::at;

#[test]
fn faults_name_their_keys() {
    let cases: &[(&[(&str, &str)], &str)] = &[
        (
            &[("[data.retrieval]\n", "")],
            "has no database: add [data.retrieval]",
        ),
        (
            &[(
                "[model.retrieval]\nchunk = 8\nneighbours = 2\nlayers = [2]\n",
                "",
            )],
            "[data.retrieval] has no effect: the model reads no neighbours",
        ),
        (
            &[("chunk = 8", "chunk = 7")],
            "chunk = 7 does not divide the context of 32",
        ),
        (
            &[("layers = [2]", "layers = [3]")],
            "layers = [3] contains block 3, but blocks are numbered from 1 to 2",
        ),
        (
            &[("layers = [2]", "layers = [2, 2]")],
            "must be in ascending order",
        ),
        (&[("layers = [2]", "layers = []")], "layers = [] is empty"),
        (
            &[("dropout = 0.1", "norm_placement = \"post\"")],
            "set it to \"pre\"",
        ),
        (
            &[("[data.retrieval]\n", "[data.retrieval]\npath = \"x.txt\"\n")],
            "the database is the register",
        ),
        (
            &[(
                "[data.retrieval]\n",
                "[data.retrieval]\ncompare = { kind = \"tf_idf\", ngram = 0 }\n",
            )],
            "ngram = 0 is not between",
        ),
        (
            &[(
                "[data.retrieval]\n",
                "[data.retrieval]\ncompare = { kind = \"encoded\" }\n",
            )],
            "`run` is missing",
        ),
        (
            &[(
                "layers = [2]\n",
                "layers = [2]\nencoder = { n_layers = 0 }\n",
            )],
            "n_layers = 0 is not between",
        ),
        (
            &[(
                "layers = [2]\n",
                "layers = [2]\nencoder = { d_model = 15 }\n",
            )],
            "15",
        ),
        (
            &[(
                "layers = [2]\n",
                "layers = [2]\nencoder = { position = { kind = \"fire\" } }\n",
            )],
            "[model.retrieval.encoder.position] kind = \"fire\" is for stacks that read from left to right",
        ),
        (
            &[("kind = \"rotary\"", "kind = \"fire\"")],
            "[model.retrieval.encoder.position] kind = \"fire\" is for stacks that read from left to right",
        ),
        (
            &[
                ("kind = \"rotary\"", "kind = \"xpos\""),
                (
                    "layers = [2]\n",
                    "layers = [2]\nencoder = { position = { kind = \"rotary\" } }\n",
                ),
            ],
            "[model.position] kind = \"xpos\" needs keys before their queries",
        ),
        (
            &[(
                "layers = [2]\n",
                "layers = [2]\nencoder = { position = { kind = \"shaw\" }, attention = { kind = \"multi_head\", n_heads = 2, sinks = \"learned\" } }\n",
            )],
            "[model.retrieval.encoder.position] kind = \"shaw\" uses vectors of distances",
        ),
        (
            &[("log_every = 1", "carry_state = true")],
            "carry_state = true continues a text",
        ),
        (
            &[(
                "kind = \"causal_lm\"",
                "kind = \"causal_lm\"\nintermediate_layers = true",
            )],
            "remove it or [model.retrieval]",
        ),
        (&[("letters = 60", "letters = 99999")], "; use fewer"),
    ];
    for (changes, rule) in cases {
        let (_folder, experiment) = written(changes);
        let (status, said) = failure(&["check", &experiment]);
        assert_eq!(status, 2, "{said}");
        assert!(said.contains(rule), "{rule}: {said}");
        assert!(said.contains("letters.toml:"), "{said}");
    }
    // An encoder with its own positions attends in both directions beside a decoder whose scheme cannot.
    let (_folder, experiment) = written(&[
        ("kind = \"rotary\"", "kind = \"fire\""),
        (
            "layers = [2]\n",
            "layers = [2]\nencoder = { position = { kind = \"rotary\" } }\n",
        ),
    ]);
    output(&["check", &experiment]);
    let (folder, experiment) = written(&[
        (
            "[model.retrieval]\nchunk = 8\nneighbours = 2\nlayers = [2]\n",
            "",
        ),
        ("[data.retrieval]\n", ""),
    ]);
    let run = at(folder.path(), "run");
    output(&["train", &experiment, "--quiet", "--run", &run]);
    let generate = [
        "generate",
        &run,
        "--prompt",
        "dear friend",
        "--without-retrieval",
    ];
    let (status, said) = failure(&generate);
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("--without-retrieval has no effect"), "{said}");
}
