//! The classes of image processors whose pixels are known, with what they take where a file does not say it.

use crate::data::images::Filter;

/// Mean and deviation of the images that CLIP was trained on.
const CLIP_MEAN: [f64; 3] = [0.48145466, 0.4578275, 0.40821073];
const CLIP_STD: [f64; 3] = [0.26862954, 0.26130258, 0.27577711];
/// Those of ImageNet's images.
const IMAGENET_MEAN: [f64; 3] = [0.485, 0.456, 0.406];
const IMAGENET_STD: [f64; 3] = [0.229, 0.224, 0.225];
/// The side of inputs of most classes.
const SIDE: usize = 224;
/// The side that DeiT's processor resizes to, before it cuts.
const DEIT_SIDE: usize = 256;
/// ConvNext's processor resizes to this or more without cutting.
pub(super) const CONVNEXT_WHOLE: usize = 384;

/// A size as these files have it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Size {
    Exact([usize; 2]),
    Shorter(usize),
}

/// A class, or several with the same defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Vit,
    Deit,
    Beit,
    /// CLIP's and Bit's.
    Clip,
    ConvNext,
    /// SigLIP's; SigLIP 2's keeps the shapes of images.
    Siglip,
    Dinov3,
    /// Of the first version; later ones cut images into tiles.
    Idefics,
}

/// The beginnings of names.
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
/// Their ends: those of today, and those of earlier versions of transformers.
const ENDS: [&str; 2] = ["ImageProcessor", "FeatureExtractor"];
/// What may stand behind: it says by which library images are resized.
const LIBRARIES: [&str; 2] = ["Fast", "Pil"];

impl Class {
    /// The class of this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        let mut libraries = LIBRARIES.iter();
        let name = libraries
            .find_map(|end| name.strip_suffix(end))
            .unwrap_or(name);
        let begins = ENDS.iter().find_map(|end| name.strip_suffix(end))?;
        let found = NAMES.iter().find(|(known, _)| *known == begins);
        found.map(|(_, class)| *class)
    }

    /// The names that transformers writes today.
    pub(super) fn names() -> Vec<String> {
        let names = NAMES.iter();
        names
            .map(|(name, _)| format!("{name}{}", ENDS[0]))
            .collect()
    }

    /// The class by which transformers reads a file that names none, beside a config.json with this `model_type`.
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

    /// Mean and deviation.
    pub(super) fn moments(self) -> [[f64; 3]; 2] {
        match self {
            Self::Clip | Self::Idefics => [CLIP_MEAN, CLIP_STD],
            Self::Dinov3 => [IMAGENET_MEAN, IMAGENET_STD],
            Self::Vit | Self::Deit | Self::Beit | Self::ConvNext | Self::Siglip => [[0.5; 3]; 2],
        }
    }

    /// The filter by which images are resized.
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

    /// Whether the middle is cut out.
    pub(super) fn crops(self) -> bool {
        matches!(self, Self::Deit | Self::Clip)
    }

    /// The size of the middle that is cut out, of a class that has one.
    pub(super) fn crop(self) -> Option<Size> {
        let has = matches!(self, Self::Deit | Self::Clip | Self::Beit);
        has.then_some(Size::Exact([SIDE; 2]))
    }

    /// The size that images are resized to; `None` for that of the model.
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

    /// Whether a size that is a number by itself is that of the shorter side.
    pub(super) fn counts_shorter(self) -> bool {
        matches!(self, Self::ConvNext | Self::Clip)
    }
}
