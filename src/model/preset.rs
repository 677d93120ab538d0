//! Named models: fragments of experiment files with published shapes.
