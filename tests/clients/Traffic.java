// Producers and consumers of every kind on some topics, and a listing of all that is in them; what it saw, as lines in files.
//
// It is told on standard input, and answers `done` to each line:
//   load ADDRESS FILE KIND:TOPIC ...   starts; answers when something was acknowledged in each topic
//   create ADDRESS TOPIC,KEY=VALUE,... ...
//   stop [open]                        ends it; a transaction stays open if asked for
//   list ADDRESS FILE TOPIC ...        all that is there, for readers of both isolation levels
//
// Kinds: `brief`, of producers that live for a few records; `plain`, without idempotence; `old`, without headers either; `keyed`, with few
// keys and tombstones; `deleted`, where DeleteRecords is at work; `transactions`; `steady` is none of these. With a codec, as in `old-gzip`.
//
// Lines of load:  A topic offset timestamp digest key fate    acknowledged; fate: p(lain), c(ommitted), a(borted), o(pen), u(nknown)
//                 M topic digest key                          sent and not acknowledged
//                 X topic offset     where a transaction begins whose end was acknowledged
//                 R topic offset timestamp digest             read meanwhile
//                 G topic offset     a group's committed offset        D topic offset    deleted before
//                 E topic offset     about to be deleted before
// Lines of list:  U topic offset timestamp digest key         C topic offset   also for read_committed
//                 B topic start stable-end end group's-offset

import java.io.*;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.zip.CRC32;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.*;

public class Traffic {
    static PrintWriter out;
    static volatile boolean stopping, leaveOpen;
    static String address;
    static int generation;
    static List<Thread> threads = new ArrayList<>();
    static Set<KafkaProducer<byte[], byte[]>> transactional = ConcurrentHashMap.newKeySet();

    public static void main(String[] arguments) {
        try {
            obey();
            Runtime.getRuntime().halt(0);
        } catch (Throwable trouble) {
            trouble.printStackTrace();
            // Other threads may hang.
            Runtime.getRuntime().halt(1);
        }
    }

    static void obey() throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.split(" ");
            if (words[0].equals("load")) load(words[1], words[2], Arrays.asList(words).subList(3, words.length));
            else if (words[0].equals("stop")) stop(words.length > 1);
            else if (words[0].equals("create")) create(words[1], Arrays.asList(words).subList(2, words.length));
            else list(words[1], words[2], Arrays.asList(words).subList(3, words.length));
            System.out.println("done");
        }
    }

    static void create(String at, List<String> topics) throws Exception {
        List<NewTopic> wanted = new ArrayList<>();
        for (String word : topics) {
            String[] parts = word.split(",");
            Map<String, String> configs = new HashMap<>();
            for (String config : Arrays.asList(parts).subList(1, parts.length)) configs.put(config.split("=")[0], config.split("=")[1]);
            wanted.add(new NewTopic(parts[0], 1, (short) 1).configs(configs));
        }
        try (Admin admin = Admin.create(Collections.singletonMap("bootstrap.servers", at))) {
            admin.createTopics(wanted).all().get();
        }
    }

    static void load(String at, String file, List<String> topics) throws Exception {
        out = new PrintWriter(new BufferedWriter(new FileWriter(file)));
        address = at;
        generation++;
        stopping = leaveOpen = false;
        threads.clear();
        CountDownLatch begun = new CountDownLatch(topics.size());
        for (String word : topics) {
            String kind = word.substring(0, word.indexOf(':')), topic = word.substring(word.indexOf(':') + 1);
            Writer writer = new Writer(kind, topic, begun);
            threads.add(new Thread(writer, topic));
            threads.add(new Thread(() -> follow(topic), topic + "-reader"));
            if (kind.startsWith("deleted")) threads.add(new Thread(() -> delete(writer), topic + "-deleter"));
        }
        for (Thread thread : threads) thread.start();
        if (!begun.await(120, TimeUnit.SECONDS)) throw new AssertionError(begun.getCount() + " topics take nothing");
    }

    static void stop(boolean open) throws Exception {
        leaveOpen = open;
        stopping = true;
        long patience = System.currentTimeMillis() + 10_000;
        for (Thread thread : threads) thread.join(Math.max(1, patience - System.currentTimeMillis()));
        // Where the broker has gone, a flush within a transaction ends when its producer is closed.
        for (KafkaProducer<byte[], byte[]> producer : transactional) producer.close(Duration.ZERO);
        for (Thread thread : threads) {
            thread.join(90_000);
            if (thread.isAlive()) throw new AssertionError(thread.getName() + " does not end");
        }
        out.close();
    }

    static synchronized void say(String line) {
        out.println(line);
    }

    static String digest(byte[] key, byte[] value, Iterable<Header> headers) {
        CRC32 crc = new CRC32();
        add(crc, key);
        add(crc, value);
        for (Header header : headers) {
            add(crc, header.key().getBytes(StandardCharsets.UTF_8));
            add(crc, header.value());
        }
        return String.format("%08x:%d:%d", crc.getValue(), key == null ? -1 : key.length, value == null ? -1 : value.length);
    }

    static void add(CRC32 crc, byte[] bytes) {
        crc.update(bytes == null ? 0 : 1);
        if (bytes != null) crc.update(bytes, 0, bytes.length);
    }

    static String name(byte[] key) {
        return key == null ? "-" : new String(key, StandardCharsets.UTF_8);
    }

    static class Sent {
        final ProducerRecord<byte[], byte[]> record;
        final String digest;
        Future<RecordMetadata> future;

        Sent(ProducerRecord<byte[], byte[]> record) {
            this.record = record;
            digest = digest(record.key(), record.value(), record.headers());
        }

        void tell(String fate) {
            try {
                RecordMetadata done = future == null || !future.isDone() ? null : future.get();
                if (done != null) {
                    say("A " + record.topic() + " " + done.offset() + " " + done.timestamp() + " " + digest + " " + name(record.key()) + " " + fate);
                    return;
                }
            } catch (Exception refused) {
                // It may have been stored.
            }
            say("M " + record.topic() + " " + digest + " " + name(record.key()));
        }
    }

    static class Writer implements Runnable {
        final String kind, topic, codec;
        final boolean isOld, isKeyed;
        final CountDownLatch begun;
        final Random random = new Random();
        volatile long acknowledged = -1;
        boolean counted;
        int number;

        Writer(String kind, String topic, CountDownLatch begun) {
            List<String> words = Arrays.asList(kind.split("-"));
            this.kind = words.get(0);
            codec = words.size() > 1 ? words.get(words.size() - 1) : "none";
            isOld = words.contains("old");
            isKeyed = words.contains("keyed");
            this.topic = topic;
            this.begun = begun;
        }

        KafkaProducer<byte[], byte[]> producer() {
            Map<String, Object> settings = new HashMap<>();
            settings.put("bootstrap.servers", address);
            settings.put("acks", "all");
            settings.put("linger.ms", 3);
            settings.put("batch.size", 4000);
            settings.put("compression.type", codec);
            settings.put("enable.idempotence", !kind.equals("plain") && !isOld);
            // Whoever sends in disorder again after an error may not be compared.
            settings.put("max.in.flight.requests.per.connection", kind.equals("plain") || isOld ? 1 : 5);
            settings.put("max.block.ms", 20_000);
            settings.put("request.timeout.ms", 10_000);
            settings.put("delivery.timeout.ms", 20_000);
            if (kind.equals("transactions")) settings.put("transactional.id", topic);
            return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        }

        Sent send(KafkaProducer<byte[], byte[]> producer) {
            String id = generation + "/" + number++;
            byte[] key = isKeyed ? ("k" + random.nextInt(25)).getBytes() : random.nextInt(4) == 0 ? null : id.getBytes();
            StringBuilder value = new StringBuilder(id);
            for (int n = random.nextInt(60); n > 0; n--) value.append(" word").append(random.nextInt(50));
            boolean isTombstone = isKeyed && random.nextInt(10) == 0;
            ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topic, 0, null, key, isTombstone ? null : value.toString().getBytes());
            if (!isOld && random.nextInt(3) == 0) {
                record.headers().add(new RecordHeader("h", id.getBytes())).add(new RecordHeader("nothing", null));
            }
            Sent sent = new Sent(record);
            try {
                sent.future = producer.send(record);
            } catch (Exception refused) {
                // Told as not acknowledged.
            }
            return sent;
        }

        public void run() {
            try {
                if (kind.equals("transactions")) transactions();
                else if (kind.equals("brief")) while (!stopping) burst(producer(), true);
                else {
                    KafkaProducer<byte[], byte[]> producer = producer();
                    while (!stopping) burst(producer, false);
                    producer.close(Duration.ZERO);
                }
            } catch (Exception trouble) {
                trouble.printStackTrace();
            }
        }

        void heard(List<Sent> sent) {
            for (Sent one : sent) {
                try {
                    acknowledged = Math.max(acknowledged, one.future.get(0, TimeUnit.SECONDS).offset());
                    if (!counted) begun.countDown();
                    counted = true;
                } catch (Exception none) {
                    // Not acknowledged.
                }
            }
        }

        void burst(KafkaProducer<byte[], byte[]> producer, boolean last) throws Exception {
            List<Sent> sent = new ArrayList<>();
            for (int n = random.nextInt(15) + 1; n > 0 && !stopping; n--) sent.add(send(producer));
            for (Sent one : sent) {
                while (one.future != null && !one.future.isDone() && !stopping) Thread.sleep(1);
            }
            heard(sent);
            if (last) producer.close(Duration.ZERO);
            for (Sent one : sent) one.tell("p");
            Thread.sleep(last ? 50 : 20);
        }

        void transactions() throws Exception {
            KafkaProducer<byte[], byte[]> producer = producer();
            transactional.add(producer);
            producer.initTransactions();
            while (true) {
                List<Sent> sent = new ArrayList<>();
                boolean isLast = stopping;
                if (isLast && !leaveOpen) break;
                String fate = isLast ? "o" : random.nextBoolean() ? "c" : "a";
                try {
                    producer.beginTransaction();
                    // Where the broker has gone, each of them waits.
                    for (int n = random.nextInt(6) + 1; n > 0 && stopping == isLast; n--) sent.add(send(producer));
                    producer.flush();
                    if (fate.equals("c")) producer.commitTransaction();
                    else if (fate.equals("a")) producer.abortTransaction();
                } catch (Exception trouble) {
                    fate = "u";
                }
                heard(sent);
                for (Sent one : sent) one.tell(fate);
                if (fate.matches("[ca]") && !sent.isEmpty()) say("X " + topic + " " + sent.get(0).future.get().offset());
                if (isLast || fate.equals("u")) break;
                Thread.sleep(20);
            }
            transactional.remove(producer);
            // Without waiting, it does not end what is open.
            producer.close(Duration.ZERO);
        }
    }

    static KafkaConsumer<byte[], byte[]> consumer(String at, String isolation) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", at);
        settings.put("group.id", "traffic");
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("isolation.level", isolation);
        settings.put("default.api.timeout.ms", 20_000);
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static String seen(ConsumerRecord<byte[], byte[]> record) {
        return record.topic() + " " + record.offset() + " " + record.timestamp() + " " + digest(record.key(), record.value(), record.headers());
    }

    /** Reads on from where the group is, and commits. */
    static void follow(String topic) {
        TopicPartition partition = new TopicPartition(topic, 0);
        KafkaConsumer<byte[], byte[]> consumer = consumer(address, "read_uncommitted");
        try {
            consumer.assign(Collections.singleton(partition));
            while (!stopping) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
                for (ConsumerRecord<byte[], byte[]> record : records) say("R " + seen(record));
                if (records.isEmpty()) continue;
                OffsetAndMetadata position = new OffsetAndMetadata(consumer.position(partition));
                consumer.commitSync(Collections.singletonMap(partition, position));
                say("G " + topic + " " + position.offset());
            }
        } catch (KafkaException trouble) {
            // The broker has gone, with or without the commit.
            if (!stopping) System.err.println(topic + ": " + trouble);
        }
        consumer.close(Duration.ZERO);
    }

    /** Deletes up to somewhere within what was acknowledged, often. */
    static void delete(Writer writer) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", address);
        settings.put("default.api.timeout.ms", 10_000);
        settings.put("request.timeout.ms", 5_000);
        Admin admin = Admin.create(settings);
        try {
            while (!stopping) {
                Thread.sleep(300);
                long before = writer.acknowledged - 40 - writer.random.nextInt(40);
                if (before <= 0) continue;
                TopicPartition partition = new TopicPartition(writer.topic, 0);
                // Told before, for it may be done though nobody says so.
                say("E " + writer.topic + " " + before);
                admin.deleteRecords(Collections.singletonMap(partition, RecordsToDelete.beforeOffset(before))).all().get();
                say("D " + writer.topic + " " + before);
            }
        } catch (InterruptedException | ExecutionException gone) {
            if (!stopping) System.err.println(writer.topic + ": " + gone);
        }
        admin.close(Duration.ZERO);
    }

    static void list(String at, String file, List<String> topics) throws Exception {
        try (PrintWriter to = new PrintWriter(new BufferedWriter(new FileWriter(file)))) {
            for (String topic : topics) {
                TopicPartition partition = new TopicPartition(topic, 0);
                Set<TopicPartition> one = Collections.singleton(partition);
                try (KafkaConsumer<byte[], byte[]> all = consumer(at, "read_uncommitted"); KafkaConsumer<byte[], byte[]> committed = consumer(at, "read_committed")) {
                    long start = all.beginningOffsets(one).get(partition), end = all.endOffsets(one).get(partition);
                    long stable = committed.endOffsets(one).get(partition);
                    OffsetAndMetadata group = all.committed(one).get(partition);
                    to.println("B " + topic + " " + start + " " + stable + " " + end + " " + (group == null ? -1 : group.offset()));
                    read(all, partition, start, end, record -> to.println("U " + seen(record) + " " + name(record.key())));
                    read(committed, partition, start, stable, record -> to.println("C " + topic + " " + record.offset()));
                }
            }
        }
    }

    interface Use {
        void use(ConsumerRecord<byte[], byte[]> record);
    }

    static void read(KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition, long start, long end, Use use) {
        consumer.assign(Collections.singleton(partition));
        consumer.seek(partition, start);
        long deadline = System.currentTimeMillis() + 120_000;
        while (consumer.position(partition) < end) {
            if (System.currentTimeMillis() > deadline) throw new AssertionError(partition + " ends at " + consumer.position(partition) + ", not at " + end);
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) use.use(record);
        }
    }
}
