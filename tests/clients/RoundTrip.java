// Produces, consumes in a group in two sittings and commits; compiles against every kafka-clients release since 0.10.

import java.util.*;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;

public class RoundTrip {
    public static void main(String[] arguments) throws Exception {
        String address = arguments[0], topic = arguments[1];
        int count = Integer.parseInt(arguments[2]);
        Properties producing = new Properties();
        producing.put("bootstrap.servers", address);
        producing.put("acks", "all");
        producing.put("compression.type", "lz4");
        producing.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        producing.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        try (Producer<String, String> producer = new KafkaProducer<>(producing)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int i = 0; i < count; i++) sent.add(producer.send(new ProducerRecord<>(topic, 0, "key" + i, "value" + i)));
            for (int i = 0; i < count; i++) check(sent.get(i).get().offset() == i, "offset of record " + i);
        }
        consume(address, topic, 0, count / 2);
        consume(address, topic, count / 2, count);
        System.out.println("ok");
    }

    static void consume(String address, String topic, int from, int to) throws Exception {
        Properties consuming = new Properties();
        consuming.put("bootstrap.servers", address);
        consuming.put("group.id", "round-trip");
        consuming.put("auto.offset.reset", "earliest");
        consuming.put("enable.auto.commit", "false");
        consuming.put("max.poll.records", "100");
        consuming.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        consuming.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(consuming)) {
            consumer.subscribe(Collections.singletonList(topic));
            int next = from;
            long deadline = System.currentTimeMillis() + 60_000;
            while (next < to) {
                check(System.currentTimeMillis() < deadline, "record " + next + " in 60 s");
                for (ConsumerRecord<String, String> record : poll(consumer)) {
                    if (next == to) break;
                    check(record.offset() == next && record.value().equals("value" + next), "record " + next + ", got " + record);
                    next++;
                }
            }
            consumer.commitSync(Collections.singletonMap(new TopicPartition(topic, 0), new OffsetAndMetadata(to)));
        }
    }

    // poll(long) until 3.9, poll(Duration) since 2.0: the one difference that reflection must bridge.
    @SuppressWarnings("unchecked")
    static ConsumerRecords<String, String> poll(KafkaConsumer<String, String> consumer) throws Exception {
        try {
            return (ConsumerRecords<String, String>) KafkaConsumer.class.getMethod("poll", java.time.Duration.class).invoke(consumer, java.time.Duration.ofMillis(500));
        } catch (NoSuchMethodException old) {
            return (ConsumerRecords<String, String>) KafkaConsumer.class.getMethod("poll", long.class).invoke(consumer, 500L);
        }
    }

    static void check(boolean holds, String what) {
        if (!holds) throw new AssertionError("expected " + what);
    }
}
