//! `cargo xtask generate`: from `crates/protocol/schemas` to `crates/protocol/src/messages`.
//!
//! The output is committed, so that a build needs no generator and a change of a schema shows its
//! effect in review; a test here says when it is stale.

mod arbitrary;
mod index;
mod reflect;
mod rust;
pub(crate) mod schema;

use schema::File;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

/// The workspace's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Rewrites the generated files; with `check` only says which of them are stale.
pub(crate) fn run(check: bool) -> Result<(), String> {
    let directory = root().join("crates/protocol/src/messages");
    let wanted = generate(&read_schemas()?)?;
    let mut stale = Vec::new();
    for (name, text) in &wanted {
        let path = directory.join(name);
        if fs::read_to_string(&path).ok().as_ref() != Some(text) {
            stale.push(name.clone());
            if !check {
                let context = |error: io::Error| format!("{}: {error}", path.display());
                fs::create_dir_all(&directory).map_err(context)?;
                fs::write(&path, text).map_err(context)?;
            }
        }
    }
    for entry in fs::read_dir(&directory).map_err(|error| error.to_string())? {
        let entry = entry.map_err(|error| error.to_string())?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !wanted.contains_key(&name) {
            if !check {
                fs::remove_file(entry.path()).map_err(|error| error.to_string())?;
            }
            stale.push(name);
        }
    }
    match (check, stale.is_empty()) {
        (true, false) => Err(format!("stale, run `cargo xtask generate`: {}", stale.join(", "))),
        (false, _) => {
            println!("{} files, {} changed", wanted.len(), stale.len());
            Ok(())
        }
        (true, true) => Ok(()),
    }
}

/// Every schema file, in the order of their paths.
pub(crate) fn read_schemas() -> Result<Vec<File>, String> {
    let directory = root().join("crates/protocol/schemas");
    let mut paths = Vec::new();
    for kind in ["api", "data", "record"] {
        let entries = fs::read_dir(directory.join(kind)).map_err(|error| error.to_string())?;
        for entry in entries {
            paths.push(entry.map_err(|error| error.to_string())?.path());
        }
    }
    paths.sort();
    let parse = |path: &PathBuf| {
        let text = fs::read_to_string(path).map_err(|error| error.to_string());
        text.and_then(|text| schema::parse(&text))
            .map_err(|error| format!("{}: {error}", path.display()))
    };
    let mut files = paths.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    files.sort_by_key(|file| file.api.as_ref().map_or(i16::MAX, |api| api.0));
    Ok(files)
}

/// The text of every generated file by its name.
fn generate(schemas: &[File]) -> Result<BTreeMap<String, String>, String> {
    let mut files = vec![
        ("mod.rs".to_owned(), index::modules(schemas)),
        ("api_key.rs".to_owned(), index::api_keys(schemas)),
        ("each.rs".to_owned(), index::each(schemas)),
        ("arbitrary.rs".to_owned(), arbitrary::file(schemas)),
        ("reflect.rs".to_owned(), reflect::file(schemas)),
    ];
    for schema in schemas {
        for message in &schema.messages {
            let text = rust::message_file(message, schema.api.as_ref());
            files.push((format!("{}.rs", rust::snake(&message.name)), text));
        }
    }
    format(&files)
}

/// Formats all files with one run of rustfmt, in a directory that is removed again.
fn format(files: &[(String, String)]) -> Result<BTreeMap<String, String>, String> {
    let directory = root().join(format!("target/generate-{}", std::process::id()));
    let formatted = format_in(&directory, files);
    let removed = fs::remove_dir_all(&directory).map_err(|error| error.to_string());
    let formatted = formatted?;
    removed.map(|()| formatted)
}

fn format_in(
    directory: &Path,
    files: &[(String, String)],
) -> Result<BTreeMap<String, String>, String> {
    let context = |error: io::Error| format!("{}: {error}", directory.display());
    fs::create_dir_all(directory).map_err(context)?;
    for (name, text) in files {
        fs::write(directory.join(name), text).map_err(context)?;
    }
    let status = Command::new("rustfmt")
        .args(["--edition", "2024", "--config-path"])
        .arg(root())
        .args(files.iter().map(|(name, _)| directory.join(name)))
        .status()
        .map_err(|error| format!("rustfmt: {error}"))?;
    if !status.success() {
        return Err("rustfmt refused the generated code".to_owned());
    }
    let read = |(name, _): &(String, String)| {
        Ok((name.clone(), fs::read_to_string(directory.join(name)).map_err(context)?))
    };
    files.iter().map(read).collect()
}

#[test]
fn the_generated_code_is_current() {
    run(true).unwrap();
}
