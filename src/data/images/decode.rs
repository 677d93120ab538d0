//! Decodes PNG and JPEG files to bytes, and one file to an example. An image is rotated according to its EXIF
//! orientation, as viewers show it.

use std::io::Cursor;
use std::path::Path;

use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageReader};

use super::fit::{Fit, fitted};
use super::jpeg_end::is_cut_short;
use super::normalise::Normalise;
use crate::data::Shape;
use crate::data::batch::ImageItem;
use crate::data::files::packed;
use crate::error::{Error, Result};

/// Maximum size of a decoded image in bytes: the limit that the library itself sets for files it opens.
const MOST_BYTES: u64 = 512 << 20;

/// Returns the channels (1 or 3), height and width of a file without decoding its pixels.
///
/// # Errors
/// If the file is neither PNG nor JPEG or is damaged; `name` identifies it in the message.
pub fn shape_of(bytes: &[u8], name: &str) -> Result<[usize; 3]> {
    let mut decoder = decoder(bytes, name)?;
    let (width, height) = match orientation(&mut decoder) {
        Orientation::Rotate90
        | Orientation::Rotate270
        | Orientation::Rotate90FlipH
        | Orientation::Rotate270FlipH => {
            let (width, height) = decoder.dimensions();
            (height, width)
        }
        Orientation::NoTransforms
        | Orientation::Rotate180
        | Orientation::FlipHorizontal
        | Orientation::FlipVertical => decoder.dimensions(),
    };
    let channels = if decoder.color_type().has_color() {
        3
    } else {
        1
    };
    Ok([channels, height as usize, width as usize])
}

/// Returns the pixels `[channels, height, width]` of a file in the shape `wanted`, fitted according to `fit`.
/// A transparent image is laid on white; 16 bits per channel become 8.
///
/// # Errors
/// If the file is neither PNG nor JPEG, is damaged or too large, or as for [`Fit::apply`]; `name` identifies
/// it in the message.
pub fn decode(bytes: &[u8], name: &str, wanted: [usize; 3], fit: Option<Fit>) -> Result<Vec<u8>> {
    let (pixels, shape) = decode_full_size(bytes, name)?;
    fitted(&pixels, shape, wanted, fit).map_err(|error| misfit(name, &error))
}

/// Returns the pixels of a file in its own size, and their shape.
fn decode_full_size(bytes: &[u8], name: &str) -> Result<(Vec<u8>, [usize; 3])> {
    let mut decoder = decoder(bytes, name)?;
    let turned = orientation(&mut decoder);
    if decoder.total_bytes() > MOST_BYTES {
        let (width, height) = decoder.dimensions();
        return Err(Error::run(format!(
            "{name} is too large: {height} x {width} pixels need {} MiB, but an image may need at most {} MiB; make a smaller copy of it",
            decoder.total_bytes() >> 20,
            MOST_BYTES >> 20
        )));
    }
    if is_cut_short(bytes) {
        return Err(undecodable(name, &"the file is truncated"));
    }
    let mut image = DynamicImage::from_decoder(decoder).map_err(|e| undecodable(name, &e))?;
    image.apply_orientation(turned);
    let (pixels, shape) = planes(image);
    if shape.contains(&0) {
        return Err(undecodable(name, &"it has no pixels"));
    }
    Ok((pixels, shape))
}

fn decoder<'a>(bytes: &'a [u8], name: &str) -> Result<impl ImageDecoder + 'a> {
    let reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format();
    let reader = reader.map_err(|e| undecodable(name, &e))?;
    reader.into_decoder().map_err(|e| undecodable(name, &e))
}

/// Returns the EXIF orientation of an image; none if its EXIF data cannot be read.
fn orientation(decoder: &mut impl ImageDecoder) -> Orientation {
    decoder.orientation().unwrap_or(Orientation::NoTransforms)
}

fn undecodable(name: &str, why: &dyn std::fmt::Display) -> Error {
    Error::run(format!("{name} cannot be read as PNG or JPEG: {why}"))
}

/// The error of an image that cannot be resized.
fn misfit(name: &str, why: &Error) -> Error {
    Error::usage(format!("{name}: {why}"))
}

/// Splits an image into planes: one for grey images, three for colour.
fn planes(image: DynamicImage) -> (Vec<u8>, [usize; 3]) {
    let (height, width) = (image.height() as usize, image.width() as usize);
    let is_transparent = image.color().has_alpha();
    if !image.color().has_color() {
        let pixels = match is_transparent {
            true => on_white::<2>(&image.into_luma_alpha8().into_raw()),
            false => image.into_luma8().into_raw(),
        };
        return (pixels, [1, height, width]);
    }
    let points = match is_transparent {
        true => on_white::<4>(&image.into_rgba8().into_raw()),
        false => image.into_rgb8().into_raw(),
    };
    let plane = |channel: usize| points.iter().skip(channel).step_by(3).copied();
    let pixels = plane(0).chain(plane(1)).chain(plane(2)).collect();
    (pixels, [3, height, width])
}

/// Lays pixels of N numbers, the last being the opacity, on a white ground, leaving N − 1 numbers each;
/// rounded as in Pillow (`alpha_composite`).
fn on_white<const N: usize>(points: &[u8]) -> Vec<u8> {
    fn laid(color: u8, opacity: u8) -> u8 {
        let [color, opacity] = [color, opacity].map(u32::from);
        ((color * opacity + 255 * (255 - opacity) + 127) / 255) as u8
    }
    let each = points.chunks_exact(N).flat_map(|point| {
        let colors = point[..N - 1].iter();
        colors.map(move |color| laid(*color, point[N - 1]))
    });
    each.collect()
}

/// Reads a PNG or JPEG file as a model trained on images of `shape` does; its class is 0.
///
/// # Errors
/// If the file cannot be read or decoded, or the data is not of images.
pub fn read_image(path: &Path, shape: &Shape) -> Result<ImageItem> {
    let Some(wanted) = shape.image else {
        return Err(Error::usage("this model was not trained on images"));
    };
    let bytes = packed::content(path)?;
    let pixels = decode(&bytes, &path.display().to_string(), wanted, shape.fit)?;
    Ok(ImageItem {
        pixels: Normalise::new(&shape.mean, &shape.std, wanted[0]).apply(&pixels),
        shape: wanted,
        label: 0,
        mixed: None,
        views: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::{GrayAlphaImage, ImageFormat, RgbaImage};

    fn png(image: DynamicImage) -> Vec<u8> {
        let mut bytes = Cursor::new(Vec::new());
        image.write_to(&mut bytes, ImageFormat::Png).unwrap();
        bytes.into_inner()
    }

    #[test]
    fn a_picture_that_fills_the_memory_is_refused_by_its_size() {
        // The header of a colour PNG of 12,000 by 16,000 pixels, whose content is never read.
        let mut small = png(image::RgbImage::new(1, 1).into());
        small[16..24].copy_from_slice(&[0, 0, 0x2e, 0xe0, 0, 0, 0x3e, 0x80]);
        let sum = crc(&small[12..29]);
        small[29..33].copy_from_slice(&sum.to_be_bytes());
        let error = decode(&small, "a.png", [3, 8, 8], None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a.png is too large: 16000 x 12000 pixels need 549 MiB, but an image may need at most 512 MiB; make a smaller copy of it"
        );
    }

    #[test]
    fn every_error_names_the_file() {
        let wanted = [3, 64, 64];
        let cut = png(image::RgbImage::new(9, 9).into());
        let cut = decode(
            &cut[..cut.len() / 2],
            "c.tsv:3: the image a.png",
            wanted,
            None,
        );
        let told = cut.unwrap_err().to_string();
        assert!(told.starts_with("c.tsv:3: the image a.png cannot be read as PNG or JPEG: "));
        let fit = Fit {
            shorter: Some(64),
            ..Fit::default()
        };
        let long = png(image::RgbImage::new(1, 20_000).into());
        let long = decode(&long, "d/a/b.png", wanted, Some(fit)).unwrap_err();
        assert_eq!(
            long.to_string(),
            "d/a/b.png: the image is 20000 x 1; resized in proportion it would be 1280000 x 64, more than 67108864 pixels"
        );
    }

    /// The checksum that a PNG has after each of its chunks.
    fn crc(bytes: &[u8]) -> u32 {
        let step = |sum: u32| (sum >> 1) ^ (0xedb8_8320 * (sum & 1));
        let all = bytes.iter().fold(u32::MAX, |sum, byte| {
            (0..8).fold(sum ^ u32::from(*byte), |sum, _| step(sum))
        });
        !all
    }

    /// Values from Pillow, and so from transformers' processors with `do_convert_rgb`.
    #[test]
    fn transparent_pictures_are_laid_on_white() {
        let points: [[u8; 2]; 5] = [[100, 128], [31, 77], [250, 200], [90, 0], [90, 255]];
        let laid: [u8; 5] = [177, 187, 251, 255, 90];
        let colored = points.iter().flat_map(|[x, opacity]| [*x, 0, *x, *opacity]);
        let colored = RgbaImage::from_raw(5, 1, colored.collect()).unwrap();
        let found = decode(&png(colored.into()), "a.png", [3, 1, 5], None).unwrap();
        assert_eq!((&found[..5], &found[10..]), (&laid[..], &laid[..]));
        assert_eq!(found[5..10], [127_u8, 178, 55, 255, 0]);
        let grey = GrayAlphaImage::from_raw(5, 1, points.concat()).unwrap();
        let found = decode(&png(grey.into()), "b.png", [1, 1, 5], None).unwrap();
        assert_eq!(found, laid);
    }
}
