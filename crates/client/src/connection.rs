//! One socket to one broker.

use crate::ClientError;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use bytestring::ByteString;
use platform::{Network, tasks};
use protocol::decode_response_header;
use protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};
use protocol::{ApiKey, ErrorCode, Message, Reader, Request, RequestHeader, Segment, Writer};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// How to connect, and how we call ourselves.
#[derive(Clone, Debug)]
pub struct ConnectionOptions {
    /// `client.id`.
    pub client_id: ByteString,
    /// The software's name in `ApiVersions` (KIP-511).
    pub software_name: ByteString,
    /// The software's version.
    pub software_version: ByteString,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How long an answer may take.
    pub request_timeout: Duration,
    /// The longest answer that is read.
    pub max_response_bytes: usize,
    /// How the connection is opened.
    pub network: Network,
}

impl Default for ConnectionOptions {
    fn default() -> Self {
        Self {
            client_id: "barnabas".into(),
            software_name: "barnabas".into(),
            software_version: env!("CARGO_PKG_VERSION").into(),
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(40),
            max_response_bytes: 512 << 20,
            network: Network::System,
        }
    }
}

/// A connection that requests of many tasks can share; cheap to clone. Requests go out in the order in
/// which they are sent, without waiting for one another's answers. Closes with the last clone.
#[derive(Clone)]
pub struct Connection {
    shared: Arc<Shared>,
    outgoing: mpsc::Sender<Outgoing>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("address", &self.shared.address).finish_non_exhaustive()
    }
}

struct Shared {
    address: String,
    options: ConnectionOptions,
    correlation_id: AtomicI32,
    versions: BTreeMap<i16, (i16, i16)>,
    state: Arc<Mutex<State>>,
}

/// Requests that wait for answers, oldest first; or why no more come.
#[derive(Default)]
struct State {
    pending: VecDeque<Pending>,
    closed: Option<String>,
}

struct Pending {
    correlation_id: i32,
    api_key: ApiKey,
    api_version: i16,
    answer: oneshot::Sender<Bytes>,
}

struct Outgoing {
    frame: Vec<Segment>,
    pending: Option<Pending>,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // Nothing panics while it is held.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connection {
    /// Connects to `address` (`host:port`) and learns which versions the broker serves.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn connect(address: &str, options: ConnectionOptions) -> Result<Self, ClientError> {
        let mut connection = Self::connect_unasked(address, options).await?;
        let versions = connection.negotiate().await?;
        let shared = Arc::get_mut(&mut connection.shared).expect("nobody else has it yet");
        shared.versions = versions;
        Ok(connection)
    }

    /// Connects to `address` (`host:port`) without asking which versions are served: brokers among
    /// themselves go by `inter.broker.protocol.version`. Only [`Self::send_in_version`] works on it.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn connect_unasked(
        address: &str,
        options: ConnectionOptions,
    ) -> Result<Self, ClientError> {
        let failed = |error: io::Error| ClientError::connect(address, &error);
        let timed_out = |_| failed(io::ErrorKind::TimedOut.into());
        let (outgoing, requests) = mpsc::channel(64);
        let state = Arc::new(Mutex::new(State::default()));
        let limit = options.max_response_bytes;
        match &options.network {
            Network::System => {
                let connecting = TcpStream::connect(address);
                let connected = timeout(options.connect_timeout, connecting).await;
                let stream = connected.map_err(timed_out)?.map_err(failed)?;
                stream.set_nodelay(true).map_err(failed)?;
                let (reading, writing) = stream.into_split();
                tasks::spawn(write(writing, requests, Arc::clone(&state)));
                tasks::spawn(read(reading, limit, Arc::clone(&state)));
            }
            Network::Virtual(network) => {
                let connecting = network.connect(address);
                let connected = timeout(options.connect_timeout, connecting).await;
                let stream = connected.map_err(timed_out)?.map_err(failed)?;
                let (reading, writing) = tokio::io::split(stream);
                tasks::spawn(write(writing, requests, Arc::clone(&state)));
                tasks::spawn(read(reading, limit, Arc::clone(&state)));
            }
        }
        Ok(Self {
            shared: Arc::new(Shared {
                address: address.to_owned(),
                options,
                correlation_id: AtomicI32::new(0),
                versions: BTreeMap::new(),
                state,
            }),
            outgoing,
        })
    }

    /// Asks for the served versions in our newest version, and again in an older one if the broker
    /// says that it does not know ours: it says so in version 0 and names the versions it has.
    async fn negotiate(&self) -> Result<BTreeMap<i16, (i16, i16)>, ClientError> {
        const API: &str = ApiVersionsRequest::NAME;
        let mut version = 3;
        let request = ApiVersionsRequest {
            client_software_name: self.shared.options.software_name.clone(),
            client_software_version: self.shared.options.software_version.clone(),
            ..ApiVersionsRequest::default()
        };
        loop {
            let body = self.exchange(&request, version).await?;
            let unsupported = ErrorCode::UnsupportedVersion.code();
            let refused = body.first_chunk() == Some(&unsupported.to_be_bytes());
            let answered = if refused { 0 } else { version };
            let answer = ApiVersionsResponse::decode(&mut Reader::new(body), answered)
                .map_err(|source| ClientError::Decode { api: API, source })?;
            let served: BTreeMap<_, _> = answer
                .api_keys
                .iter()
                .map(|api| (api.api_key, (api.min_version, api.max_version)))
                .collect();
            if refused && version > 0 {
                let highest = served.get(&ApiKey::ApiVersions.code()).map_or(0, |&(_, max)| max);
                version = highest.clamp(0, version - 1);
                continue;
            }
            ClientError::check(answer.error_code, API, None)?;
            return Ok(served);
        }
    }

    /// The address that this is connected to.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.shared.address
    }

    /// Whether it can still be used.
    #[must_use]
    pub fn is_open(&self) -> bool {
        lock(&self.shared.state).closed.is_none()
    }

    /// The newest version of `R` up to `at_most` that both sides speak.
    #[must_use]
    pub fn version_at_most<R: Request>(&self, at_most: i16) -> Option<i16> {
        let &(min, max) = self.shared.versions.get(&R::KEY.code())?;
        let version = max.min(R::STABLE).min(at_most);
        (version >= min && R::VERSIONS.contains(&version)).then_some(version)
    }

    /// Sends `request` in the newest version that both sides speak and waits for the answer.
    ///
    /// # Errors
    /// [`ClientError`]; what the answer says is for the caller to check.
    pub async fn send<R: Request>(&self, request: &R) -> Result<R::Response, ClientError> {
        self.send_at_most(request, i16::MAX).await.map(|(answer, _)| answer)
    }

    /// As [`Self::send`] in a version up to `at_most`; returns it too.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn send_at_most<R: Request>(
        &self,
        request: &R,
        at_most: i16,
    ) -> Result<(R::Response, i16), ClientError> {
        let version = self.require::<R>(at_most)?;
        Ok((self.send_in_version(request, version).await?, version))
    }

    /// Sends `request` in `version`, whatever the broker says that it serves.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn send_in_version<R: Request>(
        &self,
        request: &R,
        version: i16,
    ) -> Result<R::Response, ClientError> {
        let body = self.exchange(request, version).await?;
        R::Response::decode(&mut Reader::new(body), version)
            .map_err(|source| ClientError::Decode { api: R::NAME, source })
    }

    /// Sends a request that gets no answer: Produce with acks 0.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn send_unanswered<R: Request>(
        &self,
        request: &R,
        at_most: i16,
    ) -> Result<(), ClientError> {
        let version = self.require::<R>(at_most)?;
        let (frame, _) = self.frame(request, version)?;
        self.push(Outgoing { frame, pending: None }).await
    }

    fn require<R: Request>(&self, at_most: i16) -> Result<i16, ClientError> {
        self.version_at_most::<R>(at_most).ok_or_else(|| ClientError::Unsupported {
            address: self.shared.address.clone(),
            api: R::NAME,
        })
    }

    fn frame<R: Request>(
        &self,
        request: &R,
        version: i16,
    ) -> Result<(Vec<Segment>, i32), ClientError> {
        let correlation_id = self.shared.correlation_id.fetch_add(1, Ordering::Relaxed);
        let header = RequestHeader {
            api_key: R::KEY,
            api_version: version,
            correlation_id,
            client_id: Some(self.shared.options.client_id.clone()),
        };
        let mut writer = Writer::new_frame();
        let frame = header
            .encode(&mut writer)
            .and_then(|()| request.encode(&mut writer, version))
            .and_then(|()| writer.finish_frame());
        let frame = frame.map_err(|source| ClientError::Encode { api: R::NAME, source })?;
        Ok((frame, correlation_id))
    }

    async fn push(&self, outgoing: Outgoing) -> Result<(), ClientError> {
        self.outgoing.send(outgoing).await.map_err(|_| self.disconnected())
    }

    async fn exchange<R: Request>(&self, request: &R, version: i16) -> Result<Bytes, ClientError> {
        let (frame, correlation_id) = self.frame(request, version)?;
        let (answer, answered) = oneshot::channel();
        let pending = Pending { correlation_id, api_key: R::KEY, api_version: version, answer };
        let exchange = async {
            self.push(Outgoing { frame, pending: Some(pending) }).await?;
            answered.await.map_err(|_| self.disconnected())
        };
        timeout(self.shared.options.request_timeout, exchange).await.map_err(|_| {
            ClientError::Timeout { address: self.shared.address.clone(), api: R::NAME }
        })?
    }

    fn disconnected(&self) -> ClientError {
        let closed = lock(&self.shared.state).closed.clone();
        ClientError::Disconnected {
            address: self.shared.address.clone(),
            reason: closed.unwrap_or_else(|| "closed".into()),
        }
    }
}

fn close(state: &Mutex<State>, reason: &str) {
    let mut state = lock(state);
    state.closed.get_or_insert_with(|| reason.to_owned());
    // Dropping them tells the senders.
    state.pending.clear();
}

/// Writes frames until the connection is dropped or fails.
async fn write(
    mut socket: impl AsyncWrite + Unpin,
    mut requests: mpsc::Receiver<Outgoing>,
    state: Arc<Mutex<State>>,
) {
    while let Some(Outgoing { frame, pending }) = requests.recv().await {
        if let Some(pending) = pending {
            let mut state = lock(&state);
            if state.closed.is_some() {
                break;
            }
            state.pending.push_back(pending);
        }
        if let Err(error) = write_frame(&mut socket, frame).await {
            close(&state, &error.to_string());
            break;
        }
    }
    // What is still queued is dropped with the receiver, which tells the senders.
}

async fn write_frame(
    socket: &mut (impl AsyncWrite + Unpin),
    frame: Vec<Segment>,
) -> io::Result<()> {
    for segment in frame {
        match segment {
            Segment::Bytes(bytes) => socket.write_all(&bytes).await?,
            Segment::File(range) => {
                let mut bytes = vec![0; range.length];
                range.file.read_exact_at(&mut bytes, range.position)?;
                socket.write_all(&bytes).await?;
            }
        }
    }
    Ok(())
}

/// Hands out answers until the socket ends.
async fn read(mut socket: impl AsyncRead + Unpin, limit: usize, state: Arc<Mutex<State>>) {
    let reason = loop {
        match read_answer(&mut socket, limit, &state).await {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                break "the broker closed it".to_owned();
            }
            Err(error) => break error.to_string(),
        }
    };
    close(&state, &reason);
}

async fn read_answer(
    socket: &mut (impl AsyncRead + Unpin),
    limit: usize,
    state: &Mutex<State>,
) -> io::Result<()> {
    /// What is made room for at a time: the length is only the broker's word.
    const STEP: usize = 1 << 20;
    let length = usize::try_from(socket.read_i32().await?)
        .ok()
        .filter(|&length| length <= limit)
        .ok_or_else(|| io::Error::other("answer of an impossible length"))?;
    let mut frame = BytesMut::new();
    while frame.len() < length {
        let left = length - frame.len();
        frame.reserve(left.min(STEP));
        if socket.read_buf(&mut (&mut frame).limit(left)).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let pending = lock(state).pending.pop_front();
    let pending = pending.ok_or_else(|| io::Error::other("answer without a request"))?;
    let mut frame = frame.freeze();
    let mut reader = Reader::new(frame.clone());
    let id = decode_response_header(&mut reader, pending.api_key, pending.api_version)
        .map_err(io::Error::other)?;
    if id != pending.correlation_id {
        return Err(io::Error::other("answer to another request"));
    }
    frame.advance(reader.position());
    // Whoever asked may have given up.
    pending.answer.send(frame).ok();
    Ok(())
}
