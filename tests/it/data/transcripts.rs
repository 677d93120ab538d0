//! Recordings with transcripts: tables and LibriSpeech's layout, lengths, masks, dialled digits.

use super::recordings::{plain, tone};
use super::{Folder, data_config, prepared, tokenizer_config};
use formwork::data::batch::{Content, SpeechShape, SpokenItem};
use formwork::data::loader::{BatchSize, Order, step_batches};
use formwork::data::speech::{LogMel, samples};
use formwork::data::{Data, Item, Request, SearchPath, Source, Split, View, prepare};
use std::collections::BTreeSet;
use std::sync::Arc;

fn spoken(source: &Arc<dyn Source>, sample: u64, draw: u64) -> SpokenItem {
    match source.get(sample, draw).unwrap() {
        Item::Spoken(item) => item,
        other => panic!("{other:?}"),
    }
}

/// Returns the text of a transcript without its special tokens.
fn text(data: &Data, item: &SpokenItem) -> String {
    let tokenizer = data.tokenizers.text.as_ref().unwrap();
    let ids: Vec<u32> = item.transcript.iter().map(|id| *id as u32).collect();
    tokenizer.decode_text(&ids)
}

/// Three recordings of one second with their transcripts.
const SAID: [(&str, &str); 3] = [("a", "go do"), ("b", "you hear"), ("c", "do you")];
const KEYS: &str = "kind = \"transcribed_speech\"\nseconds = 1.0\nn_mels = 20\ncontext = 20\n";

fn recorded(folder: &Folder) {
    recorded_in(folder, "");
}

fn recorded_in(folder: &Folder, inside: &str) {
    for (number, (name, _)) in SAID.iter().enumerate() {
        let wave = tone(300.0 + 100.0 * number as f32, 16_000);
        folder.write(&format!("{inside}{name}.wav"), &plain(&wave));
    }
}

#[test]
fn tables_and_librispeechs_lines_name_recordings() {
    let folder = Folder::new();
    recorded(&folder);
    let rows = |before: &str, between: &str, behind: &str| -> String {
        let row =
            |(name, said): &(&str, &str)| format!("{before}{name}.wav{between}{said}{behind}\n");
        SAID.iter().map(row).collect()
    };
    let csv = format!("file_name,transcription\n{}", rows("", ",", ""));
    let named = format!(
        "said\tclip\n{}",
        SAID.map(|(n, s)| format!("{s}\t{n}.wav\n")).concat()
    );
    folder.write("metadata.csv", csv.as_bytes());
    folder.write(
        "t.tsv",
        format!("path\tsentence\n{}", rows("", "\t", "")).as_bytes(),
    );
    folder.write(
        "t.jsonl",
        rows("{\"file_name\": \"", "\", \"text\": \"", "\"}").as_bytes(),
    );
    folder.write("named.tsv", named.as_bytes());
    let lines: String = SAID.map(|(name, said)| format!("{name} {said}\n")).concat();
    folder.write("84-1.trans.txt", lines.as_bytes());
    folder.write("readme.txt", b"nothing");
    let mut sets = Vec::new();
    for keys in [
        "path = \"metadata.csv\"",
        "path = \"t.tsv\"",
        "path = \"t.jsonl\"",
        "path = \"named.tsv\"\nrecording = \"clip\"\ntranscript = \"said\"",
        "path = \"84-1.trans.txt\"",
    ] {
        let keys = format!("{KEYS}valid_fraction = 0.0\n{keys}");
        let data = folder.prepare(&keys, "kind = \"word\"").unwrap();
        assert_eq!(data.train.len(), 3, "{keys}");
        let shape = data.shape.speech.unwrap();
        assert_eq!((shape.n_mels, shape.n_frames), (20, 100));
        let items: Vec<SpokenItem> = (0..3).map(|n| spoken(&data.train, n, n)).collect();
        let said: Vec<String> = items.iter().map(|item| text(&data, item)).collect();
        assert_eq!(said, SAID.map(|(_, said)| said), "{keys}");
        let first = &items[0];
        assert_eq!(
            first.transcript[1..],
            first.targets[..first.targets.len() - 1]
        );
        let alone = samples(&folder.dir.path().join("b.wav")).unwrap();
        assert_eq!(
            items[1].speech.features,
            LogMel::new(20).features(&alone, 100)
        );
        sets.push(items);
    }
    assert!(sets.iter().all(|items| *items == sets[0]));
    // A folder with one transcript file among other files.
    let other = Folder::new();
    recorded_in(&other, "said/");
    other.write("said/metadata.csv", csv.as_bytes());
    other.write("said/notes.txt", b"a.wav is short");
    other.write("said/LICENSE", b"All may listen.");
    let keys = format!("{KEYS}path = \"said\"\nvalid_fraction = 0.34\nformat = \"csv\"\n");
    let data = other.prepare(&keys, "kind = \"byte\"").unwrap();
    assert_eq!(
        (data.train.len(), data.valid.as_ref().unwrap().len()),
        (2, 1)
    );
    let captions = data.captions.valid.as_ref().unwrap();
    let valid = spoken(data.valid.as_ref().unwrap(), 0, 5);
    assert_eq!(captions.references, [[text(&data, &valid)]]);
    assert_eq!(captions.speech(0).unwrap(), valid.speech);
}

#[test]
fn faulty_tables_are_told_with_file_and_line() {
    let folder = Folder::new();
    recorded(&folder);
    folder.write("broken.wav", b"no sound");
    folder.write("only/a.wav", &plain(&tone(440.0, 100)));
    let said = |table: &str, content: &str, keys: &str| {
        folder.write(table, content.as_bytes());
        let keys = format!("{KEYS}path = {table:?}\nvalid_fraction = 0.0\n{keys}");
        let said = folder
            .prepare(&keys, "kind = \"char\"")
            .err()
            .unwrap()
            .to_string();
        let place = folder.dir.path().display().to_string();
        said.replace(&place, "DIR")
    };
    assert_eq!(
        said("m.csv", "file_name,transcription\na.wav,x\nd.wav,y\n", ""),
        "DIR/m.csv:3: there is no recording DIR/d.wav; set `recordings` to the folder of the recordings"
    );
    assert_eq!(
        said("m.csv", "file_name,transcription\na.wav, \n", ""),
        "DIR/m.csv:2: the transcript is empty"
    );
    let unknown = said("m.csv", "file,transcript\na.wav,x\n", "");
    assert!(
        unknown.starts_with("DIR/m.csv:1: no column `file_name`"),
        "{unknown}"
    );
    let damaged = said("m.csv", "file_name,text\na.wav,x\nbroken.wav,y\n", "");
    assert!(
        damaged.starts_with("DIR/m.csv:3: DIR/broken.wav cannot be read as WAV or FLAC: "),
        "{damaged}"
    );
    assert_eq!(
        said("l.trans.txt", "a GO\nb\n", ""),
        "DIR/l.trans.txt:2: a line must contain the name of a recording, a space and its transcript"
    );
    for key in [
        "format = \"csv\"",
        "quoting = \"none\"",
        "transcript = \"said\"",
    ] {
        let told = said("l.trans.txt", "a GO\n", key);
        let name = key.split(' ').next().unwrap();
        let wanted = format!("[data] {name} has no effect: all transcripts");
        assert!(told.contains(&wanted), "{told}");
    }
    let none = format!("{KEYS}path = \"only\"\n");
    let none = folder
        .prepare(&none, "kind = \"char\"")
        .err()
        .unwrap()
        .to_string();
    assert!(
        none.contains("there are no transcripts; they must be in metadata.csv"),
        "{none}"
    );
    let keys = "kind = \"transcribed_speech\"\npath = \"m.csv\"\nn_mels = 129\nseconds = 0.005\ncontext = 2\naugment = { time_width = 9 }\n";
    let faults = folder
        .prepare(keys, "kind = \"char\"")
        .err()
        .unwrap()
        .to_string();
    for part in [
        "n_mels = 129",
        "seconds = 0.005",
        "context = 2",
        "time_width has no effect",
    ] {
        assert!(faults.contains(part), "{part}: {faults}");
    }
}

#[test]
fn recordings_that_are_too_long_are_left_out_of_training_and_cut_elsewhere() {
    let folder = Folder::new();
    recorded(&folder);
    let table = "file_name,text\na.wav,go\nb.wav,do\nlong.wav,you hear\n";
    folder.write("long.wav", &plain(&tone(500.0, 40_000)));
    folder.write("m.csv", table.as_bytes());
    let keys = format!("{KEYS}path = \"m.csv\"\nvalid_path = \"m.csv\"\n");
    let data = folder.prepare(&keys, "kind = \"byte\"").unwrap();
    assert_eq!(
        (data.train.len(), data.valid.as_ref().unwrap().len()),
        (2, 3)
    );
    assert_eq!(
        data.notes,
        [
            "1 of 3 training recordings are longer than [data] seconds = 1.0, and are left out",
            "1 of 3 valid recordings are longer than [data] seconds = 1.0, and are cut"
        ]
    );
    let cut = spoken(data.valid.as_ref().unwrap(), 2, 0).speech.features;
    assert_eq!(cut, LogMel::new(20).features(&tone16(500.0, 16_000), 100));
    // Files used only for evaluation may all be longer than the limit.
    folder.write("l.csv", b"file_name,text\nlong.wav,you hear\n");
    let long = keys.replace("m.csv", "l.csv");
    let refused = folder.prepare(&long, "kind = \"byte\"").err().unwrap();
    assert!(refused.to_string().contains("nothing to train on"));
    let tokenizer = tokenizer_config("kind = \"byte\"");
    let request = Request {
        run_shape: Some(&data.shape),
        tokenizer: Some(&tokenizer),
        saved_tokenizers: &data.tokenizers,
        places: &folder.places(),
        seed: 7,
        view: &View::Plain,
        compares_answers: false,
        retrieval: None,
    };
    let evaluated = prepare(&data_config(&long), &request).unwrap();
    let cut = "1 of 1 valid recordings are longer than [data] seconds = 1.0, and are cut";
    assert_eq!(evaluated.notes, [cut]);
    // A transcript longer than the context has no end token.
    let keys = keys.replace("context = 20", "context = 5");
    let data = folder.prepare(&keys, "kind = \"byte\"").unwrap();
    let long = spoken(data.valid.as_ref().unwrap(), 2, 0);
    assert_eq!(
        (text(&data, &long).as_str(), long.transcript.len()),
        ("you", 4)
    );
    let short = spoken(data.valid.as_ref().unwrap(), 0, 0);
    assert_eq!(long.transcript[0], short.transcript[0]);
    assert_ne!(long.targets.last(), short.targets.last());
}

/// A tone quantised to 16 bits.
fn tone16(hertz: f32, samples: usize) -> Vec<f32> {
    let rounded = tone(hertz, samples).into_iter();
    rounded.map(|x| (x * 32768.0).round() / 32768.0).collect()
}

#[test]
fn training_recordings_are_masked_by_their_draw() {
    let folder = Folder::new();
    recorded(&folder);
    folder.write("m.csv", b"file_name,text\na.wav,go\nb.wav,do\nc.wav,you\n");
    let augment =
        "augment = { time_masks = 2, time_width = 30, frequency_masks = 1, frequency_width = 8 }\n";
    let keys = format!("{KEYS}path = \"m.csv\"\nvalid_path = \"m.csv\"\n{augment}");
    let data = folder.prepare(&keys, "kind = \"char\"").unwrap();
    let again = folder.prepare(&keys, "kind = \"char\"").unwrap();
    let seen: BTreeSet<String> = (0..20)
        .map(|draw| format!("{:?}", spoken(&data.train, 1, draw).speech.features))
        .collect();
    assert!(seen.len() > 10);
    let valid = data.valid.as_ref().unwrap();
    assert_eq!(spoken(valid, 1, 1), spoken(valid, 1, 2));
    // An example is a function of its sample and draw numbers, whatever was read before.
    for (sample, draw) in [(2, 9), (0, 4), (1, 1)] {
        assert_eq!(
            spoken(&again.train, sample, draw),
            spoken(&data.train, sample, draw)
        );
    }
    let order = || Order::new(5, BatchSize::Items(2));
    for step in [0, 3, 7] {
        let whole = step_batches(data.train.as_ref(), &mut order(), 2, step).unwrap();
        let once = step_batches(again.train.as_ref(), &mut order(), 2, step).unwrap();
        assert!(whole == once);
        let Content::Spoken(batch) = &whole[0].content else {
            panic!("recordings with transcripts");
        };
        assert_eq!(
            (batch.speech.rows, batch.speech.features.len()),
            (2, 2 * 20 * 100)
        );
        assert_eq!(batch.transcripts.inputs.len(), 2 * batch.transcripts.cols);
        assert_eq!(batch.transcripts.targets.len(), 2 * batch.transcripts.cols);
        assert_eq!(whole[0].tokens, 2);
    }
}

#[test]
fn dialled_numbers_are_drawn_and_held_out() {
    let places = SearchPath::with_folders(None, Vec::new(), "none".into());
    let keys = "kind = \"dialled_digits\"\ndigits = [1, 3]\nseconds = 1.0\nn_mels = 16\nvalid_items = 40\ntest_items = 20\n";
    let data = prepared(keys, None, &places, 1).unwrap();
    let other = prepared(keys, None, &places, 2).unwrap();
    assert_eq!(
        data.shape.speech,
        Some(SpeechShape {
            n_mels: 16,
            n_frames: 100,
            normalized: false
        })
    );
    // Ten digits, the token that begins a number, the one that ends it, and the special token of every vocabulary.
    assert_eq!((data.shape.context, data.shape.vocab_size), (5, 13));
    let all = |data: &Data, split: Split| -> Vec<SpokenItem> {
        let source = data.source(split).unwrap();
        (0..source.len() as u64)
            .map(|n| spoken(source, n, 0))
            .collect()
    };
    let numbers = |items: &[SpokenItem]| -> BTreeSet<String> {
        items.iter().map(|item| text(&data, item)).collect()
    };
    let (valid, test) = (all(&data, Split::Valid), all(&data, Split::Test));
    assert_eq!((numbers(&valid).len(), numbers(&test).len()), (40, 20));
    assert!(
        valid == all(&other, Split::Valid),
        "held out alike for every seed"
    );
    let train: Vec<SpokenItem> = (0..300).map(|n| spoken(&data.train, n, n)).collect();
    assert!(numbers(&train).is_disjoint(&numbers(&valid)));
    assert!(numbers(&train).is_disjoint(&numbers(&test)));
    assert!(train[0] != spoken(&other.train, 0, 0));
    assert!(
        train[0] == spoken(&data.train, 0, 7),
        "without masks a draw changes nothing"
    );
    let lengths: BTreeSet<usize> = numbers(&train).iter().map(String::len).collect();
    assert!(lengths.into_iter().eq(1..=3));
    for faulty in [
        "digits = [5, 4]",
        "digits = [0, 4]",
        "digits = [3, 30]",
        "tone = [0.2, 0.1]",
        "noise = 2.0",
        "seconds = 0.5",
        "held_out = 0.0",
        "augment = { frequency_width = 3 }",
    ] {
        let keys = format!("kind = \"dialled_digits\"\n{faulty}");
        let said = prepared(&keys, None, &places, 1).err().unwrap().to_string();
        let key = faulty.split(' ').next().unwrap();
        assert!(
            said.contains("[data") && (said.contains(key) || said.contains("seconds")),
            "{said}"
        );
    }
}
