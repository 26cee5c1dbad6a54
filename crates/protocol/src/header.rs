//! What stands before a message in its frame.

use crate::{ApiKey, DecodeError, DecodeErrorKind, EncodeError, Message, Reader, Writer, messages};
use bytestring::ByteString;

/// What stands before a request, in whatever header version its key and version call for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// Which request follows.
    pub api_key: ApiKey,
    /// In which version.
    pub api_version: i16,
    /// Returned with the response.
    pub correlation_id: i32,
    /// The client's name for itself.
    pub client_id: Option<ByteString>,
}

impl RequestHeader {
    /// Reads a header. The version is not checked: an `ApiVersions` request of an unknown version has
    /// to be answered, and its header is that of the newest.
    ///
    /// # Errors
    /// If the key is unknown or the frame ends early.
    pub fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let mut ahead = reader.clone();
        let (key, api_version) = (ahead.i16()?, ahead.i16()?);
        let unknown = || reader.error(DecodeErrorKind::UnknownApiKey(key));
        let api_key = ApiKey::from_code(key).ok_or_else(unknown)?;
        let version = request_header_version(api_key, api_version);
        let header = messages::RequestHeader::decode(reader, version)?;
        Ok(Self {
            api_key,
            api_version,
            correlation_id: header.correlation_id,
            client_id: header.client_id.filter(|_| version > 0),
        })
    }

    /// Writes the header in the version that its key and version call for.
    ///
    /// # Errors
    /// If the client id is longer than 32,767 bytes.
    pub fn encode(&self, writer: &mut Writer) -> Result<(), EncodeError> {
        let header = messages::RequestHeader {
            request_api_key: self.api_key.code(),
            request_api_version: self.api_version,
            correlation_id: self.correlation_id,
            client_id: self.client_id.clone(),
        };
        header.encode(writer, request_header_version(self.api_key, self.api_version))
    }
}

fn is_flexible(key: ApiKey, version: i16) -> bool {
    key.flexible().is_some_and(|first| version >= first)
}

/// The version of a request's header: 2 before flexible versions, else 1. The first
/// `ControlledShutdown` is older than client ids.
pub fn request_header_version(key: ApiKey, version: i16) -> i16 {
    match (key, version) {
        (ApiKey::ControlledShutdown, 0) => 0,
        _ if is_flexible(key, version) => 2,
        _ => 1,
    }
}

/// The version of a response's header: 1 before flexible versions, else 0; always 0 for
/// `ApiVersions`, whose client does not yet know what the broker speaks (KIP-511).
pub fn response_header_version(key: ApiKey, version: i16) -> i16 {
    i16::from(key != ApiKey::ApiVersions && is_flexible(key, version))
}

/// Writes the header of a response to a request of this key and version.
///
/// # Errors
/// None in practice: the header has no part that could be too long.
pub fn encode_response_header(
    writer: &mut Writer,
    key: ApiKey,
    version: i16,
    correlation_id: i32,
) -> Result<(), EncodeError> {
    let header = messages::ResponseHeader { correlation_id };
    header.encode(writer, response_header_version(key, version))
}

/// Reads the header of a response to a request of this key and version: the correlation id.
///
/// # Errors
/// If the frame ends early.
pub fn decode_response_header(
    reader: &mut Reader,
    key: ApiKey,
    version: i16,
) -> Result<i32, DecodeError> {
    let version = response_header_version(key, version);
    Ok(messages::ResponseHeader::decode(reader, version)?.correlation_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_follow_the_flexible_versions() {
        assert_eq!(request_header_version(ApiKey::Produce, 8), 1);
        assert_eq!(request_header_version(ApiKey::Produce, 9), 2);
        assert_eq!(request_header_version(ApiKey::SaslHandshake, 1), 1);
        assert_eq!(request_header_version(ApiKey::ControlledShutdown, 0), 0);
        assert_eq!(request_header_version(ApiKey::ApiVersions, 99), 2);
        assert_eq!(response_header_version(ApiKey::Produce, 9), 1);
        assert_eq!(response_header_version(ApiKey::ApiVersions, 3), 0);
    }

    #[test]
    fn a_header_is_read_as_written() {
        for (api_key, api_version) in
            [(ApiKey::Fetch, 11), (ApiKey::Fetch, 12), (ApiKey::ControlledShutdown, 0)]
        {
            let client_id = (api_version > 0).then(|| "me".into());
            let header = RequestHeader { api_key, api_version, correlation_id: 77, client_id };
            let mut writer = Writer::new();
            header.encode(&mut writer).unwrap();
            let mut reader = Reader::new(writer.into_bytes());
            assert_eq!(RequestHeader::decode(&mut reader).unwrap(), header);
            assert_eq!(reader.remaining(), 0);
        }
    }

    #[test]
    fn an_unknown_key_is_named() {
        let mut reader = Reader::new(b"\x7f\xff\0\0\0\0\0\0\0\0".as_slice().into());
        let error = RequestHeader::decode(&mut reader).unwrap_err();
        assert_eq!(error.kind, DecodeErrorKind::UnknownApiKey(i16::MAX));
        assert!(RequestHeader::decode(&mut Reader::new(b"\0".as_slice().into())).is_err());
    }
}
