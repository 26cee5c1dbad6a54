//! Identities and epochs. Each is its own type, so that none can be passed for another.

use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($raw:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $raw);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<$raw> for $name {
            fn from(raw: $raw) -> Self {
                Self(raw)
            }
        }
    };
}

number! {
    /// `broker.id`: names a broker for ever, through restarts.
    BrokerId(i32)
}
number! {
    /// One per registration of a broker: the czxid of its `/brokers/ids` node.
    BrokerEpoch(i64)
}
number! {
    /// One per controller election; fences everything that an older controller sends or writes.
    ControllerEpoch(i32)
}
number! {
    /// One per leadership of a partition; decides truncation (KIP-101, KIP-279) and fences (KIP-320).
    LeaderEpoch(i32)
}
number! {
    /// The version of a partition's state node; changed only by the controller (KIP-497).
    PartitionEpoch(i32)
}
number! {
    /// Names an idempotent or transactional producer (KIP-98).
    ProducerId(i64)
}
number! {
    /// One per incarnation of a producer; fences older incarnations (KIP-98).
    ProducerEpoch(i16)
}
number! {
    /// A record's number in its producer's stream into one partition; wraps from `i32::MAX` to 0 (KIP-98).
    Sequence(i32)
}
number! {
    /// One per rebalance of a classic consumer group.
    Generation(i32)
}

impl Sequence {
    /// The sequence `count` records later, wrapping from `i32::MAX` to 0.
    #[must_use]
    pub fn plus(self, count: i32) -> Self {
        let wrapped = (i64::from(self.0) + i64::from(count)).rem_euclid(1 << 31);
        Self(i32::try_from(wrapped).expect("below 2^31 by rem_euclid"))
    }
}

#[test]
fn sequences_wrap_to_zero() {
    assert_eq!(Sequence(i32::MAX).plus(1), Sequence(0));
    assert_eq!(Sequence(i32::MAX - 1).plus(4), Sequence(2));
    assert_eq!(Sequence(0).plus(-1), Sequence(i32::MAX));
}
