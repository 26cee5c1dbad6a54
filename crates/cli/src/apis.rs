//! `barnabas apis`: which APIs and versions this broker serves.

use broker::dispatch;
use clap::Args;
use comfy_table::{Table, presets};
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
            println!("{}", serde_json::Value::Array(rows));
        } else {
            let mut table = Table::new();
            table.load_preset(presets::NOTHING).set_header(["KEY", "API", "VERSIONS"]);
            for row in rows {
                table.add_row([
                    row.key.code().to_string(),
                    row.key.name().to_owned(),
                    format!("{} to {}", row.lowest, row.highest),
                ]);
            }
            println!("{table}");
        }
        ExitCode::SUCCESS
    }
}
