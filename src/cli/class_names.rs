//! The flags that name classes of images for a run that compares images with texts.

use clap::Args;

/// `--class` and `--prompt`.
#[derive(Clone, Debug, Default, Args)]
pub struct ClassNames {
    /// A class of images by its name, of a run of image_text, which never saw its images; may be given several times. Of
    /// labelled images in the order of their labels, whose own names are taken when it is absent.
    #[arg(long = "class", value_name = "NAME")]
    pub classes: Vec<String>,
    /// A text about a class, in which {} stands for its name; of several the mean of their directions is taken. "a photo of a {}"
    /// when absent.
    #[arg(long = "prompt", value_name = "TEXT")]
    pub prompts: Vec<String>,
}

impl ClassNames {
    /// Whether a flag is given.
    pub fn are_given(&self) -> bool {
        !self.classes.is_empty() || !self.prompts.is_empty()
    }
}
