//! What only tests use.

mod layering;
