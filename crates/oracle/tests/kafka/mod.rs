//! Runs a program against Kafka's own classes.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn jars(release: &str) -> PathBuf {
    let peer = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/kafka-peer");
    let output = Command::new(peer).args(["jars", release]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().into()
}

/// What the program in `java/` answers to the lines of `input`, with the classes of a release. What differs
/// between releases is in files of their own, whose texts follow that of the first.
pub(crate) fn answers(release: &str, program: &[&str], input: String) -> Vec<String> {
    let java = Path::new(env!("CARGO_MANIFEST_DIR")).join("java");
    let texts = program.iter().map(|file| std::fs::read_to_string(java.join(file)).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(program[0]);
    std::fs::write(&file, texts.collect::<String>()).unwrap();
    let mut classes: Vec<PathBuf> =
        std::fs::read_dir(jars(release)).unwrap().map(|entry| entry.unwrap().path()).collect();
    classes.sort();
    let classes: Vec<String> = classes.iter().map(|path| path.display().to_string()).collect();
    let mut java = Command::new("java")
        .args(["-XX:+UseSerialGC", "-cp", &classes.join(":")])
        .arg(file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = java.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || stdin.write_all(input.as_bytes()).unwrap());
    let output = java.wait_with_output().unwrap();
    feeder.join().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}
