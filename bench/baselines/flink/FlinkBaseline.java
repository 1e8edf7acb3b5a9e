import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichFlatMapFunction;
import org.apache.flink.api.common.typeinfo.TypeHint;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.PipelineOptions;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.configuration.StateRecoveryOptions;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetResetStrategy;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Content-based publish/subscribe as a Flink job with an index made by hand for one known load, in a local cluster.
 *
 * <pre>
 *   subscriptions (compacted) --> Index: symbol -> rules      in each parallel instance
 *                                   |
 *   events: KafkaSource ----------> Match ----------> KafkaSink, exactly once: one record per subscriber with a match
 * </pre>
 *
 * An instance per core. Source, match and sink are one chain of operators, which hand on objects without serializing
 * them. Each instance reads the subscriptions with a consumer of its own: all of the topic before the first event,
 * changes while it runs, which count from no known event on. As broadcast state they would be copied into every
 * checkpoint, and events would be serialized on their way to a second task. `Matcher` says what is compared with what.
 *
 * Arguments are NAME=VALUE: `bootstrap.servers`, `group.id`, `interval.ms` between checkpoints, the directory
 * `checkpoints`, the topics `events` and `subscriptions`, and `deliveries`, the topic of all deliveries, or `prefix`,
 * the beginning of the names of the subscribers' topics. It prints `state RUNNING` when all instances have their index,
 * ends in order on SIGTERM, and with exit code 1 if the job fails. It starts from the newest checkpoint in its
 * directory.
 */
public final class FlinkBaseline {
    private static final int INSTANCES = Runtime.getRuntime().availableProcessors();
    private static final CountDownLatch LOADING = new CountDownLatch(INSTANCES); // the cluster is in this process
    private static final Duration POLL = Duration.ofSeconds(1);
    private static final long STOP_S = 60;

    public static void main(String[] arguments) throws Exception {
        HashMap<String, String> task = new HashMap<>();
        for (String argument : arguments) {
            int at = argument.indexOf('=');
            task.put(argument.substring(0, at), argument.substring(at + 1));
        }
        Path checkpoints = Path.of(task.get("checkpoints"));
        StreamExecutionEnvironment flink =
            StreamExecutionEnvironment.createLocalEnvironment(INSTANCES, settings(task, checkpoints));
        flink.fromSource(events(task), WatermarkStrategy.noWatermarks(), "events")
            .flatMap(new Match(task))
            .returns(new TypeHint<ProducerRecord<byte[], byte[]>>() {})
            .sinkTo(deliveries(task));
        JobClient job = flink.executeAsync();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> stop(job, checkpoints)));
        job.getJobExecutionResult().whenComplete((result, error) -> {
            if (error != null) {
                error.printStackTrace();
                Runtime.getRuntime().halt(1);
            }
        });
        LOADING.await();
        System.out.println("state RUNNING");
        job.getJobExecutionResult().get();
    }

    private static Configuration settings(Map<String, String> task, Path checkpoints) throws IOException {
        Configuration settings = new Configuration();
        Duration interval = Duration.ofMillis(Long.parseLong(task.get("interval.ms")));
        settings.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, interval);
        settings.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, checkpoints.toUri().toString());
        settings.set(PipelineOptions.OBJECT_REUSE, true); // operators of a chain copy no records
        settings.set(RestartStrategyOptions.RESTART_STRATEGY, "none");
        newest(checkpoints).ifPresent(
            checkpoint -> settings.set(StateRecoveryOptions.SAVEPOINT_PATH, checkpoint.toUri().toString()));
        return settings;
    }

    /** The newest completed checkpoint or savepoint below a directory. */
    private static Optional<Path> newest(Path checkpoints) throws IOException {
        Files.createDirectories(checkpoints);
        try (Stream<Path> files = Files.walk(checkpoints)) {
            return files
                .filter(file -> file.endsWith("_metadata"))
                .max((one, other) -> Long.compare(one.toFile().lastModified(), other.toFile().lastModified()))
                .map(Path::getParent);
        }
    }

    /** Stops the job with a savepoint, which commits the open transactions. */
    private static void stop(JobClient job, Path checkpoints) {
        try {
            job.stopWithSavepoint(false, checkpoints.toUri().toString(), SavepointFormatType.NATIVE)
                .get(STOP_S, TimeUnit.SECONDS);
        } catch (Exception error) {
            error.printStackTrace();
        }
    }

    private static KafkaSource<ConsumerRecord<byte[], byte[]>> events(Map<String, String> task) {
        return KafkaSource.<ConsumerRecord<byte[], byte[]>>builder()
            .setBootstrapServers(task.get("bootstrap.servers"))
            .setTopics(task.get("events"))
            .setGroupId(task.get("group.id")) // to which each checkpoint commits its offsets
            .setStartingOffsets(OffsetsInitializer.committedOffsets(OffsetResetStrategy.EARLIEST))
            .setDeserializer(new WholeRecord())
            .setProperty(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, "10000")
            .setProperty(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed")
            .build();
    }

    private static KafkaSink<ProducerRecord<byte[], byte[]>> deliveries(Map<String, String> task) {
        return KafkaSink.<ProducerRecord<byte[], byte[]>>builder()
            .setBootstrapServers(task.get("bootstrap.servers"))
            .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .setTransactionalIdPrefix(task.get("group.id"))
            .setRecordSerializer((record, context, timestamp) -> record)
            .setProperty(ProducerConfig.TRANSACTION_TIMEOUT_CONFIG, "900000") // the most that brokers allow by default
            // Records leave while others are matched, not all at the checkpoint.
            .setProperty(ProducerConfig.LINGER_MS_CONFIG, "5")
            .setProperty(ProducerConfig.BATCH_SIZE_CONFIG, String.valueOf(1 << 18))
            .setProperty(ProducerConfig.BUFFER_MEMORY_CONFIG, String.valueOf(1 << 27))
            .setProperty(ProducerConfig.COMPRESSION_TYPE_CONFIG, "lz4")
            .build();
    }

    /** Hands on a record as the consumer returns it: nothing of it is serialized within a chain. */
    private static final class WholeRecord implements KafkaRecordDeserializationSchema<ConsumerRecord<byte[], byte[]>> {
        private static final long serialVersionUID = 1;

        @Override
        public void deserialize(
            ConsumerRecord<byte[], byte[]> record, Collector<ConsumerRecord<byte[], byte[]>> output) {
            output.collect(record);
        }

        @Override
        public TypeInformation<ConsumerRecord<byte[], byte[]>> getProducedType() {
            return TypeInformation.of(new TypeHint<>() {});
        }
    }

    private static final class Match
        extends RichFlatMapFunction<ConsumerRecord<byte[], byte[]>, ProducerRecord<byte[], byte[]>> {
        private static final long serialVersionUID = 1;

        private final HashMap<String, String> task;
        private transient Matcher matcher;
        private transient Consumer<byte[], byte[]> subscriptions;

        Match(HashMap<String, String> task) {
            this.task = task;
        }

        /** Reads all of the subscriptions topic, then follows it in a thread, an error of which ends the process. */
        @Override
        public void open(OpenContext context) {
            Index index = new Index();
            matcher = new Matcher(index);
            subscriptions = consumer();
            Map<TopicPartition, Long> ends = subscriptions.endOffsets(subscriptions.assignment());
            while (ends.entrySet().stream().anyMatch(end -> subscriptions.position(end.getKey()) < end.getValue())) {
                subscriptions.poll(POLL).forEach(change -> index.put(change.key(), change.value()));
            }
            new Thread(() -> follow(subscriptions, index), "subscriptions").start();
            LOADING.countDown();
        }

        @Override
        public void flatMap(
            ConsumerRecord<byte[], byte[]> event, Collector<ProducerRecord<byte[], byte[]>> deliveries) {
            matcher.match(
                event.topic(), event.partition(), event.offset(), event.timestamp(), event.value(),
                (subscriber, headers) -> deliveries.collect(
                    new ProducerRecord<>(
                        task.containsKey("prefix") ? task.get("prefix") + subscriber : task.get("deliveries"),
                        null,
                        event.timestamp(),
                        subscriber.getBytes(StandardCharsets.UTF_8),
                        event.value(),
                        headers)));
        }

        @Override
        public void close() {
            if (subscriptions != null) {
                subscriptions.wakeup();
            }
        }

        private Consumer<byte[], byte[]> consumer() {
            Properties settings = new Properties();
            settings.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, task.get("bootstrap.servers"));
            settings.put(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, 10_000);
            settings.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed");
            ByteArrayDeserializer read = new ByteArrayDeserializer();
            Consumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, read, read);
            List<TopicPartition> partitions = consumer.partitionsFor(task.get("subscriptions")).stream()
                .map(partition -> new TopicPartition(partition.topic(), partition.partition()))
                .toList();
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            return consumer;
        }

        private static void follow(Consumer<byte[], byte[]> subscriptions, Index index) {
            try (subscriptions) {
                while (true) {
                    subscriptions.poll(POLL).forEach(change -> index.put(change.key(), change.value()));
                }
            } catch (WakeupException closed) {
                return;
            } catch (RuntimeException error) {
                error.printStackTrace();
                Runtime.getRuntime().halt(1);
            }
        }
    }
}
