//! Segments of a real broker, read record by record.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use protocol::records::{Batches, ControlRecord, Record};
use std::fmt::Write;

macro_rules! golden {
    ($name:literal, $magics:expr) => {
        (
            $name,
            &$magics[..],
            &include_bytes!(concat!("golden/records/", $name, ".log"))[..],
            include_str!(concat!("golden/records/", $name, ".txt")),
        )
    };
}

fn text(field: Option<&[u8]>) -> String {
    match field {
        None => "null".into(),
        Some(field) if field.len() > 120 => format!("<{} bytes>", field.len()),
        Some(field) => format!("\"{}\"", std::str::from_utf8(field).unwrap()),
    }
}

fn line(out: &mut String, record: &Record<'_>, control: bool) {
    let timestamp = record.timestamp.map_or("none".into(), |at| at.to_string());
    write!(out, "{} {timestamp} ", record.offset).unwrap();
    if control {
        let ControlRecord::EndTransaction(end) = ControlRecord::parse(record).unwrap() else {
            panic!("only markers in these files")
        };
        let name = if end.committed { "COMMIT" } else { "ABORT" };
        writeln!(out, "{name} coordinator epoch {}", end.coordinator_epoch).unwrap();
        return;
    }
    write!(out, "{} {}", text(record.key), text(record.value)).unwrap();
    for header in record.headers.clone() {
        write!(out, " {}={}", text(Some(header.key)), text(header.value)).unwrap();
    }
    out.push('\n');
}

#[test]
fn segments_written_by_kafka_are_read_to_the_last_record() {
    for (name, magics, log, expected) in [
        golden!("codecs", [2]),
        golden!("odd", [2]),
        golden!("lat", [2]),
        golden!("txn", [2]),
        golden!("comp", [2]),
        golden!("comptxn", [2]),
        golden!("old0", [0]),
        golden!("old1", [1]),
        golden!("old1lat", [1]),
        golden!("oldmix", [1, 2]),
    ] {
        let mut found = String::new();
        let mut seen = Vec::new();
        let mut batches = Batches::new(log);
        for batch in &mut batches {
            let batch = batch.unwrap();
            assert!(batch.verify(), "{name}: checksum at {}", batch.position());
            if seen.last() != Some(&batch.magic()) {
                seen.push(batch.magic());
            }
            if let Some(header) = batch.header() {
                assert_eq!(header.encode(), batch.bytes()[..61], "{name}: encode undoes parse");
                let payload = &batch.bytes()[61..];
                assert_eq!(header.compute_crc(payload), header.crc, "{name}");
            }
            let records = batch.records(1 << 20).unwrap();
            let mut last = None;
            for record in &records {
                let record = record.unwrap();
                assert!(last < Some(record.offset), "{name}: offsets rise");
                last = Some(record.offset);
                line(&mut found, &record, batch.is_control());
            }
            assert!(last <= Some(batch.last_offset()));
        }
        assert_eq!(batches.incomplete(), None, "{name}");
        assert_eq!((found.as_str(), &seen[..]), (expected, magics), "{name}");
    }
}
