import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;

/**
 * Finds the subscribers of events, for one thread.
 *
 * An event has a symbol, a price and a volume. A rule names one symbol and a range of each number, so a hash table
 * leaves the rules of one symbol, which are compared one by one. Records that are not JSON are skipped; everything else
 * is taken to be of this load.
 */
final class Matcher {
    private static final JsonFactory JSON = new JsonFactory();

    private final Index index;
    private String symbol;
    private long price;
    private long volume;

    Matcher(Index index) {
        this.index = index;
    }

    /** Receives one delivery per subscriber with a match. */
    interface Deliveries {
        void add(String subscriber, Headers headers);
    }

    /** Matches the record of the events topic with this position, timestamp in milliseconds, and value. */
    void match(String topic, int partition, long offset, long timestamp, byte[] event, Deliveries deliveries) {
        if (event == null || !read(event)) {
            return;
        }
        List<Index.Rule> matched = index.matches(symbol, price, volume);
        if (matched.isEmpty()) {
            return;
        }
        byte[] id = bytes(topic + "-" + partition + "-" + offset);
        byte[] time = bytes(Instant.ofEpochMilli(timestamp).toString());
        if (matched.size() == 1) {
            Index.Rule rule = matched.get(0);
            deliveries.add(rule.subscriber(), headers(id, time, rule.quotedId()));
            return;
        }
        Map<String, StringBuilder> ids = new LinkedHashMap<>();
        for (Index.Rule rule : matched) {
            StringBuilder of = ids.computeIfAbsent(rule.subscriber(), subscriber -> new StringBuilder());
            of.append(of.isEmpty() ? "" : ",").append(rule.quotedId());
        }
        ids.forEach((subscriber, quoted) -> deliveries.add(subscriber, headers(id, time, quoted)));
    }

    private static Headers headers(byte[] id, byte[] time, CharSequence quotedIds) {
        return new RecordHeaders()
            .add("ce_id", id)
            .add("ce_time", time)
            .add("ce_subscriptionids", bytes("[" + quotedIds + "]"));
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

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
