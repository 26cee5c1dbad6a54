//! Which broker to ask.

use crate::{ClientError, Connection, ConnectionOptions, OnRetry, Retry};
use bytestring::ByteString;
use protocol::ErrorCode;
use protocol::messages::metadata_request::MetadataRequestTopic;
use protocol::messages::metadata_response::{MetadataResponseBroker, MetadataResponseTopic};
use protocol::messages::{FindCoordinatorRequest, MetadataRequest, MetadataResponse};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// How to reach a cluster.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// `host:port` of some brokers; the others are learnt from them.
    pub bootstrap: Vec<String>,
    /// For each connection.
    pub connection: ConnectionOptions,
    /// How long to wait before asking again; doubled with each time, up to a second.
    pub retry_backoff: Duration,
    /// How long to go on asking where a retry can help (a leader is being elected, a coordinator loads).
    pub retry_timeout: Duration,
    /// Who is told why something is asked again.
    pub on_retry: OnRetry,
}

impl ClientOptions {
    /// For brokers given as in `bootstrap.servers`: `host:port,host:port`. The port may be left out.
    #[must_use]
    pub fn new(bootstrap: &str) -> Self {
        let with_port = |server: &str| match server.rsplit_once(':') {
            Some((host, port)) if !port.is_empty() && !host.ends_with(':') => server.to_owned(),
            _ => format!("{server}:9092"),
        };
        Self {
            bootstrap: bootstrap
                .split(',')
                .map(str::trim)
                .filter(|server| !server.is_empty())
                .map(with_port)
                .collect(),
            connection: ConnectionOptions::default(),
            retry_backoff: Duration::from_millis(100),
            retry_timeout: Duration::from_secs(30),
            on_retry: OnRetry::default(),
        }
    }
}

/// A cluster and the connections to its brokers; cheap to clone.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

struct Shared {
    options: ClientOptions,
    cluster: Mutex<Cluster>,
}

#[derive(Default)]
struct Cluster {
    connections: BTreeMap<String, Connection>,
    brokers: BTreeMap<i32, String>,
    controller_id: i32,
}

/// A topic's partitions and their leaders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicInfo {
    /// By partition: the leader, if there is one.
    pub leaders: Vec<Option<i32>>,
}

impl Client {
    /// Connects to the first bootstrap broker that answers.
    ///
    /// # Errors
    /// The last broker's [`ClientError`], if none answers.
    pub async fn connect(options: ClientOptions) -> Result<Self, ClientError> {
        let client =
            Self { shared: Arc::new(Shared { options, cluster: Mutex::new(Cluster::default()) }) };
        client.metadata(Some(&[]), false).await?;
        Ok(client)
    }

    /// What it was made with.
    #[must_use]
    pub fn options(&self) -> &ClientOptions {
        &self.shared.options
    }

    /// A connection to some broker.
    ///
    /// # Errors
    /// [`ClientError::Connect`].
    pub async fn any(&self) -> Result<Connection, ClientError> {
        let mut cluster = self.shared.cluster.lock().await;
        if let Some(open) = cluster.connections.values().find(|connection| connection.is_open()) {
            return Ok(open.clone());
        }
        let mut failed = None;
        let known: Vec<_> = cluster.brokers.values().cloned().collect();
        for address in self.shared.options.bootstrap.iter().chain(&known) {
            match self.open(&mut cluster, address).await {
                Ok(connection) => return Ok(connection),
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or_else(|| ClientError::Connect {
            address: String::new(),
            reason: "no bootstrap server is given".into(),
        }))
    }

    async fn open(&self, cluster: &mut Cluster, address: &str) -> Result<Connection, ClientError> {
        if let Some(connection) = cluster.connections.get(address)
            && connection.is_open()
        {
            return Ok(connection.clone());
        }
        let options = self.shared.options.connection.clone();
        let connection = Connection::connect(address, options).await?;
        cluster.connections.insert(address.to_owned(), connection.clone());
        Ok(connection)
    }

    /// The connection to broker `id`.
    ///
    /// # Errors
    /// [`ClientError`]; `BROKER_NOT_AVAILABLE` if the cluster has none with this id.
    pub async fn broker(&self, id: i32) -> Result<Connection, ClientError> {
        let mut cluster = self.shared.cluster.lock().await;
        let Some(address) = cluster.brokers.get(&id).cloned() else {
            let code = ErrorCode::BrokerNotAvailable.code();
            return Err(ClientError::broker(code, format!("broker {id}"), None));
        };
        self.open(&mut cluster, &address).await
    }

    /// A connection of the caller's own to broker `id`, for requests that wait long.
    ///
    /// # Errors
    /// As [`Self::broker`].
    pub async fn dedicated(&self, id: i32) -> Result<Connection, ClientError> {
        let address = self.shared.cluster.lock().await.brokers.get(&id).cloned();
        let Some(address) = address else {
            let code = ErrorCode::BrokerNotAvailable.code();
            return Err(ClientError::broker(code, format!("broker {id}"), None));
        };
        Connection::connect(&address, self.shared.options.connection.clone()).await
    }

    /// The connection to the controller, or to any broker of a cluster that names none.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn controller(&self) -> Result<Connection, ClientError> {
        self.metadata(Some(&[]), false).await?;
        let id = self.shared.cluster.lock().await.controller_id;
        if id < 0 { self.any().await } else { self.broker(id).await }
    }

    /// Asks for `topics`, all of them if `None`, and remembers the brokers.
    ///
    /// # Errors
    /// [`ClientError`]; errors of single topics are in the answer.
    pub async fn metadata(
        &self,
        topics: Option<&[&str]>,
        create: bool,
    ) -> Result<MetadataResponse, ClientError> {
        let topics = topics.map(|topics| {
            let named = |name: &&str| MetadataRequestTopic {
                name: Some(ByteString::from(*name)),
                ..Default::default()
            };
            topics.iter().map(named).collect()
        });
        let request = MetadataRequest {
            topics,
            allow_auto_topic_creation: create,
            ..MetadataRequest::default()
        };
        let answer = self.any().await?.send(&request).await?;
        ClientError::check(answer.error_code, "metadata", None)?;
        let mut cluster = self.shared.cluster.lock().await;
        let address =
            |broker: &MetadataResponseBroker| model::host_and_port(&broker.host, broker.port);
        cluster.brokers = answer.brokers.iter().map(|b| (b.node_id, address(b))).collect();
        cluster.controller_id = answer.controller_id;
        Ok(answer)
    }

    /// The topic's metadata, also where partitions have no leader; asks again while the topic is being made.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn topic(
        &self,
        name: &str,
        create: bool,
    ) -> Result<MetadataResponseTopic, ClientError> {
        let mut retry = self.retry();
        loop {
            match self.described_once(name, create).await {
                Err(error) if !is_missing(&error, create) && retry.again(&error).await => {}
                done => return done,
            }
        }
    }

    async fn described_once(
        &self,
        name: &str,
        create: bool,
    ) -> Result<MetadataResponseTopic, ClientError> {
        let mut answer = self.metadata(Some(&[name]), create).await?;
        let topic = answer.topics.pop().ok_or_else(|| {
            let code = ErrorCode::UnknownTopicOrPartition.code();
            ClientError::broker(code, format!("topic {name}"), None)
        })?;
        ClientError::check(topic.error_code, format!("topic {name}"), None)?;
        Ok(topic)
    }

    /// The leaders of the topic's partitions, of those that have one.
    ///
    /// # Errors
    /// As [`Self::topic`].
    pub async fn leaders(&self, name: &str, create: bool) -> Result<TopicInfo, ClientError> {
        let topic = self.topic(name, create).await?;
        let mut leaders = Vec::new();
        for partition in &topic.partitions {
            let Ok(at) = usize::try_from(partition.partition_index) else { continue };
            if at < topic.partitions.len() {
                leaders.resize(leaders.len().max(at + 1), None);
                leaders[at] = (partition.leader_id >= 0).then_some(partition.leader_id);
            }
        }
        Ok(TopicInfo { leaders })
    }

    /// The coordinator of group `key`.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn group_coordinator(&self, key: &str) -> Result<Connection, ClientError> {
        let mut retry = self.retry();
        loop {
            match self.group_coordinator_once(key).await {
                Err(error) if retry.again(&error).await => {}
                done => return done,
            }
        }
    }

    async fn group_coordinator_once(&self, key: &str) -> Result<Connection, ClientError> {
        let connection = self.any().await?;
        let listed = connection
            .version_at_most::<FindCoordinatorRequest>(i16::MAX)
            .is_some_and(|version| version >= 4);
        let mut request = FindCoordinatorRequest::default();
        match listed {
            true => request.coordinator_keys = vec![key.into()],
            false => request.key = key.into(),
        }
        let mut answer = connection.send(&request).await?;
        let what = format!("coordinator of group {key}");
        let (code, message, id) = match answer.coordinators.pop() {
            Some(found) => (found.error_code, found.error_message, found.node_id),
            None => (answer.error_code, answer.error_message, answer.node_id),
        };
        ClientError::check(code, &what, message.as_deref())?;
        match self.broker(id).await {
            Err(ClientError::Broker { .. }) => {
                self.metadata(Some(&[]), false).await?;
                self.broker(id).await
            }
            found => found,
        }
    }

    /// The attempts of one operation, for `retry_timeout`.
    #[must_use]
    pub fn retry(&self) -> Retry {
        self.retry_for(Some(self.shared.options.retry_timeout))
    }

    /// The attempts of one operation, for `time` or for ever.
    #[must_use]
    pub fn retry_for(&self, time: Option<Duration>) -> Retry {
        let options = &self.shared.options;
        Retry::new(options.retry_backoff, time, options.on_retry.clone())
    }
}

/// A topic that nobody is about to make does not appear by waiting.
fn is_missing(error: &ClientError, create: bool) -> bool {
    !create && error.code() == Some(ErrorCode::UnknownTopicOrPartition)
}
