//! Every error code of Kafka up to 4.4.

/// What went wrong, as the wire says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i16)]
pub enum ErrorCode {
    /// The broker failed in a way that it did not expect.
    UnknownServerError = -1,
    /// Success.
    None = 0,
    /// The offset is outside of the log's range.
    OffsetOutOfRange = 1,
    /// A record is damaged: wrong checksum or size, or no key where compaction needs one.
    CorruptMessage = 2,
    /// This broker has no such topic or partition.
    UnknownTopicOrPartition = 3,
    /// The fetch size is not valid.
    InvalidFetchSize = 4,
    /// The partition has no leader at the moment.
    LeaderNotAvailable = 5,
    /// This broker is not the partition's leader, or not one of its replicas.
    NotLeaderOrFollower = 6,
    /// The request took longer than its timeout.
    RequestTimedOut = 7,
    /// The broker cannot be reached.
    BrokerNotAvailable = 8,
    /// The replica is not available for this partition.
    ReplicaNotAvailable = 9,
    /// A record batch is larger than this broker or topic accepts.
    MessageTooLarge = 10,
    /// Another broker has become controller.
    StaleControllerEpoch = 11,
    /// The metadata of an offset commit is too large.
    OffsetMetadataTooLarge = 12,
    /// The connection ended before the response came.
    NetworkException = 13,
    /// The coordinator is still loading its state.
    CoordinatorLoadInProgress = 14,
    /// The coordinator is not available.
    CoordinatorNotAvailable = 15,
    /// This broker is not the coordinator for this id.
    NotCoordinator = 16,
    /// The topic's name is not valid, or the topic does not permit this.
    InvalidTopicException = 17,
    /// The record batch is larger than a log segment may be.
    RecordListTooLarge = 18,
    /// Fewer replicas are in sync than a write requires; nothing was written.
    NotEnoughReplicas = 19,
    /// Written, but by then fewer replicas were in sync than required.
    NotEnoughReplicasAfterAppend = 20,
    /// The number of required acknowledgements must be -1, 0 or 1.
    InvalidRequiredAcks = 21,
    /// This is not the group's current generation.
    IllegalGeneration = 22,
    /// The member shares no protocol with the group, or names none.
    InconsistentGroupProtocol = 23,
    /// The group's id is not valid.
    InvalidGroupId = 24,
    /// The group has no such member.
    UnknownMemberId = 25,
    /// The session timeout is outside of what this broker allows (group.min.session.timeout.ms to group.max.session.timeout.ms).
    InvalidSessionTimeout = 26,
    /// The group is rebalancing; join it again.
    RebalanceInProgress = 27,
    /// The offset commit is too large to be written.
    InvalidCommitOffsetSize = 28,
    /// Not authorized for this topic.
    TopicAuthorizationFailed = 29,
    /// Not authorized for this group.
    GroupAuthorizationFailed = 30,
    /// Not authorized for the cluster.
    ClusterAuthorizationFailed = 31,
    /// A record's timestamp is outside of what the topic accepts.
    InvalidTimestamp = 32,
    /// This broker does not offer the SASL mechanism.
    UnsupportedSaslMechanism = 33,
    /// The request does not fit the state of authentication.
    IllegalSaslState = 34,
    /// This version of the API is not supported.
    UnsupportedVersion = 35,
    /// A topic of this name exists.
    TopicAlreadyExists = 36,
    /// The number of partitions is not valid.
    InvalidPartitions = 37,
    /// The replication factor is below 1 or above the number of available brokers.
    InvalidReplicationFactor = 38,
    /// The replica assignment is not valid.
    InvalidReplicaAssignment = 39,
    /// A configuration key or value is not valid.
    InvalidConfig = 40,
    /// This broker is not the controller.
    NotController = 41,
    /// The request contradicts itself or does not fit this broker; its log says why.
    InvalidRequest = 42,
    /// The log's message format does not permit this.
    UnsupportedForMessageFormat = 43,
    /// The request violates a configured policy.
    PolicyViolation = 44,
    /// The producer's sequence number is not the next one.
    OutOfOrderSequenceNumber = 45,
    /// The producer's sequence number was already used.
    DuplicateSequenceNumber = 46,
    /// The producer's epoch is older than the newest known.
    InvalidProducerEpoch = 47,
    /// The transaction's state does not permit this.
    InvalidTxnState = 48,
    /// The producer id does not belong to this transactional id.
    InvalidProducerIdMapping = 49,
    /// The transaction timeout is above what this broker allows (transaction.max.timeout.ms).
    InvalidTransactionTimeout = 50,
    /// Another operation on the same transaction is under way.
    ConcurrentTransactions = 51,
    /// A newer transaction coordinator has taken over this producer.
    TransactionCoordinatorFenced = 52,
    /// Not authorized for this transactional id.
    TransactionalIdAuthorizationFailed = 53,
    /// Security is not enabled here.
    SecurityDisabled = 54,
    /// Not attempted, because another part of the request failed.
    OperationNotAttempted = 55,
    /// The log's disk failed.
    KafkaStorageError = 56,
    /// The broker has no such log directory.
    LogDirNotFound = 57,
    /// Authentication failed.
    SaslAuthenticationFailed = 58,
    /// Nothing is known any more of this producer id, perhaps because its records have expired.
    UnknownProducerId = 59,
    /// The partition is being reassigned.
    ReassignmentInProgress = 60,
    /// Delegation tokens are not enabled.
    DelegationTokenAuthDisabled = 61,
    /// There is no such delegation token.
    DelegationTokenNotFound = 62,
    /// The principal neither owns the delegation token nor may renew it.
    DelegationTokenOwnerMismatch = 63,
    /// Delegation tokens cannot be managed over a connection that is not authenticated or was itself authenticated by one.
    DelegationTokenRequestNotAllowed = 64,
    /// Not authorized for this delegation token.
    DelegationTokenAuthorizationFailed = 65,
    /// The delegation token has expired.
    DelegationTokenExpired = 66,
    /// The type of principal is not supported.
    InvalidPrincipalType = 67,
    /// The group still has members.
    NonEmptyGroup = 68,
    /// There is no such group.
    GroupIdNotFound = 69,
    /// There is no such fetch session.
    FetchSessionIdNotFound = 70,
    /// The fetch session's epoch is not the next one.
    InvalidFetchSessionEpoch = 71,
    /// The leader has no listener of the name that this request came in by.
    ListenerNotFound = 72,
    /// Topics cannot be deleted here.
    TopicDeletionDisabled = 73,
    /// The leader epoch of the request is older than the broker's.
    FencedLeaderEpoch = 74,
    /// The leader epoch of the request is newer than the broker's.
    UnknownLeaderEpoch = 75,
    /// The client's version cannot read the partition's compression.
    UnsupportedCompressionType = 76,
    /// The broker has registered again since.
    StaleBrokerEpoch = 77,
    /// The new leader does not know a reliable high watermark yet.
    OffsetNotAvailable = 78,
    /// Join again with the member id of this response.
    MemberIdRequired = 79,
    /// The preferred leader cannot lead at the moment.
    PreferredLeaderNotAvailable = 80,
    /// The group is full.
    GroupMaxSizeReached = 81,
    /// Another member has taken over this group instance id.
    FencedInstanceId = 82,
    /// No replica that may lead is available.
    EligibleLeadersNotAvailable = 83,
    /// The partition needs no election.
    ElectionNotNeeded = 84,
    /// The partition is not being reassigned.
    NoReassignmentInProgress = 85,
    /// The group is subscribed to the topic; its offsets cannot be deleted.
    GroupSubscribedToTopic = 86,
    /// A record was rejected.
    InvalidRecord = 87,
    /// Offsets of an open transaction are still undecided.
    UnstableOffsetCommit = 88,
    /// The quota is used up; try later.
    ThrottlingQuotaExceeded = 89,
    /// A newer producer uses the same transactional id.
    ProducerFenced = 90,
    /// There is no such resource.
    ResourceNotFound = 91,
    /// The request names a resource twice.
    DuplicateResource = 92,
    /// The credential does not meet the requirements.
    UnacceptableCredential = 93,
    /// Sender or recipient is not one of the voters.
    InconsistentVoterSet = 94,
    /// The feature version of the update is not valid.
    InvalidUpdateVersion = 95,
    /// The features could not be updated.
    FeatureUpdateFailed = 96,
    /// The forwarded principal cannot be read.
    PrincipalDeserializationFailure = 97,
    /// There is no such snapshot.
    SnapshotNotFound = 98,
    /// The position is outside of the snapshot.
    PositionOutOfRange = 99,
    /// This broker has no topic of this id.
    UnknownTopicId = 100,
    /// The broker id is in use.
    DuplicateBrokerRegistration = 101,
    /// The broker id is not registered.
    BrokerIdNotRegistered = 102,
    /// The topic id of the request is not that of the log.
    InconsistentTopicId = 103,
    /// The request is for another cluster.
    InconsistentClusterId = 104,
    /// There is no such transactional id.
    TransactionalIdNotFound = 105,
    /// The fetch session mixes requests with and without topic ids.
    FetchSessionTopicIdError = 106,
    /// A replica of the new ISR may not be in it.
    IneligibleReplica = 107,
    /// The partition was changed, and it has a new leader.
    NewLeaderElected = 108,
    /// The offset has moved to tiered storage.
    OffsetMovedToTieredStorage = 109,
    /// The member's epoch is fenced; give up all partitions and join again.
    FencedMemberEpoch = 110,
    /// Another member still holds this instance id.
    UnreleasedInstanceId = 111,
    /// The group does not support the assignor.
    UnsupportedAssignor = 112,
    /// The member's epoch is old; try again after the next heartbeat.
    StaleMemberEpoch = 113,
    /// The request came to an endpoint of the wrong type.
    MismatchedEndpointType = 114,
    /// The type of endpoint is not supported.
    UnsupportedEndpointType = 115,
    /// There is no controller of this id.
    UnknownControllerId = 116,
    /// The telemetry subscription is unknown or has changed.
    UnknownSubscriptionId = 117,
    /// The telemetry is larger than this broker accepts.
    TelemetryTooLarge = 118,
    /// The controller does not accept the registration.
    InvalidRegistration = 119,
    /// The transaction cannot go on; abort it, the transactional id stays usable.
    TransactionAbortable = 120,
    /// The record is not in a state to be acknowledged.
    InvalidRecordState = 121,
    /// There is no such share session.
    ShareSessionNotFound = 122,
    /// The share session's epoch is not the next one.
    InvalidShareSessionEpoch = 123,
    /// The state epoch is not the coordinator's.
    FencedStateEpoch = 124,
    /// The voter's key is not that of the receiving replica.
    InvalidVoterKey = 125,
    /// The voter is already one.
    DuplicateVoter = 126,
    /// There is no such voter.
    VoterNotFound = 127,
    /// The regular expression is not valid.
    InvalidRegularExpression = 128,
    /// The client's metadata is too old; start again from the bootstrap servers.
    RebootstrapRequired = 129,
    /// The topology is not valid.
    StreamsInvalidTopology = 130,
    /// The topology's epoch is not valid.
    StreamsInvalidTopologyEpoch = 131,
    /// The topology's epoch is old.
    StreamsTopologyFenced = 132,
    /// No more share sessions are possible.
    ShareSessionLimitReached = 133,
    /// The group could not be deleted; its own message says why.
    GroupDeletionFailed = 134,
    /// The topology's description could not be updated; the message says why.
    StreamsTopologyDescriptionUpdateFailed = 135,
    /// The controller id is not registered.
    ControllerIdNotRegistered = 136,
}

use ErrorCode as E;

/// In the order of the codes, from -1: the error, its name, whether the same request may succeed later
/// without anything being changed, and a sentence for people.
const TABLE: [(ErrorCode, &str, bool, &str); 138] = [
    (
        E::UnknownServerError,
        "UNKNOWN_SERVER_ERROR",
        false,
        "The broker failed in a way that it did not expect.",
    ),
    (E::None, "NONE", false, "Success."),
    (
        E::OffsetOutOfRange,
        "OFFSET_OUT_OF_RANGE",
        false,
        "The offset is outside of the log's range.",
    ),
    (
        E::CorruptMessage,
        "CORRUPT_MESSAGE",
        true,
        "A record is damaged: wrong checksum or size, or no key where compaction needs one.",
    ),
    (
        E::UnknownTopicOrPartition,
        "UNKNOWN_TOPIC_OR_PARTITION",
        true,
        "This broker has no such topic or partition.",
    ),
    (E::InvalidFetchSize, "INVALID_FETCH_SIZE", false, "The fetch size is not valid."),
    (
        E::LeaderNotAvailable,
        "LEADER_NOT_AVAILABLE",
        true,
        "The partition has no leader at the moment.",
    ),
    (
        E::NotLeaderOrFollower,
        "NOT_LEADER_OR_FOLLOWER",
        true,
        "This broker is not the partition's leader, or not one of its replicas.",
    ),
    (E::RequestTimedOut, "REQUEST_TIMED_OUT", true, "The request took longer than its timeout."),
    (E::BrokerNotAvailable, "BROKER_NOT_AVAILABLE", false, "The broker cannot be reached."),
    (
        E::ReplicaNotAvailable,
        "REPLICA_NOT_AVAILABLE",
        true,
        "The replica is not available for this partition.",
    ),
    (
        E::MessageTooLarge,
        "MESSAGE_TOO_LARGE",
        false,
        "A record batch is larger than this broker or topic accepts.",
    ),
    (
        E::StaleControllerEpoch,
        "STALE_CONTROLLER_EPOCH",
        false,
        "Another broker has become controller.",
    ),
    (
        E::OffsetMetadataTooLarge,
        "OFFSET_METADATA_TOO_LARGE",
        false,
        "The metadata of an offset commit is too large.",
    ),
    (
        E::NetworkException,
        "NETWORK_EXCEPTION",
        true,
        "The connection ended before the response came.",
    ),
    (
        E::CoordinatorLoadInProgress,
        "COORDINATOR_LOAD_IN_PROGRESS",
        true,
        "The coordinator is still loading its state.",
    ),
    (
        E::CoordinatorNotAvailable,
        "COORDINATOR_NOT_AVAILABLE",
        true,
        "The coordinator is not available.",
    ),
    (E::NotCoordinator, "NOT_COORDINATOR", true, "This broker is not the coordinator for this id."),
    (
        E::InvalidTopicException,
        "INVALID_TOPIC_EXCEPTION",
        false,
        "The topic's name is not valid, or the topic does not permit this.",
    ),
    (
        E::RecordListTooLarge,
        "RECORD_LIST_TOO_LARGE",
        false,
        "The record batch is larger than a log segment may be.",
    ),
    (
        E::NotEnoughReplicas,
        "NOT_ENOUGH_REPLICAS",
        true,
        "Fewer replicas are in sync than a write requires; nothing was written.",
    ),
    (
        E::NotEnoughReplicasAfterAppend,
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        true,
        "Written, but by then fewer replicas were in sync than required.",
    ),
    (
        E::InvalidRequiredAcks,
        "INVALID_REQUIRED_ACKS",
        false,
        "The number of required acknowledgements must be -1, 0 or 1.",
    ),
    (
        E::IllegalGeneration,
        "ILLEGAL_GENERATION",
        false,
        "This is not the group's current generation.",
    ),
    (
        E::InconsistentGroupProtocol,
        "INCONSISTENT_GROUP_PROTOCOL",
        false,
        "The member shares no protocol with the group, or names none.",
    ),
    (E::InvalidGroupId, "INVALID_GROUP_ID", false, "The group's id is not valid."),
    (E::UnknownMemberId, "UNKNOWN_MEMBER_ID", false, "The group has no such member."),
    (
        E::InvalidSessionTimeout,
        "INVALID_SESSION_TIMEOUT",
        false,
        "The session timeout is outside of what this broker allows (group.min.session.timeout.ms to group.max.session.timeout.ms).",
    ),
    (
        E::RebalanceInProgress,
        "REBALANCE_IN_PROGRESS",
        false,
        "The group is rebalancing; join it again.",
    ),
    (
        E::InvalidCommitOffsetSize,
        "INVALID_COMMIT_OFFSET_SIZE",
        false,
        "The offset commit is too large to be written.",
    ),
    (
        E::TopicAuthorizationFailed,
        "TOPIC_AUTHORIZATION_FAILED",
        false,
        "Not authorized for this topic.",
    ),
    (
        E::GroupAuthorizationFailed,
        "GROUP_AUTHORIZATION_FAILED",
        false,
        "Not authorized for this group.",
    ),
    (
        E::ClusterAuthorizationFailed,
        "CLUSTER_AUTHORIZATION_FAILED",
        false,
        "Not authorized for the cluster.",
    ),
    (
        E::InvalidTimestamp,
        "INVALID_TIMESTAMP",
        false,
        "A record's timestamp is outside of what the topic accepts.",
    ),
    (
        E::UnsupportedSaslMechanism,
        "UNSUPPORTED_SASL_MECHANISM",
        false,
        "This broker does not offer the SASL mechanism.",
    ),
    (
        E::IllegalSaslState,
        "ILLEGAL_SASL_STATE",
        false,
        "The request does not fit the state of authentication.",
    ),
    (
        E::UnsupportedVersion,
        "UNSUPPORTED_VERSION",
        false,
        "This version of the API is not supported.",
    ),
    (E::TopicAlreadyExists, "TOPIC_ALREADY_EXISTS", false, "A topic of this name exists."),
    (E::InvalidPartitions, "INVALID_PARTITIONS", false, "The number of partitions is not valid."),
    (
        E::InvalidReplicationFactor,
        "INVALID_REPLICATION_FACTOR",
        false,
        "The replication factor is below 1 or above the number of available brokers.",
    ),
    (
        E::InvalidReplicaAssignment,
        "INVALID_REPLICA_ASSIGNMENT",
        false,
        "The replica assignment is not valid.",
    ),
    (E::InvalidConfig, "INVALID_CONFIG", false, "A configuration key or value is not valid."),
    (E::NotController, "NOT_CONTROLLER", true, "This broker is not the controller."),
    (
        E::InvalidRequest,
        "INVALID_REQUEST",
        false,
        "The request contradicts itself or does not fit this broker; its log says why.",
    ),
    (
        E::UnsupportedForMessageFormat,
        "UNSUPPORTED_FOR_MESSAGE_FORMAT",
        false,
        "The log's message format does not permit this.",
    ),
    (E::PolicyViolation, "POLICY_VIOLATION", false, "The request violates a configured policy."),
    (
        E::OutOfOrderSequenceNumber,
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
        false,
        "The producer's sequence number is not the next one.",
    ),
    (
        E::DuplicateSequenceNumber,
        "DUPLICATE_SEQUENCE_NUMBER",
        false,
        "The producer's sequence number was already used.",
    ),
    (
        E::InvalidProducerEpoch,
        "INVALID_PRODUCER_EPOCH",
        false,
        "The producer's epoch is older than the newest known.",
    ),
    (
        E::InvalidTxnState,
        "INVALID_TXN_STATE",
        false,
        "The transaction's state does not permit this.",
    ),
    (
        E::InvalidProducerIdMapping,
        "INVALID_PRODUCER_ID_MAPPING",
        false,
        "The producer id does not belong to this transactional id.",
    ),
    (
        E::InvalidTransactionTimeout,
        "INVALID_TRANSACTION_TIMEOUT",
        false,
        "The transaction timeout is above what this broker allows (transaction.max.timeout.ms).",
    ),
    (
        E::ConcurrentTransactions,
        "CONCURRENT_TRANSACTIONS",
        true,
        "Another operation on the same transaction is under way.",
    ),
    (
        E::TransactionCoordinatorFenced,
        "TRANSACTION_COORDINATOR_FENCED",
        false,
        "A newer transaction coordinator has taken over this producer.",
    ),
    (
        E::TransactionalIdAuthorizationFailed,
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        false,
        "Not authorized for this transactional id.",
    ),
    (E::SecurityDisabled, "SECURITY_DISABLED", false, "Security is not enabled here."),
    (
        E::OperationNotAttempted,
        "OPERATION_NOT_ATTEMPTED",
        false,
        "Not attempted, because another part of the request failed.",
    ),
    (E::KafkaStorageError, "KAFKA_STORAGE_ERROR", true, "The log's disk failed."),
    (E::LogDirNotFound, "LOG_DIR_NOT_FOUND", false, "The broker has no such log directory."),
    (E::SaslAuthenticationFailed, "SASL_AUTHENTICATION_FAILED", false, "Authentication failed."),
    (
        E::UnknownProducerId,
        "UNKNOWN_PRODUCER_ID",
        false,
        "Nothing is known any more of this producer id, perhaps because its records have expired.",
    ),
    (
        E::ReassignmentInProgress,
        "REASSIGNMENT_IN_PROGRESS",
        false,
        "The partition is being reassigned.",
    ),
    (
        E::DelegationTokenAuthDisabled,
        "DELEGATION_TOKEN_AUTH_DISABLED",
        false,
        "Delegation tokens are not enabled.",
    ),
    (
        E::DelegationTokenNotFound,
        "DELEGATION_TOKEN_NOT_FOUND",
        false,
        "There is no such delegation token.",
    ),
    (
        E::DelegationTokenOwnerMismatch,
        "DELEGATION_TOKEN_OWNER_MISMATCH",
        false,
        "The principal neither owns the delegation token nor may renew it.",
    ),
    (
        E::DelegationTokenRequestNotAllowed,
        "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED",
        false,
        "Delegation tokens cannot be managed over a connection that is not authenticated or was itself authenticated by one.",
    ),
    (
        E::DelegationTokenAuthorizationFailed,
        "DELEGATION_TOKEN_AUTHORIZATION_FAILED",
        false,
        "Not authorized for this delegation token.",
    ),
    (
        E::DelegationTokenExpired,
        "DELEGATION_TOKEN_EXPIRED",
        false,
        "The delegation token has expired.",
    ),
    (
        E::InvalidPrincipalType,
        "INVALID_PRINCIPAL_TYPE",
        false,
        "The type of principal is not supported.",
    ),
    (E::NonEmptyGroup, "NON_EMPTY_GROUP", false, "The group still has members."),
    (E::GroupIdNotFound, "GROUP_ID_NOT_FOUND", false, "There is no such group."),
    (
        E::FetchSessionIdNotFound,
        "FETCH_SESSION_ID_NOT_FOUND",
        true,
        "There is no such fetch session.",
    ),
    (
        E::InvalidFetchSessionEpoch,
        "INVALID_FETCH_SESSION_EPOCH",
        true,
        "The fetch session's epoch is not the next one.",
    ),
    (
        E::ListenerNotFound,
        "LISTENER_NOT_FOUND",
        true,
        "The leader has no listener of the name that this request came in by.",
    ),
    (E::TopicDeletionDisabled, "TOPIC_DELETION_DISABLED", false, "Topics cannot be deleted here."),
    (
        E::FencedLeaderEpoch,
        "FENCED_LEADER_EPOCH",
        true,
        "The leader epoch of the request is older than the broker's.",
    ),
    (
        E::UnknownLeaderEpoch,
        "UNKNOWN_LEADER_EPOCH",
        true,
        "The leader epoch of the request is newer than the broker's.",
    ),
    (
        E::UnsupportedCompressionType,
        "UNSUPPORTED_COMPRESSION_TYPE",
        false,
        "The client's version cannot read the partition's compression.",
    ),
    (E::StaleBrokerEpoch, "STALE_BROKER_EPOCH", false, "The broker has registered again since."),
    (
        E::OffsetNotAvailable,
        "OFFSET_NOT_AVAILABLE",
        true,
        "The new leader does not know a reliable high watermark yet.",
    ),
    (
        E::MemberIdRequired,
        "MEMBER_ID_REQUIRED",
        false,
        "Join again with the member id of this response.",
    ),
    (
        E::PreferredLeaderNotAvailable,
        "PREFERRED_LEADER_NOT_AVAILABLE",
        true,
        "The preferred leader cannot lead at the moment.",
    ),
    (E::GroupMaxSizeReached, "GROUP_MAX_SIZE_REACHED", false, "The group is full."),
    (
        E::FencedInstanceId,
        "FENCED_INSTANCE_ID",
        false,
        "Another member has taken over this group instance id.",
    ),
    (
        E::EligibleLeadersNotAvailable,
        "ELIGIBLE_LEADERS_NOT_AVAILABLE",
        true,
        "No replica that may lead is available.",
    ),
    (E::ElectionNotNeeded, "ELECTION_NOT_NEEDED", true, "The partition needs no election."),
    (
        E::NoReassignmentInProgress,
        "NO_REASSIGNMENT_IN_PROGRESS",
        false,
        "The partition is not being reassigned.",
    ),
    (
        E::GroupSubscribedToTopic,
        "GROUP_SUBSCRIBED_TO_TOPIC",
        false,
        "The group is subscribed to the topic; its offsets cannot be deleted.",
    ),
    (E::InvalidRecord, "INVALID_RECORD", false, "A record was rejected."),
    (
        E::UnstableOffsetCommit,
        "UNSTABLE_OFFSET_COMMIT",
        true,
        "Offsets of an open transaction are still undecided.",
    ),
    (
        E::ThrottlingQuotaExceeded,
        "THROTTLING_QUOTA_EXCEEDED",
        true,
        "The quota is used up; try later.",
    ),
    (
        E::ProducerFenced,
        "PRODUCER_FENCED",
        false,
        "A newer producer uses the same transactional id.",
    ),
    (E::ResourceNotFound, "RESOURCE_NOT_FOUND", false, "There is no such resource."),
    (E::DuplicateResource, "DUPLICATE_RESOURCE", false, "The request names a resource twice."),
    (
        E::UnacceptableCredential,
        "UNACCEPTABLE_CREDENTIAL",
        false,
        "The credential does not meet the requirements.",
    ),
    (
        E::InconsistentVoterSet,
        "INCONSISTENT_VOTER_SET",
        false,
        "Sender or recipient is not one of the voters.",
    ),
    (
        E::InvalidUpdateVersion,
        "INVALID_UPDATE_VERSION",
        false,
        "The feature version of the update is not valid.",
    ),
    (E::FeatureUpdateFailed, "FEATURE_UPDATE_FAILED", false, "The features could not be updated."),
    (
        E::PrincipalDeserializationFailure,
        "PRINCIPAL_DESERIALIZATION_FAILURE",
        false,
        "The forwarded principal cannot be read.",
    ),
    (E::SnapshotNotFound, "SNAPSHOT_NOT_FOUND", false, "There is no such snapshot."),
    (
        E::PositionOutOfRange,
        "POSITION_OUT_OF_RANGE",
        false,
        "The position is outside of the snapshot.",
    ),
    (E::UnknownTopicId, "UNKNOWN_TOPIC_ID", true, "This broker has no topic of this id."),
    (
        E::DuplicateBrokerRegistration,
        "DUPLICATE_BROKER_REGISTRATION",
        false,
        "The broker id is in use.",
    ),
    (
        E::BrokerIdNotRegistered,
        "BROKER_ID_NOT_REGISTERED",
        false,
        "The broker id is not registered.",
    ),
    (
        E::InconsistentTopicId,
        "INCONSISTENT_TOPIC_ID",
        true,
        "The topic id of the request is not that of the log.",
    ),
    (
        E::InconsistentClusterId,
        "INCONSISTENT_CLUSTER_ID",
        false,
        "The request is for another cluster.",
    ),
    (
        E::TransactionalIdNotFound,
        "TRANSACTIONAL_ID_NOT_FOUND",
        false,
        "There is no such transactional id.",
    ),
    (
        E::FetchSessionTopicIdError,
        "FETCH_SESSION_TOPIC_ID_ERROR",
        true,
        "The fetch session mixes requests with and without topic ids.",
    ),
    (
        E::IneligibleReplica,
        "INELIGIBLE_REPLICA",
        false,
        "A replica of the new ISR may not be in it.",
    ),
    (
        E::NewLeaderElected,
        "NEW_LEADER_ELECTED",
        false,
        "The partition was changed, and it has a new leader.",
    ),
    (
        E::OffsetMovedToTieredStorage,
        "OFFSET_MOVED_TO_TIERED_STORAGE",
        false,
        "The offset has moved to tiered storage.",
    ),
    (
        E::FencedMemberEpoch,
        "FENCED_MEMBER_EPOCH",
        false,
        "The member's epoch is fenced; give up all partitions and join again.",
    ),
    (
        E::UnreleasedInstanceId,
        "UNRELEASED_INSTANCE_ID",
        false,
        "Another member still holds this instance id.",
    ),
    (
        E::UnsupportedAssignor,
        "UNSUPPORTED_ASSIGNOR",
        false,
        "The group does not support the assignor.",
    ),
    (
        E::StaleMemberEpoch,
        "STALE_MEMBER_EPOCH",
        false,
        "The member's epoch is old; try again after the next heartbeat.",
    ),
    (
        E::MismatchedEndpointType,
        "MISMATCHED_ENDPOINT_TYPE",
        false,
        "The request came to an endpoint of the wrong type.",
    ),
    (
        E::UnsupportedEndpointType,
        "UNSUPPORTED_ENDPOINT_TYPE",
        false,
        "The type of endpoint is not supported.",
    ),
    (E::UnknownControllerId, "UNKNOWN_CONTROLLER_ID", false, "There is no controller of this id."),
    (
        E::UnknownSubscriptionId,
        "UNKNOWN_SUBSCRIPTION_ID",
        false,
        "The telemetry subscription is unknown or has changed.",
    ),
    (
        E::TelemetryTooLarge,
        "TELEMETRY_TOO_LARGE",
        false,
        "The telemetry is larger than this broker accepts.",
    ),
    (
        E::InvalidRegistration,
        "INVALID_REGISTRATION",
        false,
        "The controller does not accept the registration.",
    ),
    (
        E::TransactionAbortable,
        "TRANSACTION_ABORTABLE",
        false,
        "The transaction cannot go on; abort it, the transactional id stays usable.",
    ),
    (
        E::InvalidRecordState,
        "INVALID_RECORD_STATE",
        false,
        "The record is not in a state to be acknowledged.",
    ),
    (E::ShareSessionNotFound, "SHARE_SESSION_NOT_FOUND", true, "There is no such share session."),
    (
        E::InvalidShareSessionEpoch,
        "INVALID_SHARE_SESSION_EPOCH",
        true,
        "The share session's epoch is not the next one.",
    ),
    (E::FencedStateEpoch, "FENCED_STATE_EPOCH", false, "The state epoch is not the coordinator's."),
    (
        E::InvalidVoterKey,
        "INVALID_VOTER_KEY",
        false,
        "The voter's key is not that of the receiving replica.",
    ),
    (E::DuplicateVoter, "DUPLICATE_VOTER", false, "The voter is already one."),
    (E::VoterNotFound, "VOTER_NOT_FOUND", false, "There is no such voter."),
    (
        E::InvalidRegularExpression,
        "INVALID_REGULAR_EXPRESSION",
        false,
        "The regular expression is not valid.",
    ),
    (
        E::RebootstrapRequired,
        "REBOOTSTRAP_REQUIRED",
        false,
        "The client's metadata is too old; start again from the bootstrap servers.",
    ),
    (E::StreamsInvalidTopology, "STREAMS_INVALID_TOPOLOGY", false, "The topology is not valid."),
    (
        E::StreamsInvalidTopologyEpoch,
        "STREAMS_INVALID_TOPOLOGY_EPOCH",
        false,
        "The topology's epoch is not valid.",
    ),
    (E::StreamsTopologyFenced, "STREAMS_TOPOLOGY_FENCED", false, "The topology's epoch is old."),
    (
        E::ShareSessionLimitReached,
        "SHARE_SESSION_LIMIT_REACHED",
        true,
        "No more share sessions are possible.",
    ),
    (
        E::GroupDeletionFailed,
        "GROUP_DELETION_FAILED",
        false,
        "The group could not be deleted; its own message says why.",
    ),
    (
        E::StreamsTopologyDescriptionUpdateFailed,
        "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED",
        false,
        "The topology's description could not be updated; the message says why.",
    ),
    (
        E::ControllerIdNotRegistered,
        "CONTROLLER_ID_NOT_REGISTERED",
        false,
        "The controller id is not registered.",
    ),
];

impl ErrorCode {
    /// Every code, in order, from -1.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|entry| entry.0)
    }

    /// The number on the wire; 0 is success.
    pub const fn code(self) -> i16 {
        self as i16
    }

    /// The error with this number, if Kafka has one.
    pub fn from_code(code: i16) -> Option<Self> {
        let at = usize::try_from(i32::from(code) + 1).ok()?;
        TABLE.get(at).map(|entry| entry.0)
    }

    fn entry(self) -> &'static (ErrorCode, &'static str, bool, &'static str) {
        let at = usize::try_from(i32::from(self.code()) + 1).expect("codes start at -1");
        &TABLE[at]
    }

    /// Whether clients are to send the same request again (Kafka's `RetriableException`).
    pub fn is_retriable(self) -> bool {
        self.entry().2
    }

    /// Kafka's name for it, such as `UNKNOWN_TOPIC_OR_PARTITION`.
    pub fn name(self) -> &'static str {
        self.entry().1
    }

    /// A sentence for people, in our words: Kafka's clients show their own.
    pub fn message(self) -> &'static str {
        self.entry().3
    }
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_stands_in_the_order_of_the_codes() {
        for (at, code) in (-1..=136).enumerate() {
            assert_eq!(TABLE[at].0.code(), code);
            assert_eq!(ErrorCode::from_code(code), Some(TABLE[at].0));
        }
        assert_eq!((ErrorCode::from_code(-2), ErrorCode::from_code(137)), (None, None));
    }

    #[test]
    fn an_error_knows_its_name_and_whether_to_retry() {
        let error = ErrorCode::UnknownTopicOrPartition;
        assert_eq!((error.code(), error.name()), (3, "UNKNOWN_TOPIC_OR_PARTITION"));
        assert!(error.is_retriable());
        assert!(!ErrorCode::RebalanceInProgress.is_retriable());
    }
}
