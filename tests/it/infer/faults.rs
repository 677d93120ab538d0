//! Inputs that a model cannot read: one clear error each, exit status 2, and no output is written.

use super::{Given, Inputs, arguments, golden, golden_inputs, run_of, write_inputs};
use crate::binary::failure;
use crate::oracle::Oracle;
use safetensors::tensor::Dtype;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

struct Case {
    folder: TempDir,
    run: PathBuf,
    inputs: Inputs,
}

fn case(name: &str) -> Case {
    let oracle = Oracle::open(name);
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let (experiment, shape) = golden(&oracle);
    run_of(&run, &experiment, &shape, None);
    Case {
        inputs: golden_inputs(&oracle),
        folder,
        run,
    }
}

/// Returns standard error of a command that is refused, without the folder's name.
fn refusal(folder: &Path, arguments: &[String]) -> String {
    let before = std::fs::read_dir(folder).unwrap().count();
    let (status, said) = failure(arguments);
    assert_eq!(status, 2, "{said}");
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), before, "{said}");
    let said = said.replace(&format!("{}/", folder.display()), "");
    said.trim_end().replace("error: ", "")
}

impl Case {
    /// Returns the error for inputs with one array replaced or left out.
    fn said(&self, name: &str, given: Option<Given>) -> String {
        self.said_with(name, given, &[])
    }

    fn said_with(&self, name: &str, given: Option<Given>, flags: &[&str]) -> String {
        let mut inputs = self.inputs.clone();
        match given {
            Some(given) => inputs.insert(name.into(), given),
            None => inputs.remove(name),
        };
        let path = self.folder.path().join("in");
        write_inputs(&path, &inputs);
        self.said_of(&path, flags)
    }

    fn said_of(&self, inputs: &Path, flags: &[&str]) -> String {
        let out = self.folder.path().join("out");
        let mut all = arguments(&self.run, inputs, &out).to_vec();
        all.extend(flags.iter().map(|flag| (*flag).to_string()));
        refusal(self.folder.path(), &all)
    }
}

/// The mask of rows of these lengths, with some elements changed.
fn mask(lengths: [usize; 3], changes: &[(usize, i32)]) -> Option<Given> {
    let mut ones: Vec<i32> = lengths
        .iter()
        .flat_map(|n| (0..9).map(move |i| i32::from(i < *n)))
        .collect();
    for (at, value) in changes {
        ones[*at] = *value;
    }
    Some(Given::i64(&[3, 9], &ones))
}

#[test]
fn names_formats_and_shapes() {
    let case = case("infer_decoder");
    let ids = |shape: &[usize]| Some(Given::i64(shape, &vec![1; shape.iter().product()]));
    assert_eq!(
        case.said("input_idz", ids(&[3, 9])),
        "in: the model has no input `input_idz`; did you mean `input_ids`?"
    );
    assert_eq!(
        case.said("pixel_values", ids(&[3, 9])),
        "in: the model has no input `pixel_values`; allowed: `input_ids`, `attention_mask`, `labels`"
    );
    assert_eq!(case.said("input_ids", None), "in: `input_ids` is missing");
    assert_eq!(
        case.said("input_ids", Some(Given::f32(&[3, 9], &[1.0; 27]))),
        "in: `input_ids` has the format F32; it must be I32 or I64"
    );
    assert_eq!(
        case.said("input_ids", ids(&[27])),
        "in: `input_ids` has the shape [27]; it must be [rows, tokens]"
    );
    assert_eq!(
        case.said("attention_mask", ids(&[3, 8])),
        "in: `attention_mask` has the shape [3, 8]; `input_ids` has [3, 9]"
    );
    assert_eq!(
        case.said("labels", ids(&[2, 9])),
        "in: `labels` has 2 rows; others have 3"
    );
    assert_eq!(
        case.said("input_ids", ids(&[0, 9])),
        "in: `input_ids` has the shape [0, 9]: it is empty"
    );
    assert_eq!(
        case.said("input_ids", ids(&[3, 0])),
        "in: `input_ids` has the shape [3, 0]: it is empty"
    );
    let both = case.said("input_idz", Some(Given::f32(&[1], &[0.0])));
    assert_eq!(both.lines().count(), 1, "{both}");
    assert_eq!(
        case.said_with("labels", None, &["--gradients"]),
        "in: `labels` is missing: gradients are computed from the mean loss against it"
    );
}

#[test]
fn values() {
    let case = case("infer_decoder");
    let ids = |at: usize, value: i32| {
        let mut ids = vec![1; 27];
        ids[at] = value;
        Some(Given::i64(&[3, 9], &ids))
    };
    // Faults of a later batch are also found before anything is computed.
    let one = ["--batch-size", "1"];
    assert_eq!(
        case.said_with("input_ids", ids(22, 37), &one),
        "in: `input_ids`[2, 4] is 37; ids of the vocabulary are from 0 to 36"
    );
    assert_eq!(
        case.said("input_ids", ids(0, -1)),
        "in: `input_ids`[0, 0] is -1; ids of the vocabulary are from 0 to 36"
    );
    let large = Given {
        bytes: [0x1_0000_0001_i64; 27]
            .iter()
            .flat_map(|x| x.to_le_bytes())
            .collect(),
        dtype: Dtype::I64,
        shape: vec![3, 9],
    };
    assert_eq!(
        case.said("input_ids", Some(large)),
        "in: `input_ids`[0, 0] is 4294967297; ids of the vocabulary are from 0 to 36"
    );
    assert_eq!(
        case.said("labels", ids(10, -2)),
        "in: `labels`[1, 1] is -2; ids of the vocabulary are from 0 to 36, or -100"
    );
    assert_eq!(
        case.said("labels", Some(Given::i64(&[3, 9], &[-100; 27]))),
        "in: `labels` scores nothing: every label that counts is -100"
    );
}

#[test]
fn masks() {
    let case = case("infer_decoder");
    let rule =
        "padding is allowed on the right only: 1 at each token, then 0 (padding_side = \"right\")";
    assert_eq!(
        case.said("attention_mask", mask([9, 5, 7], &[(0, 0)])),
        format!("in: row 0 of `attention_mask` is 0 at position 0 and 1 at position 1; {rule}")
    );
    assert_eq!(
        case.said_with(
            "attention_mask",
            mask([9, 5, 7], &[(20, 0), (21, 0)]),
            &["--batch-size", "1"]
        ),
        format!("in: row 2 of `attention_mask` is 0 at position 2 and 1 at position 4; {rule}")
    );
    assert_eq!(
        case.said("attention_mask", mask([9, 0, 7], &[])),
        "in: row 1 of `attention_mask` has no token"
    );
    assert_eq!(
        case.said("attention_mask", mask([9, 5, 7], &[(3, 2)])),
        "in: `attention_mask`[0, 3] is 2; it must be 1 at tokens and 0 after them"
    );
}

#[test]
fn of_other_tasks() {
    let encoder = case("infer_encoder");
    let ids =
        |shape: &[usize], value: i32| Some(Given::i64(shape, &vec![value; shape.iter().product()]));
    assert_eq!(
        encoder.said("token_type_ids", ids(&[3, 10], 2)),
        "in: `token_type_ids`[0, 0] is 2; segments are from 0 to 1"
    );
    assert_eq!(
        encoder.said("next_sentence_label", ids(&[3], 2)),
        "in: `next_sentence_label`[0] is 2; classes are from 0 to 1, or -100"
    );
    let long = case("infer_encoder");
    let long = Case {
        inputs: Inputs::new(),
        ..long
    };
    assert_eq!(
        long.said("input_ids", ids(&[1, 13], 1)),
        "in: `input_ids` has rows of 13 tokens; the model has positions for 12"
    );
    let pairs = case("infer_encoder_decoder");
    let bare = Case {
        inputs: pairs
            .inputs
            .iter()
            .filter(|(name, _)| *name == "input_ids")
            .map(|(n, g)| (n.clone(), g.clone()))
            .collect(),
        ..pairs
    };
    assert_eq!(
        bare.said("decoder_input_ids", None),
        "in: `decoder_input_ids` is missing, and `labels`, from which it could be derived, is missing too"
    );
    assert_eq!(
        bare.said("labels", ids(&[3, 7], 1)),
        "the inputs have no `decoder_input_ids`, and `labels` cannot be shifted right instead: the run has no tokenizer that \
         defines the begin token"
    );
    let images = case("infer_vision");
    assert_eq!(
        images.said("pixel_values", Some(Given::f32(&[1, 3, 8, 8], &[0.0; 192]))),
        "in: `pixel_values` has the shape [1, 3, 8, 8]; it must be [rows, 3, 8, 12]"
    );
    assert_eq!(
        images.said("labels", ids(&[3], 5)),
        "in: `labels`[0] is 5; classes are from 0 to 4, or -100"
    );
}

#[test]
fn damaged_files_and_wrong_places() {
    let case = case("infer_decoder");
    let path = case.folder.path().join("in");
    write_inputs(&path, &case.inputs);
    let whole = std::fs::read(&path).unwrap();
    let said = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        case.said_of(&path, &[])
    };
    assert_eq!(
        said(&[]),
        "in: is not a safetensors file: it is shorter than 8 bytes"
    );
    assert!(said(&whole[..whole.len() - 1]).ends_with("the file is truncated or damaged"));
    let giant = u64::MAX.to_le_bytes();
    assert_eq!(
        said(&[&giant[..], b"{}"].concat()),
        "in: is not a safetensors file: its header is longer than the file"
    );
    let shape =
        br#"{"input_ids":{"dtype":"I64","shape":[4611686018427387904,4],"data_offsets":[0,0]}}"#;
    let header = (shape.len() as u64).to_le_bytes();
    assert!(said(&[&header[..], shape].concat()).contains("its header cannot be read"));
    assert_eq!(
        said(&[&2_u64.to_le_bytes()[..], b"{}"].concat()),
        "in: `input_ids` is missing"
    );
    std::fs::write(&path, &whole).unwrap();
    let missing = case.said_of(&case.folder.path().join("none"), &[]);
    assert_eq!(
        missing,
        "cannot open none: No such file or directory (os error 2)"
    );
    let same = arguments(&case.run, &path, &path);
    assert_eq!(
        refusal(case.folder.path(), &same),
        "--outputs and --inputs are the same file, in; choose another output file"
    );
    let folder = arguments(&case.run, &path, &case.run);
    assert_eq!(
        refusal(case.folder.path(), &folder),
        "run is not a file; name a file for the outputs"
    );
    // An output path that cannot be written is found before anything is computed.
    let nowhere = case.folder.path().join("no/out");
    let (status, said) = failure(&arguments(&case.run, &path, &nowhere));
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("cannot write"), "{said}");
    // The old file stays until the new one is complete.
    let out = case.folder.path().join("out");
    std::fs::write(&out, "old").unwrap();
    case.said("input_ids", None);
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "old");
}
