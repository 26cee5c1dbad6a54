//! libFuzzer on the target that `BARNABAS_FUZZ_TARGET` names; `cargo xtask fuzz` builds and starts it.
#![no_main]

use fuzz::Target;
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("BARNABAS_FUZZ_TARGET").unwrap_or_default();
    let target = Target::of(&name).unwrap_or_else(|| {
        panic!(
            "BARNABAS_FUZZ_TARGET={name} is no target; crates/fuzz/src/targets/mod.rs names them"
        )
    });
    target.prepare();
    target
});

fuzz_target!(|input: &[u8]| TARGET.check(input));
