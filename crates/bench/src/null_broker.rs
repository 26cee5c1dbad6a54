//! A broker that stores nothing: it answers what librdkafka and our load ask, as cheaply as it can.
//! What a client reaches against it is the client's own limit.

use crate::error::{BenchError, io};
use bytes::{Buf, Bytes, BytesMut};
use bytestring::ByteString;
use protocol::messages::api_versions_response::ApiVersion;
use protocol::messages::create_topics_response::CreatableTopicResult;
use protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use protocol::messages::{
    ApiVersionsResponse, CreateTopicsRequest, CreateTopicsResponse, FetchRequest, FetchResponse,
    ListOffsetsRequest, ListOffsetsResponse, MetadataRequest, MetadataResponse, ProduceRequest,
    ProduceResponse,
};
use protocol::{
    ApiKey, FileRange, Message, Reader, Records, RecordsFile, RecordsPart, RequestHeader, Segment,
    Writer,
};
use rustix::net::SendFlags;
use std::cell::OnceCell;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, Interest};
use tokio::net::{TcpListener, TcpStream};

/// Records that it pretends to hold: batches of 1 MB, this many.
const FETCH_BATCHES: i64 = 2_000;
const RECORDS_PER_BATCH: i64 = 9_000;

/// So many copies of the batch it really has: half a gigabyte.
const COPIES: u64 = 500;

const BASE_OFFSET_BYTES: usize = 8;

/// Kafka's default of `socket.send.buffer.bytes`: all brokers of a comparison have the same.
const SOCKET_BUFFER: usize = 102_400;

/// Answers until it is killed.
pub(crate) fn serve(port: u16) -> Result<(), BenchError> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(io("tokio"))?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.map_err(io("listen"))?;
        let records = usize::try_from(RECORDS_PER_BATCH).expect("positive");
        let batch = crate::load::batch(records, 100, protocol::records::Compression::None);
        let state = Rc::new(Null { port, batch, file: OnceCell::new() });
        loop {
            let (stream, _) = listener.accept().await.map_err(io("accept"))?;
            // A client that goes away is no reason to say anything.
            let state = state.clone();
            tokio::task::spawn_local(async move { state.answer_all(stream).await.ok() });
        }
    })
}

struct Null {
    port: u16,
    batch: Bytes,
    /// Copies of the batch for readers, made when the first asks.
    file: OnceCell<Arc<TemporaryFile>>,
}

#[derive(Debug)]
struct TemporaryFile(File);

impl RecordsFile for TemporaryFile {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }

    fn read_exact_at(&self, buffer: &mut [u8], position: u64) -> std::io::Result<()> {
        self.0.read_exact_at(buffer, position)
    }
}

/// A file of copies of `batch`: nothing is sent more cheaply, and a client that reads one copy after the
/// other finds none of them in the processor's caches, as with a log.
fn copies(batch: &[u8]) -> std::io::Result<Arc<TemporaryFile>> {
    let file = tempfile::tempfile()?;
    for copy in 0..COPIES {
        file.write_all_at(batch, copy * batch.len() as u64)?;
    }
    Ok(Arc::new(TemporaryFile(file)))
}

async fn send(stream: &TcpStream, mut bytes: &[u8], flags: SendFlags) -> Result<(), BenchError> {
    while !bytes.is_empty() {
        let sent = when_writable(stream, || rustix::net::send(stream, bytes, flags)).await?;
        bytes = &bytes[sent..];
    }
    Ok(())
}

async fn send_file(stream: &TcpStream, range: &FileRange) -> Result<(), BenchError> {
    let file = range.file.descriptor().expect("it is a file of the operating system");
    let mut position = range.position;
    let end = position + range.length as u64;
    while position < end {
        let missing = usize::try_from(end - position).expect("a batch fits into memory");
        let send = || rustix::fs::sendfile(stream, file, Some(&mut position), missing);
        when_writable(stream, send).await?;
    }
    Ok(())
}

async fn when_writable(
    stream: &TcpStream,
    mut call: impl FnMut() -> rustix::io::Result<usize>,
) -> Result<usize, BenchError> {
    stream.async_io(Interest::WRITABLE, || call().map_err(Into::into)).await.map_err(io("send"))
}

impl Null {
    async fn answer_all(&self, mut stream: TcpStream) -> Result<(), BenchError> {
        stream.set_nodelay(true).map_err(io("TCP_NODELAY"))?;
        rustix::net::sockopt::set_socket_send_buffer_size(&stream, SOCKET_BUFFER)
            .map_err(|error| io("SO_SNDBUF")(error.into()))?;
        let mut input = BytesMut::with_capacity(1 << 18);
        let (mut segments, mut output) = (Vec::new(), Vec::new());
        while stream.read_buf(&mut input).await.map_err(io("receive"))? > 0 {
            while let Some(length) = input.get(..4) {
                let length = u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
                if input.len() < 4 + length {
                    input.reserve(4 + length - input.len());
                    break;
                }
                input.advance(4);
                self.answer(input.split_to(length).freeze(), &mut segments)?;
            }
            output.clear();
            for segment in segments.drain(..) {
                match segment {
                    Segment::Bytes(bytes) => output.extend_from_slice(&bytes),
                    Segment::File(range) => {
                        send(&stream, &output, SendFlags::MORE).await?;
                        output.clear();
                        send_file(&stream, &range).await?;
                    }
                }
            }
            send(&stream, &output, SendFlags::empty()).await?;
        }
        Ok(())
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "a client of the benchmark asks nothing else"
    )]
    fn answer(&self, frame: Bytes, into: &mut Vec<Segment>) -> Result<(), BenchError> {
        let wrong = |error: protocol::DecodeError| BenchError::Protocol(error.to_string());
        let mut reader = Reader::new(frame);
        let header = RequestHeader::decode(&mut reader).map_err(wrong)?;
        let version = header.api_version;
        match header.api_key {
            ApiKey::Produce => {
                let request = ProduceRequest::decode(&mut reader, version).map_err(wrong)?;
                if request.acks == 0 {
                    return Ok(());
                }
                respond(&header, &produced(&request), into)
            }
            ApiKey::Fetch => {
                let request = FetchRequest::decode(&mut reader, version).map_err(wrong)?;
                respond(&header, &self.fetched(&request), into)
            }
            ApiKey::ListOffsets => {
                let request = ListOffsetsRequest::decode(&mut reader, version).map_err(wrong)?;
                respond(&header, &listed(&request), into)
            }
            ApiKey::Metadata => {
                let request = MetadataRequest::decode(&mut reader, version).map_err(wrong)?;
                respond(&header, &self.described(&request), into)
            }
            ApiKey::CreateTopics => {
                let request = CreateTopicsRequest::decode(&mut reader, version).map_err(wrong)?;
                let created =
                    |name| CreatableTopicResult { name, ..CreatableTopicResult::default() };
                let topics = request.topics.into_iter().map(|topic| created(topic.name)).collect();
                respond(&header, &CreateTopicsResponse { topics, ..Default::default() }, into)
            }
            ApiKey::ApiVersions => respond(&header, &versions(), into),
            other => {
                Err(BenchError::Protocol(format!("the null broker has no answer to {other:?}")))
            }
        }
    }

    fn without_base_offset(&self, batch: i64) -> FileRange {
        let copy = batch.unsigned_abs() % COPIES;
        let file =
            self.file.get_or_init(|| copies(&self.batch).expect("room for a temporary file"));
        FileRange {
            file: Arc::clone(file) as _,
            position: copy * self.batch.len() as u64 + BASE_OFFSET_BYTES as u64,
            length: self.batch.len() - BASE_OFFSET_BYTES,
        }
    }

    fn fetched(&self, request: &FetchRequest) -> FetchResponse {
        let partition = |index: i32, offset: i64| {
            let batch = offset / RECORDS_PER_BATCH;
            let mut records = Records::default();
            if batch < FETCH_BATCHES {
                let base = (batch * RECORDS_PER_BATCH).to_be_bytes();
                records.push(RecordsPart::Bytes(Bytes::copy_from_slice(&base)));
                records.push(RecordsPart::File(self.without_base_offset(batch)));
            }
            let end = FETCH_BATCHES * RECORDS_PER_BATCH;
            PartitionData {
                partition_index: index,
                high_watermark: end,
                last_stable_offset: end,
                log_start_offset: 0,
                records: Some(records),
                ..PartitionData::default()
            }
        };
        let responses = request.topics.iter().map(|topic| FetchableTopicResponse {
            topic: topic.topic.clone(),
            partitions: topic
                .partitions
                .iter()
                .map(|p| partition(p.partition, p.fetch_offset))
                .collect(),
            ..FetchableTopicResponse::default()
        });
        FetchResponse { responses: responses.collect(), ..FetchResponse::default() }
    }

    fn described(&self, request: &MetadataRequest) -> MetadataResponse {
        let broker = MetadataResponseBroker {
            node_id: 0,
            host: ByteString::from_static("127.0.0.1"),
            port: i32::from(self.port),
            ..MetadataResponseBroker::default()
        };
        let topic = |name: Option<ByteString>| MetadataResponseTopic {
            name,
            partitions: vec![MetadataResponsePartition {
                leader_id: 0,
                replica_nodes: vec![0],
                isr_nodes: vec![0],
                ..MetadataResponsePartition::default()
            }],
            ..MetadataResponseTopic::default()
        };
        MetadataResponse {
            brokers: vec![broker],
            topics: request.topics.iter().flatten().map(|t| topic(t.name.clone())).collect(),
            ..MetadataResponse::default()
        }
    }
}

fn respond<M: Message>(
    header: &RequestHeader,
    body: &M,
    into: &mut Vec<Segment>,
) -> Result<(), BenchError> {
    let wrong = |error: protocol::EncodeError| BenchError::Protocol(error.to_string());
    let mut writer = Writer::new_frame();
    protocol::encode_response_header(
        &mut writer,
        header.api_key,
        header.api_version,
        header.correlation_id,
    )
    .map_err(wrong)?;
    body.encode(&mut writer, header.api_version).map_err(wrong)?;
    writer.finish_frame_into(|segment| into.push(segment)).map_err(wrong)
}

fn produced(request: &ProduceRequest) -> ProduceResponse {
    let responses = request.topic_data.iter().map(|topic| TopicProduceResponse {
        name: topic.name.clone(),
        partition_responses: topic
            .partition_data
            .iter()
            .map(|p| PartitionProduceResponse { index: p.index, ..Default::default() })
            .collect(),
        ..TopicProduceResponse::default()
    });
    ProduceResponse { responses: responses.collect(), ..ProduceResponse::default() }
}

fn listed(request: &ListOffsetsRequest) -> ListOffsetsResponse {
    let topics = request.topics.iter().map(|topic| ListOffsetsTopicResponse {
        name: topic.name.clone(),
        partitions: topic
            .partitions
            .iter()
            .map(|p| ListOffsetsPartitionResponse {
                partition_index: p.partition_index,
                offset: if p.timestamp == -2 { 0 } else { FETCH_BATCHES * RECORDS_PER_BATCH },
                ..ListOffsetsPartitionResponse::default()
            })
            .collect(),
    });
    ListOffsetsResponse { topics: topics.collect(), ..ListOffsetsResponse::default() }
}

fn versions() -> ApiVersionsResponse {
    let keys = [
        (ApiKey::Produce, 0, 9),
        (ApiKey::Fetch, 4, 12),
        (ApiKey::ListOffsets, 1, 7),
        (ApiKey::Metadata, 1, 9),
        (ApiKey::CreateTopics, 2, 5),
        (ApiKey::ApiVersions, 0, 3),
    ];
    let api = |(key, min_version, max_version): (ApiKey, i16, i16)| ApiVersion {
        api_key: key.code(),
        min_version,
        max_version,
    };
    ApiVersionsResponse {
        api_keys: keys.into_iter().map(api).collect(),
        ..ApiVersionsResponse::default()
    }
}
