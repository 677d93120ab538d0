//! The flags that name image classes for a run that compares images with texts.

use clap::Args;

/// `--class` and `--prompt`.
#[derive(Clone, Debug, Default, Args)]
pub struct ClassNames {
    /// Name of an image class, for a run of image_text, which was not trained on the class; may be given several times. For
    /// labelled images, in the order of their labels; their own names when absent.
    #[arg(long = "class", value_name = "NAME")]
    pub classes: Vec<String>,
    /// A text about a class, in which {} stands for its name; of several texts the mean direction is taken. "a photo of a {}"
    /// when absent.
    #[arg(long = "prompt", value_name = "TEXT")]
    pub prompts: Vec<String>,
}

impl ClassNames {
    /// Whether a flag is given.
    pub fn is_given(&self) -> bool {
        !self.classes.is_empty() || !self.prompts.is_empty()
    }
}
