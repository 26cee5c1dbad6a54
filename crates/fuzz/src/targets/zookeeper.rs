//! What comes from ZooKeeper, and where it is.

use super::Input;
use bytes::Bytes;
use model::Instant;
use platform::random::SeededRandom;
use std::sync::Arc;
use std::time::Duration;
use zookeeper::Input as Happening;
use zookeeper::{Action, Call, CallId, ConnectString, Core, Op, Settings};

pub(super) fn connect_string(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    let Ok(parsed) = text.parse::<ConnectString>() else { return };
    let hosts: Vec<_> = parsed.hosts.iter().map(ToString::to_string).collect();
    let written = format!("{}{}", hosts.join(","), parsed.chroot);
    assert_eq!(written.parse().as_ref(), Ok(&parsed), "{written}");
}

/// The length that stands before every frame.
fn framed(body: &[u8]) -> Bytes {
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    Bytes::from([&length.to_be_bytes(), body].concat())
}

pub(super) fn server(input: &[u8]) {
    let mut input = Input(input);
    let how = input.u8();
    let servers = ConnectString {
        hosts: "one:1,two:2"
            .parse::<ConnectString>()
            .map(|parsed| parsed.hosts)
            .unwrap_or_default(),
        chroot: if how & 1 == 0 { String::new() } else { "/chroot".to_owned() },
    };
    let settings = Settings { max_response_bytes: 1 << 16, ..Settings::default() };
    let mut now = Instant(Duration::from_secs(100));
    let mut core = Core::new(&servers, settings, Arc::new(SeededRandom::new(1)), now);
    let (mut actions, mut calls) = (Vec::new(), 0);
    core.step(now, Happening::Tick, &mut actions);
    core.step(now, Happening::Connected, &mut actions);
    while !input.is_empty() {
        let happening = match input.u8() % 8 {
            0 => {
                now = core.next_deadline().unwrap_or(now).max(now);
                Happening::Tick
            }
            1 => {
                calls += 1;
                let path = "/a".to_owned();
                let call = match input.u8() % 6 {
                    0 => Call::GetData { path, watch: true },
                    1 => Call::GetChildren { path, watch: true },
                    2 => Call::Exists { path, watch: true },
                    3 => Call::GetAcl { path },
                    4 => Call::Multi(vec![Op::Set { path, data: None, version: Some(1) }]),
                    _ => Call::Sync { path },
                };
                Happening::Call(CallId(calls), call)
            }
            2 => Happening::Lost("lost".into()),
            3 => Happening::Connected,
            4 => Happening::Received(Bytes::copy_from_slice(input.part())),
            _ => Happening::Received(framed(input.part())),
        };
        actions.clear();
        core.step(now, happening, &mut actions);
        if actions.iter().any(|action| matches!(action, Action::Over(_))) {
            return;
        }
    }
}
