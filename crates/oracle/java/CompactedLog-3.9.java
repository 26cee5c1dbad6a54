/** A log of Kafka 3.9, as `Compaction` uses it. */
class CompactedLog {
    static final String SEGMENT_BYTES = "segment.bytes";
    static final org.apache.kafka.common.TopicPartition NAME = new org.apache.kafka.common.TopicPartition("t", 0);

    final kafka.log.UnifiedLog log;
    final kafka.log.Cleaner cleaner;
    scala.Option<Object> checkpoint = scala.Option.empty();
    Object firstDirty;

    CompactedLog(File directory, Map<String, String> settings, int dedupeBytes, int ioBytes, Scheduler scheduler, Time clock) throws Exception {
        log = kafka.log.UnifiedLog.apply(directory, new org.apache.kafka.storage.internals.log.LogConfig(settings), 0, 0, scheduler,
            new kafka.server.BrokerTopicStats(false), clock, 1 << 30,
            new org.apache.kafka.storage.internals.log.ProducerStateManagerConfig(Integer.MAX_VALUE, false), 1 << 30,
            new org.apache.kafka.storage.internals.log.LogDirFailureChannel(1), true, scala.Option.empty(), true,
            new java.util.concurrent.ConcurrentHashMap<>(), false,
            org.apache.kafka.storage.internals.log.LogOffsetsListener.NO_OP_OFFSETS_LISTENER);
        var unpaced = new org.apache.kafka.storage.internals.utils.Throttler(Double.MAX_VALUE, 300, "cleaner-io", "bytes", clock);
        cleaner = new kafka.log.Cleaner(0, new org.apache.kafka.storage.internals.log.SkimpyOffsetMap(dedupeBytes, "MD5"), ioBytes, 1 << 20, 0.9,
            unpaced, clock, partition -> scala.runtime.BoxedUnit.UNIT);
    }

    void append(ByteBuffer batches) {
        log.appendAsFollower(org.apache.kafka.common.record.MemoryRecords.readableRecords(batches), Integer.MAX_VALUE);
        log.updateHighWatermark(log.logEndOffset());
    }

    /** Whether there was something to do. */
    boolean clean(long now) throws Exception {
        var due = kafka.log.LogCleanerManager.cleanableOffsets(log, checkpoint, now);
        var found = new kafka.log.LogToClean(NAME, log, due.firstDirtyOffset(), due.firstUncleanableDirtyOffset(), false);
        boolean something = found.totalBytes() > 0 && found.cleanableBytes() > 0;
        if (something) {
            checkpoint = scala.Option.apply(cleaner.doClean(found, now)._1());
        }
        firstDirty = checkpoint.isDefined() ? checkpoint.get() : (Object) due.firstDirtyOffset();
        return something;
    }

    Iterable<LogSegment> segments() {
        return log.logSegments();
    }

    void close() {
        log.closeHandlers();
    }
}
