// lib/pq by database/sql: what most older Go programs do.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/lib/pq"
)

var (
	mode  = os.Getenv("MODE")
	table = "libpq_" + mode
)

func dsn(more string) string { return dsnOf(os.Getenv("PASSWORD"), more) }

func dsnOf(password, more string) string {
	user := url.UserPassword(os.Getenv("USER_NAME"), password)
	return fmt.Sprintf("postgres://%s@%s:%s/%s?sslmode=disable&connect_timeout=20%s",
		user, os.Getenv("HOST"), os.Getenv("PORT"), os.Getenv("DATABASE"), more)
}

func open(more string) (*sql.DB, error) {
	db, err := sql.Open("postgres", dsn(more))
	if err == nil {
		db.SetMaxOpenConns(12)
	}
	return db, err
}

func expect(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}

func code(err error) string {
	var pqErr *pq.Error
	if errors.As(err, &pqErr) {
		return string(pqErr.Code)
	}
	return fmt.Sprint(err)
}

func queryAndParameters(db *sql.DB) error {
	var n int
	var text string
	var raw []byte
	if err := db.QueryRow("SELECT 1").Scan(&n); err != nil {
		return err
	}
	// Parse, Describe and Sync, then Bind, Execute and Sync: the unnamed statement has to last.
	err := db.QueryRow("SELECT $1::int, $2::text, $3::bytea", 7, "é", []byte{0, 255}).Scan(&n, &text, &raw)
	if err != nil {
		return err
	}
	return expect(n == 7 && text == "é" && len(raw) == 2 && raw[1] == 255, "%d %q %v", n, text, raw)
}

func wrongPassword(*sql.DB) error {
	db, err := sql.Open("postgres", dsnOf("wrong", ""))
	if err != nil {
		return err
	}
	defer db.Close()
	err = db.Ping()
	return expect(err != nil && strings.Contains(err.Error(), "failed"), "%v", err)
}

func manyGoroutines(db *sql.DB) error {
	var group sync.WaitGroup
	failures := make(chan error, 1000)
	for worker := 0; worker < 24; worker++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for round := 0; round < 30; round++ {
				want := fmt.Sprintf("%d/%d", worker, round)
				var got string
				if err := db.QueryRow("SELECT $1::text", want).Scan(&got); err != nil || got != want {
					failures <- fmt.Errorf("%s: %q %v", want, got, err)
				}
			}
		}()
	}
	group.Wait()
	close(failures)
	return <-failures
}

func preparedStatements(db *sql.DB) error {
	for number := 0; number < 10; number++ {
		stmt, err := db.Prepare(fmt.Sprintf("SELECT $1::int + %d", number))
		if err != nil {
			return err
		}
		for round := 0; round < 10; round++ {
			var got int
			if err := stmt.QueryRow(round).Scan(&got); err != nil || got != round+number {
				return fmt.Errorf("%d+%d: %d %v", round, number, got, err)
			}
		}
		if err := stmt.Close(); err != nil {
			return err
		}
	}
	return nil
}

func transactions(db *sql.DB) error {
	setup := fmt.Sprintf("DROP TABLE IF EXISTS %s; CREATE TABLE %s (id int PRIMARY KEY, name text)", table, table)
	if _, err := db.Exec(setup); err != nil {
		return err
	}
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	insert := "INSERT INTO " + table + " VALUES ($1, $2)"
	if _, err := tx.Exec(insert, 1, "one"); err != nil {
		return err
	}
	_, err = tx.Exec(insert, 1, "twice")
	if code(err) != "23505" {
		return fmt.Errorf("twice: %v", err)
	}
	if err := tx.Rollback(); err != nil {
		return err
	}
	tx, _ = db.BeginTx(context.Background(), &sql.TxOptions{Isolation: sql.LevelSerializable})
	stmt, err := tx.Prepare(insert)
	if err != nil {
		return err
	}
	for id := 0; id < 5; id++ {
		if _, err := stmt.Exec(id, "x"); err != nil {
			return err
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	var count int
	err = db.QueryRow("SELECT count(*) FROM " + table).Scan(&count)
	return expect(err == nil && count == 5, "%d %v", count, err)
}

func errorsLeaveItUsable(db *sql.DB) error {
	for round := 0; round < 10; round++ {
		var n int
		if err := db.QueryRow("SELECT 1 / $1::int", 0).Scan(&n); code(err) != "22012" {
			return err
		}
		if _, err := db.Prepare("SELECT nothing"); code(err) != "42703" {
			return err
		}
		if err := db.QueryRow("SELECT 2").Scan(&n); err != nil || n != 2 {
			return fmt.Errorf("%d %v", n, err)
		}
	}
	return nil
}

func copyIn(db *sql.DB) error {
	for _, good := range []bool{true, false} {
		tx, err := db.Begin()
		if err != nil {
			return err
		}
		if _, err = tx.Exec("TRUNCATE " + table); err != nil {
			return err
		}
		stmt, err := tx.Prepare(pq.CopyIn(table, "id", "name"))
		if err != nil {
			return err
		}
		for id := 0; id < 3000; id++ {
			var value any = id
			if !good && id == 2000 {
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
		if !good {
			if err == nil {
				err = closed
			}
			if code(err) != "22P02" {
				return fmt.Errorf("an error within: %v", err)
			}
			tx.Rollback()
			continue
		}
		if err != nil {
			return err
		}
		if err := tx.Commit(); err != nil {
			return err
		}
	}
	var count int
	err := db.QueryRow("SELECT count(*) FROM " + table).Scan(&count)
	return expect(err == nil && count == 3000, "%d %v", count, err)
}

func cancel(db *sql.DB) error {
	for round := 0; round < 3; round++ {
		ctx, stop := context.WithTimeout(context.Background(), 400*time.Millisecond)
		began := time.Now()
		_, err := db.ExecContext(ctx, "SELECT pg_sleep(60)")
		stop()
		if err == nil || time.Since(began) > 50*time.Second {
			return fmt.Errorf("not cancelled: %v", err)
		}
		var n int
		if err := db.QueryRow("SELECT 1").Scan(&n); err != nil {
			return err
		}
	}
	return nil
}

func severalResults(db *sql.DB) error {
	rows, err := db.Query("SELECT 1; SELECT 2")
	if err != nil {
		return err
	}
	defer rows.Close()
	var seen []int
	for {
		for rows.Next() {
			var n int
			if err := rows.Scan(&n); err != nil {
				return err
			}
			seen = append(seen, n)
		}
		if !rows.NextResultSet() {
			break
		}
	}
	return expect(len(seen) == 2 && seen[1] == 2, "%v", seen)
}

func binaryParameters(*sql.DB) error {
	db, err := open("&binary_parameters=yes&application_name=go&TimeZone=Asia/Tokyo")
	if err != nil {
		return err
	}
	defer db.Close()
	var zone, name string
	var raw []byte
	err = db.QueryRow("SELECT current_setting('TimeZone'), current_setting('application_name'), $1::bytea", []byte{1, 0}).
		Scan(&zone, &name, &raw)
	return expect(err == nil && zone == "Asia/Tokyo" && name == "go" && len(raw) == 2, "%q %q %v %v", zone, name, raw, err)
}

func notifications(db *sql.DB) error {
	if mode == "transaction" {
		return nil
	}
	listener := pq.NewListener(dsn(""), time.Second, time.Second, nil)
	defer listener.Close()
	if err := listener.Listen("libpq_news"); err != nil {
		return err
	}
	if _, err := db.Exec("SELECT pg_notify('libpq_news', 'hear')"); err != nil {
		return err
	}
	select {
	case heard := <-listener.Notify:
		return expect(heard != nil && heard.Extra == "hear", "%v", heard)
	case <-time.After(20 * time.Second):
		return errors.New("nothing heard")
	}
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == "github.com/lib/pq" {
				return dep.Version
			}
		}
	}
	return "?"
}

func main() {
	db, err := open("")
	if err != nil {
		fmt.Println("FAIL open:", err)
		os.Exit(1)
	}
	checks := []struct {
		name string
		run  func(*sql.DB) error
	}{
		{"query and parameters", queryAndParameters},
		{"a wrong password is refused", wrongPassword},
		{"many goroutines", manyGoroutines},
		{"prepared statements", preparedStatements},
		{"transactions", transactions},
		{"errors leave it usable", errorsLeaveItUsable},
		{"copy in", copyIn},
		{"cancel by a context", cancel},
		{"several results", severalResults},
		{"binary parameters and settings", binaryParameters},
		{"notifications in session mode", notifications},
	}
	failed := 0
	for _, check := range checks {
		if err := check.run(db); err != nil {
			failed++
			fmt.Printf("FAIL %s: %v\n", check.name, err)
			continue
		}
		fmt.Println("ok  ", check.name)
	}
	db.Exec("DROP TABLE IF EXISTS " + table)
	db.Close()
	fmt.Printf("lib/pq %s: %d checks, %d failed\n", version(), len(checks), failed)
	if failed > 0 {
		os.Exit(1)
	}
}
