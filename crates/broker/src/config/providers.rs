//! `config.providers`: values kept outside of the file, written `${provider:path:key}` (KIP-297, KIP-421).
//!
//! Kafka leaves a reference that it cannot resolve in place, so that a password may turn into the text `${...}`. Here
//! that is a problem; only a reference to a provider that nobody declared stays as it is.

use super::error::Problem;
use super::layers::Properties;
use super::properties;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Where values come from.
#[derive(Debug)]
enum Provider {
    /// `FileConfigProvider`: a key of a properties file.
    File { allowed: Option<Vec<PathBuf>> },
    /// `DirectoryConfigProvider`: one file per key.
    Directory { allowed: Option<Vec<PathBuf>> },
    /// `EnvVarConfigProvider`: a variable of the environment.
    Environment { allowed: String },
}

/// The environment; injected so that tests need not change the process's own.
pub(super) type Environment<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Replaces every reference in `set`.
pub(super) fn resolve(
    set: &mut Properties,
    environment: Environment<'_>,
    problems: &mut Vec<Problem>,
) {
    let Some(names) = set.get("config.providers").cloned() else { return };
    let mut providers = BTreeMap::new();
    for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        match declared(name, set) {
            Ok(provider) => {
                providers.insert(name.to_owned(), provider);
            }
            Err(problem) => problems.push(problem),
        }
    }
    for (key, value) in set.iter_mut() {
        if key.starts_with("config.providers") || !value.contains("${") {
            continue;
        }
        match substitute(value, &providers, environment) {
            Ok(resolved) => *value = resolved,
            Err(message) => problems.push(Problem::new(
                key.clone(),
                message,
                "check the reference and what its provider may read",
            )),
        }
    }
}

fn declared(name: &str, set: &Properties) -> Result<Provider, Problem> {
    const PACKAGE: &str = "org.apache.kafka.common.config.provider.";
    let class_key = format!("config.providers.{name}.class");
    let class = set.get(&class_key).map(|class| class.trim());
    let parameter =
        |parameter: &str| set.get(&format!("config.providers.{name}.param.{parameter}"));
    let allowed = || match parameter("allowed.paths").map(|paths| paths.trim()) {
        None | Some("") => Ok(None),
        Some(paths) => {
            let paths: Vec<_> = paths.split(',').map(|path| PathBuf::from(path.trim())).collect();
            match paths.iter().find(|path| !path.is_absolute() || !path.exists()) {
                None => Ok(Some(paths)),
                Some(path) => Err(Problem::new(
                    format!("config.providers.{name}.param.allowed.paths"),
                    format!("Path {} is not absolute or does not exist", path.display()),
                    "list absolute paths of existing directories or files",
                )),
            }
        }
    };
    match class.and_then(|class| class.strip_prefix(PACKAGE)) {
        Some("FileConfigProvider") => Ok(Provider::File { allowed: allowed()? }),
        Some("DirectoryConfigProvider") => Ok(Provider::Directory { allowed: allowed()? }),
        Some("EnvVarConfigProvider") => Ok(Provider::Environment {
            allowed: parameter("allowlist.pattern")
                .map_or_else(|| ".*".into(), |pattern| pattern.trim().to_owned()),
        }),
        _ => Err(Problem::new(
            class_key,
            match class {
                Some(class) => format!("{class} is a Java class, which this broker cannot load"),
                None => format!("provider {name} has no class"),
            },
            format!(
                "use {PACKAGE}FileConfigProvider, DirectoryConfigProvider or EnvVarConfigProvider"
            ),
        )),
    }
}

/// Kafka's pattern: `\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}`.
fn substitute(
    value: &str,
    providers: &BTreeMap<String, Provider>,
    environment: Environment<'_>,
) -> Result<String, String> {
    let mut resolved = String::new();
    let mut rest = value;
    while let Some(start) = rest.find("${") {
        let Some(length) = rest[start..].find('}') else { break };
        let reference = &rest[start + 2..start + length];
        resolved.push_str(&rest[..start]);
        let found = reference
            .split_once(':')
            .and_then(|(name, path_and_key)| Some((providers.get(name)?, path_and_key)));
        match found {
            None => resolved.push_str(&rest[start..=start + length]),
            Some((provider, path_and_key)) => {
                let (path, key) = path_and_key.split_once(':').unwrap_or(("", path_and_key));
                resolved.push_str(&provider.read(path, key, environment)?);
            }
        }
        rest = &rest[start + length + 1..];
    }
    resolved.push_str(rest);
    Ok(resolved)
}

impl Provider {
    fn read(&self, path: &str, key: &str, environment: Environment<'_>) -> Result<String, String> {
        match self {
            Self::File { allowed } => {
                let path = permitted(Path::new(path), allowed.as_deref())?;
                let bytes =
                    fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
                let mut properties = properties::parse(&bytes)
                    .map_err(|error| format!("{}: {error}", path.display()))?;
                properties.remove(key).ok_or_else(|| format!("{} has no key {key}", path.display()))
            }
            Self::Directory { allowed } => {
                if Path::new(key).components().count() != 1 || key.contains(['/', '\\']) {
                    return Err(format!("{key} is not a file name"));
                }
                let path = permitted(&Path::new(path).join(key), allowed.as_deref())?;
                fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
            }
            Self::Environment { allowed } => {
                if !matches_pattern(allowed, key) {
                    return Err(format!("allowlist.pattern does not let {key} be read"));
                }
                let value =
                    environment(key).ok_or_else(|| format!("the environment has no {key}"))?;
                value.into_string().map_err(|_| format!("{key} of the environment is not UTF-8"))
            }
        }
    }
}

/// `path` without `.` and `..`, if it lies below an allowed one.
fn permitted(path: &Path, allowed: Option<&[PathBuf]>) -> Result<PathBuf, String> {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                normal.push(component)
            }
        }
    }
    match allowed {
        Some(allowed) if !allowed.iter().any(|root| normal.starts_with(root)) => {
            Err(format!("allowed.paths does not let {} be read", path.display()))
        }
        _ => Ok(normal),
    }
}

/// The patterns that people write for names of variables: alternatives of literals, `.`, `[...]` classes, and `*`, `+`
/// or `?` behind one of them. A pattern beyond that matches nothing, so that it allows too little, never too much.
fn matches_pattern(pattern: &str, text: &str) -> bool {
    pattern
        .trim_start_matches('^')
        .trim_end_matches('$')
        .split('|')
        .any(|one| parse_pattern(one).is_some_and(|atoms| matches_atoms(&atoms, text.as_bytes())))
}

struct Atom {
    accepts: Vec<(u8, u8)>,
    least: usize,
    many: bool,
}

fn parse_pattern(pattern: &str) -> Option<Vec<Atom>> {
    let mut atoms: Vec<Atom> = Vec::new();
    let mut rest = pattern.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        match first {
            b'*' | b'+' | b'?' => {
                let last = atoms.last_mut().filter(|last| last.least == 1 && !last.many)?;
                last.least = usize::from(first == b'+');
                last.many = first != b'?';
                continue;
            }
            b'(' | b')' | b'{' | b'}' | b'^' | b'$' | b']' => return None,
            b'[' => {
                let end = rest.iter().position(|&byte| byte == b']')?;
                atoms.push(Atom { accepts: class(&rest[..end])?, least: 1, many: false });
                rest = &rest[end + 1..];
                continue;
            }
            b'.' => atoms.push(Atom { accepts: vec![(0, u8::MAX)], least: 1, many: false }),
            b'\\' => {
                let (&escaped, tail) = rest.split_first()?;
                rest = tail;
                let accepts = match escaped {
                    b'd' => vec![(b'0', b'9')],
                    b'w' => vec![(b'0', b'9'), (b'a', b'z'), (b'A', b'Z'), (b'_', b'_')],
                    byte if !byte.is_ascii_alphanumeric() => vec![(byte, byte)],
                    _ => return None,
                };
                atoms.push(Atom { accepts, least: 1, many: false });
            }
            byte => atoms.push(Atom { accepts: vec![(byte, byte)], least: 1, many: false }),
        }
    }
    Some(atoms)
}

fn class(mut rest: &[u8]) -> Option<Vec<(u8, u8)>> {
    let mut accepts = Vec::new();
    while let Some((&first, tail)) = rest.split_first() {
        if matches!(first, b'^' | b'[' | b'\\' | b'&') {
            return None;
        }
        match tail {
            [b'-', last, tail @ ..] => {
                accepts.push((first, *last));
                rest = tail;
            }
            _ => {
                accepts.push((first, first));
                rest = tail;
            }
        }
    }
    Some(accepts)
}

/// Which atoms may come next is a set of positions, so that no pattern takes more than atoms x text steps.
fn matches_atoms(atoms: &[Atom], text: &[u8]) -> bool {
    let mut positions = vec![false; atoms.len() + 1];
    positions[0] = true;
    let skip = |positions: &mut Vec<bool>| {
        for (index, atom) in atoms.iter().enumerate() {
            if positions[index] && atom.least == 0 {
                positions[index + 1] = true;
            }
        }
    };
    skip(&mut positions);
    for &byte in text {
        let mut next = vec![false; atoms.len() + 1];
        for (index, atom) in atoms.iter().enumerate() {
            if positions[index]
                && atom.accepts.iter().any(|(low, high)| (low..=high).contains(&&byte))
            {
                next[index + 1] = true;
                next[index] |= atom.many;
            }
        }
        skip(&mut next);
        positions = next;
    }
    positions[atoms.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(pairs: &[(&str, &str)]) -> (Properties, Vec<Problem>) {
        let mut set =
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let mut problems = Vec::new();
        let environment = |name: &str| (name == "BROKER_ID").then(|| OsString::from("7"));
        resolve(&mut set, &environment, &mut problems);
        (set, problems)
    }

    const FILE: (&str, &str) = (
        "config.providers.file.class",
        "org.apache.kafka.common.config.provider.FileConfigProvider",
    );
    const ENVIRONMENT: (&str, &str) = (
        "config.providers.env.class",
        "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
    );

    #[test]
    fn references_become_what_the_provider_holds() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("secrets.properties");
        fs::write(&file, "id=5\n").unwrap();
        let reference = format!("a${{file:{}:id}}b${{env:BROKER_ID}}", file.display());
        let (set, problems) = resolved(&[
            ("config.providers", "file, env"),
            FILE,
            ENVIRONMENT,
            ("broker.rack", &reference),
        ]);
        assert_eq!(problems, []);
        assert_eq!(set["broker.rack"], "a5b7");
    }

    #[test]
    fn one_file_per_key_is_read_whole() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("rack"), "r1").unwrap();
        let class = (
            "config.providers.dir.class",
            "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
        );
        let reference = format!("${{dir:{}:rack}}", directory.path().display());
        let (set, problems) =
            resolved(&[("config.providers", "dir"), class, ("broker.rack", &reference)]);
        assert_eq!(problems, []);
        assert_eq!(set["broker.rack"], "r1");
        let escape = format!("${{dir:{}:../rack}}", directory.path().display());
        assert_eq!(
            resolved(&[("config.providers", "dir"), class, ("broker.rack", &escape)]).1.len(),
            1
        );
    }

    #[test]
    fn a_path_outside_of_the_allowed_ones_is_a_problem() {
        let directory = tempfile::tempdir().unwrap();
        let allowed = directory.path().join("allowed");
        fs::create_dir(&allowed).unwrap();
        fs::write(directory.path().join("secret"), "a=1").unwrap();
        let reference = format!("${{file:{}/../secret:a}}", allowed.display());
        let parameter = ("config.providers.file.param.allowed.paths", allowed.to_str().unwrap());
        let (_, problems) =
            resolved(&[("config.providers", "file"), FILE, parameter, ("broker.rack", &reference)]);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].message.contains("allowed.paths"), "{problems:?}");
    }

    #[test]
    fn what_cannot_be_resolved_is_a_problem_but_an_undeclared_provider_is_plain_text() {
        let (set, problems) = resolved(&[
            ("config.providers", "env"),
            ENVIRONMENT,
            ("broker.rack", "${env:NOT_SET}"),
            ("a", "${other:x}"),
        ]);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!(problems[0].key, "broker.rack");
        assert_eq!(set["a"], "${other:x}");
    }

    #[test]
    fn a_provider_of_another_class_is_a_problem() {
        let (_, problems) = resolved(&[
            ("config.providers", "v"),
            ("config.providers.v.class", "com.example.Vault"),
        ]);
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].key, "config.providers.v.class");
    }

    #[test]
    fn patterns_match_whole_names_and_strange_ones_match_nothing() {
        for (pattern, text, expected) in [
            (".*", "ANY", true),
            ("^KAFKA_.*$", "KAFKA_ID", true),
            ("KAFKA_.*", "MY_KAFKA_ID", false),
            ("A|B", "B", true),
            ("[A-Z_]+", "BROKER_ID", true),
            ("[A-Z_]+", "broker", false),
            ("A\\.B", "AxB", false),
            ("AB?C", "AC", true),
            ("(A)", "A", false),
            ("a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaa", false),
        ] {
            assert_eq!(matches_pattern(pattern, text), expected, "{pattern} on {text}");
        }
    }
}
