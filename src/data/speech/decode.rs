//! Decodes WAV and FLAC files to samples of one channel, the mean of the file's channels, at 16 kHz.
//!
//! WAV files hold integers of 8, 16, 24 or 32 bits, or floating-point numbers. The length that a file states,
//! and the checksum of a whole FLAC file, are checked against what is read.

use super::RATE;
use super::resample::resampled;
use crate::data::files::guard;
use crate::error::{Error, Result};
use std::fs::File;
use std::path::Path;
use symphonia::core::audio::GenericAudioBufferRef;
use symphonia::core::codecs::audio::{AudioDecoder, AudioDecoderOptions};
use symphonia::core::formats::probe::Hint;
use symphonia::core::formats::{FormatOptions, FormatReader, TrackType};
use symphonia::core::io::MediaSourceStream;
use symphonia::core::meta::MetadataOptions;

/// File name extensions of recordings that can be read.
const ENDINGS: [&str; 3] = ["wav", "wave", "flac"];
/// Extensions of recordings that cannot be read.
const OTHERS: [&str; 10] = [
    "mp3", "ogg", "oga", "opus", "m4a", "aac", "wma", "aiff", "aif", "webm",
];
/// Number of further samples of one channel, needed to resample the last ones that are asked for.
const RESAMPLE_MARGIN: usize = RATE / 2;

/// Samples of one channel at the rate of their file.
struct Mono {
    samples: Vec<f32>,
    rate: u32,
}

/// What the header of a file states.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Header {
    /// Sampling rate in samples per second.
    rate: u32,
    /// Number of samples per channel, if stated.
    frames: Option<u64>,
}

impl Header {
    /// Returns the duration of this number of samples in seconds.
    fn seconds(self, samples: u64) -> f64 {
        samples as f64 / f64::from(self.rate.max(1))
    }
}

/// Whether a file is a recording that can be read, judged by its name.
pub(super) fn is_recording(path: &Path) -> bool {
    ends_with(path, &ENDINGS)
}

fn ends_with(path: &Path, endings: &[&str]) -> bool {
    let ending = path.extension().map(|e| e.to_string_lossy().to_lowercase());
    ending.is_some_and(|ending| endings.contains(&ending.as_str()))
}

/// Returns the samples of a WAV or FLAC file at 16 kHz, the mean of its channels.
///
/// # Errors
/// If the file cannot be read, is neither WAV nor FLAC, is damaged, cut off or empty, or has an impossible
/// sampling rate; the message names the file.
pub fn samples(path: &Path) -> Result<Vec<f32>> {
    leading_samples(path, usize::MAX)
}

/// Returns the first `wanted` of these samples, or slightly more.
///
/// # Errors
/// As for [`samples`], as far as the file is read.
pub(super) fn leading_samples(path: &Path, wanted: usize) -> Result<Vec<f32>> {
    naming_file(path, || {
        let Mono { samples, rate } = decoded(path, wanted)?;
        resampled(samples, rate)
    })
}

/// Whether a file is longer than this: as its header states, or, without a stated length, as far as it is
/// read.
///
/// # Errors
/// As for [`samples`], as far as the check reads the file.
pub(super) fn is_longer(path: &Path, seconds: f64) -> Result<bool> {
    naming_file(path, || {
        let header = opened(path)?.header;
        let samples = match header.frames {
            Some(frames) => frames,
            None => decoded(path, (seconds * RATE as f64) as usize)?
                .samples
                .len() as u64,
        };
        Ok(header.seconds(samples) > seconds)
    })
}

/// Returns the result of reading a file; panics and faults become errors that name the file.
fn naming_file<T>(path: &Path, read: impl FnOnce() -> std::result::Result<T, String>) -> Result<T> {
    crate::files::require_regular(path)?;
    // Errors of the operating system keep their own wording.
    File::open(path).map_err(Error::io("read", path))?;
    let result = guard::catch_panic(read);
    let shown = path.display();
    result.and_then(|result| result).map_err(|why| {
        Error::run(match ends_with(path, &OTHERS) {
            true => format!(
                "{shown} is neither WAV nor FLAC; convert it, for example with ffmpeg -i {shown} -ar {RATE} -ac 1 out.flac"
            ),
            false => format!("{shown} cannot be read as WAV or FLAC: {why}"),
        })
    })
}

/// An opened file, before its first packet is read.
struct OpenAudio {
    format: Box<dyn FormatReader>,
    decoder: Box<dyn AudioDecoder>,
    track: u32,
    header: Header,
}

fn opened(path: &Path) -> std::result::Result<OpenAudio, String> {
    let file = File::open(path).map_err(|e| e.to_string())?;
    if file.metadata().is_ok_and(|data| data.len() == 0) {
        return Err("the file is empty".into());
    }
    let stream = MediaSourceStream::new(Box::new(file), Default::default());
    let mut hint = Hint::new();
    if let Some(ending) = path.extension().and_then(|e| e.to_str()) {
        hint.with_extension(ending);
    }
    let probe = symphonia::default::get_probe();
    let format = probe
        .probe(
            &hint,
            stream,
            FormatOptions::default(),
            MetadataOptions::default(),
        )
        .map_err(|e| e.to_string())?;
    let track = format
        .default_track(TrackType::Audio)
        .ok_or("it has no audio track")?;
    let parameters = track.codec_params.as_ref().and_then(|p| p.audio());
    let parameters = parameters.ok_or("it does not state its audio codec")?;
    let header = Header {
        rate: parameters
            .sample_rate
            .ok_or("it does not state its sampling rate")?,
        frames: track.num_frames,
    };
    let options = AudioDecoderOptions::default().verify(true);
    let decoder = symphonia::default::get_codecs()
        .make_audio_decoder(parameters, &options)
        .map_err(|e| e.to_string())?;
    Ok(OpenAudio {
        track: track.id,
        format,
        decoder,
        header,
    })
}

/// Returns the mean of the channels, up to `wanted` samples at 16 kHz.
fn decoded(path: &Path, wanted: usize) -> std::result::Result<Mono, String> {
    let mut open = opened(path)?;
    let Header { rate, frames } = open.header;
    let wanted =
        (wanted.saturating_add(RESAMPLE_MARGIN) as f64 / RATE as f64 * f64::from(rate)).ceil();
    let wanted = wanted as usize;
    let mut samples: Vec<f32> = Vec::new();
    let mut interleaved: Vec<f32> = Vec::new();
    while samples.len() < wanted {
        let packet = match open.format.next_packet() {
            Ok(Some(packet)) => packet,
            Ok(None) => break,
            // The end of a recording that was written without its length.
            Err(symphonia::core::errors::Error::IoError(e))
                if frames.is_none() && e.kind() == std::io::ErrorKind::UnexpectedEof =>
            {
                break;
            }
            Err(e) => {
                return Err(
                    truncation_fault(samples.len(), frames).unwrap_or_else(|| e.to_string())
                );
            }
        };
        if packet.track_id != open.track {
            continue;
        }
        let buffer = open.decoder.decode(&packet).map_err(|e| e.to_string())?;
        let before = samples.len();
        averaged(&buffer, &mut interleaved, &mut samples);
        // No data follows the end of a stream without a length.
        if samples.len() == before {
            break;
        }
    }
    let whole = samples.len() < wanted;
    if let Some(why) = truncation_fault(samples.len(), frames).filter(|_| whole) {
        return Err(why);
    }
    if samples.is_empty() {
        return Err("it has no samples".into());
    }
    if whole && open.decoder.finalize().verify_ok == Some(false) {
        return Err("it is damaged: its checksum is wrong".into());
    }
    match samples.iter().position(|sample| !sample.is_finite()) {
        Some(number) => Err(format!("sample {number} is not a number")),
        None => Ok(Mono { samples, rate }),
    }
}

/// Returns the fault of a file that holds fewer samples than it states.
fn truncation_fault(found: usize, said: Option<u64>) -> Option<String> {
    let said = said.filter(|said| *said > found as u64)?;
    Some(format!(
        "it contains {found} of the {said} samples that it states; it is truncated or damaged"
    ))
}

/// Appends the mean of the channels of a packet to `samples`.
fn averaged(
    buffer: &GenericAudioBufferRef<'_>,
    interleaved: &mut Vec<f32>,
    samples: &mut Vec<f32>,
) {
    let channels = buffer.num_planes().max(1);
    interleaved.clear();
    buffer.copy_to_vec_interleaved(interleaved);
    let frames = interleaved.chunks_exact(channels);
    samples.extend(frames.map(|frame| frame.iter().sum::<f32>() / channels as f32));
}
