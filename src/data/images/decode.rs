//! PNG and JPEG to bytes, and one file as an example. A picture is turned as its EXIF orientation says: as viewers show it.

use std::io::Cursor;
use std::path::Path;

use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageReader};

use super::fit::{Fit, fitted};
use super::normalise::Normalise;
use crate::data::Shape;
use crate::data::batch::ImageItem;
use crate::data::files::packed;
use crate::error::{Error, Result};

/// Channels (1 or 3), height and width of a file that is not decoded further.
///
/// # Errors
/// Neither PNG nor JPEG, or damaged; `name` says which file.
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

/// The pixels `[channels, height, width]` of a file, in `wanted` shape as `fit` says. Transparency is left out; 16 bits
/// become 8.
///
/// # Errors
/// Neither PNG nor JPEG, or damaged, `name` says which file; those of [`Fit::apply`].
pub fn decode(bytes: &[u8], name: &str, wanted: [usize; 3], fit: Option<Fit>) -> Result<Vec<u8>> {
    let (pixels, shape) = whole(bytes, name)?;
    fitted(&pixels, shape, wanted, fit)
}

/// The pixels of a file as it is, and their shape.
fn whole(bytes: &[u8], name: &str) -> Result<(Vec<u8>, [usize; 3])> {
    let mut decoder = decoder(bytes, name)?;
    let turned = orientation(&mut decoder);
    // As much as the library allows a picture that it opens by itself.
    let mut limits = image::Limits::default();
    let fits = limits.reserve(decoder.total_bytes());
    fits.map_err(|e| undecodable(name, &e))?;
    let mut image = DynamicImage::from_decoder(decoder).map_err(|e| undecodable(name, &e))?;
    image.apply_orientation(turned);
    let (pixels, shape) = planes(image);
    if shape.contains(&0) {
        return Err(undecodable(name, &"it has no pixel"));
    }
    Ok((pixels, shape))
}

fn decoder<'a>(bytes: &'a [u8], name: &str) -> Result<impl ImageDecoder + 'a> {
    let reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format();
    let reader = reader.map_err(|e| undecodable(name, &e))?;
    reader.into_decoder().map_err(|e| undecodable(name, &e))
}

/// How a picture is to be turned; one whose EXIF data cannot be read stands as it is.
fn orientation(decoder: &mut impl ImageDecoder) -> Orientation {
    decoder.orientation().unwrap_or(Orientation::NoTransforms)
}

fn undecodable(name: &str, why: &dyn std::fmt::Display) -> Error {
    Error::run(format!("{name} is no PNG or JPEG that can be read: {why}"))
}

/// Channel by channel: one of grey images, three of coloured ones.
fn planes(image: DynamicImage) -> (Vec<u8>, [usize; 3]) {
    let (height, width) = (image.height() as usize, image.width() as usize);
    if !image.color().has_color() {
        return (image.into_luma8().into_raw(), [1, height, width]);
    }
    let points = image.into_rgb8().into_raw();
    let plane = |channel: usize| points.iter().skip(channel).step_by(3).copied();
    let pixels = plane(0).chain(plane(1)).chain(plane(2)).collect();
    (pixels, [3, height, width])
}

/// A PNG or JPEG file as a model reads it that was trained on images of `shape`; its class is 0.
///
/// # Errors
/// A file that cannot be read or decoded; data that is not of images.
pub fn read_image(path: &Path, shape: &Shape) -> Result<ImageItem> {
    let Some(wanted) = shape.image else {
        return Err(Error::usage("this model was not trained on images"));
    };
    let bytes = packed::content(path)?;
    let (pixels, found) = whole(&bytes, &path.display().to_string())?;
    let pixels = fitted(&pixels, found, wanted, shape.fit)?;
    Ok(ImageItem {
        pixels: Normalise::new(&shape.mean, &shape.std, wanted[0]).apply(&pixels),
        shape: wanted,
        label: 0,
        mixed: None,
    })
}
