import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.StringReader;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;

/**
 * A Kafka Streams application that is to the tests what a worker is.
 *
 * <p>It reads the same environment variables, answers /readyz, ends with 0 after SIGTERM and with 3 when Kafka Streams gave up. With
 * an instance id it is a static member of its group. {@code STREAMS_CONFIG} has further properties, in the format of a properties
 * file; whatever neither it nor {@link #properties} names is the library's default.
 */
final class Instance {
    private static final int CRASHED = 3;
    private static final Duration CLOSING = Duration.ofSeconds(30);

    private Instance() {}

    /** Run the topology until the process gets a signal. */
    static void run(Topology topology, Map<String, String> environment) throws IOException, InterruptedException {
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

    private static Properties properties(Map<String, String> environment) throws IOException {
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
}
