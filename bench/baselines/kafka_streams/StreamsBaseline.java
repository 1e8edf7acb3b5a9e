import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
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
 * An event has a symbol, a price and a volume. A rule names one symbol and a range of each number, so a hash table
 * leaves the rules of one symbol, which are compared one by one. Changes of subscriptions count while it runs, from no
 * known event on. Records that are not JSON are skipped; everything else is taken to be of this load.
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
        TopicNameExtractor<byte[], byte[]> topic =
            (subscriber, event, context) -> prefix == null ? shared : prefix + text(subscriber);
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
            index = context.getStateStore(INDEX);
        }

        @Override
        public void process(Record<byte[], byte[]> change) {
            index.put(text(change.key()), change.value());
        }
    }

    private static final class Match extends ContextualProcessor<byte[], byte[], byte[], byte[]> {
        private static final JsonFactory JSON = new JsonFactory();

        private Index index;
        private String symbol;
        private long price;
        private long volume;

        @Override
        public void init(ProcessorContext<byte[], byte[]> context) {
            super.init(context);
            index = context.getStateStore(INDEX);
        }

        @Override
        public void process(Record<byte[], byte[]> event) {
            if (event.value() == null || !read(event.value())) {
                return;
            }
            List<Rule> matched = index.matches(symbol, price, volume);
            if (matched.isEmpty()) {
                return;
            }
            RecordMetadata place = context().recordMetadata().orElseThrow();
            byte[] id = bytes(place.topic() + "-" + place.partition() + "-" + place.offset());
            byte[] time = bytes(Instant.ofEpochMilli(event.timestamp()).toString());
            if (matched.size() == 1) {
                deliver(event, id, time, matched.get(0).subscriber, matched.get(0).quotedId);
                return;
            }
            Map<String, StringBuilder> ids = new LinkedHashMap<>();
            for (Rule rule : matched) {
                StringBuilder of = ids.computeIfAbsent(rule.subscriber, subscriber -> new StringBuilder());
                of.append(of.isEmpty() ? "" : ",").append(rule.quotedId);
            }
            ids.forEach((subscriber, quoted) -> deliver(event, id, time, subscriber, quoted));
        }

        private void deliver(
            Record<byte[], byte[]> event, byte[] id, byte[] time, String subscriber, CharSequence quotedIds) {
            Headers headers = new RecordHeaders()
                .add("ce_id", id)
                .add("ce_time", time)
                .add("ce_subscriptionids", bytes("[" + quotedIds + "]"));
            context().forward(new Record<>(bytes(subscriber), event.value(), event.timestamp(), headers));
        }

        /** Reads the three attributes; returns whether all are there. It stops at the third. */
        private boolean read(byte[] event) {
            int found = 0;
            try (JsonParser json = JSON.createParser(event)) {
                if (json.nextToken() != JsonToken.START_OBJECT) {
                    return false;
                }
                for (String name; found < 3 && (name = json.nextFieldName()) != null; ) {
                    json.nextToken();
                    found++;
                    switch (name) {
                        case "symbol" -> symbol = json.getText();
                        case "price" -> price = json.getLongValue();
                        case "volume" -> volume = json.getLongValue();
                        default -> {
                            found--;
                            json.skipChildren();
                        }
                    }
                }
            } catch (IOException notOfThisLoad) {
                return false;
            }
            return found == 3;
        }
    }

    private record Rule(String subscriber, String quotedId, String symbol, long low, long high, long least, long most) {
        private static final ObjectMapper JSON = new ObjectMapper();

        /** Returns null if the document is not JSON. */
        static Rule of(byte[] document) {
            JsonNode rule;
            try {
                rule = JSON.readTree(document);
            } catch (IOException noJson) {
                return null;
            }
            return new Rule(
                rule.at("/subscriber").asText(),
                rule.at("/id").toString(),
                rule.at("/pattern/symbol/0").asText(),
                rule.at("/pattern/price/0/numeric/1").asLong(),
                rule.at("/pattern/price/0/numeric/3").asLong(),
                rule.at("/pattern/volume/0/numeric/1").asLong(),
                rule.at("/pattern/volume/0/numeric/3").asLong());
        }
    }

    /**
     * The rules of one symbol: the first `count` of arrays that have room for more. What a reader has got does not
     * change: a rule is added behind `count`, and one is removed from a copy.
     */
    private record Rules(int count, Rule[] rules, long[] low, long[] width, long[] least, long[] height) {
        static final Rules NONE = new Rules(0, new Rule[0], new long[0], new long[0], new long[0], new long[0]);

        Rules with(Rule rule) {
            Rules roomy = count < rules.length ? this : copy(Math.max(4, count + count / 2));
            roomy.rules[count] = rule;
            roomy.low[count] = rule.low;
            roomy.width[count] = Math.max(0, rule.high - rule.low);
            roomy.least[count] = rule.least;
            roomy.height[count] = Math.max(0, rule.most - rule.least);
            return new Rules(count + 1, roomy.rules, roomy.low, roomy.width, roomy.least, roomy.height);
        }

        Rules without(Rule rule) {
            Rules kept = NONE.copy(count);
            for (int i = 0; i < count; i++) {
                kept = rules[i] == rule ? kept : kept.with(rules[i]);
            }
            return kept;
        }

        private Rules copy(int room) {
            return new Rules(
                count,
                Arrays.copyOf(rules, room),
                Arrays.copyOf(low, room),
                Arrays.copyOf(width, room),
                Arrays.copyOf(least, room),
                Arrays.copyOf(height, room));
        }

        /** One comparison for each range: below `low` the difference, taken as unsigned, is above any width. */
        void match(long price, long volume, List<Rule> matched) {
            for (int i = 0; i < count; i++) {
                if (Long.compareUnsigned(price - low[i], width[i]) < 0
                    && Long.compareUnsigned(volume - least[i], height[i]) < 0) {
                    matched.add(rules[i]);
                }
            }
        }
    }

    /** The global store: Kafka Streams' global thread alone writes it, all stream threads read it. */
    private static final class Index implements StateStore {
        private final Map<String, Rule> byId = new HashMap<>();
        private final Map<String, Rules> bySymbol = new ConcurrentHashMap<>();
        private boolean open;

        void put(String id, byte[] document) {
            Rule before = byId.remove(id);
            if (before != null) {
                bySymbol.computeIfPresent(before.symbol, (symbol, rules) -> rules.without(before));
            }
            Rule rule = document == null ? null : Rule.of(document);
            if (rule != null) {
                byId.put(id, rule);
                bySymbol.put(rule.symbol, bySymbol.getOrDefault(rule.symbol, Rules.NONE).with(rule));
            }
        }

        List<Rule> matches(String symbol, long price, long volume) {
            List<Rule> matched = new ArrayList<>(2);
            bySymbol.getOrDefault(symbol, Rules.NONE).match(price, volume, matched);
            return matched;
        }

        @Override
        public String name() {
            return INDEX;
        }

        @Override
        public void init(StateStoreContext context, StateStore root) {
            open = true;
            context.register(root, (id, document) -> put(text(id), document));
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

    private static final class IndexBuilder implements StoreBuilder<Index> {
        @Override
        public Index build() {
            return new Index();
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
        public StoreBuilder<Index> withCachingEnabled() {
            return this;
        }

        @Override
        public StoreBuilder<Index> withCachingDisabled() {
            return this;
        }

        @Override
        public StoreBuilder<Index> withLoggingEnabled(Map<String, String> config) {
            return this;
        }

        @Override
        public StoreBuilder<Index> withLoggingDisabled() {
            return this;
        }
    }

    private static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
