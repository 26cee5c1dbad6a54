//! One member of a classic group.

use crate::record::MemberMetadata;
use crate::request::{Join, JoinedMember, MemberDescription, Protocol, Ticket};
use bytes::Bytes;
use model::Instant;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Invariant: at most one timer is set for it, at `timer_at`; the session may well have been extended since.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) id: Arc<str>,
    pub(crate) instance: Option<Arc<str>>,
    pub(crate) client_id: Arc<str>,
    pub(crate) client_host: Arc<str>,
    pub(crate) session_timeout: i32,
    pub(crate) rebalance_timeout: i32,
    pub(crate) protocols: Vec<Protocol>,
    pub(crate) assignment: Bytes,
    /// The JoinGroup that waits for the rebalance.
    pub(crate) joining: Option<Ticket>,
    /// The SyncGroup that waits for the assignment.
    pub(crate) syncing: Option<Ticket>,
    /// Its first JoinGroup has not been answered: it does not know its id and cannot heartbeat.
    pub(crate) is_new: bool,
    pub(crate) session_end: Instant,
    pub(crate) timer_at: Option<Instant>,
}

impl Member {
    pub(crate) fn new(id: Arc<str>, join: &Join) -> Self {
        Self {
            id,
            instance: join.instance.clone(),
            client_id: join.client_id.clone(),
            client_host: join.client_host.clone(),
            session_timeout: join.session_timeout,
            rebalance_timeout: join.rebalance_timeout,
            protocols: join.protocols.clone(),
            assignment: Bytes::new(),
            joining: None,
            syncing: None,
            is_new: true,
            session_end: Instant::default(),
            timer_at: None,
        }
    }

    /// A stored member knows one protocol, the one that was chosen.
    pub(crate) fn load(stored: MemberMetadata, protocol: Option<&Arc<str>>) -> Self {
        let name = protocol.cloned().unwrap_or_default();
        Self {
            id: stored.id,
            instance: stored.instance_id,
            client_id: stored.client_id,
            client_host: stored.client_host,
            session_timeout: stored.session_timeout,
            rebalance_timeout: stored.rebalance_timeout,
            protocols: vec![Protocol { name, metadata: stored.subscription }],
            assignment: stored.assignment,
            joining: None,
            syncing: None,
            is_new: false,
            session_end: Instant::default(),
            timer_at: None,
        }
    }

    pub(crate) fn store(&self, protocol: Option<&str>, assignment: Bytes) -> MemberMetadata {
        MemberMetadata {
            id: self.id.clone(),
            instance_id: self.instance.clone(),
            client_id: self.client_id.clone(),
            client_host: self.client_host.clone(),
            rebalance_timeout: self.rebalance_timeout,
            session_timeout: self.session_timeout,
            subscription: self.metadata(protocol),
            assignment,
        }
    }

    pub(crate) fn is_static(&self) -> bool {
        self.instance.is_some()
    }

    /// Whether silence is all right: it waits for us.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.is_new && (self.joining.is_some() || self.syncing.is_some())
    }

    pub(crate) fn session(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.session_timeout).unwrap_or(0))
    }

    /// Its metadata for `protocol`.
    pub(crate) fn metadata(&self, protocol: Option<&str>) -> Bytes {
        let found = self.protocols.iter().find(|p| Some(&*p.name) == protocol);
        found.map_or_else(Bytes::new, |p| p.metadata.clone())
    }

    /// The first of its protocols that everyone supports.
    pub(crate) fn vote(&self, candidates: &BTreeSet<Arc<str>>) -> Option<&Arc<str>> {
        self.protocols.iter().map(|p| &p.name).find(|name| candidates.contains(*name))
    }

    pub(crate) fn as_joined(&self, protocol: Option<&str>) -> JoinedMember {
        JoinedMember {
            id: self.id.clone(),
            instance: self.instance.clone(),
            metadata: self.metadata(protocol),
        }
    }

    /// `protocol` is that of a stable group.
    pub(crate) fn describe(&self, protocol: Option<&str>) -> MemberDescription {
        MemberDescription {
            id: self.id.clone(),
            instance: self.instance.clone(),
            client_id: self.client_id.clone(),
            client_host: self.client_host.clone(),
            metadata: self.metadata(protocol),
            assignment: if protocol.is_some() { self.assignment.clone() } else { Bytes::new() },
        }
    }
}
