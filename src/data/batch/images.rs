//! Images: one, and several side by side.

/// An image that is ready for a network.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ImageItem {
    /// `[channels, height, width]`, normalised.
    pub pixels: Vec<f32>,
    /// Channels, height, width.
    pub shape: [usize; 3],
    /// Its class.
    pub label: i32,
    /// Where two images were mixed: the other one's class, and the share of the first (mixup, cutmix).
    pub mixed: Option<(i32, f32)>,
    /// Parts of it that are looked at apart, for tasks that compare them.
    pub views: Option<Views>,
}

/// Images, one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ImageBatch {
    /// `[rows, channels, height, width]`.
    pub pixels: Vec<f32>,
    /// Channels, height, width.
    pub shape: [usize; 3],
    /// Class of each image.
    pub labels: Vec<i32>,
    /// Where images were mixed: for each row the other class and the first one's share.
    pub mixed: Option<Vec<(i32, f32)>>,
    /// Parts of the images that are looked at apart, row by row.
    pub views: Option<Views>,
}

impl ImageBatch {
    /// Some images side by side, without classes.
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

/// Windows of an image, or of the images of a batch row by row, each resized and changed by itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Views {
    /// Two for each row, of the image's own size: `[rows, 2, channels, height, width]`, normalised.
    pub global: Vec<f32>,
    /// Any number for each row: `[rows, local, channels, side, side]`, normalised.
    pub local: Vec<f32>,
    /// Height and width of the local ones.
    pub side: usize,
}

impl Views {
    /// Global views of an image.
    pub const GLOBAL: usize = 2;

    /// Adds those of another row.
    pub fn append(&mut self, row: &Self) {
        self.global.extend_from_slice(&row.global);
        self.local.extend_from_slice(&row.local);
        self.side = row.side;
    }
}
