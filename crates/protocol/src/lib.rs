//! See `ARCHITECTURE.md`.

pub mod records;
