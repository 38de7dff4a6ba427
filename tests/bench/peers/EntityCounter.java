import java.util.Map;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
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
 * <p>To the tests it is what a worker is: see {@link Instance}.
 */
public final class EntityCounter {
    private static final String COUNTS = "counts";

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

    public static void main(String[] arguments) throws Exception {
        Map<String, String> environment = System.getenv();
        String input = environment.get("COVERSUMM_INPUT_TOPIC");
        Instance.run(topology(input, environment.get("COVERSUMM_OUTPUT_TOPIC")), environment);
    }
}
