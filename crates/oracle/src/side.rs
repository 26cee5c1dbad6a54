//! One broker under test: cases go in, what it answers comes out.

use crate::cases::{Action, Call, Case, DELETE_VERSION, Frame, Place, Step, look};
use crate::normal::Names;
use crate::tree;
use bytes::Bytes;
use protocol::reflect::Api;
use protocol::{ApiKey, ErrorCode, Reader};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The request that tells most about a broker's epochs and does nothing: to stop no replica.
const STOP_NOTHING_VERSION: i16 = 3;
/// An answer that takes longer is none.
const PATIENCE: Duration = Duration::from_secs(8);
const FRAME_LIMIT: usize = 256 << 20;

/// A broker and what we know of it.
#[derive(Debug)]
pub(crate) struct Side {
    address: SocketAddr,
    connections: BTreeMap<String, Connection>,
    saved: BTreeMap<String, Value>,
    /// `broker_epoch`, `controller_epoch` and `port`, which each case finds saved.
    known: BTreeMap<String, Value>,
    pub(crate) names: Names,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    correlation: i32,
    next_answer: i32,
}

impl Side {
    /// The broker at `address`, whose files lie in `folder`.
    pub(crate) fn new(address: SocketAddr, folder: &str) -> Self {
        let names = Names::new(address.port(), folder);
        let (connections, saved) = Default::default();
        let known = BTreeMap::from([("port".to_owned(), json!(address.port()))]);
        Self { address, connections, saved, known, names }
    }

    /// Which versions it says it serves.
    pub(crate) fn served(&mut self) -> Result<BTreeMap<ApiKey, (i16, i16)>, String> {
        let call = Call {
            api: ApiKey::ApiVersions,
            version: Some(0),
            body: json!({}),
            frame: Frame::default(),
        };
        let answer = self.call("a", &call, "served")?;
        let keys = answer["answer"]["api_keys"].as_array().cloned().unwrap_or_default();
        let number = |value: &Value| value.as_i64().and_then(|n| i16::try_from(n).ok());
        let row = |key: &Value| {
            let api = ApiKey::from_code(number(&key["api_key"])?)?;
            Some((api, (number(&key["min_version"])?, number(&key["max_version"])?)))
        };
        Ok(keys.iter().filter_map(row).collect())
    }

    /// Waits until the group coordinator answers: its topic is made when first asked for.
    pub(crate) fn settle(&mut self) -> Result<(), String> {
        let until = |api, body: Value, wanted: i16| {
            let call = Call { api, version: Some(1), body, frame: Frame::default() };
            Action::Until(call, crate::cases::places("error_code"), json!(wanted))
        };
        let mut actions = vec![until(ApiKey::FindCoordinator, json!({"key": "settle"}), 0)];
        actions.push(until(
            ApiKey::InitProducerId,
            json!({"transactional_id": null, "transaction_timeout_ms": 1000}),
            0,
        ));
        // Groups enough that each partition of the topic is asked for.
        actions.extend((0..32).map(|group| {
            let body = json!({"group_id": format!("settle-{group}"), "member_id": "nobody"});
            until(ApiKey::Heartbeat, body, ErrorCode::UnknownMemberId.code())
        }));
        for action in actions {
            self.step(&Step { connection: "a".into(), action }, "settle")?;
        }
        Ok(())
    }

    /// Finds out the epochs of the broker's registration and of its controller: by what it refuses, as
    /// nothing tells them to a client.
    pub(crate) fn learn_epochs(&mut self) -> Result<(), String> {
        let refused = |code: ErrorCode| json!(code.code());
        // Older epochs are refused, newer ones are not. All are above 0.
        let (mut stale, mut fresh) = (0, i64::MAX);
        while fresh - stale > 1 {
            let middle = stale + (fresh - stale) / 2;
            match self.stop_nothing(middle, 0)? == refused(ErrorCode::StaleBrokerEpoch) {
                true => stale = middle,
                false => fresh = middle,
            }
        }
        // A newer one would be believed, so from below.
        let mut controller = 1;
        while self.stop_nothing(-1, controller)? == refused(ErrorCode::StaleControllerEpoch) {
            controller += 1;
        }
        self.known.insert("broker_epoch".into(), json!(fresh));
        self.known.insert("controller_epoch".into(), json!(controller));
        Ok(())
    }

    fn stop_nothing(&mut self, broker_epoch: i64, controller_epoch: i32) -> Result<Value, String> {
        let body = json!({"controller_id": 1, "controller_epoch": controller_epoch,
            "broker_epoch": broker_epoch, "topic_states": []});
        let (api, version, frame) =
            (ApiKey::StopReplica, Some(STOP_NOTHING_VERSION), Frame::default());
        let seen = self.call("a", &Call { api, version, body, frame }, "epochs")?;
        seen["answer"].get("error_code").cloned().ok_or_else(|| format!("epochs: {seen}"))
    }

    /// Runs a case; what was seen at each step that shows something.
    pub(crate) fn run(&mut self, case: &Case) -> Result<Vec<Value>, String> {
        self.saved = self.known.clone();
        self.connections.retain(|name, _| name == "a");
        let mut seen = Vec::new();
        for step in &case.steps {
            let wrong = |error| format!("{}: {error}", case.name);
            if let Some(observed) = self.step_with(step, &case.name, &seen).map_err(wrong)? {
                seen.push(observed);
            }
        }
        Ok(seen)
    }

    fn step(&mut self, step: &Step, case: &str) -> Result<Option<Value>, String> {
        self.step_with(step, case, &[])
    }

    fn step_with(
        &mut self,
        step: &Step,
        case: &str,
        seen: &[Value],
    ) -> Result<Option<Value>, String> {
        let name = step.connection.as_str();
        match &step.action {
            Action::Call(call) => {
                let seen = self.call(name, call, case)?;
                // The step `delete`; what deletes in the case's own version is what is looked at.
                if call.api == ApiKey::DeleteTopics && call.version == Some(DELETE_VERSION) {
                    self.wait_for_absence(name, &seen, case)?;
                }
                Ok(Some(seen))
            }
            Action::Send(call) => match self.send(name, call, case)? {
                true => Ok(None),
                false => Ok(Some(json!({ "closed": true }))),
            },
            Action::Receive(api, version) => {
                Ok(Some(self.receive(name, *api, version.unwrap_or(0))))
            }
            Action::Until(call, places, wanted) => self.until(name, call, places, wanted, case),
            Action::Raw(bytes) => Ok(Some(self.raw(name, bytes))),
            Action::Save(variable, places) => {
                let last = seen.iter().rev().find_map(|seen| seen.get("answer"));
                let value = last.and_then(|last| look(last, places)).cloned();
                self.saved.insert(variable.clone(), value.unwrap_or(Value::Null));
                Ok(None)
            }
            Action::Hangup => {
                self.connections.remove(name);
                Ok(None)
            }
        }
    }

    fn until(
        &mut self,
        name: &str,
        call: &Call,
        places: &[Place],
        wanted: &Value,
        case: &str,
    ) -> Result<Option<Value>, String> {
        let mut last = Value::Null;
        for _ in 0..1000 {
            last = self.call(name, call, case)?;
            if last.get("answer").and_then(|answer| look(answer, places)) == Some(wanted) {
                break;
            }
            pause(Duration::from_millis(10));
        }
        if call.api == ApiKey::CreateTopics {
            self.wait_for_partitions(name, &last, case)?;
        }
        Ok(Some(last))
    }

    /// As [`Side::wait_for_partitions`], of topics that are deleted.
    fn wait_for_absence(&mut self, name: &str, deleted: &Value, case: &str) -> Result<(), String> {
        let results = deleted["answer"]["responses"].as_array().into_iter().flatten();
        for topic in results.filter(|result| result["error_code"] == json!(0)) {
            let topics = json!([{"name": topic["name"]}]);
            let body = json!({"topics": topics, "allow_auto_topic_creation": false});
            let frame = Frame::default();
            let call = Call { api: ApiKey::Metadata, version: Some(4), body, frame };
            let place = crate::cases::places("topics[0].error_code");
            let unknown = ErrorCode::UnknownTopicOrPartition.code();
            self.until(name, &call, &place, &json!(unknown), case)?;
        }
        Ok(())
    }

    /// A controller of 4.x answers before its brokers know: waits until each new partition says where it ends.
    fn wait_for_partitions(
        &mut self,
        name: &str,
        created: &Value,
        case: &str,
    ) -> Result<(), String> {
        for topic in created["answer"]["topics"].as_array().into_iter().flatten() {
            for partition in 0..topic["num_partitions"].as_i64().unwrap_or(0) {
                let partition = json!({"partition_index": partition, "timestamp": -1});
                let topics = json!([{"name": topic["name"], "partitions": [partition]}]);
                let body = json!({"replica_id": -1, "topics": topics});
                let frame = Frame::default();
                let call = Call { api: ApiKey::ListOffsets, version: Some(2), body, frame };
                let place = crate::cases::places("topics[0].partitions[0].error_code");
                self.until(name, &call, &place, &json!(0), case)?;
            }
        }
        Ok(())
    }

    fn call(&mut self, name: &str, call: &Call, case: &str) -> Result<Value, String> {
        match self.send(name, call, case)? {
            true => Ok(self.receive(name, call.api, call.version.unwrap_or(0))),
            false => Ok(json!({ "closed": true })),
        }
    }

    /// False if the connection is gone.
    fn send(&mut self, name: &str, call: &Call, case: &str) -> Result<bool, String> {
        let body = self.filled(&call.body, case);
        let correlation = match self.connection(name) {
            Ok(connection) => {
                connection.correlation += 1;
                connection.correlation
            }
            Err(_) => return Ok(false),
        };
        let frame = frame(call, &body, correlation)?;
        Ok(self.write(name, &frame))
    }

    fn write(&mut self, name: &str, bytes: &[u8]) -> bool {
        let written = match self.connection(name) {
            Ok(connection) => connection.stream.write_all(bytes).is_ok(),
            Err(_) => false,
        };
        if !written {
            self.connections.remove(name);
        }
        written
    }

    fn connection(&mut self, name: &str) -> Result<&mut Connection, String> {
        if !self.connections.contains_key(name) {
            let wrong = |error: std::io::Error| format!("{}: {error}", self.address);
            let stream = TcpStream::connect(self.address).map_err(wrong)?;
            stream.set_nodelay(true).map_err(wrong)?;
            stream.set_read_timeout(Some(PATIENCE)).map_err(wrong)?;
            let connection = Connection { stream, correlation: 0, next_answer: 0 };
            self.connections.insert(name.to_owned(), connection);
        }
        Ok(self.connections.get_mut(name).expect("just made sure"))
    }

    fn receive(&mut self, name: &str, api: ApiKey, version: i16) -> Value {
        let Some(connection) = self.connections.get_mut(name) else {
            return json!({ "closed": true });
        };
        let frame = match read_frame(&mut connection.stream) {
            Ok(frame) => frame,
            Err(what) => {
                self.connections.remove(name);
                return json!({ what: true });
            }
        };
        let mut reader = Reader::new(frame.clone());
        let header = protocol::decode_response_header(&mut reader, api, version);
        let Ok(correlation) = header else { return json!({ "undecodable": tree::hex(&frame) }) };
        let late = connection.correlation - correlation;
        connection.next_answer = correlation;
        let body = frame.slice(reader.position()..);
        let message = &Api::of(api).response;
        let decoded = tree::decode(message, body.clone(), version).or_else(|error| {
            // A version that the broker does not know is answered in the layout of 0.
            if api == ApiKey::ApiVersions { tree::decode(message, body, 0) } else { Err(error) }
        });
        match decoded {
            Ok(answer) => {
                self.names.learn(&answer);
                json!({ "answer": answer, "late": late })
            }
            Err(error) => json!({ "undecodable": error }),
        }
    }

    /// Sends bytes that may be no request; what comes back is not decoded.
    fn raw(&mut self, name: &str, bytes: &[u8]) -> Value {
        self.connections.remove(name);
        if !self.write(name, bytes) {
            return json!({ "closed": true });
        }
        let Some(connection) = self.connections.get_mut(name) else {
            return json!({ "closed": true });
        };
        // Nothing more is sent, so a broker that waits for the rest sees the end.
        let shut = connection.stream.shutdown(std::net::Shutdown::Write);
        let seen = match read_frame(&mut connection.stream) {
            Ok(frame) => json!({ "raw": tree::hex(&frame) }),
            Err(what) => json!({ what: shut.is_ok() || what == "closed" }),
        };
        self.connections.remove(name);
        seen
    }

    /// `$case`, `$id(topic)` and `$saved` replaced.
    fn filled(&self, body: &Value, case: &str) -> Value {
        match body {
            Value::String(text) if text.contains('$') => self.text(text, case),
            Value::Array(list) => list.iter().map(|one| self.filled(one, case)).collect(),
            Value::Object(fields) => Value::Object(
                fields.iter().map(|(name, one)| (name.clone(), self.filled(one, case))).collect(),
            ),
            other => other.clone(),
        }
    }

    /// What was saved under a name, or a number beside it.
    fn value(&self, name: &str) -> Option<Value> {
        let next_to = || {
            let (name, by) = beside(name)?;
            Some(json!(self.saved.get(name)?.as_i64()?.wrapping_add(by)))
        };
        self.saved.get(name).cloned().or_else(next_to)
    }

    fn text(&self, text: &str, case: &str) -> Value {
        if let Some(value) = text.strip_prefix('$').and_then(|name| self.value(name)) {
            return value;
        }
        let mut text = text.replace("$case", &slug(case));
        while let Some((before, rest)) = text.split_once("$id(") {
            let (topic, after) = rest.split_once(')').unwrap_or((rest, ""));
            let id = self.names.id_of(topic).unwrap_or_else(|| model::TopicId::ZERO.to_string());
            text = format!("{before}{id}{after}");
        }
        for (name, value) in &self.saved {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            text = text.replace(&format!("${name}"), &value);
        }
        Value::String(text)
    }
}

/// `name+2` and `name-1`: next to a number that was saved.
fn beside(name: &str) -> Option<(&str, i64)> {
    let sign = name.rfind(['+', '-'])?;
    Some((&name[..sign], name[sign..].parse().ok()?))
}

/// A case's name as a topic or group may be called.
fn slug(case: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let whole: String = case.chars().map(letter).collect();
    whole[whole.len().saturating_sub(200)..].to_owned()
}

/// The bytes of a request with its length.
pub(crate) fn frame(call: &Call, body: &Value, correlation: i32) -> Result<Vec<u8>, String> {
    let version = call.version.unwrap_or(0);
    let shown = call.frame.header_version.unwrap_or(version);
    let mut bytes = vec![0; 4];
    bytes.extend(call.api.code().to_be_bytes());
    bytes.extend(shown.to_be_bytes());
    bytes.extend(correlation.to_be_bytes());
    match call.frame.client_id.as_ref().map_or(Some("differential"), Value::as_str) {
        Some(client) => {
            bytes.extend(i16::try_from(client.len()).unwrap_or(i16::MAX).to_be_bytes());
            bytes.extend_from_slice(client.as_bytes());
        }
        None => bytes.extend((-1i16).to_be_bytes()),
    }
    if protocol::request_header_version(call.api, version) >= 2 {
        tree::uvarint(&mut bytes, call.frame.tags);
        for tag in 0..call.frame.tags {
            tree::uvarint(&mut bytes, 100 + tag);
            tree::uvarint(&mut bytes, 1);
            bytes.push(7);
        }
    }
    let start = bytes.len();
    tree::encode(&Api::of(call.api).request, body, version, &mut bytes)
        .map_err(|error| format!("{} v{version}: {error}", call.api.name()))?;
    if let Some(cut) = call.frame.cut {
        bytes.truncate(start + cut);
    }
    bytes.resize(bytes.len() + call.frame.extra, 0xee);
    let length = u32::try_from(bytes.len() - 4).map_err(|error| error.to_string())?;
    bytes[..4].copy_from_slice(&length.to_be_bytes());
    Ok(bytes)
}

/// The next frame, or what happened instead.
fn read_frame(stream: &mut TcpStream) -> Result<Bytes, &'static str> {
    let what = |error: std::io::Error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => "silent",
        _ => "closed",
    };
    let mut length = [0; 4];
    stream.read_exact(&mut length).map_err(what)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > FRAME_LIMIT {
        return Err("endless");
    }
    let mut frame = vec![0; length];
    stream.read_exact(&mut frame).map_err(what)?;
    Ok(frame.into())
}

/// Between two looks at a broker that has to get somewhere.
#[expect(clippy::disallowed_methods, reason = "another process tells nobody when it is ready")]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}
