// Liquibase: several processes update one database at once, under its lock of a row; each change is applied once, and
// what a change leaves in its session harms no other.

import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.logging.Level;
import java.util.logging.Logger;

import liquibase.Contexts;
import liquibase.Liquibase;
import liquibase.database.Database;
import liquibase.database.DatabaseFactory;
import liquibase.database.jvm.JdbcConnection;
import liquibase.resource.DirectoryResourceAccessor;

public final class Check {
    public static void main(String[] arguments) throws Exception {
        if (arguments.length > 0) {
            update(Path.of(arguments[0]));
            return;
        }
        new Checks().add("three at once", Check::atOnce).add("a change that fails leaves no lock", Check::fails)
                .main("liquibase " + Liquibase.class.getPackage().getImplementationVersion());
    }

    static void update(Path folder) throws Exception {
        Logger.getLogger("").setLevel(Level.OFF);
        Connection connection = DriverManager.getConnection(Checks.URL, Checks.USER, Checks.PASSWORD);
        Database database = DatabaseFactory.getInstance().findCorrectDatabaseImplementation(new JdbcConnection(connection));
        try (Liquibase liquibase = new Liquibase("changes.sql", new DirectoryResourceAccessor(folder), database)) {
            liquibase.update(new Contexts());
        }
    }

    static Path changes(int count, String last) throws Exception {
        Path folder = Files.createTempDirectory("liquibase");
        StringBuilder text = new StringBuilder("--liquibase formatted sql\n");
        for (int number = 1; number <= count; number++) {
            text.append("--changeset weir:" + number + "\n"
                    + "CREATE TABLE IF NOT EXISTS changes (number int);\n"
                    + "CREATE TEMP TABLE scratch AS SELECT " + number + " AS number;\n"
                    + "INSERT INTO changes SELECT number FROM scratch;\n"
                    + "SELECT pg_sleep(0.05);\n"
                    + "DROP TABLE scratch;\n");
        }
        Files.writeString(folder.resolve("changes.sql"), text + last);
        return folder;
    }

    static Process start(Path folder) throws Exception {
        return new ProcessBuilder(System.getProperty("java.home") + "/bin/java", "-XX:TieredStopAtLevel=1", "-cp",
                System.getProperty("java.class.path"), "Check", folder.toString()).redirectErrorStream(true).start();
    }

    static void atOnce() throws Exception {
        for (int count : new int[] {1, 10, 20, 20}) {
            Path folder = changes(count, "");
            List<Process> processes = new ArrayList<>();
            // The first creates Liquibase's own tables: several at once may fail there, also directly.
            for (int i = 0; i < (count == 1 ? 1 : 3); i++) {
                processes.add(start(folder));
            }
            for (Process process : processes) {
                String output = new String(process.getInputStream().readAllBytes());
                Checks.expect(process.waitFor() == 0, output);
            }
            expectValue("SELECT count(*) FROM changes", count);
            expectValue("SELECT count(DISTINCT number) FROM changes", count);
            expectValue("SELECT count(*) FROM databasechangelog", count);
        }
    }

    static void fails() throws Exception {
        Process failed = start(changes(20, "--changeset weir:fails\nSELECT 1 / 0;\n"));
        String output = new String(failed.getInputStream().readAllBytes());
        Checks.expect(failed.waitFor() != 0 && output.contains("division by zero"), output);
        expectValue("SELECT count(*) FROM databasechangeloglock WHERE locked", 0);
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
