//! Images with a class: files in, normalised pixels out.
//!
//! Files are decoded once into bytes ([`Pictures`]); an example is a picture that is cropped, flipped, changed,
//! normalised, erased and mixed as `[data] augment` says, each draw a function of (seed, draw). One file per way
//! in which images lie on disk: [`idx`], [`cifar`], [`folder`], `table`. Images that need no file are in [`super::synthetic`].

pub mod augment;
pub mod blur;
pub mod cifar;
pub(in crate::data) mod config;
pub mod decode;
mod fit;
pub mod folder;
mod form;
pub mod hue;
pub mod idx;
mod jpeg_end;
pub mod mix;
pub mod normalise;
pub mod operations;
pub mod pictures;
pub(in crate::data) mod prepare;
pub mod resize;
mod resized_crop;
pub mod sequence;
pub(in crate::data) mod source;
mod table;
pub mod viewed;
pub mod views;

pub use augment::{AugmentConfig, RandAugmentConfig};
pub use config::{Fitting, ImageFormat, ImagesConfig};
pub use decode::read_image;
pub use fit::Fit;
pub use folder::{is_image, is_other_image};
pub use pictures::Pictures;
pub use resize::Filter;
pub use resized_crop::{JitterConfig, ResizedCropConfig};
pub use viewed::Viewed;
pub use views::ViewsConfig;
