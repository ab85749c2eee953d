// Hibernate on HikariCP: entities, HQL, batches, transactions. Its defaults, except for the batch size.

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import javax.sql.DataSource;
import org.hibernate.ScrollMode;
import org.hibernate.ScrollableResults;
import org.hibernate.Session;
import org.hibernate.SessionFactory;
import org.hibernate.boot.model.naming.Identifier;
import org.hibernate.boot.model.naming.PhysicalNamingStrategyStandardImpl;
import org.hibernate.cfg.Configuration;
import org.hibernate.engine.jdbc.env.spi.JdbcEnvironment;

public class Check {
    static final String TABLE = "hibernate_" + Checks.MODE;

    /** All drivers share a database. */
    public static final class Naming extends PhysicalNamingStrategyStandardImpl {
        private static final long serialVersionUID = 1;

        @Override
        public Identifier toPhysicalTableName(Identifier name, JdbcEnvironment environment) {
            return Identifier.toIdentifier(TABLE);
        }
    }

    interface Work {
        void run(SessionFactory factory) throws Exception;
    }

    static HikariDataSource pool(String options, String password) {
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl(Checks.URL + options);
        config.setUsername(Checks.USER);
        config.setPassword(password);
        return new HikariDataSource(config);
    }

    static SessionFactory factory(DataSource pool) {
        Configuration configuration = new Configuration().addAnnotatedClass(Item.class);
        configuration.setPhysicalNamingStrategy(new Naming());
        configuration.getProperties().put("hibernate.connection.datasource", pool);
        configuration.setProperty("hibernate.hbm2ddl.auto", "create");
        configuration.setProperty("hibernate.jdbc.batch_size", "50");
        return configuration.buildSessionFactory();
    }

    /** With a factory and a pool of its own, and an empty table. */
    static Checks.Work on(Work work) {
        return () -> {
            try (HikariDataSource pool = pool("", Checks.PASSWORD); SessionFactory factory = factory(pool)) {
                work.run(factory);
            }
        };
    }

    static <T> T in(SessionFactory factory, Function<Session, T> work) {
        return factory.fromTransaction(work);
    }

    static Object one(Session session, String sql) {
        return session.createNativeQuery(sql, Object.class).getSingleResult();
    }

    static void count(SessionFactory factory, long want) throws Exception {
        long got = in(factory, s -> s.createQuery("select count(*) from Item", Long.class).getSingleResult());
        Checks.expect(got == want, got + " rows, not " + want);
    }

    static void usable(SessionFactory factory) throws Exception {
        int got = in(factory, s -> s.createNativeQuery("SELECT cast(:n AS int) + 1", Integer.class)
                .setParameter("n", 41).getSingleResult());
        Checks.expect(got == 42, got);
    }

    static void persist(SessionFactory factory, int from, int to) {
        factory.inTransaction(session -> {
            for (int id = from; id < to; id++) {
                session.persist(new Item(id));
            }
        });
    }

    static void crud(SessionFactory factory) throws Exception {
        persist(factory, 0, 10);
        factory.inTransaction(session -> {
            session.find(Item.class, 3).name = "changed";
            session.remove(session.find(Item.class, 4));
        });
        int updated = in(factory, s -> s.createMutationQuery("update Item set name = 'y' where id >= 7").executeUpdate());
        String name = in(factory, s -> s.find(Item.class, 3).name);
        Checks.expect(updated == 3 && name.equals("changed"), updated + " " + name);
        count(factory, 9);
    }

    static void types(SessionFactory factory) throws Exception {
        persist(factory, 1, 2);
        for (int round = 0; round < 8; round++) {
            Item back = in(factory, s -> s.find(Item.class, 1));
            Item made = new Item(1);
            boolean same = back.name.equals(made.name) && back.made.equals(made.made) && back.data[1] == -1;
            Checks.expect(same && back.missing == null, back.name + back.made);
        }
    }

    /** pgjdbc gives a statement a name on the server from the fifth execution on. */
    static void prepared(SessionFactory factory) throws Exception {
        persist(factory, 0, 12);
        Checks.each(12, worker -> {
            for (int round = 0; round < 30; round++) {
                String name = in(factory, s -> s.createQuery("from Item where id = :id", Item.class)
                        .setParameter("id", worker).getSingleResult().name);
                Checks.expect(name.equals("é😀 " + worker), name);
            }
        });
    }

    static void manyStatements(SessionFactory factory) throws Exception {
        for (int round = 0; round < 7; round++) {
            factory.inTransaction(session -> {
                for (int i = 0; i < 300; i++) {
                    if (((Number) one(session, "SELECT " + i)).intValue() != i) {
                        throw new IllegalStateException("another number");
                    }
                }
            });
        }
    }

    /** Hibernate names its columns, so a new column does not matter. */
    static void tableChanged(SessionFactory factory) throws Exception {
        persist(factory, 0, 12);
        for (int change = 0; change < 3; change++) {
            prepared(factory, 12);
            String add = "ALTER TABLE " + TABLE + " ADD COLUMN c" + change + " int DEFAULT 2";
            in(factory, s -> s.createNativeMutationQuery(add).executeUpdate());
        }
        prepared(factory, 12);
    }

    static void prepared(SessionFactory factory, int workers) throws Exception {
        Checks.each(workers, worker -> {
            for (int round = 0; round < 8; round++) {
                Item item = in(factory, s -> s.find(Item.class, worker));
                Checks.expect(item.name.equals("é😀 " + worker), item.name);
            }
        });
    }

    static void pipelineError(SessionFactory factory) throws Exception {
        persist(factory, 500, 501);
        Checks.fails("23505", () -> persist(factory, 450, 550));
        count(factory, 1);
    }

    static void cancel(SessionFactory factory) throws Exception {
        for (int round = 0; round < 3; round++) {
            factory.inSession(session -> {
                Thread other = new Thread(() -> {
                    try {
                        Thread.sleep(400);
                    } catch (InterruptedException error) {
                        return;
                    }
                    session.cancelQuery();
                });
                other.start();
                try {
                    Checks.fails("57014", () -> one(session, "SELECT cast(pg_sleep(60) AS text)"));
                    other.join();
                } catch (Exception error) {
                    throw new IllegalStateException(error);
                }
            });
            usable(factory);
        }
    }

    static void timeout(SessionFactory factory) throws Exception {
        Checks.fails("57014", () -> in(factory, s -> s.createNativeQuery("SELECT cast(pg_sleep(60) AS text)", Object.class)
                .setTimeout(1).getSingleResult()));
        usable(factory);
    }

    static void rollback(SessionFactory factory) throws Exception {
        try {
            factory.inTransaction(session -> {
                session.persist(new Item(1));
                session.flush();
                throw new IllegalStateException("changed my mind");
            });
        } catch (IllegalStateException changed) {
            count(factory, 0);
            return;
        }
        throw new Exception("no error");
    }

    static void uniqueViolation(SessionFactory factory) throws Exception {
        persist(factory, 1, 2);
        for (int round = 0; round < 8; round++) {
            Checks.fails("23505", () -> persist(factory, 1, 2));
        }
        count(factory, 1);
    }

    static void syntaxError(SessionFactory factory) throws Exception {
        for (int round = 0; round < 8; round++) {
            Checks.fails("42601", () -> in(factory, s -> one(s, "SELECT 1 +")));
            usable(factory);
        }
    }

    static void errorInATransaction(SessionFactory factory) throws Exception {
        factory.inSession(session -> {
            session.beginTransaction();
            try {
                Checks.fails("22012", () -> one(session, "SELECT 1 / 0"));
                Checks.fails("25P02", () -> one(session, "SELECT 1"));
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
            session.getTransaction().rollback();
        });
        usable(factory);
    }

    static void cursor(SessionFactory factory) throws Exception {
        persist(factory, 0, 2000);
        AtomicInteger seen = new AtomicInteger();
        factory.inTransaction(session -> {
            var query = session.createQuery("from Item order by id", Item.class).setFetchSize(70);
            try (ScrollableResults<Item> rows = query.scroll(ScrollMode.FORWARD_ONLY)) {
                while (rows.next() && rows.get().id == seen.get()) {
                    seen.incrementAndGet();
                }
            }
        });
        Checks.expect(seen.get() == 2000, seen);
    }

    static void large(SessionFactory factory) throws Exception {
        Item item = new Item(1);
        item.data = new byte[20 << 20];
        item.data[item.data.length - 1] = 7;
        factory.inTransaction(session -> session.persist(item));
        byte[] back = in(factory, s -> s.find(Item.class, 1).data);
        Checks.expect(java.util.Arrays.equals(back, item.data), back.length);
    }

    /** Once within a transaction, then all connections of the pool. */
    static void reconnect(SessionFactory factory) throws Exception {
        try {
            factory.inTransaction(session -> {
                Object pid = one(session, "SELECT pg_backend_pid()");
                factory.inTransaction(killer -> one(killer, "SELECT pg_terminate_backend(" + pid + ")"));
                one(session, "SELECT 1");
            });
            throw new IllegalStateException("the transaction goes on without its server");
        } catch (org.hibernate.HibernateException lost) {
            usable(factory);
        }
        for (int round = 0; round < 3; round++) {
            // If the query runs on a server that is being killed, it is retried like any other.
            Checks.eventually(() -> factory.inTransaction(
                    session -> session.createNativeQuery(Checks.KILL_OTHERS, Object.class).getResultList()));
            Checks.eventually(() -> usable(factory));
        }
    }

    static void pooled(SessionFactory factory) throws Exception {
        persist(factory, 0, 24);
        prepared(factory, 24);
    }

    static void startupParameters() throws Exception {
        Checks.each(3, worker -> {
            try (HikariDataSource pool = pool("&ApplicationName=java" + worker, Checks.PASSWORD)) {
                for (int round = 0; round < 20; round++) {
                    try (var connection = pool.getConnection(); var statement = connection.createStatement();
                            var rows = statement.executeQuery("SHOW application_name")) {
                        rows.next();
                        Checks.expect(rows.getString(1).equals("java" + worker), rows.getString(1));
                    }
                }
            }
        });
    }

    static void tls() throws Exception {
        Checks.encryptedOnly();
        String options = "&sslmode=verify-full&sslrootcert=" + Checks.AUTHORITY;
        try (HikariDataSource pool = pool(options, Checks.PASSWORD); SessionFactory factory = factory(pool)) {
            usable(factory);
        }
    }

    public static void main(String[] arguments) {
        java.util.logging.LogManager.getLogManager().reset();
        String driver = "done by the driver below: see pgjdbc with HikariCP";
        new Checks()
                .add("login", on(Check::usable))
                .add("wrong password", () -> Checks.fails("28P01", () -> pool("", "wrong").close()))
                .add("crud", on(Check::crud))
                .add("types", on(Check::types))
                .add("prepared", on(Check::prepared))
                .add("many statements", on(Check::manyStatements))
                .add("table changed", on(Check::tableChanged))
                .add("batch", on(factory -> {
                    persist(factory, 0, 1000);
                    count(factory, 1000);
                }))
                .none("pipeline", "Hibernate sends ahead in batches alone")
                .add("pipeline error", on(Check::pipelineError))
                .none("copy in", driver)
                .none("copy out", driver)
                .none("copy error", driver)
                .add("cancel", on(Check::cancel))
                .add("timeout", on(Check::timeout))
                .add("commit", on(factory -> {
                    persist(factory, 1, 3);
                    count(factory, 2);
                }))
                .add("rollback", on(Check::rollback))
                .none("savepoint", driver)
                .none("isolation", driver)
                .add("unique violation", on(Check::uniqueViolation))
                .add("syntax error", on(Check::syntaxError))
                .add("error in a transaction", on(Check::errorInATransaction))
                .add("cursor", on(Check::cursor))
                .add("large", on(Check::large))
                .none("notice", driver)
                .none("notify", driver)
                .none("session state", driver)
                .add("startup parameters", Check::startupParameters)
                .add("reconnect", on(Check::reconnect))
                .add("pool", on(Check::pooled))
                .none("many connections", driver)
                .add("tls", Check::tls)
                .main("Hibernate " + org.hibernate.Version.getVersionString() + ", pgjdbc "
                        + org.postgresql.util.DriverInfo.DRIVER_VERSION);
    }
}
