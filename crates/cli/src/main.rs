//! The `barnabas` command.
fn main() {}
