import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** Rules by symbol. One thread writes it, and any thread may read it meanwhile. */
final class Index {
    private final Map<String, Rule> byId = new HashMap<>();
    private final Map<String, Rules> bySymbol = new ConcurrentHashMap<>();

    /** Puts a record of the subscriptions topic in the place of an earlier one; one that is not JSON removes that. */
    void put(byte[] key, byte[] document) {
        String id = new String(key, StandardCharsets.UTF_8);
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

    record Rule(String subscriber, String quotedId, String symbol, long low, long high, long least, long most) {
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
}
