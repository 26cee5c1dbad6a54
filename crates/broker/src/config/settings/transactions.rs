//! Producer ids and transactions.

use crate::config::values::Values;
use std::time::Duration;

/// Producer ids, `__transaction_state` and what is in it.
#[derive(Clone, Debug, PartialEq)]
pub struct TransactionSettings {
    /// `producer.id.expiration.ms`
    pub producer_id_expiration: Duration,
    /// `producer.id.expiration.check.interval.ms`
    pub producer_id_expiration_check_interval: Duration,
    /// `transactional.id.expiration.ms`
    pub transactional_id_expiration: Duration,
    /// `transaction.max.timeout.ms`
    pub max_timeout: Duration,
    /// `transaction.partition.verification.enable`
    pub partition_verification: bool,
    /// `transaction.abort.timed.out.transaction.cleanup.interval.ms`
    pub abort_timed_out_interval: Duration,
    /// `transaction.remove.expired.transaction.cleanup.interval.ms`
    pub remove_expired_interval: Duration,
    /// `transaction.state.log.num.partitions`
    pub topic_num_partitions: i32,
    /// `transaction.state.log.replication.factor`
    pub topic_replication_factor: i16,
    /// `transaction.state.log.min.isr`
    pub topic_min_isr: i32,
    /// `transaction.state.log.segment.bytes`
    pub topic_segment_bytes: i32,
    /// `transaction.state.log.load.buffer.size`
    pub load_buffer_bytes: usize,
}

impl TransactionSettings {
    pub(in crate::config) fn read(values: &Values) -> Self {
        Self {
            producer_id_expiration: values.millis("producer.id.expiration.ms"),
            producer_id_expiration_check_interval: values
                .millis("producer.id.expiration.check.interval.ms"),
            transactional_id_expiration: values.millis("transactional.id.expiration.ms"),
            max_timeout: values.millis("transaction.max.timeout.ms"),
            partition_verification: values.boolean("transaction.partition.verification.enable"),
            abort_timed_out_interval: values
                .millis("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
            remove_expired_interval: values
                .millis("transaction.remove.expired.transaction.cleanup.interval.ms"),
            topic_num_partitions: values.i32("transaction.state.log.num.partitions"),
            topic_replication_factor: values.i16("transaction.state.log.replication.factor"),
            topic_min_isr: values.i32("transaction.state.log.min.isr"),
            topic_segment_bytes: values.i32("transaction.state.log.segment.bytes"),
            load_buffer_bytes: values.size("transaction.state.log.load.buffer.size"),
        }
    }
}
