//! The known classes of image processors, with their defaults for keys that a file lacks.

use crate::data::images::Filter;

/// Mean and standard deviation of the images that CLIP was trained on.
const CLIP_MEAN: [f64; 3] = [0.48145466, 0.4578275, 0.40821073];
const CLIP_STD: [f64; 3] = [0.26862954, 0.26130258, 0.27577711];
/// Mean and standard deviation of ImageNet's images.
const IMAGENET_MEAN: [f64; 3] = [0.485, 0.456, 0.406];
const IMAGENET_STD: [f64; 3] = [0.229, 0.224, 0.225];
/// The side of the inputs of most classes, in pixels.
const SIDE: usize = 224;
/// The side that DeiT's processor resizes to, before it crops.
const DEIT_SIDE: usize = 256;
/// At this size or more, ConvNext's processor resizes without cropping.
pub(super) const CONVNEXT_WHOLE: usize = 384;

/// A size as written in these files: height and width, or the shorter side.
#[derive(Clone, Copy, Debug)]
pub(super) enum Size {
    Exact([usize; 2]),
    Shorter(usize),
}

/// A class of image processor, or several with the same defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Vit,
    Deit,
    Beit,
    /// The processors of CLIP and Bit.
    Clip,
    ConvNext,
    /// SigLIP's processor; that of SigLIP 2 keeps the aspect ratios of images.
    Siglip,
    Dinov3,
    /// The processor of the first Idefics; later ones cut images into tiles.
    Idefics,
}

/// The beginnings of class names.
const NAMES: [(&str, Class); 9] = [
    ("ViT", Class::Vit),
    ("DeiT", Class::Deit),
    ("Beit", Class::Beit),
    ("Bit", Class::Clip),
    ("CLIP", Class::Clip),
    ("ConvNext", Class::ConvNext),
    ("Siglip", Class::Siglip),
    ("DINOv3ViT", Class::Dinov3),
    ("Idefics", Class::Idefics),
];
/// The endings of class names: today's, and that of earlier versions of transformers.
const CLASS_ENDINGS: [&str; 2] = ["ImageProcessor", "FeatureExtractor"];
/// Suffixes that name the library used for resizing.
const LIBRARIES: [&str; 2] = ["Fast", "Pil"];

impl Class {
    /// Finds the class of this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        let mut libraries = LIBRARIES.iter();
        let name = libraries
            .find_map(|end| name.strip_suffix(end))
            .unwrap_or(name);
        let begins = CLASS_ENDINGS
            .iter()
            .find_map(|end| name.strip_suffix(end))?;
        let found = NAMES.iter().find(|(known, _)| *known == begins);
        found.map(|(_, class)| *class)
    }

    /// The class names that transformers writes today.
    pub(super) fn names() -> Vec<String> {
        let names = NAMES.iter();
        names
            .map(|(name, _)| format!("{name}{}", CLASS_ENDINGS[0]))
            .collect()
    }

    /// The class that transformers uses for a file that names none, beside a config.json with this `model_type`.
    pub(super) fn of_model(model_type: &str) -> Self {
        match model_type {
            "beit" => Self::Beit,
            "bit" | "clip" | "dinov2" => Self::Clip,
            "deit" => Self::Deit,
            "dinov3_vit" => Self::Dinov3,
            "idefics" => Self::Idefics,
            "resnet" => Self::ConvNext,
            "siglip" => Self::Siglip,
            _ => Self::Vit,
        }
    }

    /// Default mean and standard deviation of each channel.
    pub(super) fn moments(self) -> [[f64; 3]; 2] {
        match self {
            Self::Clip | Self::Idefics => [CLIP_MEAN, CLIP_STD],
            Self::Dinov3 => [IMAGENET_MEAN, IMAGENET_STD],
            Self::Vit | Self::Deit | Self::Beit | Self::ConvNext | Self::Siglip => [[0.5; 3]; 2],
        }
    }

    /// Default filter for resizing.
    pub(super) fn filter(self) -> Filter {
        match self {
            Self::Vit | Self::Dinov3 => Filter::Bilinear,
            Self::Deit
            | Self::Beit
            | Self::Clip
            | Self::ConvNext
            | Self::Siglip
            | Self::Idefics => Filter::Bicubic,
        }
    }

    /// Whether the centre is cropped by default.
    pub(super) fn crops(self) -> bool {
        matches!(self, Self::Deit | Self::Clip)
    }

    /// Default size of the centre crop, for classes that have one.
    pub(super) fn crop(self) -> Option<Size> {
        let has = matches!(self, Self::Deit | Self::Clip | Self::Beit);
        has.then_some(Size::Exact([SIDE; 2]))
    }

    /// Default size that images are resized to; `None` for the size of the model's inputs.
    pub(super) fn size(self) -> Option<Size> {
        match self {
            Self::Vit => None,
            Self::Deit => Some(Size::Exact([DEIT_SIDE; 2])),
            Self::Clip => Some(Size::Shorter(SIDE)),
            Self::ConvNext => Some(Size::Shorter(CONVNEXT_WHOLE)),
            Self::Beit | Self::Siglip | Self::Dinov3 | Self::Idefics => {
                Some(Size::Exact([SIDE; 2]))
            }
        }
    }

    /// Whether a size given as a single number means the shorter side.
    pub(super) fn number_is_shorter_side(self) -> bool {
        matches!(self, Self::ConvNext | Self::Clip)
    }
}
