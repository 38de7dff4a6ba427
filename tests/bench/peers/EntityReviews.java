import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.TreeSet;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * What a service of reviews does at the least, exactly once, and what it does that finds summaries by brute force.
 *
 * <p>{@code PEER_MODE=trivial} keeps each review of an entity in a row of its own and emits an event for it. {@code brute} keeps the
 * sentences' vectors in rows of their own besides; for every event it reads those of the entity, computes their centroid and the k
 * sentences nearest to it, and emits them with their texts when the set of their ids has changed. Both know new reviews with
 * sentences and vectors alone, no edits and deletions: that is less than the worker does. To the tests it is what a worker
 * is: see {@link Instance}.
 */
public final class EntityReviews {
    private static final String REVIEWS = "reviews";
    private static final String VECTORS = "vectors";
    private static final String PUBLISHED = "published";
    private static final int K = 20;
    private static final ObjectMapper JSON = new ObjectMapper();

    private EntityReviews() {}

    /** Rows of an entity are neighbours: its id, a byte that no UTF-8 text has, and the review's id. */
    private static Bytes key(byte[] entity, byte[] rest) {
        return Bytes.wrap(ByteBuffer.allocate(entity.length + 1 + rest.length).put(entity).put((byte) 0xff).put(rest).array());
    }

    private static JsonNode read(byte[] json) {
        try {
            return JSON.readTree(json);
        } catch (IOException unreadable) {
            throw new UncheckedIOException(unreadable);
        }
    }

    private static byte[] write(JsonNode json) {
        try {
            return JSON.writeValueAsBytes(json);
        } catch (IOException never) {
            throw new UncheckedIOException(never);
        }
    }

    /** Keeps the review, and says so. */
    private static final class Trivial extends ContextualProcessor<Bytes, byte[], Bytes, byte[]> {
        @Override
        public void process(Record<Bytes, byte[]> event) {
            KeyValueStore<Bytes, byte[]> reviews = context().getStateStore(REVIEWS);
            String review = read(event.value()).get("review_id").asText();
            reviews.put(key(event.key().get(), review.getBytes(StandardCharsets.UTF_8)), event.value());
            ObjectNode kept = JSON.createObjectNode().put("type", "review.kept").put("review_id", review);
            context().forward(event.withValue(write(kept)));
        }
    }

    /** A sentence of an entity: the row of its review, its place in it, its distance to the centroid, squared. */
    private record Sentence(byte[] row, int place, double distance) {}

    /** Keeps the review and its vectors, and ranks all of the entity's sentences. */
    private static final class Brute extends ContextualProcessor<Bytes, byte[], Bytes, byte[]> {
        @Override
        public void process(Record<Bytes, byte[]> event) {
            KeyValueStore<Bytes, byte[]> reviews = context().getStateStore(REVIEWS);
            KeyValueStore<Bytes, byte[]> vectors = context().getStateStore(VECTORS);
            KeyValueStore<Bytes, byte[]> published = context().getStateStore(PUBLISHED);
            byte[] entity = event.key().get();
            JsonNode body = read(event.value());
            Bytes row = key(entity, body.get("review_id").asText().getBytes(StandardCharsets.UTF_8));
            vectors.put(row, packed(body.get("sentences")));
            ObjectNode kept = ((ObjectNode) body).deepCopy();
            kept.get("sentences").forEach(sentence -> ((ObjectNode) sentence).remove("embedding"));
            reviews.put(row, write(kept));

            List<Sentence> nearest = nearest(entity, vectors);
            TreeSet<String> ids = new TreeSet<>();
            ArrayNode sentences = JSON.createArrayNode();
            for (Sentence one : nearest) {
                JsonNode review = read(reviews.get(Bytes.wrap(one.row())));
                String id = review.get("review_id").asText() + "#" + one.place();
                ids.add(id);
                sentences.addObject()
                        .put("sentence_id", id)
                        .put("text", review.get("sentences").get(one.place()).get("text").asText())
                        .put("distance", Math.sqrt(one.distance()));
            }
            byte[] set = String.join("\n", ids).getBytes(StandardCharsets.UTF_8);
            if (!Arrays.equals(set, published.get(event.key()))) {
                published.put(event.key(), set);
                ObjectNode changed = JSON.createObjectNode().put("type", "summary.changed");
                changed.set("sentences", sentences);
                context().forward(event.withValue(write(changed)));
            }
        }

        /** The vectors one behind the other, as 32-bit numbers, each of length 1. */
        private static byte[] packed(JsonNode sentences) {
            List<byte[]> all = new ArrayList<>();
            int size = 0;
            for (JsonNode sentence : sentences) {
                byte[] bytes = Base64.getDecoder().decode(sentence.get("embedding").asText());
                normalize(ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN));
                all.add(bytes);
                size += bytes.length;
            }
            ByteBuffer joined = ByteBuffer.allocate(4 + size).putInt(all.size());
            all.forEach(joined::put);
            return joined.array();
        }

        private static void normalize(ByteBuffer vector) {
            double square = 0;
            for (int at = 0; at < vector.capacity(); at += 4) {
                square += (double) vector.getFloat(at) * vector.getFloat(at);
            }
            for (int at = 0; at < vector.capacity(); at += 4) {
                vector.putFloat(at, (float) (vector.getFloat(at) / Math.sqrt(square)));
            }
        }

        private static List<Sentence> nearest(byte[] entity, KeyValueStore<Bytes, byte[]> vectors) {
            List<byte[]> rows = new ArrayList<>();
            List<float[][]> found = new ArrayList<>();
            double[] sum = null;
            long count = 0;
            try (KeyValueIterator<Bytes, byte[]> all = vectors.range(key(entity, new byte[0]), key(entity, new byte[] {(byte) 0xff}))) {
                while (all.hasNext()) {
                    KeyValue<Bytes, byte[]> one = all.next();
                    float[][] unpacked = unpacked(one.value);
                    for (float[] vector : unpacked) {
                        sum = sum == null ? new double[vector.length] : sum;
                        for (int at = 0; at < vector.length; at++) {
                            sum[at] += vector[at];
                        }
                        count++;
                    }
                    rows.add(one.key.get());
                    found.add(unpacked);
                }
            }
            PriorityQueue<Sentence> best = new PriorityQueue<>(Comparator.comparingDouble(Sentence::distance).reversed());
            for (int row = 0; row < rows.size(); row++) {
                for (int place = 0; place < found.get(row).length; place++) {
                    double distance = distance(found.get(row)[place], sum, count);
                    if (best.size() < K || distance < best.peek().distance()) {
                        best.add(new Sentence(rows.get(row), place, distance));
                        if (best.size() > K) {
                            best.remove();
                        }
                    }
                }
            }
            List<Sentence> nearest = new ArrayList<>(best);
            nearest.sort(Comparator.comparingDouble(Sentence::distance));
            return nearest;
        }

        private static float[][] unpacked(byte[] value) {
            float[][] vectors = new float[ByteBuffer.wrap(value).getInt()][];
            FloatBuffer numbers = ByteBuffer.wrap(value, 4, value.length - 4).slice().order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer();
            int dimension = vectors.length == 0 ? 0 : numbers.capacity() / vectors.length;
            for (int at = 0; at < vectors.length; at++) {
                vectors[at] = new float[dimension];
                numbers.get(vectors[at]);
            }
            return vectors;
        }

        private static double distance(float[] vector, double[] sum, long count) {
            double square = 0;
            for (int at = 0; at < vector.length; at++) {
                double apart = vector[at] - sum[at] / count;
                square += apart * apart;
            }
            return square;
        }
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, String> environment = System.getenv();
        boolean brute = environment.get("PEER_MODE").equals("brute");
        List<String> stores = brute ? List.of(REVIEWS, VECTORS, PUBLISHED) : List.of(REVIEWS);
        ProcessorSupplier<Bytes, byte[], Bytes, byte[]> supplier = brute ? Brute::new : Trivial::new;
        StreamsBuilder builder = new StreamsBuilder();
        for (String store : stores) {
            builder.addStateStore(
                    Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(store), Serdes.Bytes(), Serdes.ByteArray()));
        }
        builder.stream(environment.get("COVERSUMM_INPUT_TOPIC"), Consumed.with(Serdes.Bytes(), Serdes.ByteArray()))
                .process(supplier, stores.toArray(String[]::new))
                .to(environment.get("COVERSUMM_OUTPUT_TOPIC"), Produced.with(Serdes.Bytes(), Serdes.ByteArray()));
        Instance.run(builder.build(), environment);
    }
}
