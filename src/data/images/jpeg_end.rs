//! Detects JPEG files that end before their image does. The decoder fills the missing part with grey and
//! reports nothing.

use std::ops::RangeInclusive;

const START: [u8; 2] = [0xff, 0xd8];
const END: u8 = 0xd9;
/// Start of a scan: the pixel data follows its segment, up to the end of the image.
const SCAN: u8 = 0xda;
/// A marker that has no segment.
const TEMPORARY: u8 = 0x01;
const RESTARTS: RangeInclusive<u8> = 0xd0..=0xd7;

/// Whether a JPEG file has a scan but no end-of-image marker after it (ITU-T T.81, annex B). Thumbnails lie
/// inside segments, which are skipped, so their end markers do not count. `false` for other files.
pub fn is_cut_short(bytes: &[u8]) -> bool {
    bytes.starts_with(&START) && scan(bytes).is_some_and(|rest| !has_end(rest))
}

/// Returns the bytes after the marker of the first scan.
fn scan(bytes: &[u8]) -> Option<&[u8]> {
    let mut rest = bytes.get(START.len()..)?;
    loop {
        let (&[0xff, marker], behind) = rest.split_first_chunk()? else {
            return None;
        };
        rest = match marker {
            SCAN => return Some(behind),
            // Markers may be padded by bytes of 0xff.
            0xff => &rest[1..],
            TEMPORARY => behind,
            marker if RESTARTS.contains(&marker) => behind,
            _ => {
                let &length = behind.first_chunk()?;
                behind.get(usize::from(u16::from_be_bytes(length))..)?
            }
        };
    }
}

/// Whether an end marker follows. In the data of a scan a byte 0xff is followed by 0, so any other pair is a
/// marker.
fn has_end(scan: &[u8]) -> bool {
    // Searched from the end, since the marker is nearly always the last.
    scan.windows(2).rev().any(|pair| pair == [0xff, END])
}

#[cfg(test)]
mod tests {
    use super::is_cut_short;
    use image::{ImageFormat, RgbImage};
    use std::io::Cursor;

    fn jpeg() -> Vec<u8> {
        let image = RgbImage::from_fn(24, 24, |x, y| image::Rgb([x as u8 * 9, y as u8 * 7, 40]));
        let mut bytes = Cursor::new(Vec::new());
        image.write_to(&mut bytes, ImageFormat::Jpeg).unwrap();
        bytes.into_inner()
    }

    #[test]
    fn a_file_is_cut_short_where_its_pixels_have_no_end() {
        let whole = jpeg();
        assert!(!is_cut_short(&whole));
        assert!(is_cut_short(&whole[..whole.len() - 2]));
        assert!(is_cut_short(&whole[..whole.len() - 40]));
        // Bytes after the end, as cameras write them, and padding between segments.
        assert!(!is_cut_short(&[&whole[..], &[0, 0]].concat()));
        assert!(!is_cut_short(&[&whole[..2], &[0xff], &whole[2..]].concat()));
        assert!(!is_cut_short(b"no JPEG"));
    }

    /// A thumbnail, with its own end marker, lies in the segment of EXIF data.
    #[test]
    fn the_end_of_a_thumbnail_is_not_that_of_the_picture() {
        let whole = jpeg();
        let length = (whole.len() as u16 + 2).to_be_bytes();
        let exif = [&[0xff, 0xe1], &length[..], &whole[..]].concat();
        let with = [&whole[..2], &exif[..], &whole[2..]].concat();
        assert!(!is_cut_short(&with));
        assert!(is_cut_short(&with[..with.len() - 2]));
    }
}
