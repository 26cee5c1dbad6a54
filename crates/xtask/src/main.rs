//! Development commands: `cargo xtask --help`.
fn main() {}
