//! Where settings come from: a file as `java.util.Properties` reads it, the command line, or neither.

use super::error::Problem;
use super::layers::Properties;
use std::fs;
use std::path::Path;

/// What a broker without a file runs with: it serves this machine, at once, and keeps one copy of everything.
pub(super) const WITHOUT_A_FILE: &[(&str, &str)] = &[
    ("broker.id", "0"),
    ("listeners", "PLAINTEXT://127.0.0.1:9092"),
    ("log.dirs", "./barnabas-data"),
    ("offsets.topic.replication.factor", "1"),
    ("transaction.state.log.replication.factor", "1"),
    ("transaction.state.log.min.isr", "1"),
    ("group.initial.rebalance.delay.ms", "0"),
];

/// Larger than any configuration file and small enough to read whole.
const LARGEST_FILE_BYTES: u64 = 16 << 20;

/// Reads a properties file.
pub(super) fn read_file(path: &Path) -> Result<Properties, Problem> {
    let problem = |message: String| {
        Problem::new(path.display().to_string(), message, "name a readable properties file")
    };
    let length = fs::metadata(path).map_err(|error| problem(error.to_string()))?.len();
    if length > LARGEST_FILE_BYTES {
        return Err(problem(format!("{length} bytes are too large for a configuration")));
    }
    let bytes = fs::read(path).map_err(|error| problem(error.to_string()))?;
    parse(&bytes).map_err(problem)
}

/// Parses properties; the error says what is malformed.
pub(super) fn parse(bytes: &[u8]) -> Result<Properties, String> {
    java_properties::read(bytes)
        .map(|map| map.into_iter().collect())
        .map_err(|error| error.to_string())
}

/// Parses a `--set` argument, `key=value`.
///
/// # Errors
/// What is wrong, for the command line's own message.
pub fn parse_override(argument: &str) -> Result<(String, String), String> {
    match argument.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err(format!("`{argument}` is not key=value")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_as_java_reads_them() {
        let text = b"# comment\n! comment\na=1\nb : 2\nc 3\n d\\ e = long \\\n   value\nf=\\u00fc\ng\na=4\nh=C:\\\\x\n";
        let pairs = [
            ("a", "4"),
            ("b", "2"),
            ("c", "3"),
            ("d e", "long value"),
            ("f", "\u{fc}"),
            ("g", ""),
            ("h", "C:\\x"),
        ];
        let expected =
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        assert_eq!(parse(text), Ok(expected));
    }

    #[test]
    fn a_malformed_escape_is_an_error_not_a_guess() {
        assert!(parse(b"a=\\u00g0\n").is_err());
    }

    #[test]
    fn overrides_are_split_at_the_first_sign() {
        assert_eq!(parse_override("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert_eq!(parse_override(" a = "), Ok(("a".into(), String::new())));
        assert!(parse_override("a").is_err());
        assert!(parse_override("=a").is_err());
    }
}
