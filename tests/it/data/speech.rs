//! Recordings: features equal to transformers', files of every format, faulty files reported by name.

use super::Folder;
use super::recordings::{Sort, flac, golden, plain, tone, wav};
use crate::oracle::Oracle;
use formwork::data::speech::{LogMel, samples};

#[test]
fn features_are_those_of_whispers_extractor() {
    let oracle = Oracle::open("speech");
    let recording = oracle.array("samples").values;
    for (name, n_mels, len) in [
        ("features.80.cut", 80, recording.len()),
        ("features.80.padded", 80, 11_200),
        ("features.128.padded", 128, 11_200),
    ] {
        let theirs = oracle.array(name);
        let ours = LogMel::new(n_mels).features(&recording[..len], 100);
        assert_eq!(theirs.shape, [n_mels, 100]);
        let apart = ours.iter().zip(&theirs.values).map(|(a, b)| (a - b).abs());
        let most = apart.fold(0.0, f32::max);
        assert!(most < 1e-5, "{name}: {most}");
    }
}

#[test]
fn wav_files_of_every_sort_are_read_as_one_channel_at_16_khz() {
    let folder = Folder::new();
    let wave = tone(440.0, 3200);
    let read = |content: &[u8]| samples(&folder.write("a.wav", content)).unwrap();
    for (sort, least) in [
        (Sort::Whole(8), 1.0 / 128.0),
        (Sort::Whole(16), 1.0 / 32768.0),
        (Sort::Whole(24), 1e-6),
        (Sort::Whole(32), 1e-7),
        (Sort::Float(32), 0.0),
        (Sort::Float(64), 0.0),
    ] {
        let mono = read(&wav(&wave, (16_000, 1), sort));
        assert_eq!(mono.len(), 3200);
        let apart = mono.iter().zip(&wave).map(|(a, b)| (a - b).abs());
        assert!(apart.fold(0.0, f32::max) <= least);
    }
    // The second channel is silent.
    let two: Vec<f32> = wave.iter().flat_map(|x| [*x, 0.0]).collect();
    let mono = read(&wav(&two, (16_000, 2), Sort::Float(32)));
    assert!(mono.iter().zip(&wave).all(|(a, b)| *a == b / 2.0));
    // A file written to a pipe, without its length.
    let piped = without_length(wav(&wave, (16_000, 1), Sort::Float(32)));
    assert_eq!(read(&piped), wave);
    // Read as 32 kHz, the same samples last half as long, and the tone has 880 Hz.
    let faster = read(&wav(&wave, (32_000, 1), Sort::Float(32)));
    assert_eq!(faster.len(), 1600);
    let apart = faster.iter().zip(tone(880.0, 1600)).skip(400).take(800);
    assert!(apart.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max) < 1e-3);
}

/// A WAV file as programs write it to a pipe.
fn without_length(mut file: Vec<u8>) -> Vec<u8> {
    file[4..8].fill(0xFF);
    file[40..44].fill(0xFF);
    file
}

#[test]
fn recordings_that_do_not_say_their_length_are_measured() {
    let folder = Folder::new();
    for (name, samples) in [
        ("whole.wav", 16_000),
        ("long.wav", 16_400),
        ("longer.wav", 60_000),
    ] {
        let file = without_length(wav(&tone(440.0, samples), (16_000, 1), Sort::Float(32)));
        folder.write(name, &file);
    }
    folder.write(
        "m.csv",
        b"file_name,text\nwhole.wav,go\nlong.wav,do\nlonger.wav,you\n",
    );
    let keys = "kind = \"transcribed_speech\"\nn_mels = 20\nseconds = 1.0\ncontext = 20\npath = \"m.csv\"\n\
                valid_path = \"m.csv\"\n";
    let data = folder.prepare(keys, "kind = \"byte\"").unwrap();
    assert_eq!(
        data.notes,
        [
            "2 of 3 training recordings are longer than [data] seconds = 1.0, and are left out",
            "2 of 3 valid recordings are longer than [data] seconds = 1.0, and are cut"
        ]
    );
    assert_eq!(data.train.len(), 1);
}

#[test]
fn flac_files_are_read() {
    let recording = Oracle::open("speech").array("samples").values;
    let read = samples(&golden("speech.flac")).unwrap();
    assert_eq!(read.len(), 3000);
    for (n, sample) in read.iter().enumerate() {
        let both = [
            recording[n],
            (recording[n] * 16384.0).floor() / 32768.0 * (n % 2) as f32,
        ];
        assert_eq!(*sample, both.iter().sum::<f32>() / 2.0, "{n}");
    }
}

#[test]
fn files_that_cannot_be_read_are_told_by_name() {
    let folder = Folder::new();
    let whole = plain(&tone(440.0, 3200));
    let (cut, flac) = (whole[..4000].to_vec(), flac());
    let broken = wav(&[0.1, f32::NAN], (16_000, 1), Sort::Float(32));
    let mut damaged = flac.clone();
    damaged[3000..3010].fill(0x55);
    for (name, content, expected) in [
        ("empty.wav", Vec::new(), "the file is empty"),
        ("text.wav", b"no sound".to_vec(), ""),
        ("head.wav", whole[..30].to_vec(), ""),
        ("none.wav", plain(&[]), ""),
        ("cut.wav", cut, "it is truncated"),
        ("nan.wav", broken, "sample 1 is not a number"),
        ("slow.wav", wav(&[0.1], (3, 1), Sort::Whole(16)), "3 Hz"),
        ("cut.flac", flac[..3000].to_vec(), "it is truncated"),
        ("damaged.flac", damaged, ""),
        (
            "song.mp3",
            b"ID3".to_vec(),
            "neither WAV nor FLAC; convert it",
        ),
    ] {
        let path = folder.write(name, &content);
        let said = samples(&path).unwrap_err().to_string();
        let begin = path.display().to_string();
        assert!(said.starts_with(&begin), "{name}: {said}");
        assert!(said.contains(expected), "{name}: {said}");
    }
    let said = samples(&folder.dir.path().join("nowhere.wav")).unwrap_err();
    assert!(said.to_string().contains("nowhere.wav"), "{said}");
    // Truncated files give errors, never a panic.
    for end in (0..flac.len()).step_by(97) {
        assert!(
            samples(&folder.write("part.flac", &flac[..end])).is_err(),
            "{end}"
        );
    }
    for end in (0..whole.len()).step_by(97) {
        assert!(
            samples(&folder.write("part.wav", &whole[..end])).is_err(),
            "{end}"
        );
    }
}
