// pgx with its own interface: statement cache, batches, CopyFrom, cancel, in each of its query modes.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

var (
	mode  = os.Getenv("MODE")
	table = "pgx_" + mode
	ctx   = context.Background()
)

func dsn(password string) string {
	user := url.UserPassword(os.Getenv("USER_NAME"), password)
	return fmt.Sprintf("postgres://%s@%s:%s/%s?sslmode=disable&connect_timeout=20",
		user, os.Getenv("HOST"), os.Getenv("PORT"), os.Getenv("DATABASE"))
}

func connect() (*pgx.Conn, error) { return pgx.Connect(ctx, dsn(os.Getenv("PASSWORD"))) }

func with(work func(*pgx.Conn) error) error {
	conn, err := connect()
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return work(conn)
}

func expect(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}

func code(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code
	}
	return fmt.Sprint(err)
}

func queryAndParameters(conn *pgx.Conn) error {
	var n int
	var text string
	var list []int
	err := conn.QueryRow(ctx, "SELECT $1::int, $2::text, $3::int[]", 7, "é", []int{1, 2}).Scan(&n, &text, &list)
	return expect(err == nil && n == 7 && text == "é" && len(list) == 2, "%d %q %v %v", n, text, list, err)
}

func wrongPassword(*pgx.Conn) error {
	_, err := pgx.Connect(ctx, dsn("wrong"))
	return expect(code(err) == "28P01", "%v", err)
}

func everyQueryMode(conn *pgx.Conn) error {
	modes := []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	}
	for round := 0; round < 5; round++ {
		for _, queryMode := range modes {
			var n int
			err := conn.QueryRow(ctx, "SELECT $1::int + 1", queryMode, round).Scan(&n)
			if err != nil || n != round+1 {
				return fmt.Errorf("%v: %d %v", queryMode, n, err)
			}
		}
	}
	return nil
}

func statementCacheOverMany(*pgx.Conn) error {
	config, err := pgxpool.ParseConfig(dsn(os.Getenv("PASSWORD")))
	if err != nil {
		return err
	}
	config.MaxConns = 12
	config.ConnConfig.StatementCacheCapacity = 3
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	var group sync.WaitGroup
	failures := make(chan error, 2000)
	for worker := 0; worker < 24; worker++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for round := 0; round < 40; round++ {
				var got string
				text := fmt.Sprintf("SELECT $1::text || '%d'", round%8)
				want := fmt.Sprintf("%d/%d/%d", worker, round, round%8)
				err := pool.QueryRow(ctx, text, fmt.Sprintf("%d/%d/", worker, round)).Scan(&got)
				if err != nil || got != want {
					failures <- fmt.Errorf("%s: %q %v", want, got, err)
				}
			}
		}()
	}
	group.Wait()
	close(failures)
	return <-failures
}

func preparedByName(conn *pgx.Conn) error {
	for number := 0; number < 10; number++ {
		name := fmt.Sprintf("named %d", number)
		if _, err := conn.Prepare(ctx, name, fmt.Sprintf("SELECT $1::int + %d", number)); err != nil {
			return err
		}
		var n int
		if err := conn.QueryRow(ctx, name, 1).Scan(&n); err != nil || n != number+1 {
			return fmt.Errorf("%s: %d %v", name, n, err)
		}
		if number%2 == 0 {
			if err := conn.Deallocate(ctx, name); err != nil {
				return err
			}
		}
	}
	return conn.DeallocateAll(ctx)
}

func changedTable(conn *pgx.Conn) error {
	setup := "DROP TABLE IF EXISTS " + table + "_wide; CREATE TABLE " + table + "_wide AS SELECT 1 AS a"
	if _, err := conn.Exec(ctx, setup); err != nil {
		return err
	}
	read := func() (int, error) {
		rows, err := conn.Query(ctx, "SELECT * FROM "+table+"_wide")
		if err != nil {
			return 0, err
		}
		defer rows.Close()
		columns := 0
		for rows.Next() {
			values, err := rows.Values()
			if err != nil {
				return 0, err
			}
			columns = len(values)
		}
		return columns, rows.Err()
	}
	if n, err := read(); err != nil || n != 1 {
		return fmt.Errorf("before: %d %v", n, err)
	}
	if _, err := conn.Exec(ctx, "ALTER TABLE "+table+"_wide ADD COLUMN b int DEFAULT 2"); err != nil {
		return err
	}
	// pgx throws its statement away after the first error.
	n, err := read()
	if err != nil {
		n, err = read()
	}
	conn.Exec(ctx, "DROP TABLE "+table+"_wide")
	return expect(err == nil && n == 2, "after: %d %v", n, err)
}

func transactions(conn *pgx.Conn) error {
	setup := fmt.Sprintf("DROP TABLE IF EXISTS %s; CREATE TABLE %s (id int PRIMARY KEY, name text)", table, table)
	if _, err := conn.Exec(ctx, setup); err != nil {
		return err
	}
	insert := "INSERT INTO " + table + " VALUES ($1, $2)"
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, insert, 1, "one"); err != nil {
			return err
		}
		inner := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, insert, 1, "twice")
			return err
		})
		if code(inner) != "23505" {
			return fmt.Errorf("twice: %v", inner)
		}
		_, err := tx.Exec(ctx, insert, 2, "two")
		return err
	})
	if err != nil {
		return err
	}
	var count int
	err = conn.QueryRow(ctx, "SELECT count(*) FROM "+table).Scan(&count)
	return expect(err == nil && count == 2, "%d %v", count, err)
}

func batches(conn *pgx.Conn) error {
	for round := 0; round < 5; round++ {
		batch := &pgx.Batch{}
		for n := 0; n < 100; n++ {
			batch.Queue(fmt.Sprintf("SELECT $1::int + %d", n%4), n)
		}
		results := conn.SendBatch(ctx, batch)
		for n := 0; n < 100; n++ {
			var got int
			if err := results.QueryRow().Scan(&got); err != nil || got != n+n%4 {
				return fmt.Errorf("%d: %d %v", n, got, err)
			}
		}
		if err := results.Close(); err != nil {
			return err
		}
		broken := &pgx.Batch{}
		broken.Queue("SELECT 1")
		broken.Queue("SELECT 1 / $1::int", 0)
		broken.Queue("SELECT 3")
		if err := conn.SendBatch(ctx, broken).Close(); code(err) != "22012" {
			return fmt.Errorf("broken: %v", err)
		}
	}
	return nil
}

func copyFrom(conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, "TRUNCATE "+table); err != nil {
		return err
	}
	rows := pgx.CopyFromSlice(5000, func(id int) ([]any, error) { return []any{id, fmt.Sprint("row ", id)}, nil })
	count, err := conn.CopyFrom(ctx, pgx.Identifier{table}, []string{"id", "name"}, rows)
	if err != nil || count != 5000 {
		return fmt.Errorf("%d %v", count, err)
	}
	again := pgx.CopyFromSlice(10, func(id int) ([]any, error) { return []any{id, "again"}, nil })
	if _, err := conn.CopyFrom(ctx, pgx.Identifier{table}, []string{"id", "name"}, again); code(err) != "23505" {
		return fmt.Errorf("again: %v", err)
	}
	var sum int
	err = conn.QueryRow(ctx, "SELECT sum(id) FROM "+table).Scan(&sum)
	return expect(err == nil && sum == 4999*5000/2, "%d %v", sum, err)
}

func cancel(conn *pgx.Conn) error {
	for round := 0; round < 3; round++ {
		go func() {
			time.Sleep(400 * time.Millisecond)
			conn.PgConn().CancelRequest(ctx)
		}()
		if _, err := conn.Exec(ctx, "SELECT pg_sleep(60)"); code(err) != "57014" {
			return fmt.Errorf("not cancelled: %v", err)
		}
	}
	return with(func(conn *pgx.Conn) error {
		short, stop := context.WithTimeout(ctx, 400*time.Millisecond)
		defer stop()
		_, err := conn.Exec(short, "SELECT pg_sleep(60)")
		return expect(errors.Is(err, context.DeadlineExceeded), "%v", err)
	})
}

func errorsLeaveItUsable(conn *pgx.Conn) error {
	for round := 0; round < 10; round++ {
		var n int
		if err := conn.QueryRow(ctx, "SELECT 1 / $1::int", 0).Scan(&n); code(err) != "22012" {
			return err
		}
		if _, err := conn.Exec(ctx, "SELECT nothing"); code(err) != "42703" {
			return err
		}
		if err := conn.QueryRow(ctx, "SELECT 2").Scan(&n); err != nil || n != 2 {
			return fmt.Errorf("%d %v", n, err)
		}
	}
	return nil
}

func pipelines(conn *pgx.Conn) error {
	pipeline := conn.PgConn().StartPipeline(ctx)
	for n := 0; n < 50; n++ {
		pipeline.SendQueryParams("SELECT $1::int", [][]byte{[]byte(fmt.Sprint(n))}, nil, nil, nil)
		if n%10 == 9 {
			if err := pipeline.Sync(); err != nil {
				return err
			}
		}
	}
	seen := 0
	for {
		result, err := pipeline.GetResults()
		if err != nil {
			return err
		}
		if result == nil {
			break
		}
		if reader, ok := result.(*pgconn.ResultReader); ok {
			rows := reader.Read()
			if rows.Err != nil || string(rows.Rows[0][0]) != fmt.Sprint(seen) {
				return fmt.Errorf("%d: %v", seen, rows)
			}
			seen++
		}
	}
	if err := pipeline.Close(); err != nil {
		return err
	}
	return expect(seen == 50, "%d", seen)
}

func notifications(conn *pgx.Conn) error {
	if mode == "transaction" {
		return nil
	}
	if _, err := conn.Exec(ctx, "LISTEN pgx_news"); err != nil {
		return err
	}
	err := with(func(speaker *pgx.Conn) error {
		_, err := speaker.Exec(ctx, "NOTIFY pgx_news, 'hear'")
		return err
	})
	if err != nil {
		return err
	}
	patience, stop := context.WithTimeout(ctx, 20*time.Second)
	defer stop()
	heard, err := conn.WaitForNotification(patience)
	return expect(err == nil && heard.Payload == "hear", "%v %v", heard, err)
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == "github.com/jackc/pgx/v5" {
				return dep.Version
			}
		}
	}
	return "?"
}

func main() {
	checks := []struct {
		name string
		run  func(*pgx.Conn) error
	}{
		{"query and parameters", queryAndParameters},
		{"a wrong password is refused", wrongPassword},
		{"every query mode", everyQueryMode},
		{"a small statement cache over many connections", statementCacheOverMany},
		{"statements prepared by name", preparedByName},
		{"a table that changes", changedTable},
		{"transactions and savepoints", transactions},
		{"batches", batches},
		{"copy from", copyFrom},
		{"cancel", cancel},
		{"errors leave it usable", errorsLeaveItUsable},
		{"pipelines", pipelines},
		{"notifications in session mode", notifications},
	}
	failed := 0
	for _, check := range checks {
		if err := with(check.run); err != nil {
			failed++
			fmt.Printf("FAIL %s: %v\n", check.name, err)
			continue
		}
		fmt.Println("ok  ", check.name)
	}
	with(func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "DROP TABLE IF EXISTS "+table)
		return err
	})
	fmt.Printf("pgx %s: %d checks, %d failed\n", version(), len(checks), failed)
	if failed > 0 {
		os.Exit(1)
	}
}
