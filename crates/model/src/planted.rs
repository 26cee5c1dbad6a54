//! Bugs that Kafka had, put back on purpose: a test that cannot find them proves nothing.
//!
//! [`Bug::is_planted`] stands at the place where the bug would be, one line each. Without the feature `planted-bugs` it
//! is a constant `false`; a build without debug assertions, as every release is, refuses the feature. Which one is planted is chosen by
//! name at run time and holds for the whole process. This list is the only one.

#[cfg(feature = "planted-bugs")]
use std::sync::atomic::{AtomicU16, Ordering};

#[cfg(all(feature = "planted-bugs", not(debug_assertions)))]
compile_error!(
    "bugs are planted in tests only: a build without debug assertions must not have `planted-bugs`"
);

/// What a bug breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Area {
    /// Leaders, followers and their logs.
    Replication,
    /// The controller and what brokers do of what it says.
    Controller,
    /// Logs on disks.
    Storage,
    /// Idempotent producers.
    Producers,
    /// Consumer groups and what they commit.
    Groups,
}

macro_rules! bugs {
    ($($area:ident { $($bug:ident $ticket:literal $what:literal,)+ })+) => {
        /// A bug of Kafka's that can be put back.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Bug {
            $($(#[doc = $what] $bug,)+)+
        }

        impl Bug {
            /// All of them, by area.
            pub const ALL: &[Self] = &[$($(Self::$bug,)+)+];

            /// The ticket that mended it in Kafka.
            #[must_use]
            pub const fn ticket(self) -> &'static str {
                match self { $($(Self::$bug => $ticket,)+)+ }
            }

            /// What is wrong while it is planted.
            #[must_use]
            pub const fn what(self) -> &'static str {
                match self { $($(Self::$bug => $what,)+)+ }
            }

            /// What it breaks.
            #[must_use]
            pub const fn area(self) -> Area {
                match self { $($(Self::$bug => Area::$area,)+)+ }
            }
        }
    };
}

bugs! {
    Replication {
        Kafka1211 "KAFKA-1211" "a follower cuts its log to its own high watermark instead of where it departs from the leader's",
        Kafka6361 "KAFKA-6361" "a leader compares where an epoch ends, and not which epoch that was",
        Kafka6880 "KAFKA-6880" "a leader answers fetches of other leader epochs than its own",
        Kafka7128 "KAFKA-7128" "a follower joins the ISR before it has reached the start of the leader's epoch",
        Kafka7164 "KAFKA-7164" "a follower whose leader has another epoch by now does not ask where its log departs from the leader's",
        Kafka9338 "KAFKA-9338" "a fetch session does not keep the leader epoch of its partitions",
        Kafka9807 "KAFKA-9807" "a consumer reads up to the log's end",
        Kafka10706 "KAFKA-10706" "a truncation that removes no record leaves epochs that have none",
        Kafka12686 "KAFKA-12686" "an answer to an ISR change counts though the partition's state is another by now",
        Kip497 "KIP-497" "a high watermark does not wait for a replica that is on its way into the ISR",
        Kafka13207 "KAFKA-13207" "a follower appends what it was sent in an earlier leader epoch",
        Kafka14617 "KAFKA-14617" "a replica joins the ISR on what it had fetched before its broker started again",
        Kafka14704 "KAFKA-14704" "a follower takes its leader's high watermark over before it cuts what departs",
        Kafka15583 "KAFKA-15583" "a high watermark moves while fewer replicas are in sync than min.insync.replicas",
        Kafka2334 "KAFKA-2334" "a new leader tells where its log ends before it knows how far its predecessor committed",
    }
    Controller {
        Kafka831 "KAFKA-831" "a broker that starts is not told of all partitions",
        Kafka1120 "KAFKA-1120" "the controller does not notice that a broker was away if it is back by now",
        Kafka1188 "KAFKA-1188" "a broker does what a controller of the past says",
        Kafka2729 "KAFKA-2729" "a leader whose ISR change was carried out unheard is told that its state is an old one, for ever",
        Kafka3143 "KAFKA-3143" "an ISR of which nobody is there is emptied",
        Kafka5473 "KAFKA-5473" "a broker whose session expired tries once to register again",
        Kafka6082 "KAFKA-6082" "a controller writes without checking that nobody was elected after it",
        Kafka7235 "KAFKA-7235" "a broker does what was meant for its registration before this one",
        Kafka9539 "KAFKA-9539" "a broker stops a replica though that was said in an earlier leader epoch",
        Kafka13916 "KAFKA-13916" "a replica joins the ISR though its broker is not registered or about to stop",
    }
    Storage {
        Kafka3968 "KAFKA-3968" "the name of a new segment is not made durable with its records",
        Kafka10101 "KAFKA-10101" "what a log holds after a crash counts as durable",
        Kafka16541 "KAFKA-16541" "the leader epochs of a log are not made durable with its records",
        Kafka10778 "KAFKA-10778" "a log goes on after a failed append with what that has changed in memory",
    }
    Producers {
        Kafka5435 "KAFKA-5435" "a log that has lost its last snapshot of producers by a truncation knows of no producer",
        Kafka5494 "KAFKA-5494" "a log remembers the last batch of each producer only",
        Kafka6683 "KAFKA-6683" "the snapshot of producers before a segment knows of the batch that begins it",
    }
    Groups {
        Kafka2596 "KAFKA-2596" "a coordinator takes commits of generations that it does not know",
        Kafka5600 "KAFKA-5600" "a coordinator loads the first piece of its log only",
        Kafka10284 "KAFKA-10284" "a static member's new id is not stored",
        Kafka462 "KAFKA-PR-462" "a coordinator that loads its log keeps the first state of each group",
    }
}

impl Bug {
    /// The name to choose it by: its ticket in lower case.
    #[must_use]
    pub fn name(self) -> String {
        self.ticket().to_lowercase()
    }

    /// The bug of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|bug| bug.ticket().eq_ignore_ascii_case(name))
    }

    /// Whether it is put back: never without the feature `planted-bugs`.
    #[must_use]
    #[cfg(not(feature = "planted-bugs"))]
    #[inline]
    pub const fn is_planted(self) -> bool {
        false
    }

    /// Whether it is put back.
    #[must_use]
    #[cfg(feature = "planted-bugs")]
    pub fn is_planted(self) -> bool {
        PLANTED.load(Ordering::Relaxed) == self as u16 + 1
    }

    /// Puts `bug` back, or none, from now on and everywhere in this process.
    #[cfg(feature = "planted-bugs")]
    pub fn plant(bug: Option<Self>) {
        PLANTED.store(bug.map_or(0, |bug| bug as u16 + 1), Ordering::Relaxed);
    }
}

/// The number of the bug that is planted, from 1 on; 0 for none.
#[cfg(feature = "planted-bugs")]
static PLANTED: AtomicU16 = AtomicU16::new(0);

#[test]
fn a_bug_is_found_by_its_name_and_only_once() {
    for &bug in Bug::ALL {
        assert_eq!(Bug::named(&bug.name()), Some(bug));
        assert!(!bug.is_planted());
    }
    assert_eq!(Bug::named("kafka-0"), None);
}
