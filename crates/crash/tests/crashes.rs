//! A few thousand crashes; `cargo xtask crash` tries more.

use crash::campaign::{self, Options};

#[test]
fn no_crash_loses_what_is_durable_or_shows_what_was_never_written() {
    let options = Options { seed: 1, images: 5_000, of_each: 250, left_out: None, stops: true };
    let (totals, failures) = campaign::run(options, |_| {});
    assert!(failures.is_empty(), "{}", failures[0]);
    assert_eq!(totals.images, 5_000);
    for step in ["compaction", "truncate", "retention", "delete", "create", "stop", "open"] {
        let images = totals.by_step.get(step).copied().unwrap_or(0);
        assert!(images > 20, "only {images} crashes in step {step}");
    }
}
