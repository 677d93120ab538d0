//! How a product is written into its output.

/// How a product is written to its output.
#[derive(Clone, Copy)]
pub struct WriteMode {
    /// Factor of the product.
    pub factor: f32,
    /// Whether to add to the output instead of replacing it.
    pub add: bool,
    /// Whether all threads may be used.
    pub threads: bool,
}

impl WriteMode {
    /// Replaces the output, on all threads if the product is large.
    pub const REPLACE: Self = Self {
        factor: 1.0,
        add: false,
        threads: true,
    };
    /// Adds to the output, on all threads if the product is large.
    pub const ADD: Self = Self {
        factor: 1.0,
        add: true,
        threads: true,
    };
    /// Replaces the output, on the calling thread.
    pub const TILE: Self = Self {
        factor: 1.0,
        add: false,
        threads: false,
    };
    /// Adds to the output, on the calling thread.
    pub const ADD_TILE: Self = Self {
        factor: 1.0,
        add: true,
        threads: false,
    };

    /// Returns the same with another factor.
    pub fn times(self, factor: f32) -> Self {
        Self { factor, ..self }
    }
}
