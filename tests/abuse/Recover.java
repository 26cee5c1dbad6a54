import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.zip.CRC32;
import kafka.log.UnifiedLog;
import kafka.server.BrokerTopicStats;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.FetchIsolation;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetsListener;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import scala.Option;

/**
 * Recovers partition directories, a line of input each, as a broker of Kafka 3.9 does after it was not shut down
 * cleanly. Answers with the log's end, how many records it has, and a CRC-32 of `OFFSET:VALUE` and a newline of each.
 */
public class Recover {
    public static void main(String[] arguments) throws Exception {
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        BrokerTopicStats statistics = new BrokerTopicStats(false);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            UnifiedLog log = UnifiedLog.apply(new File(line), new LogConfig(Map.of()), 0, 0, scheduler, statistics, Time.SYSTEM,
                1 << 30, new ProducerStateManagerConfig(1 << 30, false), 1 << 30, new LogDirFailureChannel(1), false,
                Option.empty(), true, new ConcurrentHashMap<>(), false, LogOffsetsListener.NO_OP_OFFSETS_LISTENER);
            CRC32 sum = new CRC32();
            long at = log.logStartOffset(), count = 0;
            while (at < log.logEndOffset()) {
                long begin = at;
                for (Record record : log.read(at, 1 << 20, FetchIsolation.LOG_END, true).records.records()) {
                    if (record.offset() >= at) {
                        ByteBuffer value = record.value().duplicate();
                        sum.update((record.offset() + ":").getBytes());
                        sum.update(value);
                        sum.update('\n');
                        at = record.offset() + 1;
                        count++;
                    }
                }
                if (at == begin) {
                    break; // what compaction left at the end
                }
            }
            System.out.println(log.logEndOffset() + " " + count + " " + sum.getValue());
            log.closeHandlers();
        }
        scheduler.shutdown();
    }
}
