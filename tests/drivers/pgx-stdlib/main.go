// database/sql with pgx: the checks of all drivers of database/sql, and those of the pgx connection below it.
package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"weir/tests/drivers/shared"
	"weir/tests/drivers/shared/sqlchecks"
)

var (
	ctx    = context.Background()
	driver = sqlchecks.Driver{Name: "pgx", Table: "pgx_stdlib_" + checks.Mode, URL: checks.URL, State: state, Zone: "timezone"}
)

func state(err error) string {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return refused.Code
	}
	return fmt.Sprint(err)
}

// raw calls the function with the pgx connection below one of the pool's.
func raw(db *sql.DB, work func(*pgx.Conn) error) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Raw(func(below any) error { return work(below.(*stdlib.Conn).Conn()) })
}

func copyIn(db *sql.DB) error {
	if err := driver.Anew(db); err != nil {
		return err
	}
	err := raw(db, func(conn *pgx.Conn) error {
		rows := pgx.CopyFromSlice(5000, func(id int) ([]any, error) { return []any{id, "row"}, nil })
		_, err := conn.CopyFrom(ctx, pgx.Identifier{driver.Table}, []string{"id", "name"}, rows)
		return err
	})
	return errors.Join(err, driver.Count(db, 5000))
}

func copyOut(db *sql.DB) error {
	var out bytes.Buffer
	err := raw(db, func(conn *pgx.Conn) error {
		_, err := conn.PgConn().CopyTo(ctx, &out, "COPY (SELECT generate_series(1, 5000)) TO STDOUT")
		return err
	})
	return checks.Expect(err == nil && strings.HasSuffix(out.String(), "\n4999\n5000\n"), "%d bytes, %v", out.Len(), err)
}

func copyError(db *sql.DB) error {
	if err := driver.Anew(db); err != nil {
		return err
	}
	err := raw(db, func(conn *pgx.Conn) error {
		bad := strings.NewReader("no number\tx\n")
		if _, err := conn.PgConn().CopyFrom(ctx, bad, "COPY "+driver.Table+" FROM STDIN"); state(err) != "22P02" {
			return fmt.Errorf("%v", err)
		}
		given := pgx.CopyFromFunc(func() ([]any, error) { return nil, errors.New("changed my mind") })
		_, err := conn.CopyFrom(ctx, pgx.Identifier{driver.Table}, []string{"id"}, given)
		return checks.Expect(err != nil, "given up, and no error")
	})
	return errors.Join(err, driver.Count(db, 0))
}

func notice() error {
	config, err := pgx.ParseConfig(checks.URL(checks.Password, ""))
	if err != nil {
		return err
	}
	var heard []string
	config.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) { heard = append(heard, notice.Message) }
	db := stdlib.OpenDB(*config)
	defer db.Close()
	_, err = db.Exec("DO $$ BEGIN RAISE NOTICE 'hear'; END $$")
	return checks.Expect(err == nil && len(heard) == 1 && heard[0] == "hear", "%v %v", heard, err)
}

func notify(db *sql.DB) error {
	if err := checks.SessionOnly("LISTEN"); err != nil {
		return err
	}
	return raw(db, func(conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, "LISTEN "+driver.Table); err != nil {
			return err
		}
		if _, err := db.Exec("SELECT pg_notify($1, 'hear')", driver.Table); err != nil {
			return err
		}
		patience, stop := context.WithTimeout(ctx, 30*time.Second)
		defer stop()
		heard, err := conn.WaitForNotification(patience)
		return checks.Expect(err == nil && heard.Payload == "hear", "%v %v", heard, err)
	})
}

func tls() error {
	if checks.Authority == "" {
		return checks.None("this PostgreSQL was built without TLS")
	}
	db, err := driver.Open("&sslmode=verify-full&sslrootcert=" + checks.Authority)
	if err != nil {
		return err
	}
	defer db.Close()
	return sqlchecks.Usable(db)
}

func main() {
	checks.Main("pgx "+checks.Version("github.com/jackc/pgx/v5"), append(driver.All(), []checks.Check{
		{Name: "copy in", Run: driver.With(copyIn)},
		{Name: "copy out", Run: driver.With(copyOut)},
		{Name: "copy error", Run: driver.With(copyError)},
		{Name: "notice", Run: notice},
		{Name: "notify", Run: driver.With(notify)},
		{Name: "tls", Run: tls},
	}...))
}
