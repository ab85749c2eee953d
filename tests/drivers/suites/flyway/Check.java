// Flyway: several processes migrate one database at once, under each of its two locks: one of a transaction, which a
// second connection holds meanwhile, and one of the session. Each migration is applied once, and no process fails.

import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

import org.flywaydb.core.Flyway;

public final class Check {
    private static final int AT_ONCE = 3;

    public static void main(String[] arguments) throws Exception {
        if (arguments.length > 0) {
            System.out.println(flyway(arguments[0], arguments[1], arguments[2]).migrate().migrationsExecuted);
            return;
        }
        new Checks()
                .add("three at once with the lock of a transaction", () -> atOnce("of_transaction", true))
                .add("three at once with the lock of the session", () -> atOnce("of_session", false))
                .add("a migration that fails leaves no lock", Check::fails)
                .add("a killed process leaves no lock", Check::killed)
                .main("flyway " + Flyway.class.getPackage().getImplementationVersion());
    }

    static Flyway flyway(String schema, String folder, String transactional) {
        return Flyway.configure().dataSource(Checks.URL, Checks.USER, Checks.PASSWORD).schemas(schema)
                .locations("filesystem:" + folder)
                .configuration(Map.of("flyway.postgresql.transactional.lock", transactional)).load();
    }

    /** Migrations that use what belongs to a session; those of a transaction's lock can't build an index concurrently. */
    static void write(Path folder, int from, int to, boolean transactional) throws Exception {
        for (int number = from; number <= to; number++) {
            String table = "table_" + number;
            Files.writeString(folder.resolve("V" + number + "__creates.sql"), String.join(";\n",
                    "CREATE TABLE " + table + " (id serial PRIMARY KEY, name text)",
                    "CREATE TEMP TABLE scratch AS SELECT 'one' AS name",
                    "SET LOCAL work_mem = '5MB'",
                    "INSERT INTO " + table + " (name) SELECT name FROM scratch WHERE current_setting('work_mem') = '5MB'",
                    "SELECT pg_sleep(0.05)",
                    "DROP TABLE scratch"));
            if (!transactional) {
                Files.writeString(folder.resolve("V" + number + "_1__index.sql"),
                        "CREATE INDEX CONCURRENTLY ON " + table + " (name)");
            }
        }
    }

    static Process start(String schema, Path folder, boolean transactional) throws Exception {
        return new ProcessBuilder(System.getProperty("java.home") + "/bin/java", "-Xshare:auto", "-XX:TieredStopAtLevel=1",
                "-cp", System.getProperty("java.class.path"), "Check", schema, folder.toString(),
                String.valueOf(transactional)).redirectErrorStream(true).start();
    }

    static void atOnce(String schema, boolean transactional) throws Exception {
        Path folder = Files.createTempDirectory("flyway");
        int steps = transactional ? 1 : 2;
        for (int wave = 0; wave < 3; wave++) {
            // The last finds nothing to do.
            int wanted = wave < 2 ? 5 : 0;
            if (wanted > 0) {
                write(folder, wave * 5 + 1, wave * 5 + 5, transactional);
            }
            List<Process> processes = new ArrayList<>();
            for (int i = 0; i < AT_ONCE; i++) {
                processes.add(start(schema, folder, transactional));
            }
            int applied = 0;
            for (Process process : processes) {
                String output = new String(process.getInputStream().readAllBytes()).trim();
                Checks.expect(process.waitFor() == 0, output);
                applied += Integer.parseInt(output.substring(output.lastIndexOf('\n') + 1));
            }
            Checks.expect(applied == wanted * steps, applied + " migrations of wave " + wave);
        }
        expectValue("SELECT count(*) FROM " + schema + ".flyway_schema_history WHERE success AND version IS NOT NULL",
                10 * steps);
        for (int number = 1; number <= 10; number++) {
            expectValue("SELECT count(*) FROM " + schema + ".table_" + number, 1);
        }
        noLocks();
    }

    static void fails() throws Exception {
        Path folder = Files.createTempDirectory("flyway");
        write(folder, 1, 1, false);
        Files.writeString(folder.resolve("V2__fails.sql"), "CREATE TABLE undone (); SELECT 1 / 0");
        Process failed = start("that_fails", folder, false);
        String output = new String(failed.getInputStream().readAllBytes());
        Checks.expect(failed.waitFor() != 0 && output.contains("division by zero"), output);
        Files.writeString(folder.resolve("V2__fails.sql"), "CREATE TABLE done ()");
        Process again = start("that_fails", folder, false);
        output = new String(again.getInputStream().readAllBytes());
        Checks.expect(again.waitFor() == 0, output);
        noLocks();
    }

    static void killed() throws Exception {
        Path folder = Files.createTempDirectory("flyway");
        Files.writeString(folder.resolve("V1__waits.sql"), "SELECT pg_sleep(3)");
        Process killed = start("that_waits", folder, false);
        String waits = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(3)%' AND state = 'active'";
        Checks.eventually(() -> expectValue(waits, 1));
        killed.destroyForcibly().waitFor();
        Process next = start("that_waits", folder, false);
        String output = new String(next.getInputStream().readAllBytes());
        Checks.expect(next.waitFor() == 0, output);
        Checks.eventually(Check::noLocks);
    }

    static void noLocks() throws Exception {
        expectValue("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'", 0);
    }

    static void expectValue(String query, long wanted) throws Exception {
        try (Connection connection = DriverManager.getConnection(Checks.URL, Checks.USER, Checks.PASSWORD);
                Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery(query)) {
            rows.next();
            Checks.expect(rows.getLong(1) == wanted, rows.getLong(1) + " by " + query);
        }
    }
}
