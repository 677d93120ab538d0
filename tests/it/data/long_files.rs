//! A plain file that is one document is read and encoded in parts, with no trace in the result.

use super::{Folder, get};

/// More than one part of 16 MiB, with characters of one to four bytes and a long stretch without a line feed.
fn text() -> String {
    let mut text = String::with_capacity(19 << 20);
    for line in 0..330_000 {
        text.push_str("the é狐🦊 jumps over line ");
        text.push_str(&line.to_string());
        text.push_str("; and on\n");
    }
    text.push_str(&"no line feed here, ".repeat(200_000));
    text
}

#[test]
fn a_long_plain_file_has_the_tokens_of_the_whole() {
    let text = text();
    assert!(text.len() > 17 << 20);
    let folder = Folder::with(&[("long.txt", text.as_bytes())]);
    let keys = "kind = \"text\"\npath = \"long.txt\"\nvalid_fraction = 0.1\ncontext = 4096\nwindows = \"contiguous\"";
    let data = folder.prepare(keys, "kind = \"char\"").unwrap();
    let tokenizer = data.tokenizers.text.as_ref().unwrap();
    let characters: Vec<char> = text.chars().collect();
    let (train, valid) = (data.tokens.train as usize, data.tokens.valid as usize);
    assert_eq!(train + valid, characters.len());
    assert_eq!(train, (0.9 * characters.len() as f64 + 1e-6) as usize);
    let all = [
        (&data.train, 0, train),
        (data.valid.as_ref().unwrap(), train, characters.len()),
    ];
    for (source, begins, ends) in all {
        for window in 0..source.len() {
            let ids = get(source, window as u64).inputs;
            let from = begins + 4096 * window;
            // The last token is no input, and the last window is padded.
            let count = ids.len().min(ends - from - 1);
            let ids: Vec<u32> = ids[..count].iter().map(|id| *id as u32).collect();
            let expected: String = characters[from..from + count].iter().collect();
            assert_eq!(
                tokenizer.decode(&ids),
                expected,
                "window {window} from {begins}"
            );
        }
    }
    // Bytes as tokens, where parts end at line ends.
    let data = folder
        .prepare(&keys.replace("0.1", "0.0"), "kind = \"byte\"")
        .unwrap();
    assert_eq!(data.tokens.train as usize, text.len());
    for window in (0..data.train.len()).step_by(37).chain([4095, 4096, 4097]) {
        let ids = get(&data.train, window as u64).inputs;
        let from = 4096 * window;
        let expected = &text.as_bytes()[from..(from + ids.len()).min(text.len() - 1)];
        assert!(
            ids.iter()
                .zip(expected)
                .all(|(id, byte)| *id == i32::from(*byte)),
            "window {window}"
        );
    }
}

/// A second file ends the first, also if the first was read in parts.
#[test]
fn a_long_file_beside_another_one_is_ended() {
    let text = text();
    let folder = Folder::with(&[("a.txt", text.as_bytes()), ("b.txt", b"short")]);
    let keys = "kind = \"text\"\npath = [\"a.txt\", \"b.txt\"]\nvalid_fraction = 0.0\ncontext = 64\nwindows = \"contiguous\"";
    let data = folder.prepare(keys, "kind = \"byte\"").unwrap();
    // Each file lacks a final line break and gets one.
    assert_eq!(data.tokens.train as usize, text.len() + 1 + 6);
    let ended = "kind = \"byte\"\nend_of_text = \"<|end|>\"";
    let data = folder.prepare(keys, ended).unwrap();
    assert_eq!(data.tokens.train as usize, text.len() + 1 + 6);
    let last = get(&data.train, data.train.len() as u64 - 1);
    assert!(last.inputs.contains(&i32::from(b'h')) || last.inputs.len() < 6);
}
