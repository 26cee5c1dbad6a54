//! See `ARCHITECTURE.md`.

pub mod config;
