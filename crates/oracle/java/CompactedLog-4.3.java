/** A log of Kafka 4.3, as `Compaction` uses it. */
class CompactedLog {
    // Outside of tests no segment is smaller than a megabyte.
    static final String SEGMENT_BYTES = "internal.segment.bytes";

    final org.apache.kafka.storage.internals.log.UnifiedLog log;
    final org.apache.kafka.storage.internals.log.Cleaner cleaner;
    java.util.Optional<Long> checkpoint = java.util.Optional.empty();
    Object firstDirty;

    CompactedLog(File directory, Map<String, String> settings, int dedupeBytes, int ioBytes, Scheduler scheduler, Time clock) throws Exception {
        log = org.apache.kafka.storage.internals.log.UnifiedLog.create(directory, new org.apache.kafka.storage.internals.log.LogConfig(settings), 0, 0,
            scheduler, new org.apache.kafka.storage.log.metrics.BrokerTopicStats(false), clock, 1 << 30,
            new org.apache.kafka.storage.internals.log.ProducerStateManagerConfig(Integer.MAX_VALUE, false), 1 << 30,
            new org.apache.kafka.storage.internals.log.LogDirFailureChannel(1), true, java.util.Optional.empty());
        var unpaced = new org.apache.kafka.storage.internals.utils.Throttler(Double.MAX_VALUE, 300, "cleaner-io", "bytes", clock);
        cleaner = new org.apache.kafka.storage.internals.log.Cleaner(0, new org.apache.kafka.storage.internals.log.SkimpyOffsetMap(dedupeBytes, "MD5"),
            ioBytes, 1 << 20, 0.9, unpaced, clock, partition -> { });
    }

    void append(ByteBuffer batches) throws Exception {
        log.appendAsFollower(org.apache.kafka.common.record.internal.MemoryRecords.readableRecords(batches), Integer.MAX_VALUE);
        log.updateHighWatermark(log.logEndOffset());
    }

    /** Whether there was something to do. */
    boolean clean(long now) throws Exception {
        // Kafka's own tests may call it, others only so.
        var manager = org.apache.kafka.storage.internals.log.LogCleanerManager.class;
        var ask = manager.getDeclaredMethod("cleanableOffsets", log.getClass(), java.util.Optional.class, long.class);
        ask.setAccessible(true);
        Object due = ask.invoke(null, log, checkpoint, now);
        long first = number(due, "firstDirtyOffset");
        var found = new org.apache.kafka.storage.internals.log.LogToClean(log, first, number(due, "firstUncleanableDirtyOffset"), false);
        boolean something = found.totalBytes() > 0 && found.cleanableBytes() > 0;
        if (something) {
            checkpoint = java.util.Optional.of(cleaner.doClean(found, now).getKey());
        }
        firstDirty = checkpoint.orElse(first);
        return something;
    }

    static long number(Object of, String name) throws Exception {
        var method = of.getClass().getDeclaredMethod(name);
        method.setAccessible(true);
        return (long) method.invoke(of);
    }

    Iterable<LogSegment> segments() {
        return log.logSegments();
    }

    void close() {
        log.closeHandlers();
    }
}
