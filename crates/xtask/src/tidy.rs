//! House rules that a compiler does not check: which crate may use which, file headers, links in documents.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// `(crate, what it may use)`, the table of `ARCHITECTURE.md`. Editing it is an architecture decision.
const LAYERS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("platform", &["model"]),
    ("protocol", &["model"]),
    ("storage", &["model", "protocol", "platform"]),
    ("replication", &["model"]),
    ("metadata", &["model", "protocol"]),
    ("security", &[]),
    ("zookeeper", &["model", "platform", "security"]),
    ("coordination", &["model", "platform", "zookeeper"]),
    ("controller", &["model", "platform", "protocol", "metadata", "coordination"]),
    ("coordinator", &["model"]),
    ("group", &["model", "protocol", "coordinator"]),
    ("client", &["model", "protocol", "platform"]),
    (
        "broker",
        &[
            "model",
            "platform",
            "protocol",
            "storage",
            "replication",
            "metadata",
            "zookeeper",
            "coordination",
            "controller",
            "coordinator",
            "group",
            "client",
            "security",
        ],
    ),
    ("sim", &["model", "platform", "protocol", "coordination", "client", "broker"]),
    ("cli", &["broker", "client", "model", "platform", "protocol", "storage"]),
    ("oracle", &["model", "protocol", "client", "platform", "storage"]),
    ("bench", &["model", "protocol", "client", "platform"]),
    (
        "fuzz",
        &[
            "model",
            "platform",
            "protocol",
            "storage",
            "zookeeper",
            "coordination",
            "controller",
            "group",
            "broker",
        ],
    ),
    ("crash", &["model", "protocol", "platform", "storage"]),
    ("specs", &["model", "replication"]),
    ("xtask", &[]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every file under `directory` that `wanted` accepts, build output left out, sorted.
fn files(directory: &Path, wanted: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut entries: Vec<_> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if !["target", ".git", "node_modules"].contains(&name.as_str()) {
                found.extend(files(&path, wanted));
            }
        } else if wanted(&path) {
            found.push(path);
        }
    }
    found
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

/// The names under `[dependencies]` and `[build-dependencies]` of a manifest; tests may use anything.
fn dependencies(manifest: &str) -> Vec<&str> {
    let mut section = "";
    let mut names = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line;
        } else if section == "[dependencies]" || section == "[build-dependencies]" {
            names.extend(line.split(['.', ' ', '=']).next().filter(|name| !name.is_empty()));
        }
    }
    names
}

#[test]
fn a_crate_uses_only_what_the_layer_table_allows() {
    let allowed: BTreeMap<_, _> = LAYERS.iter().copied().collect();
    for directory in fs::read_dir(root().join("crates")).unwrap() {
        let directory = directory.unwrap().path();
        let name = directory.file_name().unwrap().to_string_lossy().into_owned();
        let manifest = fs::read_to_string(directory.join("Cargo.toml")).unwrap();
        let may_use = allowed
            .get(name.as_str())
            .unwrap_or_else(|| panic!("crate {name} is not in the layer table of ARCHITECTURE.md"));
        for used in dependencies(&manifest) {
            assert!(
                !allowed.contains_key(used) || may_use.contains(&used),
                "{name} must not use {used}: see the layer table in ARCHITECTURE.md"
            );
        }
    }
}

#[test]
fn only_the_simulator_asks_for_bugs_that_are_put_back() {
    for directory in fs::read_dir(root().join("crates")).unwrap() {
        let directory = directory.unwrap().path();
        let name = directory.file_name().unwrap().to_string_lossy().into_owned();
        let manifest = fs::read_to_string(directory.join("Cargo.toml")).unwrap();
        let named: Vec<&str> = manifest
            .lines()
            .filter(|l| !l.starts_with('#') && l.contains("planted-bugs"))
            .collect();
        let allowed = match name.as_str() {
            "model" => "planted-bugs = []",
            "sim" => "planted-bugs = [\"model/planted-bugs\"]",
            _ => "",
        };
        assert!(
            named.iter().all(|line| *line == allowed),
            "{name} must not ask for planted-bugs (decision 22): {named:?}"
        );
    }
}

#[test]
fn the_layer_table_of_the_architecture_page_is_this_one() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    for (name, may_use) in LAYERS {
        let row = page
            .lines()
            .find(|line| line.starts_with(&format!("| `{name}` |")))
            .unwrap_or_else(|| panic!("ARCHITECTURE.md has no row for {name}"));
        let last = row.trim_end_matches([' ', '|']).rsplit('|').next().unwrap().trim();
        let listed = if may_use.is_empty() { "-".to_owned() } else { may_use.join(", ") };
        let listed = if *name == "broker" { "all above".to_owned() } else { listed };
        assert_eq!(last, listed, "row of {name} in ARCHITECTURE.md");
    }
}

#[test]
fn every_source_file_says_what_it_is_for() {
    // Tests inside a crate are said by the file that they are a child of.
    let child_of_tests = |path: &Path| {
        let inside = path.strip_prefix(root()).unwrap().components().skip(3);
        inside
            .into_iter()
            .any(|part| ["tests", "tests.rs"].map(|n| n.as_ref()).contains(&part.as_os_str()))
    };
    for path in files(&root().join("crates"), &|path| has_extension(path, "rs")) {
        if child_of_tests(&path) {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let first = text.lines().find(|line| !line.is_empty()).unwrap_or_default();
        assert!(
            first.starts_with("//!") || first.starts_with("// @generated"),
            "{} must begin with a //! line that says what it is for",
            path.display()
        );
    }
}

#[test]
fn links_in_documents_lead_somewhere() {
    for path in files(&root(), &|path| has_extension(path, "md")) {
        let text = fs::read_to_string(&path).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap();
            if file.is_empty() || link.contains("://") || link.contains(' ') {
                continue;
            }
            assert!(
                path.parent().unwrap().join(file).exists(),
                "{} links to {file}, which does not exist",
                path.display()
            );
        }
    }
}

#[test]
fn shell_scripts_stop_at_the_first_error() {
    let is_script = |path: &Path| {
        fs::read(path).is_ok_and(|text| {
            text.starts_with(b"#!/bin/bash") || text.starts_with(b"#!/usr/bin/env bash")
        })
    };
    for path in files(&root(), &is_script) {
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("set -euo pipefail"), "{} lacks set -euo pipefail", path.display());
    }
}
