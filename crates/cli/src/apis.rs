//! `barnabas apis`: which APIs and versions this broker serves.

use crate::session::{self, Failure};
use broker::dispatch;
use clap::Args;
use std::process::ExitCode;

/// List the APIs and versions that are served.
///
/// From the same table that answers ApiVersions.
#[derive(Args, Debug)]
pub(crate) struct Apis {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Apis {
    pub(crate) fn run(self) -> ExitCode {
        session::run(async { self.print() })
    }

    fn print(&self) -> Result<(), Failure> {
        let rows = dispatch::apis();
        if self.json {
            let rows: Vec<_> = rows
                .iter()
                .map(|row| {
                    serde_json::json!({
                        "key": row.key.code(),
                        "name": row.key.name(),
                        "lowest": row.lowest,
                        "highest": row.highest,
                    })
                })
                .collect();
            return session::say_json(&serde_json::Value::Array(rows));
        }
        let rows = rows.iter().map(|row| {
            vec![
                row.key.code().to_string(),
                row.key.name().to_owned(),
                format!("{} to {}", row.lowest, row.highest),
            ]
        });
        session::say_table(&["KEY", "API", "VERSIONS"], rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table between these two lines of `docs/compatibility.md`.
    const BEGIN: &str = "<!-- apis: begin -->\n";
    const END: &str = "<!-- apis: end -->\n";

    #[test]
    fn the_documented_apis_are_the_served_ones() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/compatibility.md");
        let written = std::fs::read_to_string(path).unwrap();
        let (before, rest) = written.split_once(BEGIN).unwrap();
        let (_, after) = rest.split_once(END).unwrap();
        let mut table = "| key | API | versions |\n|---|---|---|\n".to_owned();
        for row in dispatch::apis() {
            let (key, name) = (row.key.code(), row.key.name());
            table += &format!("| {key} | {name} | {} to {} |\n", row.lowest, row.highest);
        }
        let current = format!("{before}{BEGIN}{table}{END}{after}");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(path, current).unwrap();
            return;
        }
        assert!(written == current, "run `UPDATE=1 cargo test -p cli documented_apis`");
    }
}
