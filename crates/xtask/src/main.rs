//! Development commands: `cargo xtask --help`.

#[cfg(test)]
mod tidy;

fn main() {}
