import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.processor.TopicNameExtractor;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.api.RecordMetadata;
import org.apache.kafka.streams.state.StoreBuilder;

/**
 * Content-based publish/subscribe as a Kafka Streams application with an index made by hand for one known load.
 *
 * <pre>
 *   subscriptions (compacted) --> Update --> Index: symbol -> rules      a global store, shared by all stream threads
 *   events                    --> Match  --> one record per subscriber with a match, exactly once
 * </pre>
 *
 * Changes of subscriptions count while it runs, from no known event on. `Matcher` says what is compared with what.
 *
 * Arguments are NAME=VALUE: settings of Kafka Streams under their own names, the topics `events` and `subscriptions`,
 * and `deliveries`, the topic of all deliveries, or `prefix`, the beginning of the names of the subscribers' topics.
 * It prints its states, and ends in order on SIGTERM.
 */
public final class StreamsBaseline {
    private static final String INDEX = "index";

    public static void main(String[] arguments) throws InterruptedException {
        Map<String, String> task = new HashMap<>();
        for (String argument : arguments) {
            int at = argument.indexOf('=');
            task.put(argument.substring(0, at), argument.substring(at + 1));
        }
        CountDownLatch failed = new CountDownLatch(1);
        KafkaStreams streams = new KafkaStreams(topology(task), settings(task));
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.setStateListener((state, before) -> {
            System.out.println("state " + state);
            if (state == KafkaStreams.State.ERROR) {
                failed.countDown();
            }
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(60))));
        streams.start();
        failed.await();
        System.exit(1);
    }

    /** Settings of the task win over these. */
    private static Properties settings(Map<String, String> task) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, Runtime.getRuntime().availableProcessors());
        // A thread commits between polls, so a poll that finds nothing must not last longer than the interval.
        settings.put(StreamsConfig.POLL_MS_CONFIG, task.get(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG));
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.MAX_POLL_RECORDS_CONFIG), 10_000);
        settings.put(StreamsConfig.BUFFERED_RECORDS_PER_PARTITION_CONFIG, 20_000);
        // Records leave while others are matched, not all at the commit.
        settings.put(StreamsConfig.producerPrefix(ProducerConfig.LINGER_MS_CONFIG), 5);
        settings.put(StreamsConfig.producerPrefix(ProducerConfig.BATCH_SIZE_CONFIG), 1 << 18);
        settings.put(StreamsConfig.producerPrefix(ProducerConfig.BUFFER_MEMORY_CONFIG), 1 << 27);
        settings.put(StreamsConfig.producerPrefix(ProducerConfig.COMPRESSION_TYPE_CONFIG), "lz4");
        settings.putAll(task);
        return settings;
    }

    private static Topology topology(Map<String, String> task) {
        ByteArrayDeserializer read = new ByteArrayDeserializer();
        ByteArraySerializer write = new ByteArraySerializer();
        String shared = task.get("deliveries");
        String prefix = task.get("prefix");
        TopicNameExtractor<byte[], byte[]> topic = (subscriber, event, context) ->
            prefix == null ? shared : prefix + new String(subscriber, StandardCharsets.UTF_8);
        return new Topology()
            .addGlobalStore(
                new IndexBuilder(), "subscriptions", read, read, task.get("subscriptions"), "update", Update::new)
            .addSource("events", read, read, task.get("events"))
            .addProcessor("match", Match::new, "events")
            .addSink("deliveries", topic, write, write, "match");
    }

    /** Puts each subscription into the index: those of the topic before the first event, later ones as they come. */
    private static final class Update implements Processor<byte[], byte[], Void, Void> {
        private Index index;

        @Override
        public void init(ProcessorContext<Void, Void> context) {
            IndexStore store = context.getStateStore(INDEX);
            index = store.index;
        }

        @Override
        public void process(Record<byte[], byte[]> change) {
            index.put(change.key(), change.value());
        }
    }

    private static final class Match extends ContextualProcessor<byte[], byte[], byte[], byte[]> {
        private Matcher matcher;

        @Override
        public void init(ProcessorContext<byte[], byte[]> context) {
            super.init(context);
            IndexStore store = context.getStateStore(INDEX);
            matcher = new Matcher(store.index);
        }

        @Override
        public void process(Record<byte[], byte[]> event) {
            RecordMetadata place = context().recordMetadata().orElseThrow();
            matcher.match(
                place.topic(), place.partition(), place.offset(), event.timestamp(), event.value(),
                (subscriber, headers) -> context().forward(
                    new Record<>(
                        subscriber.getBytes(StandardCharsets.UTF_8), event.value(), event.timestamp(), headers)));
        }
    }

    /** The global store: Kafka Streams' global thread alone writes it, all stream threads read it. */
    private static final class IndexStore implements StateStore {
        private final Index index = new Index();
        private boolean open;

        @Override
        public String name() {
            return INDEX;
        }

        @Override
        public void init(StateStoreContext context, StateStore root) {
            open = true;
            context.register(root, index::put);
        }

        @Override
        public void close() {
            open = false;
        }

        @Override
        public boolean persistent() {
            return false;
        }

        @Override
        public boolean isOpen() {
            return open;
        }
    }

    private static final class IndexBuilder implements StoreBuilder<IndexStore> {
        @Override
        public IndexStore build() {
            return new IndexStore();
        }

        @Override
        public String name() {
            return INDEX;
        }

        @Override
        public boolean loggingEnabled() {
            return false; // the subscriptions topic is its log
        }

        @Override
        public Map<String, String> logConfig() {
            return Map.of();
        }

        @Override
        public StoreBuilder<IndexStore> withCachingEnabled() {
            return this;
        }

        @Override
        public StoreBuilder<IndexStore> withCachingDisabled() {
            return this;
        }

        @Override
        public StoreBuilder<IndexStore> withLoggingEnabled(Map<String, String> config) {
            return this;
        }

        @Override
        public StoreBuilder<IndexStore> withLoggingDisabled() {
            return this;
        }
    }
}
