// Shared by all drivers of Java: where the server is, and how checks are named, run and reported. Knows JDBC's
// exceptions, and no driver. README.md in the folder above explains the names.

import java.sql.SQLException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

public final class Checks {
    static final String MODE = System.getenv("MODE");
    static final String USER = System.getenv("USER_NAME");
    static final String PASSWORD = System.getenv("PASSWORD");
    static final String AUTHORITY = System.getenv().getOrDefault("TLS_AUTHORITY", "");
    static final String URL = "jdbc:postgresql://" + System.getenv("HOST") + ":" + System.getenv("PORT") + "/"
            + System.getenv("DATABASE") + "?connectTimeout=20";
    /** Terminates all other connections of the user, and waits until their processes have ended. */
    static final String KILL_OTHERS = "SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity"
            + " WHERE usename = current_user AND pid <> pg_backend_pid()";

    interface Work {
        void run() throws Exception;
    }

    interface Worker {
        void run(int number) throws Exception;
    }

    /** The driver, or a pool in this mode, does not have the checked feature. */
    static final class None extends Exception {
        private static final long serialVersionUID = 1;

        None(String why) {
            super(why);
        }
    }

    /** Thrown at the end of a check that passed, but only with this setting. */
    static final class Setting extends Exception {
        private static final long serialVersionUID = 1;

        Setting(String what) {
            super(what);
        }
    }

    private final Map<String, Work> checks = new LinkedHashMap<>();

    Checks add(String name, Work work) {
        checks.put(name, work);
        return this;
    }

    Checks none(String name, String why) {
        return add(name, () -> { throw new None(why); });
    }

    /** Runs all in order, prints a line for each, and ends the program. */
    void main(String version) {
        int failed = 0;
        for (Map.Entry<String, Work> check : checks.entrySet()) {
            try {
                check.getValue().run();
                System.out.println("ok   " + check.getKey());
            } catch (None none) {
                System.out.println("none " + check.getKey() + ": " + none.getMessage());
            } catch (Setting setting) {
                System.out.println("set  " + check.getKey() + ": " + setting.getMessage());
            } catch (Throwable error) {
                failed++;
                System.out.println("FAIL " + check.getKey() + ": " + error.toString().replaceAll("\\s+", " "));
                if (System.getenv("TRACE") != null) {
                    error.printStackTrace();
                }
            }
        }
        System.out.println(version + ": " + checks.size() + " checks, " + failed + " failed");
        System.exit(failed > 0 ? 1 : 0);
    }

    static void sessionOnly(String what) throws None {
        if ("transaction".equals(MODE)) {
            throw new None(what + " needs session mode");
        }
    }

    static void encryptedOnly() throws None {
        if (AUTHORITY.isEmpty()) {
            throw new None("this PostgreSQL was built without TLS");
        }
    }

    static void expect(boolean holds, Object got) throws Exception {
        if (!holds) {
            throw new Exception("got " + got);
        }
    }

    /** The SQLSTATE of the error below this one, or the error itself. */
    static String state(Throwable error) {
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            if (cause instanceof SQLException sql && sql.getSQLState() != null) {
                return sql.getSQLState();
            }
        }
        return error.toString();
    }

    static void fails(String state, Work work) throws Exception {
        try {
            work.run();
        } catch (Exception error) {
            if (!state.equals(state(error))) {
                throw new Exception("not " + state + " but " + state(error), error);
            }
            return;
        }
        throw new Exception("no error, wanted " + state);
    }

    /** Retries for a while; throws the last error. */
    static void eventually(Work work) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        while (true) {
            try {
                work.run();
                return;
            } catch (Exception error) {
                if (System.nanoTime() > deadline) {
                    throw error;
                }
                Thread.sleep(50);
            }
        }
    }

    /** So many threads at once; throws the first error. */
    static void each(int count, Worker worker) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(count);
        try {
            List<Future<?>> all = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                int number = i;
                all.add(threads.submit(() -> {
                    worker.run(number);
                    return null;
                }));
            }
            for (Future<?> one : all) {
                one.get(120, TimeUnit.SECONDS);
            }
        } finally {
            threads.shutdownNow();
        }
    }
}
