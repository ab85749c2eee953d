// The entity of Hibernate's checks.

import jakarta.persistence.Entity;
import jakarta.persistence.Id;

@Entity
public class Item {
    @Id
    int id;
    String name;
    byte[] data;
    Integer missing;
    java.time.Instant made;

    Item() {}

    Item(int id) {
        this.id = id;
        name = "é😀 " + id;
        data = new byte[] {0, -1};
        made = java.time.Instant.parse("2026-02-03T04:05:06.000789Z");
    }
}
