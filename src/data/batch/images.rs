//! Images: single ones and batches.

/// An image that is ready for a network.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ImageItem {
    /// `[channels, height, width]`, normalised.
    pub pixels: Vec<f32>,
    /// Channels, height, width.
    pub shape: [usize; 3],
    /// Class of the image.
    pub label: i32,
    /// For an image mixed from two (mixup, cutmix): the class of the second, and the share of the first.
    pub mixed: Option<(i32, f32)>,
    /// Crops of the image that are read separately, for tasks that compare them.
    pub views: Option<Views>,
}

/// A batch of images.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ImageBatch {
    /// `[rows, channels, height, width]`.
    pub pixels: Vec<f32>,
    /// Channels, height, width.
    pub shape: [usize; 3],
    /// Class of each image.
    pub labels: Vec<i32>,
    /// For mixed images: the class of the second image and the share of the first, for each row.
    pub mixed: Option<Vec<(i32, f32)>>,
    /// Crops of the images that are read separately, one row after the other.
    pub views: Option<Views>,
}

impl ImageBatch {
    /// Builds a batch of images without classes.
    pub fn of(images: &[ImageItem]) -> Self {
        Self {
            pixels: images
                .iter()
                .flat_map(|i| i.pixels.iter().copied())
                .collect(),
            shape: images.first().map_or([0; 3], |image| image.shape),
            labels: vec![0; images.len()],
            mixed: None,
            views: None,
        }
    }
}

/// Crops of one image, or of the images of a batch one row after the other, each resized and augmented
/// separately.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Views {
    /// Global views, two per row, of the image's own size: `[rows, 2, channels, height, width]`, normalised.
    pub global: Vec<f32>,
    /// Local views, the same number for every row: `[rows, local, channels, side, side]`, normalised.
    pub local: Vec<f32>,
    /// Height and width of the local views.
    pub side: usize,
}

impl Views {
    /// Number of global views per image.
    pub const GLOBAL: usize = 2;

    /// Appends the views of another row.
    pub fn append(&mut self, row: &Self) {
        self.global.extend_from_slice(&row.global);
        self.local.extend_from_slice(&row.local);
        self.side = row.side;
    }
}
