// Package sqlchecks has the checks for any driver of Go's database/sql, with that package's own pool.
package sqlchecks

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	checks "weir/tests/drivers/shared"
)

// Driver is what differs from driver to driver.
type Driver struct {
	// Name for sql.Open.
	Name string
	// Table's name.
	Table string
	// URL with a password, and options ("&name=value") behind.
	URL func(password, options string) string
	// State is an error's SQLSTATE, or its text.
	State func(error) string
	// Session's parameter for the time zone.
	Zone string
}

var ctx = context.Background()

// Open a pool with the defaults of database/sql.
func (d Driver) Open(options string) (*sql.DB, error) {
	return sql.Open(d.Name, d.URL(checks.Password, options))
}

// With calls the function with a pool of its own.
func (d Driver) With(work func(*sql.DB) error) func() error {
	return func() error {
		db, err := d.Open("")
		if err != nil {
			return err
		}
		defer db.Close()
		return work(db)
	}
}

type queryer interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
	QueryRowContext(context.Context, string, ...any) *sql.Row
}

// Number returns the result of a query of one row and one column.
func Number(on queryer, text string, args ...any) (n int, err error) {
	err = on.QueryRowContext(ctx, text, args...).Scan(&n)
	return n, err
}

// Usable runs a query, and expects its own answer.
func Usable(on queryer) error {
	n, err := Number(on, "SELECT $1::int + 1", 41)
	return checks.Expect(err == nil && n == 42, "afterwards: %d %v", n, err)
}

// Anew creates the empty table.
func (d Driver) Anew(on queryer) error {
	_, err := on.ExecContext(ctx, "DROP TABLE IF EXISTS "+d.Table+"; CREATE TABLE "+d.Table+" (id int PRIMARY KEY, name text)")
	return err
}

// Count checks whether the table has that many rows.
func (d Driver) Count(on queryer, want int) error {
	n, err := Number(on, "SELECT count(*) FROM "+d.Table)
	return checks.Expect(err == nil && n == want, "%d rows, not %d: %v", n, want, err)
}

func (d Driver) insert(on queryer, id int) error {
	_, err := on.ExecContext(ctx, "INSERT INTO "+d.Table+" VALUES ($1, $2)", id, fmt.Sprint("row ", id))
	return err
}

// All checks that need only what database/sql guarantees for every driver.
func (d Driver) All() []checks.Check {
	list := []checks.Check{
		{Name: "login", Run: d.With(func(db *sql.DB) error { return Usable(db) })},
		{Name: "wrong password", Run: d.wrongPassword},
		{Name: "pipeline", Run: func() error { return checks.None("database/sql sends nothing ahead") }},
		{Name: "startup parameters", Run: d.startupParameters},
	}
	for _, check := range []struct {
		name string
		run  func(*sql.DB) error
	}{
		{"crud", d.crud}, {"types", types}, {"prepared", prepared}, {"many statements", manyStatements},
		{"table changed", d.tableChanged}, {"batch", d.batch}, {"pipeline error", d.pipelineError}, {"cancel", d.cancel},
		{"timeout", d.timeout}, {"commit", d.commit}, {"rollback", d.rollback}, {"savepoint", d.savepoint},
		{"isolation", isolation}, {"unique violation", d.uniqueViolation}, {"syntax error", d.syntaxError},
		{"error in a transaction", d.errorInATransaction}, {"cursor", cursor}, {"large", large},
		{"session state", sessionState}, {"reconnect", reconnect}, {"pool", pool},
	} {
		list = append(list, checks.Check{Name: check.name, Run: d.With(check.run)})
	}
	return append(list, checks.Check{Name: "many connections", Run: d.manyConnections})
}

func (d Driver) wrongPassword() error {
	db, err := sql.Open(d.Name, d.URL("wrong", ""))
	if err != nil {
		return err
	}
	defer db.Close()
	err = db.Ping()
	return checks.Expect(d.State(err) == "28P01", "%v", err)
}

func (d Driver) crud(db *sql.DB) error {
	if err := d.Anew(db); err != nil {
		return err
	}
	for _, step := range []struct {
		text string
		rows int64
	}{
		{"INSERT INTO %s SELECT id, 'x' FROM generate_series(1, $1::int) AS id", 10},
		{"UPDATE %s SET name = 'y' WHERE id <= $1", 4},
		{"DELETE FROM %s WHERE id <= $1", 3},
	} {
		result, err := db.Exec(fmt.Sprintf(step.text, d.Table), step.rows)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n != step.rows {
			return fmt.Errorf("%s: %d %v", step.text, n, err)
		}
	}
	n, err := Number(db, "SELECT count(*) FROM "+d.Table+" WHERE name = $1", "x")
	return checks.Expect(err == nil && n == 6, "%d %v", n, err)
}

func types(db *sql.DB) error {
	when := time.Date(2026, 2, 3, 4, 5, 6, 789000, time.UTC)
	var (
		big   int64
		text  string
		raw   []byte
		null  sql.NullInt64
		list  int
		moved time.Time
	)
	row := db.QueryRow("SELECT $1::bigint, $2::text, $3::bytea, $4::int, cardinality($5::int[]), $6::timestamptz",
		int64(1)<<60, "é😀", []byte{0, 255}, nil, "{1,2}", when)
	err := row.Scan(&big, &text, &raw, &null, &list, &moved)
	same := big == 1<<60 && text == "é😀" && bytes.Equal(raw, []byte{0, 255}) && !null.Valid && list == 2
	return checks.Expect(err == nil && same && moved.Equal(when), "%d %q %v %v %d %v %v", big, text, raw, null, list, moved, err)
}

// several takes connections from the pool, more than there are servers in transaction mode.
func several(db *sql.DB, work func([]*sql.Conn) error) error {
	conns := make([]*sql.Conn, 12)
	for i := range conns {
		var err error
		if conns[i], err = db.Conn(ctx); err != nil {
			return err
		}
		defer conns[i].Close()
	}
	return work(conns)
}

func prepared(db *sql.DB) error {
	return several(db, func(conns []*sql.Conn) error {
		return checks.Each(len(conns), func(i int) error {
			for addend := 0; addend < 4; addend++ {
				stmt, err := conns[i].PrepareContext(ctx, fmt.Sprintf("SELECT $1::int + %d", addend))
				if err != nil {
					return err
				}
				for round := 0; round < 10; round++ {
					var got int
					if err := stmt.QueryRow(round * i).Scan(&got); err != nil || got != round*i+addend {
						return fmt.Errorf("%d+%d: %d %v", round*i, addend, got, err)
					}
				}
				if err := stmt.Close(); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

func manyStatements(db *sql.DB) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	var open []*sql.Stmt
	for addend := 0; addend < 700; addend++ {
		stmt, err := conn.PrepareContext(ctx, fmt.Sprintf("SELECT $1::int + %d", addend))
		if err != nil {
			return err
		}
		if open = append(open, stmt); len(open) > 300 {
			if err := open[0].Close(); err != nil {
				return err
			}
			open = open[1:]
		}
		var got int
		if err := open[0].QueryRow(1).Scan(&got); err != nil || got != 1+max(0, addend-299) {
			return fmt.Errorf("%d: %d %v", addend, got, err)
		}
	}
	return nil
}

func columns(stmt *sql.Stmt) (int, error) {
	rows, err := stmt.Query()
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	names, err := rows.Columns()
	for rows.Next() {
	}
	return len(names), errors.Join(err, rows.Err())
}

// database/sql does not prepare a statement again by itself; the program closes it after an error.
func (d Driver) tableChanged(db *sql.DB) error {
	return several(db, func(conns []*sql.Conn) error {
		if err := errors.Join(d.Anew(conns[0]), d.insert(conns[0], 1)); err != nil {
			return err
		}
		statements := make([]*sql.Stmt, len(conns))
		for want := 2; want < 6; want++ {
			err := checks.Each(len(conns), func(i int) (err error) {
				n := 0
				for attempt := 0; attempt < 2; attempt++ {
					if statements[i] == nil {
						if statements[i], err = conns[i].PrepareContext(ctx, "SELECT * FROM "+d.Table); err != nil {
							return fmt.Errorf("prepared anew: %w", err)
						}
					}
					if n, err = columns(statements[i]); err == nil {
						break
					}
					statements[i].Close()
					statements[i] = nil
				}
				return checks.Expect(err == nil && n == want, "%d columns, not %d: %v", n, want, err)
			})
			if err != nil {
				return err
			}
			if _, err := conns[0].ExecContext(ctx, fmt.Sprintf("ALTER TABLE %s ADD COLUMN c%d int DEFAULT 2", d.Table, want)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (d Driver) batch(db *sql.DB) error {
	if err := d.Anew(db); err != nil {
		return err
	}
	var text strings.Builder
	for id := 0; id < 500; id++ {
		fmt.Fprintf(&text, "INSERT INTO %s VALUES (%d, 'x');", d.Table, id)
	}
	_, err := db.Exec(text.String())
	return errors.Join(err, d.Count(db, 500))
}

func (d Driver) pipelineError(db *sql.DB) error {
	if err := d.Anew(db); err != nil {
		return err
	}
	for round := 0; round < 5; round++ {
		_, err := db.Exec("INSERT INTO " + d.Table + " VALUES (1); SELECT 1 / 0; INSERT INTO " + d.Table + " VALUES (2)")
		if d.State(err) != "22012" {
			return fmt.Errorf("%v", err)
		}
		if err := d.Count(db, 0); err != nil {
			return err
		}
	}
	return nil
}

func (d Driver) stopped(err error) error {
	stopped := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || d.State(err) == "57014"
	return checks.Expect(stopped, "not stopped: %v", err)
}

func (d Driver) cancel(db *sql.DB) error {
	for round := 0; round < 3; round++ {
		short, stop := context.WithCancel(ctx)
		time.AfterFunc(400*time.Millisecond, stop)
		_, err := db.ExecContext(short, "SELECT pg_sleep(60)")
		if err := errors.Join(d.stopped(err), Usable(db)); err != nil {
			return err
		}
	}
	return nil
}

func (d Driver) timeout(db *sql.DB) error {
	short, stop := context.WithTimeout(ctx, 400*time.Millisecond)
	defer stop()
	_, err := db.ExecContext(short, "SELECT pg_sleep(60)")
	return errors.Join(d.stopped(err), Usable(db))
}

// within runs the function in a transaction, and does not end it.
func within(db *sql.DB, options *sql.TxOptions, work func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, options)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	return work(tx)
}

func (d Driver) commit(db *sql.DB) error {
	if err := d.Anew(db); err != nil {
		return err
	}
	err := within(db, nil, func(tx *sql.Tx) error {
		return errors.Join(d.insert(tx, 1), d.insert(tx, 2), tx.Commit())
	})
	return errors.Join(err, d.Count(db, 2))
}

func (d Driver) rollback(db *sql.DB) error {
	if err := d.Anew(db); err != nil {
		return err
	}
	err := within(db, nil, func(tx *sql.Tx) error {
		return errors.Join(d.insert(tx, 1), d.Count(tx, 1), tx.Rollback())
	})
	return errors.Join(err, d.Count(db, 0))
}

func (d Driver) savepoint(db *sql.DB) error {
	if err := d.Anew(db); err != nil {
		return err
	}
	err := within(db, nil, func(tx *sql.Tx) error {
		if err := d.insert(tx, 1); err != nil {
			return err
		}
		_, err := tx.Exec("SAVEPOINT here")
		if err := errors.Join(err, d.insert(tx, 2)); err != nil {
			return err
		}
		if err := d.insert(tx, 1); d.State(err) != "23505" {
			return fmt.Errorf("twice: %v", err)
		}
		_, err = tx.Exec("ROLLBACK TO SAVEPOINT here")
		return errors.Join(err, d.insert(tx, 3), tx.Commit())
	})
	n, read := Number(db, "SELECT sum(id) FROM "+d.Table)
	return errors.Join(err, checks.Expect(read == nil && n == 4, "%d %v", n, read))
}

func isolation(db *sql.DB) error {
	err := within(db, &sql.TxOptions{Isolation: sql.LevelSerializable, ReadOnly: true}, func(tx *sql.Tx) error {
		var level, readOnly string
		err := tx.QueryRow("SELECT current_setting('transaction_isolation'), current_setting('transaction_read_only')").
			Scan(&level, &readOnly)
		return checks.Expect(err == nil && level == "serializable" && readOnly == "on", "%s %s %v", level, readOnly, err)
	})
	var level string
	after := db.QueryRow("SHOW transaction_isolation").Scan(&level)
	return errors.Join(err, checks.Expect(after == nil && level == "read committed", "afterwards %s %v", level, after))
}

func (d Driver) uniqueViolation(db *sql.DB) error {
	if err := errors.Join(d.Anew(db), d.insert(db, 1)); err != nil {
		return err
	}
	for round := 0; round < 5; round++ {
		if err := d.insert(db, 1); d.State(err) != "23505" {
			return fmt.Errorf("%v", err)
		}
	}
	return d.Count(db, 1)
}

func (d Driver) syntaxError(db *sql.DB) error {
	for round := 0; round < 5; round++ {
		if _, err := db.Exec("SELEC 1"); d.State(err) != "42601" {
			return fmt.Errorf("simple: %v", err)
		}
		if _, err := db.Prepare("SELECT $1::int +"); d.State(err) != "42601" {
			return fmt.Errorf("prepared: %v", err)
		}
		if err := Usable(db); err != nil {
			return err
		}
	}
	return nil
}

func (d Driver) errorInATransaction(db *sql.DB) error {
	err := within(db, nil, func(tx *sql.Tx) error {
		if _, err := Number(tx, "SELECT 1 / $1::int", 0); d.State(err) != "22012" {
			return fmt.Errorf("%v", err)
		}
		for round := 0; round < 3; round++ {
			if _, err := Number(tx, "SELECT 1"); d.State(err) != "25P02" {
				return fmt.Errorf("still: %v", err)
			}
		}
		return tx.Rollback()
	})
	return errors.Join(err, Usable(db))
}

func cursor(db *sql.DB) error {
	return within(db, nil, func(tx *sql.Tx) error {
		if _, err := tx.Exec("DECLARE portions CURSOR FOR SELECT generate_series(1, 2000)"); err != nil {
			return err
		}
		seen := 0
		for before := -1; before < seen; {
			before = seen
			rows, err := tx.Query("FETCH 70 FROM portions")
			if err != nil {
				return err
			}
			for rows.Next() {
				var n int
				seen++
				if err := rows.Scan(&n); err != nil || n != seen {
					return fmt.Errorf("%d, not %d: %v", n, seen, err)
				}
			}
			if err := rows.Err(); err != nil {
				return err
			}
		}
		return checks.Expect(seen == 2000, "%d", seen)
	})
}

func large(db *sql.DB) error {
	value := bytes.Repeat([]byte("0123456789abcdef"), 20<<20/16)
	var back []byte
	err := db.QueryRow("SELECT $1::bytea", value).Scan(&back)
	return checks.Expect(err == nil && bytes.Equal(value, back), "%d bytes, %v", len(back), err)
}

func sessionState(db *sql.DB) error {
	if err := checks.SessionOnly("a session's state"); err != nil {
		return err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.ExecContext(ctx, "SET work_mem = '5MB'; CREATE TEMPORARY TABLE mine (id int); SELECT pg_advisory_lock(4711)")
	if err != nil {
		return err
	}
	var memory string
	err = conn.QueryRowContext(ctx, "SELECT current_setting('work_mem') FROM (SELECT count(*) FROM mine) AS there").Scan(&memory)
	locks, err2 := Number(conn, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()")
	return checks.Expect(err == nil && err2 == nil && memory == "5MB" && locks == 1, "%s %d %v %v", memory, locks, err, err2)
}

func (d Driver) startupParameters() error {
	zones := []string{"Asia/Tokyo", "America/Lima", "UTC"}
	return checks.Each(len(zones), func(i int) error {
		db, err := d.Open(fmt.Sprintf("&application_name=go%d&%s=%s", i, d.Zone, zones[i]))
		if err != nil {
			return err
		}
		defer db.Close()
		for round := 0; round < 20; round++ {
			var name, zone string
			err := db.QueryRow("SELECT current_setting('application_name'), current_setting('TimeZone')").Scan(&name, &zone)
			if err != nil || name != fmt.Sprint("go", i) || zone != zones[i] {
				return fmt.Errorf("%s %s %v", name, zone, err)
			}
		}
		return nil
	})
}

// Once within a transaction, then all connections of the pool.
func reconnect(db *sql.DB) error {
	err := within(db, nil, func(tx *sql.Tx) error {
		pid, err := Number(tx, "SELECT pg_backend_pid()")
		if err != nil {
			return err
		}
		if _, err := db.Exec("SELECT pg_terminate_backend($1)", pid); err != nil {
			return err
		}
		return checks.Expect(Usable(tx) != nil, "the transaction goes on without its server")
	})
	if err != nil {
		return err
	}
	for round := 0; round < 3; round++ {
		// If the query runs on a server that is being killed, it is retried like any other.
		err := checks.Eventually(func() error {
			_, err := db.Exec(checks.KillOthers)
			return err
		})
		if err := errors.Join(err, checks.Eventually(func() error { return Usable(db) })); err != nil {
			return err
		}
	}
	return nil
}

func tagged(on queryer, tag int) error {
	for round := 0; round < 30; round++ {
		want := fmt.Sprintf("%d/%d", tag, round)
		var got string
		if err := on.QueryRowContext(ctx, "SELECT $1::text", want).Scan(&got); err != nil || got != want {
			return fmt.Errorf("%q, not %q: %v", got, want, err)
		}
	}
	return nil
}

func pool(db *sql.DB) error {
	return checks.Each(24, func(worker int) error {
		for round := 0; round < 5; round++ {
			err := within(db, nil, func(tx *sql.Tx) error { return errors.Join(tagged(tx, worker), tx.Commit()) })
			if err := errors.Join(err, tagged(db, worker)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (d Driver) manyConnections() error {
	return checks.Each(60, func(worker int) error {
		return d.With(func(db *sql.DB) error { return tagged(db, worker) })()
	})
}
