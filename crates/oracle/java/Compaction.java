import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.util.HexFormat;
import java.util.Map;
import java.util.concurrent.ScheduledFuture;
import java.util.function.Supplier;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.LogSegment;

/**
 * A log of Kafka and its cleaner, on a clock that stands still. `CompactedLog` is that of a release: the text of its file is
 * put behind this one's.
 *
 * Lines of input, with times in milliseconds:
 *
 *     log DIRECTORY SEGMENT_BYTES INDEX_INTERVAL_BYTES DELETE_RETENTION DEDUPE_BYTES IO_BYTES NOW
 *     append HEX          batches, as a follower appends them
 *     clean NOW
 *
 * The last is answered: `segment BASE LOG TRANSACTION_INDEX OFFSET_INDEX TIME_INDEX`, as hex, for each segment, and
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

    CompactedLog log;

    Compaction(String[] words) throws Exception {
        CLOCK.now = Long.parseLong(words[7]);
        Map<String, String> settings = Map.of(
            "cleanup.policy", "compact",
            CompactedLog.SEGMENT_BYTES, words[2],
            "index.interval.bytes", words[3],
            "delete.retention.ms", words[4],
            "segment.ms", String.valueOf(Long.MAX_VALUE));
        File directory = new File(words[1], "t-0");
        Files.createDirectories(directory.toPath());
        log = new CompactedLog(directory, settings, Integer.parseInt(words[5]), Integer.parseInt(words[6]), new Never(), CLOCK);
    }

    void clean(long now, PrintStream out) throws Exception {
        CLOCK.now = now;
        boolean something = log.clean(now);
        for (LogSegment segment : log.segments()) {
            ByteBuffer bytes = ByteBuffer.allocate(segment.size());
            segment.log().readInto(bytes, 0);
            byte[] all = new byte[bytes.limit()];
            bytes.get(all);
            File aborted = segment.txnIndex().file();
            byte[] index = aborted.exists() ? Files.readAllBytes(aborted.toPath()) : new byte[0];
            out.printf("segment %d %s. %s. %s. %s.%n", segment.baseOffset(), HEX.formatHex(all), HEX.formatHex(index),
                HEX.formatHex(entries(segment.offsetIndexFile(), segment.offsetIndex().sizeInBytes())),
                HEX.formatHex(entries(segment.timeIndexFile(), segment.timeIndex().sizeInBytes())));
        }
        out.printf("%s %s%n", something ? "cleaned" : "nothing", log.firstDirty);
    }

    /** An index without the room that is kept behind its entries. */
    static byte[] entries(File index, int size) throws Exception {
        return java.util.Arrays.copyOf(Files.readAllBytes(index.toPath()), size);
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
                            current.log.close();
                        }
                        current = new Compaction(words);
                    }
                    case "append" -> current.log.append(ByteBuffer.wrap(HEX.parseHex(words[1])));
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
