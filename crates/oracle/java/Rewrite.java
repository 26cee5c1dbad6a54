import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.jar.JarFile;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Reads messages with Kafka's own classes and writes them again.
 *
 * A line of input is `NAME VERSION HEX`; the answer is `ok HEX`, `none` if this release has no such
 * message or version, or `error TEXT`.
 */
public class Rewrite {
    public static void main(String[] arguments) throws Exception {
        Map<String, String> classes = generated();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        PrintStream out = new PrintStream(System.out, false);
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.split(" ", 3);
            out.println(rewrite(classes, words[0], Short.parseShort(words[1]), words[2]));
        }
        out.flush();
    }

    static Map<String, String> generated() throws Exception {
        Map<String, String> classes = new HashMap<>();
        for (String path : System.getProperty("java.class.path").split(File.pathSeparator)) {
            if (!path.endsWith(".jar")) {
                continue;
            }
            try (JarFile jar = new JarFile(path)) {
                jar.stream().map(entry -> entry.getName()).forEach(name -> {
                    boolean place = name.startsWith("org/apache/kafka/")
                        && (name.contains("/message/") || name.contains("/generated/"));
                    if (place && name.endsWith(".class") && !name.contains("$")) {
                        String full = name.substring(0, name.length() - 6).replace('/', '.');
                        classes.put(full.substring(full.lastIndexOf('.') + 1), full);
                    }
                });
            }
        }
        return classes;
    }

    static String rewrite(Map<String, String> classes, String name, short version, String hex) {
        String found = classes.getOrDefault(name + "Data", classes.get(name));
        if (found == null) {
            return "none";
        }
        try {
            Message message =
                (Message) Class.forName(found).getDeclaredConstructor().newInstance();
            // What Kafka 3.9 calls the version of a record's key, later releases call its type.
            if (name.endsWith("Key") && version == 0) {
                version = message.highestSupportedVersion();
            }
            if (version < message.lowestSupportedVersion()
                || version > message.highestSupportedVersion()) {
                return "none";
            }
            ByteBuffer input = ByteBuffer.wrap(HexFormat.of().parseHex(hex));
            message.read(new ByteBufferAccessor(input), version);
            if (input.hasRemaining()) {
                return "error " + input.remaining() + " bytes are left: " + message;
            }
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer output = ByteBuffer.allocate(message.size(cache, version));
            message.write(new ByteBufferAccessor(output), cache, version);
            return "ok " + HexFormat.of().formatHex(output.array(), 0, output.position());
        } catch (Exception | Error error) {
            return "error " + error.toString().replace('\n', ' ');
        }
    }
}
