// GORM with its pgx driver: models, batches, nested transactions, and its own prepared statements.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"weir/tests/drivers/shared"
)

// Item is the model of all checks.
type Item struct {
	ID      int `gorm:"primaryKey;autoIncrement:false"`
	Name    string
	Data    []byte
	Missing *int
	Made    time.Time
}

// TableName contains the driver's and the mode's name, because all drivers share a database.
func (Item) TableName() string { return "gorm_" + checks.Mode }

var (
	ctx   = context.Background()
	when  = time.Date(2026, 2, 3, 4, 5, 6, 789000, time.UTC)
	quiet = logger.Default.LogMode(logger.Silent)
)

func item(id int) *Item {
	return &Item{ID: id, Name: fmt.Sprint("é😀 ", id), Data: []byte{0, 255}, Made: when}
}

func open(password, options string, config *gorm.Config) (*gorm.DB, func(), error) {
	config.Logger = quiet
	db, err := gorm.Open(postgres.Open(checks.URL(password, options)), config)
	if err != nil {
		return nil, nil, err
	}
	below, err := db.DB()
	return db, func() { below.Close() }, err
}

// with calls the function with an open database and an empty table.
func with(config gorm.Config, work func(*gorm.DB) error) func() error {
	return func() error {
		db, shut, err := open(checks.Password, "", &config)
		if err != nil {
			return err
		}
		defer shut()
		if err := errors.Join(db.Migrator().DropTable(&Item{}), db.AutoMigrate(&Item{})); err != nil {
			return err
		}
		return work(db)
	}
}

// on is with, with the defaults.
func on(work func(*gorm.DB) error) func() error { return with(gorm.Config{}, work) }

func state(err error) string {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return refused.Code
	}
	return fmt.Sprint(err)
}

func number(db *gorm.DB, text string, args ...any) (n int, err error) {
	err = db.Raw(text, args...).Scan(&n).Error
	return n, err
}

func usable(db *gorm.DB) error {
	n, err := number(db, "SELECT ?::int + 1", 41)
	return checks.Expect(err == nil && n == 42, "afterwards: %d %v", n, err)
}

func count(db *gorm.DB, want int64) error {
	var n int64
	err := db.Model(&Item{}).Count(&n).Error
	return checks.Expect(err == nil && n == want, "%d rows, not %d: %v", n, want, err)
}

func wrongPassword() error {
	_, _, err := open("wrong", "", &gorm.Config{})
	return checks.Expect(state(err) == "28P01", "%v", err)
}

func crud(db *gorm.DB) error {
	for id := 1; id <= 10; id++ {
		if done := db.Create(item(id)); done.Error != nil || done.RowsAffected != 1 {
			return fmt.Errorf("create: %d %v", done.RowsAffected, done.Error)
		}
	}
	var found Item
	if err := db.First(&found, "name = ?", item(3).Name).Error; err != nil || found.ID != 3 {
		return fmt.Errorf("first: %d %v", found.ID, err)
	}
	if done := db.Model(&Item{}).Where("id <= ?", 4).Update("name", "y"); done.Error != nil || done.RowsAffected != 4 {
		return fmt.Errorf("update: %d %v", done.RowsAffected, done.Error)
	}
	if done := db.Delete(&Item{}, "id > ?", 7); done.Error != nil || done.RowsAffected != 3 {
		return fmt.Errorf("delete: %d %v", done.RowsAffected, done.Error)
	}
	return count(db, 7)
}

func types(db *gorm.DB) error {
	if err := db.Create(item(1 << 30)).Error; err != nil {
		return err
	}
	var back Item
	err := db.First(&back, 1<<30).Error
	same := back.Name == item(1<<30).Name && string(back.Data) == "\x00\xff" && back.Missing == nil && back.Made.Equal(when)
	return checks.Expect(err == nil && same, "%v %v", back, err)
}

// Many goroutines, each with its own connection, prepare statements that GORM then keeps.
func prepared(db *gorm.DB) error {
	return checks.Each(12, func(worker int) error {
		for round := 0; round < 40; round++ {
			n, err := number(db, fmt.Sprintf("SELECT ?::int + %d", round%4), worker)
			if err != nil || n != worker+round%4 {
				return fmt.Errorf("%d: %d %v", round, n, err)
			}
		}
		return nil
	})
}

func manyStatements(db *gorm.DB) error {
	for round := 0; round < 2; round++ {
		for addend := 0; addend < 600; addend++ {
			if n, err := number(db, fmt.Sprintf("SELECT ?::int + %d", addend), round); err != nil || n != round+addend {
				return fmt.Errorf("%d: %d %v", addend, n, err)
			}
		}
	}
	return nil
}

// pgx drops its statement after the first error, so directly each connection gets one at most.
func tableChanged(db *gorm.DB) error {
	if err := db.Create(item(1)).Error; err != nil {
		return err
	}
	for round := 0; round < 4; round++ {
		err := checks.Each(12, func(int) error {
			return db.Connection(func(conn *gorm.DB) error {
				// GORM's errors stick to what it calls a session.
				conn = conn.Session(&gorm.Session{NewDB: true})
				var found map[string]any
				err := conn.Table(Item{}.TableName()).Take(&found).Error
				if err != nil {
					found = nil
					err = conn.Table(Item{}.TableName()).Take(&found).Error
				}
				return checks.Expect(err == nil && len(found) == 5+round, "%v %v", found, err)
			})
		})
		if err != nil {
			return err
		}
		if err := db.Exec(fmt.Sprintf("ALTER TABLE %s ADD COLUMN c%d int DEFAULT 2", Item{}.TableName(), round)).Error; err != nil {
			return err
		}
	}
	return nil
}

func batch(db *gorm.DB) error {
	var items []*Item
	for id := 0; id < 1000; id++ {
		items = append(items, item(id))
	}
	return errors.Join(db.CreateInBatches(items, 300).Error, count(db, 1000))
}

func pipelineError(db *gorm.DB) error {
	items := []*Item{item(1), item(2), item(1)}
	if err := db.CreateInBatches(items, 1).Error; state(err) != "23505" {
		return fmt.Errorf("%v", err)
	}
	return errors.Join(count(db, 0), usable(db))
}

func stopped(err error) error {
	stopped := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || state(err) == "57014"
	return checks.Expect(stopped, "not stopped: %v", err)
}

func cancel(db *gorm.DB) error {
	for round := 0; round < 3; round++ {
		short, stop := context.WithCancel(ctx)
		time.AfterFunc(400*time.Millisecond, stop)
		err := db.WithContext(short).Exec("SELECT pg_sleep(60)").Error
		if err := errors.Join(stopped(err), usable(db)); err != nil {
			return err
		}
	}
	return nil
}

func timeout(db *gorm.DB) error {
	short, stop := context.WithTimeout(ctx, 400*time.Millisecond)
	defer stop()
	err := db.WithContext(short).Exec("SELECT pg_sleep(60)").Error
	return errors.Join(stopped(err), usable(db))
}

func commit(db *gorm.DB) error {
	err := db.Transaction(func(tx *gorm.DB) error { return errors.Join(tx.Create(item(1)).Error, tx.Create(item(2)).Error) })
	return errors.Join(err, count(db, 2))
}

func rollback(db *gorm.DB) error {
	changedMind := errors.New("changed my mind")
	err := db.Transaction(func(tx *gorm.DB) error { return errors.Join(tx.Create(item(1)).Error, count(tx, 1), changedMind) })
	return errors.Join(checks.Expect(errors.Is(err, changedMind), "%v", err), count(db, 0))
}

// A transaction within one is a savepoint.
func savepoint(db *gorm.DB) error {
	err := db.Transaction(func(tx *gorm.DB) error {
		if err := tx.Create(item(1)).Error; err != nil {
			return err
		}
		inner := tx.Transaction(func(tx *gorm.DB) error {
			return errors.Join(tx.Create(item(2)).Error, tx.Create(item(1)).Error)
		})
		return errors.Join(checks.Expect(state(inner) == "23505", "%v", inner), tx.Create(item(3)).Error)
	})
	n, read := number(db, "SELECT sum(id) FROM "+Item{}.TableName())
	return errors.Join(err, checks.Expect(read == nil && n == 4, "%d %v", n, read))
}

func isolation(db *gorm.DB) error {
	var level string
	err := db.Transaction(func(tx *gorm.DB) error {
		return tx.Raw("SELECT current_setting('transaction_isolation') || current_setting('transaction_read_only')").Scan(&level).Error
	}, &sql.TxOptions{Isolation: sql.LevelSerializable, ReadOnly: true})
	return checks.Expect(err == nil && level == "serializableon", "%s %v", level, err)
}

func uniqueViolation(db *gorm.DB) error {
	if err := db.Create(item(1)).Error; err != nil {
		return err
	}
	for round := 0; round < 5; round++ {
		if err := db.Create(item(1)).Error; state(err) != "23505" {
			return fmt.Errorf("%v", err)
		}
	}
	return count(db, 1)
}

func syntaxError(db *gorm.DB) error {
	for round := 0; round < 5; round++ {
		_, err := number(db, "SELECT ?::int +", 1)
		if err := errors.Join(checks.Expect(state(err) == "42601", "%v", err), usable(db)); err != nil {
			return err
		}
	}
	return nil
}

func errorInATransaction(db *gorm.DB) error {
	err := db.Transaction(func(tx *gorm.DB) error {
		if _, err := number(tx, "SELECT 1 / ?::int", 0); state(err) != "22012" {
			return fmt.Errorf("first: %v", err)
		}
		return tx.Create(item(1)).Error
	})
	return errors.Join(checks.Expect(state(err) == "25P02", "%v", err), usable(db))
}

func portions(db *gorm.DB) error {
	var items, seen []*Item
	for id := 1; id <= 500; id++ {
		items = append(items, item(id))
	}
	if err := db.Create(items).Error; err != nil {
		return err
	}
	total := 0
	done := db.FindInBatches(&seen, 70, func(*gorm.DB, int) error { total += len(seen); return nil })
	return checks.Expect(done.Error == nil && total == 500, "%d %v", total, done.Error)
}

func large(db *gorm.DB) error {
	big := item(1)
	big.Name = strings.Repeat("0123456789abcdef", 20<<20/16)
	var back Item
	err := errors.Join(db.Create(big).Error, db.First(&back, 1).Error)
	return checks.Expect(err == nil && back.Name == big.Name, "%d bytes, %v", len(back.Name), err)
}

func sessionState(db *gorm.DB) error {
	if err := checks.SessionOnly("a session's state"); err != nil {
		return err
	}
	return db.Connection(func(conn *gorm.DB) error {
		for _, text := range []string{"SET work_mem = '5MB'", "CREATE TEMPORARY TABLE mine (id int)", "SELECT pg_advisory_lock(4711)"} {
			if err := conn.Exec(text).Error; err != nil {
				return err
			}
		}
		var memory string
		err := conn.Raw("SELECT current_setting('work_mem') FROM (SELECT count(*) FROM mine) AS there").Scan(&memory).Error
		locks, err2 := number(conn, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()")
		return checks.Expect(err == nil && err2 == nil && memory == "5MB" && locks == 1, "%s %d %v %v", memory, locks, err, err2)
	})
}

func startupParameters() error {
	zones := []string{"Asia/Tokyo", "America/Lima", "UTC"}
	return checks.Each(len(zones), func(i int) error {
		db, shut, err := open(checks.Password, fmt.Sprintf("&application_name=go%d&TimeZone=%s", i, zones[i]), &gorm.Config{})
		if err != nil {
			return err
		}
		defer shut()
		for round := 0; round < 20; round++ {
			var both string
			err := db.Raw("SELECT current_setting('application_name') || current_setting('TimeZone')").Scan(&both).Error
			if err != nil || both != fmt.Sprint("go", i, zones[i]) {
				return fmt.Errorf("%s %v", both, err)
			}
		}
		return nil
	})
}

// Once within a transaction, then all connections of the pool.
func reconnect(db *gorm.DB) error {
	lost := errors.New("lost")
	err := db.Transaction(func(tx *gorm.DB) error {
		pid, err := number(tx, "SELECT pg_backend_pid()")
		if err := errors.Join(err, db.Exec("SELECT pg_terminate_backend(?)", pid).Error); err != nil {
			return err
		}
		if usable(tx) == nil {
			return errors.New("the transaction goes on without its server")
		}
		return lost
	})
	if !errors.Is(err, lost) {
		return err
	}
	for round := 0; round < 3; round++ {
		// If the query runs on a server that is being killed, it is retried like any other.
		err := checks.Eventually(func() error { return db.Exec(checks.KillOthers).Error })
		if err := errors.Join(err, checks.Eventually(func() error { return usable(db) })); err != nil {
			return err
		}
	}
	return nil
}

func tagged(db *gorm.DB, tag int) error {
	for round := 0; round < 30; round++ {
		want, got := fmt.Sprintf("%d/%d", tag, round), ""
		if err := db.Raw("SELECT ?::text", want).Scan(&got).Error; err != nil || got != want {
			return fmt.Errorf("%q, not %q: %v", got, want, err)
		}
	}
	return nil
}

func pool(db *gorm.DB) error {
	return checks.Each(24, func(worker int) error {
		for round := 0; round < 5; round++ {
			err := db.Transaction(func(tx *gorm.DB) error { return tagged(tx, worker) })
			if err := errors.Join(err, tagged(db, worker)); err != nil {
				return err
			}
		}
		return nil
	})
}

func manyConnections() error {
	return checks.Each(60, func(worker int) error {
		db, shut, err := open(checks.Password, "", &gorm.Config{})
		if err != nil {
			return err
		}
		defer shut()
		return tagged(db, worker)
	})
}

func tls() error {
	if checks.Authority == "" {
		return checks.None("this PostgreSQL was built without TLS")
	}
	db, shut, err := open(checks.Password, "&sslmode=verify-full&sslrootcert="+checks.Authority, &gorm.Config{})
	if err != nil {
		return err
	}
	defer shut()
	return usable(db)
}

func none(why string) func() error { return func() error { return checks.None(why) } }

func main() {
	versions := fmt.Sprintf("GORM %s, pgx %s", checks.Version("gorm.io/gorm"), checks.Version("github.com/jackc/pgx/v5"))
	preparing := gorm.Config{PrepareStmt: true}
	checks.Main(versions, []checks.Check{
		{Name: "login", Run: on(usable)},
		{Name: "wrong password", Run: wrongPassword},
		{Name: "crud", Run: on(crud)},
		{Name: "types", Run: on(types)},
		{Name: "prepared", Run: with(preparing, prepared)},
		{Name: "many statements", Run: with(preparing, manyStatements)},
		{Name: "table changed", Run: on(tableChanged)},
		{Name: "batch", Run: on(batch)},
		{Name: "pipeline", Run: none("GORM sends nothing ahead")},
		{Name: "pipeline error", Run: on(pipelineError)},
		{Name: "copy in", Run: none("GORM has no COPY")},
		{Name: "copy out", Run: none("GORM has no COPY")},
		{Name: "copy error", Run: none("GORM has no COPY")},
		{Name: "cancel", Run: on(cancel)},
		{Name: "timeout", Run: on(timeout)},
		{Name: "commit", Run: on(commit)},
		{Name: "rollback", Run: on(rollback)},
		{Name: "savepoint", Run: on(savepoint)},
		{Name: "isolation", Run: on(isolation)},
		{Name: "unique violation", Run: on(uniqueViolation)},
		{Name: "syntax error", Run: on(syntaxError)},
		{Name: "error in a transaction", Run: on(errorInATransaction)},
		{Name: "cursor", Run: on(portions)},
		{Name: "large", Run: on(large)},
		{Name: "notice", Run: none("GORM has no notices")},
		{Name: "notify", Run: none("GORM has no notifications")},
		{Name: "session state", Run: on(sessionState)},
		{Name: "startup parameters", Run: startupParameters},
		{Name: "reconnect", Run: on(reconnect)},
		{Name: "pool", Run: on(pool)},
		{Name: "many connections", Run: manyConnections},
		{Name: "tls", Run: tls},
		{Name: "crud with PrepareStmt", Run: with(preparing, crud)},
	})
}
