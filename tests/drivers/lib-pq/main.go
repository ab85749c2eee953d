// database/sql with lib/pq: the checks for database/sql, and lib/pq's own COPY, notices and notifications.
package main

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/lib/pq"

	"weir/tests/drivers/shared"
	"weir/tests/drivers/shared/sqlchecks"
)

var driver = sqlchecks.Driver{
	Name:  "postgres",
	Table: "libpq_" + checks.Mode,
	// lib/pq requires TLS by default, which not every PostgreSQL has.
	URL:   func(password, options string) string { return checks.URL(password, "&sslmode=disable"+options) },
	State: state,
	Zone:  "TimeZone",
}

func state(err error) string {
	var refused *pq.Error
	if errors.As(err, &refused) {
		return string(refused.Code)
	}
	return fmt.Sprint(err)
}

// copyRows copies rows, of which one may be invalid, in a transaction that it commits if all succeed.
func copyRows(db *sql.DB, bad bool) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	stmt, err := tx.Prepare(pq.CopyIn(driver.Table, "id", "name"))
	if err != nil {
		return err
	}
	for id := 0; id < 3000; id++ {
		var value any = id
		if bad && id == 2000 {
			value = "no number"
		}
		if _, err = stmt.Exec(value, "row"); err != nil {
			break
		}
	}
	if err == nil {
		_, err = stmt.Exec()
	}
	closed := stmt.Close()
	if err = errors.Join(err, closed); err != nil {
		return err
	}
	return tx.Commit()
}

func copyIn(db *sql.DB) error {
	return errors.Join(driver.Anew(db), copyRows(db, false), driver.Count(db, 3000))
}

func copyError(db *sql.DB) error {
	if err := driver.Anew(db); err != nil {
		return err
	}
	if err := copyRows(db, true); state(err) != "22P02" {
		return fmt.Errorf("%v", err)
	}
	// Aborted by the client: a transaction that is rolled back without the end of its COPY.
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	stmt, err := tx.Prepare(pq.CopyIn(driver.Table, "id", "name"))
	if err != nil {
		return err
	}
	if _, err := stmt.Exec(1, "row"); err != nil {
		return err
	}
	tx.Rollback()
	return errors.Join(driver.Count(db, 0), sqlchecks.Usable(db))
}

func notice() error {
	base, err := pq.NewConnector(driver.URL(checks.Password, ""))
	if err != nil {
		return err
	}
	var heard []string
	db := sql.OpenDB(pq.ConnectorWithNoticeHandler(base, func(notice *pq.Error) { heard = append(heard, notice.Message) }))
	defer db.Close()
	_, err = db.Exec("DO $$ BEGIN RAISE NOTICE 'hear'; END $$")
	return checks.Expect(err == nil && len(heard) == 1 && heard[0] == "hear", "%v %v", heard, err)
}

func notify(db *sql.DB) error {
	if err := checks.SessionOnly("LISTEN"); err != nil {
		return err
	}
	listener := pq.NewListener(driver.URL(checks.Password, ""), time.Second, time.Second, nil)
	defer listener.Close()
	if err := listener.Listen(driver.Table); err != nil {
		return err
	}
	if _, err := db.Exec("SELECT pg_notify($1, 'hear')", driver.Table); err != nil {
		return err
	}
	select {
	case heard := <-listener.Notify:
		return checks.Expect(heard != nil && heard.Extra == "hear", "%v", heard)
	case <-time.After(30 * time.Second):
		return errors.New("nothing heard")
	}
}

func tls() error {
	if checks.Authority == "" {
		return checks.None("this PostgreSQL was built without TLS")
	}
	db, err := sql.Open("postgres", checks.URL(checks.Password, "&sslmode=verify-full&sslrootcert="+checks.Authority))
	if err != nil {
		return err
	}
	defer db.Close()
	return sqlchecks.Usable(db)
}

// binary_parameters skips the preparation: Parse, Bind and Execute of the unnamed statement together.
func binaryParameters() error {
	db, err := driver.Open("&binary_parameters=yes")
	if err != nil {
		return err
	}
	defer db.Close()
	return checks.Each(24, func(worker int) error {
		for round := 0; round < 20; round++ {
			n, err := sqlchecks.Number(db, fmt.Sprintf("SELECT $1::int + %d", round%5), worker)
			if err != nil || n != worker+round%5 {
				return fmt.Errorf("%d %v", n, err)
			}
		}
		return nil
	})
}

// Several statements in one simple query, and the results of each.
func severalResults(db *sql.DB) error {
	rows, err := db.Query("SELECT 1; SELECT 2")
	if err != nil {
		return err
	}
	defer rows.Close()
	var seen []int
	for more := true; more; more = rows.NextResultSet() {
		for rows.Next() {
			var n int
			if err := rows.Scan(&n); err != nil {
				return err
			}
			seen = append(seen, n)
		}
	}
	return checks.Expect(len(seen) == 2 && seen[1] == 2, "%v", seen)
}

func main() {
	checks.Main("lib/pq "+checks.Version("github.com/lib/pq"), append(driver.All(), []checks.Check{
		{Name: "copy in", Run: driver.With(copyIn)},
		{Name: "copy out", Run: func() error { return checks.None("lib/pq has no COPY TO") }},
		{Name: "copy error", Run: driver.With(copyError)},
		{Name: "notice", Run: notice},
		{Name: "notify", Run: driver.With(notify)},
		{Name: "tls", Run: tls},
		{Name: "binary parameters", Run: binaryParameters},
		{Name: "several results", Run: driver.With(severalResults)},
	}...))
}
