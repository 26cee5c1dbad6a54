//! `--frames`: frames between hex and JSON, line by line, for tests that are not written in Rust.
//!
//! | line in | line out |
//! |---|---|
//! | `request HEX` | `{api, version, client_id, correlation_id, body}` |
//! | `response HEX` | the same without `client_id`: of the request before it |
//! | `response API VERSION HEX` | the same |
//! | `write {api, version, client_id, correlation_id, body}` | the request as `HEX` |
//!
//! A frame is header and body without the length before them, as in `protocol/tests/golden`. Empty lines and those that
//! begin with `#` are skipped. What cannot be read is answered `{"error": TEXT}`, and the next line is read.

use crate::cases::{Call, Frame};
use crate::{side, tree};
use bytes::Bytes;
use protocol::reflect::Api;
use protocol::{ApiKey, Reader, RequestHeader};
use serde_json::{Value, json};
use std::io::{BufRead, Write};

/// What stands before a frame on the wire.
const LENGTH_BYTES: usize = 4;

/// Answers every line of `input`, each at once.
///
/// # Errors
/// If `input` cannot be read or `output` not be written.
pub(crate) fn answer(input: impl BufRead, mut output: impl Write) -> std::io::Result<()> {
    let mut last = None;
    for line in input.lines() {
        let line = line?;
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match one(line, &mut last) {
            Ok(answer) => writeln!(output, "{answer}")?,
            Err(error) => writeln!(output, "{}", json!({ "error": error }))?,
        }
        output.flush()?;
    }
    Ok(())
}

/// The answer to one line; `last` is the request that was read last.
fn one(line: &str, last: &mut Option<(ApiKey, i16)>) -> Result<String, String> {
    let (word, rest) = line.split_once(' ').ok_or_else(|| format!("{line}: one word only"))?;
    match word {
        "request" => {
            let frame = bytes(rest)?;
            let mut reader = Reader::new(frame.clone());
            let header = RequestHeader::decode(&mut reader).map_err(|error| error.to_string())?;
            let (api, version) = (header.api_key, header.api_version);
            *last = Some((api, version));
            let body = frame.slice(reader.position()..);
            let body = tree::decode(&Api::of(api).request, body, version)?;
            let client = header.client_id.as_deref();
            let correlation = header.correlation_id;
            Ok(shown(api, version, correlation, json!(client), body))
        }
        "response" => {
            let words: Vec<_> = rest.split_whitespace().collect();
            let (api, version, hex) = match words[..] {
                [hex] => {
                    let (api, version) = last.ok_or("no request stands before this response")?;
                    (api, version, hex)
                }
                [api, version, hex] => {
                    let version = version.parse().map_err(|e| format!("{version}: {e}"))?;
                    (named(api)?, version, hex)
                }
                _ => return Err(format!("{} words after `response`", words.len())),
            };
            let frame = bytes(hex)?;
            let mut reader = Reader::new(frame.clone());
            let correlation = protocol::decode_response_header(&mut reader, api, version)
                .map_err(|error| error.to_string())?;
            let body = frame.slice(reader.position()..);
            let body = tree::decode(&Api::of(api).response, body, version)?;
            Ok(shown(api, version, correlation, Value::Null, body))
        }
        "write" => {
            let tree: Value = serde_json::from_str(rest).map_err(|error| error.to_string())?;
            let number = |name: &str| tree[name].as_i64().ok_or(format!("{name} is missing"));
            let api = named(tree["api"].as_str().ok_or("api is missing")?)?;
            let version = i16::try_from(number("version")?).map_err(|error| error.to_string())?;
            let correlation = i32::try_from(number("correlation_id")?);
            let correlation = correlation.map_err(|error| error.to_string())?;
            let frame = Frame { client_id: Some(tree["client_id"].clone()), ..Frame::default() };
            let call = Call { api, version: Some(version), body: tree["body"].clone(), frame };
            let bytes = side::frame(&call, &call.body, correlation)?;
            Ok(tree::hex(&bytes[LENGTH_BYTES..]))
        }
        _ => Err(format!("{word} is not request, response or write")),
    }
}

fn shown(api: ApiKey, version: i16, correlation: i32, client: Value, body: Value) -> String {
    let mut tree = json!({
        "api": api.name(),
        "version": version,
        "correlation_id": correlation,
        "body": body,
    });
    if !client.is_null() {
        tree["client_id"] = client;
    }
    tree.to_string()
}

fn named(name: &str) -> Result<ApiKey, String> {
    let found = ApiKey::ALL.into_iter().find(|key| key.name() == name);
    found.ok_or_else(|| format!("there is no API {name}"))
}

fn bytes(hex: &str) -> Result<Bytes, String> {
    tree::unshown(&format!("0x{hex}")).map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::answer;
    use serde_json::{Value, json};

    fn answers(lines: &str) -> Vec<String> {
        let mut out = Vec::new();
        answer(lines.as_bytes(), &mut out).unwrap();
        String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
    }

    const GOLDEN: &str =
        include_str!("../../protocol/tests/golden/alter-partition-v3-not-controller.hex");

    #[test]
    fn a_golden_is_read_and_its_request_is_written_back() {
        let read = answers(GOLDEN);
        let [request, response] = &read[..] else { panic!("{read:?}") };
        let tree: Value = serde_json::from_str(request).unwrap();
        assert_eq!(tree["body"]["broker_id"], json!(2));
        let response: Value = serde_json::from_str(response).unwrap();
        assert_eq!(response["body"]["error_code"], json!(41));
        let written = answers(&format!("write {tree}"));
        let hex = GOLDEN.lines().find_map(|line| line.strip_prefix("request ")).unwrap();
        assert_eq!(written, [hex]);
    }

    #[test]
    fn what_cannot_be_read_is_answered_and_the_next_line_read() {
        let read = answers(&format!("request 00\nresponse 00\nnonsense\nwrite {{}}\n{GOLDEN}"));
        assert_eq!(read.len(), 6);
        for line in &read[..4] {
            let tree: Value = serde_json::from_str(line).unwrap();
            assert!(tree["error"].is_string(), "{line}");
        }
        assert!(read[4].contains("AlterPartition"));
    }
}
