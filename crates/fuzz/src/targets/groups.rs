//! Records of consumer groups.

use super::Input;
use group::request::GroupConfig;
use group::{GroupShard, Now, Origin};
use model::{Instant, Offset, ProducerId, Timestamp};
use std::time::Duration;

pub(super) fn load(input: &[u8]) {
    let mut input = Input(input);
    let mut shard = GroupShard::new(GroupConfig::default());
    let mut at = 0;
    while !input.is_empty() {
        let how = input.u8();
        let key = input.part();
        let value = (how & 1 == 0).then(|| input.part());
        let transaction = (how & 2 != 0).then_some(ProducerId(i64::from(how >> 4)));
        let origin = Origin { base_offset: Offset(at), transaction };
        let _ = shard.load(origin, key, value);
        if how & 4 != 0 {
            shard.load_marker(ProducerId(i64::from(how >> 4)), how & 8 == 0);
        }
        at += 1;
    }
    let mut actions = Vec::new();
    let mut now = Now { instant: Instant::default(), wall: Timestamp(1_700_000_000_000) };
    shard.loaded(now, &mut actions);
    let groups: Vec<_> = shard.list().collect();
    for group in &groups {
        let _ = shard.describe(&group.group);
        let _ = shard.offsets(&group.group, true).all().count();
    }
    for _ in 0..3 {
        now.instant = shard.next_deadline().unwrap_or(now.instant) + Duration::from_millis(1);
        shard.tick(now, &mut actions);
        let _ = shard.next_batch();
    }
}
