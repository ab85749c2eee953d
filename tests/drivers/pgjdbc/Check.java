// pgjdbc: parameters, preparation after five times, batches, cursors, COPY, cancel, transactions.

import java.io.ByteArrayOutputStream;
import java.io.StringReader;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyManager;

public class Check {
    static final String MODE = System.getenv("MODE");
    static final String TABLE = "pgjdbc_" + MODE;

    interface Work {
        void run(Connection connection) throws Exception;
    }

    static Connection connect(String... more) throws SQLException {
        Properties properties = new Properties();
        properties.put("user", System.getenv("USER_NAME"));
        properties.put("password", System.getenv("PASSWORD"));
        properties.put("connectTimeout", "20");
        for (int i = 0; i < more.length; i += 2) {
            properties.put(more[i], more[i + 1]);
        }
        String server = System.getenv("HOST") + ":" + System.getenv("PORT");
        String url = "jdbc:postgresql://" + server + "/" + System.getenv("DATABASE");
        return DriverManager.getConnection(url, properties);
    }

    static void expect(boolean holds, Object got) throws Exception {
        if (!holds) {
            throw new Exception("got " + got);
        }
    }

    static void fails(String state, Callable<?> work) throws Exception {
        try {
            work.call();
        } catch (SQLException error) {
            expect(state.equals(error.getSQLState()), error.getSQLState() + " " + error.getMessage());
            return;
        }
        throw new Exception("no error, wanted " + state);
    }

    static int number(Connection connection, String sql, int... values) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            for (int i = 0; i < values.length; i++) {
                statement.setInt(i + 1, values[i]);
            }
            try (ResultSet rows = statement.executeQuery()) {
                rows.next();
                return rows.getInt(1);
            }
        }
    }

    static void queryAndParameters(Connection connection) throws Exception {
        try (PreparedStatement statement = connection.prepareStatement("SELECT ?::int, ?::text, ?::bytea")) {
            statement.setInt(1, 7);
            statement.setString(2, "é");
            statement.setBytes(3, new byte[] {0, -1});
            ResultSet rows = statement.executeQuery();
            rows.next();
            expect(rows.getInt(1) == 7 && rows.getString(2).equals("é"), rows.getString(2));
            expect(rows.getBytes(3)[1] == -1, rows.getBytes(3)[1]);
        }
    }

    static void wrongPassword(Connection ignored) throws Exception {
        fails("28P01", () -> connect("password", "wrong"));
    }

    /** From the fifth execution on a statement has a name on the server. */
    static void preparedAfterFiveTimes(Connection ignored) throws Exception {
        List<Connection> connections = new ArrayList<>();
        List<PreparedStatement> statements = new ArrayList<>();
        for (int i = 0; i < 10; i++) {
            connections.add(connect());
            statements.add(connections.get(i).prepareStatement("SELECT ?::int + 1"));
        }
        for (int round = 0; round < 15; round++) {
            for (int i = 0; i < 10; i++) {
                statements.get(i).setInt(1, i * round);
                ResultSet rows = statements.get(i).executeQuery();
                rows.next();
                expect(rows.getInt(1) == i * round + 1, rows.getInt(1));
            }
        }
        for (Connection connection : connections) {
            connection.close();
        }
    }

    static void manyStatements(Connection ignored) throws Exception {
        try (Connection connection = connect("preparedStatementCacheQueries", "5", "prepareThreshold", "1")) {
            for (int round = 0; round < 3; round++) {
                for (int i = 0; i < 30; i++) {
                    expect(number(connection, "SELECT ?::int + " + i, round) == round + i, i);
                }
            }
        }
    }

    static void transactions(Connection connection) throws Exception {
        try (Statement statement = connection.createStatement()) {
            statement.execute("DROP TABLE IF EXISTS " + TABLE);
            statement.execute("CREATE TABLE " + TABLE + " (id int PRIMARY KEY, name text)");
            connection.setAutoCommit(false);
            statement.executeUpdate("INSERT INTO " + TABLE + " VALUES (1, 'one')");
            Savepoint savepoint = connection.setSavepoint();
            fails("23505", () -> statement.executeUpdate("INSERT INTO " + TABLE + " VALUES (1, 'twice')"));
            fails("25P02", () -> statement.executeQuery("SELECT 1"));
            connection.rollback(savepoint);
            statement.executeUpdate("INSERT INTO " + TABLE + " VALUES (2, 'two')");
            connection.commit();
            statement.executeUpdate("DELETE FROM " + TABLE);
            connection.rollback();
            connection.setAutoCommit(true);
        }
        expect(number(connection, "SELECT count(*) FROM " + TABLE) == 2, "another count");
    }

    static void batches(Connection connection) throws Exception {
        connection.setAutoCommit(false);
        try (PreparedStatement statement = connection.prepareStatement("INSERT INTO " + TABLE + " VALUES (?, ?)")) {
            for (int id = 100; id < 1100; id++) {
                statement.setInt(1, id);
                statement.setString(2, "row " + id);
                statement.addBatch();
            }
            expect(statement.executeBatch().length == 1000, "another length");
        }
        connection.commit();
        connection.setAutoCommit(true);
        try (PreparedStatement statement = connection.prepareStatement("SELECT 1 / ?::int")) {
            statement.setInt(1, 0);
            statement.addBatch();
            fails("22012", statement::executeBatch);
        }
        expect(number(connection, "SELECT count(*) FROM " + TABLE + " WHERE id >= ?", 100) == 1000, "another count");
    }

    static void cursorInPortions(Connection connection) throws Exception {
        connection.setAutoCommit(false);
        try (Statement statement = connection.createStatement()) {
            statement.setFetchSize(50);
            ResultSet rows = statement.executeQuery("SELECT generate_series(1, 2000)");
            int count = 0;
            while (rows.next()) {
                count++;
                expect(rows.getInt(1) == count, rows.getInt(1));
            }
            expect(count == 2000, count);
        }
        connection.commit();
        connection.setAutoCommit(true);
    }

    static void copyInAndOut(Connection connection) throws Exception {
        CopyManager copy = connection.unwrap(PGConnection.class).getCopyAPI();
        StringBuilder data = new StringBuilder();
        for (int id = 10000; id < 15000; id++) {
            data.append(id).append("\trow\n");
        }
        long copied = copy.copyIn("COPY " + TABLE + " FROM STDIN", new StringReader(data.toString()));
        expect(copied == 5000, copied);
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        copy.copyOut("COPY (SELECT * FROM " + TABLE + " WHERE id >= 10000 ORDER BY id) TO STDOUT", out);
        expect(out.toString().equals(data.toString()), out.size());
        fails("22P02", () -> copy.copyIn("COPY " + TABLE + " FROM STDIN", new StringReader("x\ty\n")));
        expect(number(connection, "SELECT 1") == 1, "nothing");
    }

    static void cancel(Connection connection) throws Exception {
        for (int round = 0; round < 3; round++) {
            Statement statement = connection.createStatement();
            Thread other = new Thread(() -> {
                try {
                    Thread.sleep(400);
                    statement.cancel();
                } catch (Exception error) {
                    System.out.println("cancel: " + error);
                }
            });
            other.start();
            fails("57014", () -> statement.executeQuery("SELECT pg_sleep(60)"));
            other.join();
            statement.close();
        }
        try (Statement statement = connection.createStatement()) {
            statement.setQueryTimeout(1);
            fails("57014", () -> statement.executeQuery("SELECT pg_sleep(60)"));
        }
        expect(number(connection, "SELECT 1") == 1, "nothing");
    }

    static void errorsLeaveItUsable(Connection connection) throws Exception {
        for (int round = 0; round < 10; round++) {
            fails("22012", () -> number(connection, "SELECT 1 / ?::int", 0));
            fails("42703", () -> number(connection, "SELECT nothing"));
            expect(number(connection, "SELECT 2") == 2, "another number");
        }
    }

    static void changedTable(Connection connection) throws Exception {
        try (Statement statement = connection.createStatement()) {
            statement.execute("DROP TABLE IF EXISTS " + TABLE + "_wide");
            statement.execute("CREATE TABLE " + TABLE + "_wide AS SELECT 1 AS a");
            PreparedStatement all = connection.prepareStatement("SELECT * FROM " + TABLE + "_wide");
            for (int round = 0; round < 8; round++) {
                expect(all.executeQuery().getMetaData().getColumnCount() == 1, "not one column");
            }
            statement.execute("ALTER TABLE " + TABLE + "_wide ADD COLUMN b int DEFAULT 2");
            // The driver prepares anew after the first error, which (with autosave=never) is the program's.
            int columns = 0;
            for (int attempt = 0; attempt < 3 && columns != 2; attempt++) {
                try {
                    columns = all.executeQuery().getMetaData().getColumnCount();
                } catch (SQLException error) {
                    expect("0A000".equals(error.getSQLState()), error);
                }
            }
            expect(columns == 2, columns);
            statement.execute("DROP TABLE " + TABLE + "_wide");
        }
    }

    static void metadataAndSettings(Connection connection) throws Exception {
        try (ResultSet tables = connection.getMetaData().getTables(null, "public", TABLE, null)) {
            expect(tables.next(), "no table");
        }
        try (Connection named = connect("ApplicationName", "java", "options", "-c TimeZone=Asia/Tokyo")) {
            for (int round = 0; round < 5; round++) {
                try (ResultSet rows = named.createStatement().executeQuery("SHOW application_name")) {
                    rows.next();
                    expect(rows.getString(1).equals("java"), rows.getString(1));
                }
                try (ResultSet rows = connection.createStatement().executeQuery("SHOW application_name")) {
                    rows.next();
                    expect(!rows.getString(1).equals("java"), rows.getString(1));
                }
            }
        }
    }

    static void manyThreads(Connection ignored) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(16);
        List<Future<?>> work = new ArrayList<>();
        for (int worker = 0; worker < 16; worker++) {
            int mine = worker;
            work.add(threads.submit(() -> {
                try (Connection connection = connect()) {
                    for (int round = 0; round < 30; round++) {
                        int got = number(connection, "SELECT ?::int * 1000 + ?::int", mine, round);
                        expect(got == mine * 1000 + round, got);
                    }
                }
                return null;
            }));
        }
        for (Future<?> one : work) {
            one.get(120, TimeUnit.SECONDS);
        }
        threads.shutdown();
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Work> checks = new LinkedHashMap<>();
        checks.put("query and parameters", Check::queryAndParameters);
        checks.put("a wrong password is refused", Check::wrongPassword);
        checks.put("prepared after five times", Check::preparedAfterFiveTimes);
        checks.put("more statements than the driver keeps", Check::manyStatements);
        checks.put("transactions and savepoints", Check::transactions);
        checks.put("batches", Check::batches);
        checks.put("a cursor in portions", Check::cursorInPortions);
        checks.put("copy in and out", Check::copyInAndOut);
        checks.put("cancel", Check::cancel);
        checks.put("errors leave it usable", Check::errorsLeaveItUsable);
        checks.put("a table that changes", Check::changedTable);
        checks.put("metadata and settings", Check::metadataAndSettings);
        checks.put("many threads", Check::manyThreads);
        int failed = 0;
        for (Map.Entry<String, Work> check : checks.entrySet()) {
            try (Connection connection = connect()) {
                check.getValue().run(connection);
                System.out.println("ok   " + check.getKey());
            } catch (Throwable error) {
                failed++;
                System.out.println("FAIL " + check.getKey() + ": " + error);
            }
        }
        try (Connection connection = connect()) {
            connection.createStatement().execute("DROP TABLE IF EXISTS " + TABLE);
        }
        String version = org.postgresql.util.DriverInfo.DRIVER_VERSION;
        System.out.println("pgjdbc " + version + ": " + checks.size() + " checks, " + failed + " failed");
        System.exit(failed > 0 ? 1 : 0);
    }
}
