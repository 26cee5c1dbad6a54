import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.util.HexFormat;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ScheduledFuture;
import java.util.function.Supplier;
import kafka.log.Cleaner;
import kafka.log.LogCleanerManager;
import kafka.log.LogToClean;
import kafka.log.OffsetsToClean;
import kafka.log.UnifiedLog;
import kafka.server.BrokerTopicStats;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetsListener;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.utils.Throttler;
import scala.Option;
import scala.runtime.BoxedUnit;

/**
 * A log of Kafka 3.9 and its cleaner, on a clock that stands still.
 *
 * Lines of input, with times in milliseconds:
 *
 *     log DIRECTORY SEGMENT_BYTES INDEX_INTERVAL_BYTES DELETE_RETENTION DEDUPE_BYTES IO_BYTES NOW
 *     append HEX          batches, as a follower appends them
 *     clean NOW
 *
 * The last is answered: `segment BASE LOG TRANSACTION_INDEX`, both as hex, for each segment, and
 * `cleaned FIRST_DIRTY_OFFSET`, or `nothing FIRST_DIRTY_OFFSET` if nothing could be cleaned. Anything that
 * fails is answered with `error TEXT`.
 */
public class Compaction {
    static final HexFormat HEX = HexFormat.of();

    static final class Clock implements Time {
        long now;

        public long milliseconds() {
            return now;
        }

        public long nanoseconds() {
            return now * 1_000_000;
        }

        public void sleep(long milliseconds) {
            throw new UnsupportedOperationException();
        }

        public void waitObject(Object object, Supplier<Boolean> condition, long deadline) {
            throw new UnsupportedOperationException();
        }
    }

    /** Nothing is done later: neither files deleted nor producers forgotten. */
    static final class Never implements Scheduler {
        public void startup() {
        }

        public void shutdown() {
        }

        public ScheduledFuture<?> schedule(String name, Runnable task, long delay, long period) {
            return null;
        }

        public void resizeThreadPool(int size) {
        }
    }

    static final Clock CLOCK = new Clock();
    static final TopicPartition NAME = new TopicPartition("t", 0);
    static final BrokerTopicStats STATISTICS = new BrokerTopicStats(false);

    UnifiedLog log;
    Cleaner cleaner;
    Option<Object> checkpoint = Option.empty();

    Compaction(String[] words) throws Exception {
        CLOCK.now = Long.parseLong(words[7]);
        Map<String, String> settings = Map.of(
            "cleanup.policy", "compact",
            "segment.bytes", words[2],
            "index.interval.bytes", words[3],
            "delete.retention.ms", words[4],
            "segment.ms", String.valueOf(Long.MAX_VALUE));
        File directory = new File(words[1], NAME.toString());
        Files.createDirectories(directory.toPath());
        log = UnifiedLog.apply(directory, new LogConfig(settings), 0, 0, new Never(), STATISTICS, CLOCK, 1 << 30,
            new ProducerStateManagerConfig(Integer.MAX_VALUE, false), 1 << 30, new LogDirFailureChannel(1), true,
            Option.empty(), true, new ConcurrentHashMap<>(), false, LogOffsetsListener.NO_OP_OFFSETS_LISTENER);
        int buffer = Integer.parseInt(words[6]);
        Throttler unpaced = new Throttler(Double.MAX_VALUE, 300, "cleaner-io", "bytes", CLOCK);
        cleaner = new Cleaner(0, new SkimpyOffsetMap(Integer.parseInt(words[5]), "MD5"), buffer, 1 << 20, 0.9,
            unpaced, CLOCK, partition -> BoxedUnit.UNIT);
    }

    void append(String hex) {
        log.appendAsFollower(MemoryRecords.readableRecords(ByteBuffer.wrap(HEX.parseHex(hex))), Integer.MAX_VALUE);
        log.updateHighWatermark(log.logEndOffset());
    }

    void clean(long now, PrintStream out) throws Exception {
        CLOCK.now = now;
        OffsetsToClean due = LogCleanerManager.cleanableOffsets(log, checkpoint, now);
        LogToClean found = new LogToClean(NAME, log, due.firstDirtyOffset(), due.firstUncleanableDirtyOffset(), false);
        boolean something = found.totalBytes() > 0 && found.cleanableBytes() > 0;
        if (something) {
            checkpoint = Option.apply(cleaner.doClean(found, now)._1());
        }
        for (LogSegment segment : log.logSegments()) {
            ByteBuffer bytes = ByteBuffer.allocate(segment.size());
            segment.log().readInto(bytes, 0);
            byte[] all = new byte[bytes.limit()];
            bytes.get(all);
            File aborted = segment.txnIndex().file();
            byte[] index = aborted.exists() ? Files.readAllBytes(aborted.toPath()) : new byte[0];
            out.printf("segment %d %s. %s.%n", segment.baseOffset(), HEX.formatHex(all), HEX.formatHex(index));
        }
        Object dirty = checkpoint.isDefined() ? checkpoint.get() : (Object) due.firstDirtyOffset();
        out.printf("%s %s%n", something ? "cleaned" : "nothing", dirty);
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false);
        Compaction current = null;
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.split(" ");
            try {
                switch (words[0]) {
                    case "log" -> {
                        if (current != null) {
                            current.log.closeHandlers();
                        }
                        current = new Compaction(words);
                    }
                    case "append" -> current.append(words[1]);
                    case "clean" -> current.clean(Long.parseLong(words[1]), out);
                    default -> throw new IllegalArgumentException(line);
                }
            } catch (Exception failure) {
                out.printf("error %s: %s%n", words[0], failure.toString().replace('\n', ' '));
            }
        }
        out.flush();
    }
}
