// pgjdbc with HikariCP, both with their defaults: preparation after five uses, batches, cursors, COPY, cancel.

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.io.ByteArrayOutputStream;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Types;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.TimeZone;
import java.util.Timer;
import java.util.TimerTask;
import javax.sql.DataSource;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;
import org.postgresql.copy.CopyIn;
import org.postgresql.copy.CopyManager;

public class Check {
    static final String TABLE = "pgjdbc_" + Checks.MODE;
    static final String INSERT = "INSERT INTO " + TABLE + " VALUES (?, ?)";

    interface On {
        void run(Connection connection) throws Exception;
    }

    static Connection connect(String... more) throws SQLException {
        Properties properties = new Properties();
        properties.put("user", Checks.USER);
        properties.put("password", Checks.PASSWORD);
        for (int i = 0; i < more.length; i += 2) {
            properties.put(more[i], more[i + 1]);
        }
        return DriverManager.getConnection(Checks.URL, properties);
    }

    static HikariDataSource pool() {
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl(Checks.URL);
        config.setUsername(Checks.USER);
        config.setPassword(Checks.PASSWORD);
        return new HikariDataSource(config);
    }

    /** With a connection of its own. */
    static Checks.Work on(On work) {
        return () -> {
            try (Connection connection = connect()) {
                work.run(connection);
            }
        };
    }

    static int number(Connection connection, String sql, int... values) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            return number(statement, values);
        }
    }

    static int number(PreparedStatement statement, int... values) throws SQLException {
        for (int i = 0; i < values.length; i++) {
            statement.setInt(i + 1, values[i]);
        }
        try (ResultSet rows = statement.executeQuery()) {
            rows.next();
            return rows.getInt(1);
        }
    }

    static String text(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(sql)) {
            rows.next();
            return rows.getString(1);
        }
    }

    static void execute(Connection connection, String... all) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            for (String sql : all) {
                statement.execute(sql);
            }
        }
    }

    static void usable(Connection connection) throws Exception {
        int got = number(connection, "SELECT ?::int + 1", 41);
        Checks.expect(got == 42, got);
    }

    static void anew(Connection connection) throws SQLException {
        execute(connection, "DROP TABLE IF EXISTS " + TABLE, "CREATE TABLE " + TABLE + " (id int PRIMARY KEY, name text)");
    }

    static int insert(Connection connection, int id) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(INSERT)) {
            statement.setInt(1, id);
            statement.setString(2, "row " + id);
            return statement.executeUpdate();
        }
    }

    static void count(Connection connection, int want) throws Exception {
        int got = number(connection, "SELECT count(*) FROM " + TABLE);
        Checks.expect(got == want, got + " rows, not " + want);
    }

    static void wrongPassword() throws Exception {
        Checks.fails("28P01", () -> connect("password", "wrong"));
    }

    static void crud(Connection connection) throws Exception {
        anew(connection);
        for (int id = 1; id <= 10; id++) {
            Checks.expect(insert(connection, id) == 1, "insert");
        }
        try (Statement statement = connection.createStatement()) {
            int updated = statement.executeUpdate("UPDATE " + TABLE + " SET name = 'y' WHERE id <= 4");
            int deleted = statement.executeUpdate("DELETE FROM " + TABLE + " WHERE id > 7");
            Checks.expect(updated == 4 && deleted == 3, updated + " " + deleted);
        }
        count(connection, 7);
    }

    static void types(Connection connection) throws Exception {
        OffsetDateTime when = OffsetDateTime.parse("2026-02-03T04:05:06.000789Z");
        // Six times, because results are binary once a statement has a name on the server.
        String sql = "SELECT ?::bigint, ?::text, ?::bytea, ?::int, ?::int[], ?::timestamptz";
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            for (int round = 0; round < 8; round++) {
                statement.setLong(1, 1L << 60);
                statement.setString(2, "é😀");
                statement.setBytes(3, new byte[] {0, -1});
                statement.setNull(4, Types.INTEGER);
                statement.setArray(5, connection.createArrayOf("int4", new Integer[] {1, 2}));
                statement.setObject(6, when);
                try (ResultSet rows = statement.executeQuery()) {
                    rows.next();
                    Checks.expect(rows.getLong(1) == 1L << 60 && rows.getString(2).equals("é😀"), rows.getString(2));
                    Checks.expect(Arrays.equals(rows.getBytes(3), new byte[] {0, -1}), rows.getString(3));
                    Checks.expect(rows.getObject(4) == null, rows.getObject(4));
                    Checks.expect(((Integer[]) rows.getArray(5).getArray())[1] == 2, rows.getString(5));
                    Checks.expect(rows.getObject(6, OffsetDateTime.class).isEqual(when), rows.getString(6));
                }
            }
        }
    }

    /** From the fifth execution on a statement has a name on the server; more connections than there are servers. */
    static void prepared() throws Exception {
        Checks.each(12, worker -> {
            try (Connection connection = connect()) {
                List<PreparedStatement> statements = new ArrayList<>();
                for (int i = 0; i < 4; i++) {
                    statements.add(connection.prepareStatement("SELECT ?::int + " + i));
                }
                for (int round = 0; round < 60; round++) {
                    int got = number(statements.get(round % 4), worker * round);
                    Checks.expect(got == worker * round + round % 4, got);
                }
            }
        });
    }

    /** The driver keeps 256. */
    static void manyStatements(Connection connection) throws Exception {
        for (int round = 0; round < 7; round++) {
            for (int i = 0; i < 300; i++) {
                int got = number(connection, "SELECT ?::int + " + i, round);
                Checks.expect(got == round + i, got);
            }
        }
        try (Connection eager = connect("preparedStatementCacheQueries", "5", "prepareThreshold", "1")) {
            for (int i = 0; i < 90; i++) {
                Checks.expect(number(eager, "SELECT ?::int + " + i % 30, 1) == 1 + i % 30, i);
            }
        }
    }

    /** The driver prepares again after the first error, which (with autosave=never) the program gets. */
    static void tableChanged(Connection first) throws Exception {
        // pgjdbc retries only after "cached plan must not change result type". A server that did not have the statement
        // yet sends another error: the columns that the driver requests do not exist any more.
        boolean heals = !"transaction".equals(Checks.MODE);
        anew(first);
        insert(first, 1);
        List<Connection> connections = new ArrayList<>();
        List<PreparedStatement> statements = new ArrayList<>();
        for (int i = 0; i < 12; i++) {
            connections.add(heals ? connect() : connect("prepareThreshold", "0"));
            statements.add(connections.get(i).prepareStatement("SELECT * FROM " + TABLE));
        }
        for (int want = 2; want < 6; want++) {
            int columns = want;
            Checks.each(12, worker -> {
                for (int round = 0; round < 8; round++) {
                    int got;
                    try {
                        got = columns(statements.get(worker));
                    } catch (SQLException error) {
                        Checks.expect(round == 0, "in round " + round + ": " + error);
                        got = columns(statements.get(worker));
                    }
                    Checks.expect(got == columns, got + " columns, not " + columns);
                }
            });
            execute(first, "ALTER TABLE " + TABLE + " ADD COLUMN c" + want + " int DEFAULT 2");
        }
        for (Connection connection : connections) {
            connection.close();
        }
        if (!heals) {
            throw new Checks.Setting("`prepareThreshold=0` where tables change while programs run with `SELECT *`");
        }
    }

    static int columns(PreparedStatement statement) throws SQLException {
        try (ResultSet rows = statement.executeQuery()) {
            rows.next();
            int columns = rows.getMetaData().getColumnCount();
            rows.getString(columns);
            return columns;
        }
    }

    static void batch(Connection connection) throws Exception {
        anew(connection);
        for (boolean autoCommit : new boolean[] {true, false}) {
            connection.setAutoCommit(autoCommit);
            try (PreparedStatement statement = connection.prepareStatement(INSERT)) {
                for (int id = 0; id < 1000; id++) {
                    statement.setInt(1, autoCommit ? id : id + 1000);
                    statement.setString(2, "row " + id);
                    statement.addBatch();
                }
                Checks.expect(statement.executeBatch().length == 1000, "another length");
            }
        }
        connection.commit();
        connection.setAutoCommit(true);
        count(connection, 2000);
        try (Connection rewriting = connect("reWriteBatchedInserts", "true")) {
            try (PreparedStatement statement = rewriting.prepareStatement(INSERT)) {
                for (int id = 2000; id < 3000; id++) {
                    statement.setInt(1, id);
                    statement.setString(2, "row " + id);
                    statement.addBatch();
                }
                statement.executeBatch();
            }
            count(rewriting, 3000);
        }
    }

    static void pipelineError(Connection connection) throws Exception {
        anew(connection);
        for (int round = 0; round < 5; round++) {
            connection.setAutoCommit(false);
            try (PreparedStatement statement = connection.prepareStatement(INSERT)) {
                for (int id : new int[] {1, 2, 1, 3}) {
                    statement.setInt(1, id);
                    statement.setString(2, "x");
                    statement.addBatch();
                }
                Checks.fails("23505", statement::executeBatch);
            }
            connection.rollback();
            connection.setAutoCommit(true);
            count(connection, 0);
        }
    }

    static CopyManager copy(Connection connection) throws SQLException {
        return connection.unwrap(PGConnection.class).getCopyAPI();
    }

    static void copyIn(Connection connection) throws Exception {
        anew(connection);
        StringBuilder data = new StringBuilder();
        for (int id = 0; id < 5000; id++) {
            data.append(id).append("\trow\n");
        }
        long copied = copy(connection).copyIn("COPY " + TABLE + " FROM STDIN", new StringReader(data.toString()));
        Checks.expect(copied == 5000, copied);
        count(connection, 5000);
    }

    static void copyOut(Connection connection) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        long copied = copy(connection).copyOut("COPY (SELECT generate_series(1, 5000)) TO STDOUT", out);
        Checks.expect(copied == 5000 && out.toString().endsWith("\n4999\n5000\n"), copied);
        usable(connection);
    }

    static void copyError(Connection connection) throws Exception {
        anew(connection);
        String sql = "COPY " + TABLE + " FROM STDIN";
        Checks.fails("22P02", () -> copy(connection).copyIn(sql, new StringReader("1\tx\nno number\ty\n")));
        CopyIn given = copy(connection).copyIn(sql);
        byte[] row = "1\tx\n".getBytes(StandardCharsets.UTF_8);
        given.writeToCopy(row, 0, row.length);
        given.cancelCopy();
        count(connection, 0);
    }

    static void cancel(Connection connection) throws Exception {
        Timer timer = new Timer(true);
        for (int round = 0; round < 3; round++) {
            try (Statement statement = connection.createStatement()) {
                timer.schedule(new TimerTask() {
                    @Override
                    public void run() {
                        try {
                            statement.cancel();
                        } catch (SQLException error) {
                            System.out.println("cancel: " + error);
                        }
                    }
                }, 400);
                Checks.fails("57014", () -> statement.executeQuery("SELECT pg_sleep(60)"));
            }
            usable(connection);
        }
        timer.cancel();
    }

    static void timeout(Connection connection) throws Exception {
        try (Statement statement = connection.createStatement()) {
            statement.setQueryTimeout(1);
            Checks.fails("57014", () -> statement.executeQuery("SELECT pg_sleep(60)"));
        }
        usable(connection);
    }

    static void commit(Connection connection) throws Exception {
        anew(connection);
        connection.setAutoCommit(false);
        insert(connection, 1);
        insert(connection, 2);
        connection.commit();
        try (Connection other = connect()) {
            count(other, 2);
        }
    }

    static void rollback(Connection connection) throws Exception {
        anew(connection);
        connection.setAutoCommit(false);
        insert(connection, 1);
        count(connection, 1);
        connection.rollback();
        count(connection, 0);
    }

    static void savepoint(Connection connection) throws Exception {
        anew(connection);
        connection.setAutoCommit(false);
        insert(connection, 1);
        Savepoint savepoint = connection.setSavepoint();
        insert(connection, 2);
        Checks.fails("23505", () -> insert(connection, 1));
        connection.rollback(savepoint);
        insert(connection, 3);
        connection.releaseSavepoint(savepoint);
        connection.commit();
        int sum = number(connection, "SELECT sum(id) FROM " + TABLE);
        Checks.expect(sum == 4, sum);
    }

    static void isolation() throws Exception {
        // setTransactionIsolation is a SET of the session.
        boolean follows = !"transaction".equals(Checks.MODE);
        try (Connection connection = follows ? connect() : connect("options", "-c default_transaction_isolation=serializable")) {
            if (follows) {
                connection.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
            }
            connection.setReadOnly(true);
            for (int round = 0; round < 20; round++) {
                connection.setAutoCommit(false);
                Checks.expect(text(connection, "SHOW transaction_isolation").equals("serializable"), "another level");
                Checks.expect(text(connection, "SHOW transaction_read_only").equals("on"), "not read only");
                connection.commit();
                try (Connection other = connect()) {
                    Checks.expect(text(other, "SHOW transaction_isolation").equals("read committed"), "another's level");
                    anew(other);
                }
            }
        }
        if (!follows) {
            throw new Checks.Setting("`options=-c default_transaction_isolation=serializable`, or SET TRANSACTION in each"
                    + " transaction, in place of `setTransactionIsolation`, which is a SET of the session");
        }
    }

    static void uniqueViolation(Connection connection) throws Exception {
        anew(connection);
        insert(connection, 1);
        for (int round = 0; round < 8; round++) {
            Checks.fails("23505", () -> insert(connection, 1));
        }
        count(connection, 1);
    }

    static void syntaxError(Connection connection) throws Exception {
        for (int round = 0; round < 8; round++) {
            Checks.fails("42601", () -> number(connection, "SELEC ?::int", 1));
            usable(connection);
        }
    }

    static void errorInATransaction(Connection connection) throws Exception {
        connection.setAutoCommit(false);
        for (int round = 0; round < 8; round++) {
            Checks.fails("22012", () -> number(connection, "SELECT 1 / ?::int", 0));
            Checks.fails("25P02", () -> number(connection, "SELECT 1"));
            Checks.fails("25P02", () -> number(connection, "SELECT ?::int + 1", 1));
            connection.rollback();
            usable(connection);
            connection.commit();
        }
    }

    static void cursor(Connection connection) throws Exception {
        connection.setAutoCommit(false);
        try (Statement statement = connection.createStatement()) {
            statement.setFetchSize(50);
            for (int round = 0; round < 7; round++) {
                try (ResultSet rows = statement.executeQuery("SELECT generate_series(1, 2000)")) {
                    int count = 0;
                    while (rows.next()) {
                        count++;
                        Checks.expect(rows.getInt(1) == count, rows.getInt(1));
                    }
                    Checks.expect(count == 2000, count);
                }
            }
        }
        connection.commit();
    }

    static void large(Connection connection) throws Exception {
        byte[] value = new byte[20 << 20];
        Arrays.fill(value, (byte) 7);
        try (PreparedStatement statement = connection.prepareStatement("SELECT ?::bytea")) {
            statement.setBytes(1, value);
            try (ResultSet rows = statement.executeQuery()) {
                rows.next();
                Checks.expect(Arrays.equals(rows.getBytes(1), value), "other bytes");
            }
        }
    }

    static void notice(Connection connection) throws Exception {
        try (Statement statement = connection.createStatement()) {
            statement.execute("DO $$ BEGIN RAISE NOTICE 'hear'; END $$");
            Checks.expect(statement.getWarnings() != null && statement.getWarnings().getMessage().equals("hear"),
                    statement.getWarnings());
        }
    }

    static void notifications(Connection connection) throws Exception {
        Checks.sessionOnly("LISTEN");
        execute(connection, "LISTEN " + TABLE);
        try (Connection speaker = connect()) {
            execute(speaker, "NOTIFY " + TABLE + ", 'hear'");
        }
        PGNotification[] heard = connection.unwrap(PGConnection.class).getNotifications(30_000);
        Checks.expect(heard != null && heard[0].getParameter().equals("hear"), Arrays.toString(heard));
    }

    static void sessionState(Connection connection) throws Exception {
        Checks.sessionOnly("a session's state");
        execute(connection, "SET work_mem = '5MB'", "CREATE TEMPORARY TABLE mine (id int)", "SELECT pg_advisory_lock(4711)");
        String memory = text(connection, "SELECT current_setting('work_mem') FROM (SELECT count(*) FROM mine) AS there");
        int locks = number(connection, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()");
        Checks.expect(memory.equals("5MB") && locks == 1, memory + " " + locks);
    }

    /** The driver sends its program's time zone to the server, whatever `options` contain. */
    static void startupParameters() throws Exception {
        String[] zones = {"Asia/Tokyo", "America/Lima", "Etc/UTC"};
        TimeZone own = TimeZone.getDefault();
        List<Connection> connections = new ArrayList<>();
        for (String zone : zones) {
            TimeZone.setDefault(TimeZone.getTimeZone(zone));
            connections.add(connect("ApplicationName", "java", "options", "-c statement_timeout=12s"));
        }
        TimeZone.setDefault(own);
        Checks.each(zones.length, worker -> {
            try (Connection named = connections.get(worker)) {
                for (int round = 0; round < 20; round++) {
                    String all = text(named, "SELECT current_setting('application_name') || current_setting('TimeZone')"
                            + " || current_setting('statement_timeout')");
                    Checks.expect(all.equals("java" + zones[worker] + "12s"), all);
                }
            }
        });
    }

    /** Once within a transaction, then all connections of the pool. */
    static void reconnect() throws Exception {
        try (HikariDataSource pool = pool()) {
            try (Connection connection = pool.getConnection()) {
                connection.setAutoCommit(false);
                int pid = number(connection, "SELECT pg_backend_pid()");
                try (Connection killer = connect()) {
                    execute(killer, "SELECT pg_terminate_backend(" + pid + ")");
                }
                try {
                    usable(connection);
                } catch (SQLException lost) {
                    pid = 0;
                }
                Checks.expect(pid == 0, "a transaction that goes on without its server");
            }
            for (int round = 0; round < 3; round++) {
                // If the query runs on a server that is being killed, it is retried like any other.
                Checks.eventually(() -> on(connection -> execute(connection, Checks.KILL_OTHERS)).run());
                Checks.eventually(() -> {
                    try (Connection connection = pool.getConnection()) {
                        usable(connection);
                    }
                });
            }
        }
    }

    static void tagged(Connection connection, int tag) throws Exception {
        try (PreparedStatement statement = connection.prepareStatement("SELECT ?::text")) {
            for (int round = 0; round < 20; round++) {
                statement.setString(1, tag + "/" + round);
                try (ResultSet rows = statement.executeQuery()) {
                    rows.next();
                    Checks.expect(rows.getString(1).equals(tag + "/" + round), rows.getString(1));
                }
            }
        }
    }

    static void pooled() throws Exception {
        try (HikariDataSource pool = pool()) {
            Checks.each(24, worker -> pooled(pool, worker));
        }
    }

    static void pooled(DataSource pool, int worker) throws Exception {
        for (int round = 0; round < 8; round++) {
            try (Connection connection = pool.getConnection()) {
                connection.setAutoCommit(round % 2 == 0);
                tagged(connection, worker * 100 + round);
                if (round % 4 == 1) {
                    connection.commit();
                }
            }
        }
    }

    static void manyConnections() throws Exception {
        Checks.each(60, worker -> on(connection -> tagged(connection, worker)).run());
    }

    static void tls() throws Exception {
        Checks.encryptedOnly();
        try (Connection connection = connect("sslmode", "verify-full", "sslrootcert", Checks.AUTHORITY)) {
            usable(connection);
        }
    }

    /** The catalog queries that tools make through a driver: large queries of many kinds. */
    static void metadata(Connection connection) throws Exception {
        anew(connection);
        try (ResultSet tables = connection.getMetaData().getTables(null, "public", TABLE, null)) {
            Checks.expect(tables.next(), "no table");
        }
        try (ResultSet keys = connection.getMetaData().getPrimaryKeys(null, "public", TABLE)) {
            Checks.expect(keys.next() && keys.getString("COLUMN_NAME").equals("id"), "no key");
        }
    }

    /** With autosave=always the driver sets a savepoint before each statement, and recovers from a changed table by itself. */
    static void autosave() throws Exception {
        try (Connection connection = connect("autosave", "always")) {
            connection.setAutoCommit(false);
            for (int round = 0; round < 8; round++) {
                Checks.fails("22012", () -> number(connection, "SELECT 1 / ?::int", 0));
                usable(connection);
            }
            connection.commit();
        }
    }

    public static void main(String[] arguments) {
        String version = org.postgresql.util.DriverInfo.DRIVER_VERSION;
        // The program can't read the version from HikariCP's jar, only from the jar's name.
        String jar = HikariDataSource.class.getProtectionDomain().getCodeSource().getLocation().getPath();
        String hikari = jar.replaceAll(".*HikariCP-|\\.jar$", "");
        new Checks()
                .add("login", on(Check::usable))
                .add("wrong password", Check::wrongPassword)
                .add("crud", on(Check::crud))
                .add("types", on(Check::types))
                .add("prepared", Check::prepared)
                .add("many statements", on(Check::manyStatements))
                .add("table changed", on(Check::tableChanged))
                .add("batch", on(Check::batch))
                .none("pipeline", "pgjdbc sends ahead in batches alone")
                .add("pipeline error", on(Check::pipelineError))
                .add("copy in", on(Check::copyIn))
                .add("copy out", on(Check::copyOut))
                .add("copy error", on(Check::copyError))
                .add("cancel", on(Check::cancel))
                .add("timeout", on(Check::timeout))
                .add("commit", on(Check::commit))
                .add("rollback", on(Check::rollback))
                .add("savepoint", on(Check::savepoint))
                .add("isolation", Check::isolation)
                .add("unique violation", on(Check::uniqueViolation))
                .add("syntax error", on(Check::syntaxError))
                .add("error in a transaction", on(Check::errorInATransaction))
                .add("cursor", on(Check::cursor))
                .add("large", on(Check::large))
                .add("notice", on(Check::notice))
                .add("notify", on(Check::notifications))
                .add("session state", on(Check::sessionState))
                .add("startup parameters", Check::startupParameters)
                .add("reconnect", Check::reconnect)
                .add("pool", Check::pooled)
                .add("many connections", Check::manyConnections)
                .add("tls", Check::tls)
                .add("metadata", on(Check::metadata))
                .add("autosave", Check::autosave)
                .main("pgjdbc " + version + ", HikariCP " + hikari);
    }
}
