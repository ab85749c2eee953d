// HikariCP with pgjdbc, with its defaults but for the size.

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;

public class Rolling {
    static final int BUSY = 8;
    static final int CALM = 8;
    static final int GAP = Integer.parseInt(System.getenv().getOrDefault("GAP", "5"));

    public static void main(String[] arguments) throws Exception {
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl("jdbc:postgresql://" + System.getenv("HOST") + ":" + System.getenv("PORT") + "/"
                + System.getenv("DATABASE"));
        config.setUsername(System.getenv("USER_NAME"));
        config.setPassword(System.getenv("PASSWORD"));
        config.setMaximumPoolSize(BUSY + CALM);
        HikariDataSource pool = new HikariDataSource(config);
        AtomicBoolean ends = new AtomicBoolean();
        AtomicLong done = new AtomicLong();
        ConcurrentLinkedQueue<String> errors = new ConcurrentLinkedQueue<>();
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < BUSY + CALM; number++) {
            int longest = number < BUSY ? GAP : 3000;
            Thread thread = new Thread(() -> {
                while (!ends.get()) {
                    try (Connection connection = pool.getConnection();
                            Statement statement = connection.createStatement()) {
                        boolean block = done.get() % 3 == 0;
                        connection.setAutoCommit(!block);
                        statement.executeQuery("SELECT 1");
                        if (block) {
                            connection.commit();
                        }
                        done.incrementAndGet();
                    } catch (SQLException error) {
                        errors.add(error.getSQLState() + ": " + error.getMessage().lines().findFirst().orElse(""));
                    }
                    try {
                        Thread.sleep(ThreadLocalRandom.current().nextInt(longest));
                    } catch (InterruptedException error) {
                        return;
                    }
                }
            });
            threads.add(thread);
            thread.start();
        }
        System.out.println("works");
        System.in.readAllBytes();
        ends.set(true);
        for (Thread thread : threads) {
            thread.join();
        }
        pool.close();
        System.out.println("HikariCP: " + done.get() + " done, " + errors.size() + " failed");
        errors.forEach(error -> System.out.println("error " + error));
    }
}
