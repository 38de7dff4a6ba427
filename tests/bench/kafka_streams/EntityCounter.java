import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.StringReader;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * Counts the events of each entity, exactly once, and emits the new count for every event.
 *
 * <p>It is to the tests what a worker is: it reads the same environment variables, answers /readyz, ends with 0 after SIGTERM and
 * with 3 when Kafka Streams gave up. With an instance id it is a static member of its group. {@code STREAMS_CONFIG} has further
 * properties, in the format of a properties file; whatever neither it nor {@link #properties} names is the library's default.
 */
public final class EntityCounter {
    private static final String COUNTS = "counts";
    private static final int CRASHED = 3;
    private static final Duration CLOSING = Duration.ofSeconds(30);

    private EntityCounter() {}

    /** Entity id and any event in, entity id and its count out; the counts are in RocksDB and in a changelog topic. */
    private static final class Counter extends ContextualProcessor<Bytes, byte[], Bytes, Long> {
        @Override
        public void process(Record<Bytes, byte[]> event) {
            KeyValueStore<Bytes, Long> counts = context().getStateStore(COUNTS);
            Long before = counts.get(event.key());
            long count = before == null ? 1 : before + 1;
            counts.put(event.key(), count);
            context().forward(event.withValue(count));
        }
    }

    static Topology topology(String input, String output) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.addStateStore(Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(COUNTS), Serdes.Bytes(), Serdes.Long()));
        builder.stream(input, Consumed.with(Serdes.Bytes(), Serdes.ByteArray()))
                .process(Counter::new, COUNTS)
                .to(output, Produced.with(Serdes.Bytes(), Serdes.Long()));
        return builder.build();
    }

    static Properties properties(Map<String, String> environment) throws IOException {
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, environment.get("COVERSUMM_APP_ID"));
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, environment.get("KAFKA_BOOTSTRAP_SERVERS"));
        properties.put(StreamsConfig.STATE_DIR_CONFIG, environment.get("COVERSUMM_DATA_DIR"));
        properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        properties.put("auto.offset.reset", "earliest");
        if (environment.containsKey("COVERSUMM_INSTANCE_ID")) {
            properties.put("group.instance.id", environment.get("COVERSUMM_INSTANCE_ID"));
        }
        properties.load(new StringReader(environment.getOrDefault("STREAMS_CONFIG", "")));
        return properties;
    }

    private static void serveReadiness(KafkaStreams streams, int port) throws IOException {
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), 0);
        server.createContext("/readyz", exchange -> {
            exchange.sendResponseHeaders(streams.state() == KafkaStreams.State.RUNNING ? 200 : 503, -1);
            exchange.close();
        });
        server.start();
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, String> environment = System.getenv();
        Topology topology = topology(environment.get("COVERSUMM_INPUT_TOPIC"), environment.get("COVERSUMM_OUTPUT_TOPIC"));
        KafkaStreams streams = new KafkaStreams(topology, properties(environment));
        CountDownLatch crashed = new CountDownLatch(1);
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.ERROR) {
                crashed.countDown();
            }
        });
        // A JVM ends with 143 after SIGTERM, however orderly; a hook that halts says how it went instead.
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            boolean closed = streams.close(CLOSING);
            Runtime.getRuntime().halt(closed && crashed.getCount() > 0 ? 0 : CRASHED);
        }));
        serveReadiness(streams, Integer.parseInt(environment.get("COVERSUMM_WEB_PORT")));
        streams.start();
        crashed.await();
        System.exit(CRASHED);
    }
}
