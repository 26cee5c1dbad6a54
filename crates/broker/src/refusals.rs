//! The one line that is logged about a connection that we close, and how many of them at most.

use crate::request::{CloseReason, ConnectionContext};
use bytestring::ByteString;
use model::Instant;
use parking_lot::Mutex;
use protocol::ApiKey;
use std::mem::discriminant;
use std::time::Duration;
use tracing::info;

/// Lines per second and kind of reason: hostile input must not fill the disk with logs.
const LINES_PER_SECOND: u32 = 10;

/// What the log shows of a text that a client chose.
const SHOWN_BYTES: usize = 255;

/// Logs refusals, at a bounded rate per kind of reason.
#[derive(Debug, Default)]
pub struct Refusals {
    windows: Mutex<Vec<Window>>,
}

#[derive(Debug)]
struct Window {
    kind: std::mem::Discriminant<CloseReason>,
    start: Instant,
    lines: u32,
    suppressed: u64,
}

impl Refusals {
    /// Logs that `connection` is closed for `reason`; `request` is (key, version, client id) as far
    /// as it could be read.
    pub fn log(
        &self,
        connection: &ConnectionContext,
        request: Option<(ApiKey, i16, ByteString)>,
        reason: &CloseReason,
        now: Instant,
    ) {
        let Some(suppressed) = self.admit(reason, now) else { return };
        let software = connection.software();
        let (api, api_version, client_id) =
            request.map_or((None, None, None), |r| (Some(r.0), Some(r.1), Some(r.2)));
        info!(
            peer = %connection.peer,
            listener = %connection.listener.name,
            client_id = client_id.as_deref().map(shown),
            software = software.as_ref().map(|s| shown(&s.name)),
            software_version = software.as_ref().map(|s| shown(&s.version)),
            api = api.map(ApiKey::name),
            api_version,
            suppressed,
            %reason,
            "connection refused"
        );
    }

    /// `None` if there were too many lines of this kind; else how many were left out before this one.
    fn admit(&self, reason: &CloseReason, now: Instant) -> Option<u64> {
        let kind = discriminant(reason);
        let mut windows = self.windows.lock();
        let at = windows.iter().position(|window| window.kind == kind).unwrap_or_else(|| {
            windows.push(Window { kind, start: now, lines: 0, suppressed: 0 });
            windows.len() - 1
        });
        let window = &mut windows[at];
        if now.since(window.start) >= Duration::from_secs(1) {
            (window.start, window.lines) = (now, 0);
        }
        if window.lines >= LINES_PER_SECOND {
            window.suppressed += 1;
            return None;
        }
        window.lines += 1;
        Some(std::mem::take(&mut window.suppressed))
    }
}

/// A client's text, cut and escaped: it must not forge log lines.
fn shown(text: &str) -> String {
    let mut end = text.len().min(SHOWN_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].escape_debug().collect()
}

#[test]
fn lines_are_limited_per_kind_and_those_left_out_are_counted() {
    let (refusals, at) = (Refusals::default(), |s| Instant(Duration::from_secs(s)));
    let unknown = CloseReason::UnknownApi(99);
    for _ in 0..LINES_PER_SECOND {
        assert_eq!(refusals.admit(&unknown, at(1)), Some(0));
    }
    assert_eq!(refusals.admit(&unknown, at(1)), None);
    assert_eq!(refusals.admit(&CloseReason::GivenUp, at(1)), Some(0), "another kind");
    assert_eq!(refusals.admit(&unknown, at(2)), Some(1));
}

#[test]
fn a_client_cannot_forge_a_log_line() {
    assert_eq!(shown("a\nERROR b\u{1b}[0m"), "a\\nERROR b\\u{1b}[0m");
    assert_eq!(shown(&"é".repeat(200)).chars().count(), 127);
}
