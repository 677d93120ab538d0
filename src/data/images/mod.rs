//! Images with a class: reads files and yields normalised pixels.
//!
//! Files are decoded once into bytes ([`Pictures`]). An example is an image that is cropped, flipped,
//! changed, normalised, erased and mixed according to `[data] augment`; each draw is a function of (seed,
//! draw). There is one module per storage format: [`idx`], [`cifar`], [`folder`], `table`. Images that need
//! no file are in [`super::synthetic`].

pub mod augment;
pub mod blur;
pub mod cifar;
pub(in crate::data) mod config;
pub mod decode;
mod fit;
pub mod folder;
mod format;
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
pub mod views;
pub mod with_views;

pub use augment::{AugmentConfig, RandAugmentConfig};
pub use config::{Fitting, ImageFormat, ImagesConfig};
pub use decode::read_image;
pub use fit::Fit;
pub use folder::{is_image, is_other_image};
pub use pictures::Pictures;
pub use resize::Filter;
pub use resized_crop::{JitterConfig, ResizedCropConfig};
pub use views::ViewsConfig;
pub use with_views::WithViews;
