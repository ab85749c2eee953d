// pgx with its own interface and its pool: statement cache, batches, pipelines, CopyFrom, cancel.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"weir/tests/drivers/shared"
)

var (
	ctx   = context.Background()
	table = "pgx_" + checks.Mode
)

func connect() (*pgx.Conn, error) { return pgx.Connect(ctx, checks.URL(checks.Password, "")) }

// with calls the function with a connection of its own; on adds it to a check's signature.
func with(work func(*pgx.Conn) error) error {
	conn, err := connect()
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return work(conn)
}

func on(work func(*pgx.Conn) error) func() error { return func() error { return with(work) } }

func state(err error) string {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return refused.Code
	}
	return fmt.Sprint(err)
}

type queryer interface {
	Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
	QueryRow(context.Context, string, ...any) pgx.Row
}

func number(on queryer, sql string, args ...any) (n int, err error) {
	err = on.QueryRow(ctx, sql, args...).Scan(&n)
	return n, err
}

// usable: the connection returns the answer to its query, not an older one.
func usable(on queryer) error {
	n, err := number(on, "SELECT $1::int + 1", 41)
	return checks.Expect(err == nil && n == 42, "afterwards: %d %v", n, err)
}

// anew creates the empty table.
func anew(on queryer) error {
	_, err := on.Exec(ctx, "DROP TABLE IF EXISTS "+table+"; CREATE TABLE "+table+" (id int PRIMARY KEY, name text)")
	return err
}

func count(on queryer, want int) error {
	n, err := number(on, "SELECT count(*) FROM "+table)
	return checks.Expect(err == nil && n == want, "%d rows, not %d: %v", n, want, err)
}

func insert(on queryer, id int) error {
	_, err := on.Exec(ctx, "INSERT INTO "+table+" VALUES ($1, $2)", id, fmt.Sprint("row ", id))
	return err
}

func login(conn *pgx.Conn) error { return usable(conn) }

func wrongPassword() error {
	_, err := pgx.Connect(ctx, checks.URL("wrong", ""))
	return checks.Expect(state(err) == "28P01", "%v", err)
}

func crud(conn *pgx.Conn) error {
	if err := anew(conn); err != nil {
		return err
	}
	for _, step := range []struct {
		sql  string
		rows int64
	}{
		{"INSERT INTO %s SELECT id, 'x' FROM generate_series(1, 10) AS id", 10},
		{"UPDATE %s SET name = 'y' WHERE id <= 4", 4},
		{"DELETE FROM %s WHERE id > 7", 3},
		{"SELECT * FROM %s", 7},
	} {
		tag, err := conn.Exec(ctx, fmt.Sprintf(step.sql, table))
		if err != nil || tag.RowsAffected() != step.rows {
			return fmt.Errorf("%s: %v %v", step.sql, tag, err)
		}
	}
	n, err := number(conn, "SELECT count(*) FROM "+table+" WHERE name = $1", "y")
	return checks.Expect(err == nil && n == 4, "%d %v", n, err)
}

func types(conn *pgx.Conn) error {
	when := time.Date(2026, 2, 3, 4, 5, 6, 789000, time.UTC)
	var (
		big   int64
		text  string
		raw   []byte
		null  *int
		list  []int
		moved time.Time
	)
	row := conn.QueryRow(ctx, "SELECT $1::bigint, $2::text, $3::bytea, $4::int, $5::int[], $6::timestamptz",
		int64(1)<<60, "é😀", []byte{0, 255}, nil, []int{1, 2}, when)
	err := row.Scan(&big, &text, &raw, &null, &list, &moved)
	same := big == 1<<60 && text == "é😀" && bytes.Equal(raw, []byte{0, 255}) && null == nil && len(list) == 2
	return checks.Expect(err == nil && same && moved.Equal(when), "%d %q %v %v %v %v %v", big, text, raw, null, list, moved, err)
}

// several opens connections, more than there are servers in transaction mode, and closes them afterwards.
func several(work func([]*pgx.Conn) error) error {
	conns := make([]*pgx.Conn, 12)
	for i := range conns {
		var err error
		if conns[i], err = connect(); err != nil {
			return err
		}
		defer conns[i].Close(ctx)
	}
	return work(conns)
}

func prepared() error {
	return several(func(conns []*pgx.Conn) error {
		for i, conn := range conns {
			if _, err := conn.Prepare(ctx, "mine", fmt.Sprintf("SELECT $1::int + %d", i%4)); err != nil {
				return err
			}
		}
		for round := 0; round < 10; round++ {
			err := checks.Each(len(conns), func(i int) error {
				n, err := number(conns[i], "mine", round)
				return checks.Expect(err == nil && n == round+i%4, "%d %v", n, err)
			})
			if err != nil {
				return err
			}
		}
		if err := conns[0].Deallocate(ctx, "mine"); err != nil {
			return err
		}
		_, err := conns[0].Prepare(ctx, "mine", "SELECT $1::int * 2")
		n, err2 := number(conns[0], "mine", 21)
		return checks.Expect(err == nil && err2 == nil && n == 42, "anew: %d %v %v", n, err, err2)
	})
}

func manyStatements() error {
	config, err := pgx.ParseConfig(checks.URL(checks.Password, ""))
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for round := 0; round < 2; round++ {
		for i := 0; i < config.StatementCacheCapacity+100; i++ {
			if n, err := number(conn, fmt.Sprintf("SELECT $1::int + %d", i), round); err != nil || n != round+i {
				return fmt.Errorf("%d+%d: %d %v", round, i, n, err)
			}
		}
	}
	return nil
}

func columns(conn *pgx.Conn) (int, error) {
	rows, err := conn.Query(ctx, "SELECT * FROM "+table+" LIMIT 1")
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		values, err := rows.Values()
		return len(values), err
	}
	return 0, rows.Err()
}

// pgx drops its statement after the first error, so directly each connection gets one at most.
func tableChanged() error {
	return several(func(conns []*pgx.Conn) error {
		if err := errors.Join(anew(conns[0]), insert(conns[0], 1)); err != nil {
			return err
		}
		for want := 2; want < 6; want++ {
			err := checks.Each(len(conns), func(i int) error {
				n, err := columns(conns[i])
				if err != nil {
					n, err = columns(conns[i])
				}
				return checks.Expect(err == nil && n == want, "%d columns, not %d: %v", n, want, err)
			})
			if err != nil {
				return err
			}
			if _, err := conns[0].Exec(ctx, fmt.Sprintf("ALTER TABLE %s ADD c%d int DEFAULT 2", table, want)); err != nil {
				return err
			}
		}
		return nil
	})
}

func batch(conn *pgx.Conn) error {
	for round := 0; round < 5; round++ {
		batch := &pgx.Batch{}
		for n := 0; n < 200; n++ {
			batch.Queue(fmt.Sprintf("SELECT $1::int + %d", n%7), n)
		}
		results := conn.SendBatch(ctx, batch)
		for n := 0; n < 200; n++ {
			var got int
			if err := results.QueryRow().Scan(&got); err != nil || got != n+n%7 {
				return fmt.Errorf("%d: %d %v", n, got, err)
			}
		}
		if err := results.Close(); err != nil {
			return err
		}
	}
	return nil
}

func pipeline(conn *pgx.Conn) error {
	pipeline := conn.PgConn().StartPipeline(ctx)
	pipeline.SendPrepare("piped", "SELECT $1::int", nil)
	for n := 0; n < 100; n++ {
		pipeline.SendQueryPrepared("piped", [][]byte{[]byte(fmt.Sprint(n))}, nil, nil)
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
	return checks.Expect(seen == 100, "%d", seen)
}

func pipelineError(conn *pgx.Conn) error {
	for round := 0; round < 5; round++ {
		broken := &pgx.Batch{}
		broken.Queue("SELECT 1")
		broken.Queue("SELECT 1 / $1::int", 0)
		broken.Queue("SELECT 3")
		if err := conn.SendBatch(ctx, broken).Close(); state(err) != "22012" {
			return fmt.Errorf("at execution: %v", err)
		}
		broken = &pgx.Batch{}
		broken.Queue("SELECT $1::text", "x")
		broken.Queue("SELECT nothing_like_it")
		if err := conn.SendBatch(ctx, broken).Close(); state(err) != "42703" {
			return fmt.Errorf("at preparation: %v", err)
		}
		if err := usable(conn); err != nil {
			return err
		}
	}
	return nil
}

var tableName = pgx.Identifier{table}

func rows(from, count int) pgx.CopyFromSource {
	return pgx.CopyFromSlice(count, func(i int) ([]any, error) { return []any{from + i, fmt.Sprint("row ", from+i)}, nil })
}

func copyIn(conn *pgx.Conn) error {
	if err := anew(conn); err != nil {
		return err
	}
	copied, err := conn.CopyFrom(ctx, tableName, []string{"id", "name"}, rows(0, 5000))
	if err != nil || copied != 5000 {
		return fmt.Errorf("%d %v", copied, err)
	}
	n, err := number(conn, "SELECT sum(id) FROM "+table+" WHERE name = 'row ' || id")
	return checks.Expect(err == nil && n == 4999*5000/2, "%d %v", n, err)
}

func copyOut(conn *pgx.Conn) error {
	var out bytes.Buffer
	tag, err := conn.PgConn().CopyTo(ctx, &out, "COPY (SELECT generate_series(1, 5000)) TO STDOUT")
	if err != nil || tag.RowsAffected() != 5000 || !strings.HasSuffix(out.String(), "\n4999\n5000\n") {
		return fmt.Errorf("%v %d %v", tag, out.Len(), err)
	}
	return usable(conn)
}

func copyError(conn *pgx.Conn) error {
	if err := anew(conn); err != nil {
		return err
	}
	bad := io.MultiReader(strings.NewReader(strings.Repeat("1\tx\n", 2000)), strings.NewReader("no number\tx\n"))
	if _, err := conn.PgConn().CopyFrom(ctx, bad, "COPY "+table+" FROM STDIN"); state(err) != "23505" {
		return fmt.Errorf("twice the same: %v", err)
	}
	if _, err := conn.PgConn().CopyFrom(ctx, strings.NewReader("no number\tx\n"), "COPY "+table+" FROM STDIN"); state(err) != "22P02" {
		return fmt.Errorf("no number: %v", err)
	}
	changedMind := errors.New("changed my mind")
	given := 0
	source := pgx.CopyFromFunc(func() ([]any, error) {
		if given++; given > 3000 {
			return nil, changedMind
		}
		return []any{given, "x"}, nil
	})
	if _, err := conn.CopyFrom(ctx, tableName, []string{"id", "name"}, source); err == nil {
		return errors.New("given up, and no error")
	}
	return errors.Join(count(conn, 0), usable(conn))
}

func cancel(conn *pgx.Conn) error {
	for round := 0; round < 3; round++ {
		sent := make(chan error, 1)
		go func() {
			time.Sleep(400 * time.Millisecond)
			sent <- conn.PgConn().CancelRequest(ctx)
		}()
		_, err := conn.Exec(ctx, "SELECT pg_sleep(60)")
		if asked := <-sent; asked != nil || state(err) != "57014" {
			return fmt.Errorf("not cancelled: %v %v", err, asked)
		}
		if err := usable(conn); err != nil {
			return err
		}
	}
	return nil
}

// A deadline closes pgx's connection; the pool makes another.
func timeout() error {
	pool, err := pgxpool.New(ctx, checks.URL(checks.Password, ""))
	if err != nil {
		return err
	}
	defer pool.Close()
	short, stop := context.WithTimeout(ctx, 400*time.Millisecond)
	defer stop()
	if _, err := pool.Exec(short, "SELECT pg_sleep(20)"); !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%v", err)
	}
	return usable(pool)
}

func commit(conn *pgx.Conn) error {
	if err := anew(conn); err != nil {
		return err
	}
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		return errors.Join(insert(tx, 1), insert(tx, 2))
	})
	return errors.Join(err, with(func(other *pgx.Conn) error { return count(other, 2) }))
}

func rollback(conn *pgx.Conn) error {
	if err := anew(conn); err != nil {
		return err
	}
	changedMind := errors.New("changed my mind")
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		return errors.Join(insert(tx, 1), count(tx, 1), changedMind)
	})
	return errors.Join(checks.Expect(errors.Is(err, changedMind), "%v", err), count(conn, 0))
}

func savepoint(conn *pgx.Conn) error {
	if err := anew(conn); err != nil {
		return err
	}
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if err := insert(tx, 1); err != nil {
			return err
		}
		inner := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return errors.Join(insert(tx, 2), insert(tx, 1)) })
		if state(inner) != "23505" {
			return fmt.Errorf("twice: %v", inner)
		}
		return insert(tx, 3)
	})
	n, read := number(conn, "SELECT sum(id) FROM "+table)
	return errors.Join(err, checks.Expect(read == nil && n == 4, "%d %v", n, read))
}

func isolation(conn *pgx.Conn) error {
	options := pgx.TxOptions{IsoLevel: pgx.Serializable, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, conn, options, func(tx pgx.Tx) error {
		var level, readOnly string
		err := tx.QueryRow(ctx, "SELECT current_setting('transaction_isolation'), current_setting('transaction_read_only')").
			Scan(&level, &readOnly)
		return checks.Expect(err == nil && level == "serializable" && readOnly == "on", "%s %s %v", level, readOnly, err)
	})
	var level string
	after := conn.QueryRow(ctx, "SHOW transaction_isolation").Scan(&level)
	return errors.Join(err, checks.Expect(after == nil && level == "read committed", "afterwards %s %v", level, after))
}

func uniqueViolation(conn *pgx.Conn) error {
	if err := errors.Join(anew(conn), insert(conn, 1)); err != nil {
		return err
	}
	for round := 0; round < 5; round++ {
		if err := insert(conn, 1); state(err) != "23505" {
			return fmt.Errorf("%v", err)
		}
	}
	return count(conn, 1)
}

func syntaxError(conn *pgx.Conn) error {
	for round := 0; round < 5; round++ {
		if _, err := conn.Exec(ctx, "SELEC 1"); state(err) != "42601" {
			return fmt.Errorf("simple: %v", err)
		}
		if _, err := number(conn, "SELECT $1::int +", 1); state(err) != "42601" {
			return fmt.Errorf("prepared: %v", err)
		}
		if err := usable(conn); err != nil {
			return err
		}
	}
	return nil
}

func errorInATransaction(conn *pgx.Conn) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	if _, err := number(tx, "SELECT 1 / $1::int", 0); state(err) != "22012" {
		return fmt.Errorf("%v", err)
	}
	for round := 0; round < 3; round++ {
		if _, err := number(tx, "SELECT 1"); state(err) != "25P02" {
			return fmt.Errorf("still: %v", err)
		}
	}
	return errors.Join(tx.Rollback(ctx), usable(conn))
}

func cursor(conn *pgx.Conn) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "DECLARE portions CURSOR FOR SELECT generate_series(1, 2000)"); err != nil {
			return err
		}
		seen := 0
		for {
			rows, _ := tx.Query(ctx, "FETCH 70 FROM portions")
			portion, err := pgx.CollectRows(rows, pgx.RowTo[int])
			if err != nil {
				return err
			}
			for _, n := range portion {
				if seen++; n != seen {
					return fmt.Errorf("%d, not %d", n, seen)
				}
			}
			if len(portion) == 0 {
				return checks.Expect(seen == 2000, "%d", seen)
			}
		}
	})
}

func large(conn *pgx.Conn) error {
	value := bytes.Repeat([]byte("0123456789abcdef"), 20<<20/16)
	var back []byte
	err := conn.QueryRow(ctx, "SELECT $1::bytea", value).Scan(&back)
	return checks.Expect(err == nil && bytes.Equal(value, back), "%d bytes, %v", len(back), err)
}

func notice() error {
	config, err := pgx.ParseConfig(checks.URL(checks.Password, ""))
	if err != nil {
		return err
	}
	var heard []string
	config.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) { heard = append(heard, notice.Message) }
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, "DO $$ BEGIN RAISE NOTICE 'hear'; END $$")
	return checks.Expect(err == nil && len(heard) == 1 && heard[0] == "hear", "%v %v", heard, err)
}

func notify(conn *pgx.Conn) error {
	if err := checks.SessionOnly("LISTEN"); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "LISTEN "+table); err != nil {
		return err
	}
	err := with(func(speaker *pgx.Conn) error {
		_, err := speaker.Exec(ctx, "SELECT pg_notify($1, 'hear')", table)
		return err
	})
	if err != nil {
		return err
	}
	patience, stop := context.WithTimeout(ctx, 30*time.Second)
	defer stop()
	heard, err := conn.WaitForNotification(patience)
	return checks.Expect(err == nil && heard.Payload == "hear", "%v %v", heard, err)
}

func sessionState(conn *pgx.Conn) error {
	if err := checks.SessionOnly("a session's state"); err != nil {
		return err
	}
	for _, sql := range []string{
		"SET work_mem = '5MB'", "CREATE TEMPORARY TABLE mine (id int)", "SELECT pg_advisory_lock(4711)",
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	var memory string
	err := conn.QueryRow(ctx, "SELECT current_setting('work_mem') FROM (SELECT count(*) FROM mine) AS there").Scan(&memory)
	locks, err2 := number(conn, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()")
	return checks.Expect(err == nil && err2 == nil && memory == "5MB" && locks == 1, "%s %d %v %v", memory, locks, err, err2)
}

func startupParameters() error {
	zones := []string{"Asia/Tokyo", "America/Lima", "UTC"}
	return checks.Each(len(zones), func(i int) error {
		config, err := pgx.ParseConfig(checks.URL(checks.Password, fmt.Sprintf("&application_name=go%d&timezone=%s", i, zones[i])))
		if err != nil {
			return err
		}
		conn, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		for round := 0; round < 20; round++ {
			var name, zone string
			err := conn.QueryRow(ctx, "SELECT current_setting('application_name'), current_setting('TimeZone')").Scan(&name, &zone)
			if err != nil || name != fmt.Sprint("go", i) || zone != zones[i] {
				return fmt.Errorf("%s %s %v", name, zone, err)
			}
		}
		return nil
	})
}

// Once within a transaction, then all connections of the pool.
func reconnect() error {
	pool, err := pgxpool.New(ctx, checks.URL(checks.Password, ""))
	if err != nil {
		return err
	}
	defer pool.Close()
	tx, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	pid, err := number(tx, "SELECT pg_backend_pid()")
	if err != nil {
		return err
	}
	err = with(func(killer *pgx.Conn) error {
		_, err := killer.Exec(ctx, "SELECT pg_terminate_backend($1)", pid)
		return err
	})
	if err != nil {
		return err
	}
	if usable(tx) == nil {
		return errors.New("the transaction goes on without its server")
	}
	tx.Rollback(ctx)
	for round := 0; round < 3; round++ {
		// If the query runs on a server that is being killed, it is retried like any other.
		err := checks.Eventually(func() error {
			return with(func(killer *pgx.Conn) error {
				_, err := killer.Exec(ctx, checks.KillOthers)
				return err
			})
		})
		if err := errors.Join(err, checks.Eventually(func() error { return usable(pool) })); err != nil {
			return err
		}
	}
	return nil
}

func tagged(on queryer, tag int) error {
	for round := 0; round < 30; round++ {
		want := fmt.Sprintf("%d/%d", tag, round)
		var got string
		if err := on.QueryRow(ctx, "SELECT $1::text", want).Scan(&got); err != nil || got != want {
			return fmt.Errorf("%q, not %q: %v", got, want, err)
		}
	}
	return nil
}

func defaultPool() error {
	pool, err := pgxpool.New(ctx, checks.URL(checks.Password, ""))
	if err != nil {
		return err
	}
	defer pool.Close()
	return checks.Each(24, func(worker int) error {
		for round := 0; round < 5; round++ {
			err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return tagged(tx, worker) })
			if err := errors.Join(err, tagged(pool, worker)); err != nil {
				return err
			}
		}
		return nil
	})
}

func manyConnections() error {
	return checks.Each(60, func(worker int) error {
		return with(func(conn *pgx.Conn) error { return tagged(conn, worker) })
	})
}

func tls() error {
	if checks.Authority == "" {
		return checks.None("this PostgreSQL was built without TLS")
	}
	conn, err := pgx.Connect(ctx, checks.URL(checks.Password, "&sslmode=verify-full&sslrootcert="+checks.Authority))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return usable(conn)
}

// The other ways in which pgx can send a query, each on its own.
func queryModes(conn *pgx.Conn) error {
	for round := 0; round < 5; round++ {
		for _, mode := range []pgx.QueryExecMode{
			pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
			pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
		} {
			if n, err := number(conn, "SELECT $1::int + 1", mode, round); err != nil || n != round+1 {
				return fmt.Errorf("%v: %d %v", mode, n, err)
			}
		}
	}
	return nil
}

func main() {
	checks.Main("pgx "+checks.Version("github.com/jackc/pgx/v5"), []checks.Check{
		{"login", on(login)},
		{"wrong password", wrongPassword},
		{"crud", on(crud)},
		{"types", on(types)},
		{"prepared", prepared},
		{"many statements", manyStatements},
		{"table changed", tableChanged},
		{"batch", on(batch)},
		{"pipeline", on(pipeline)},
		{"pipeline error", on(pipelineError)},
		{"copy in", on(copyIn)},
		{"copy out", on(copyOut)},
		{"copy error", on(copyError)},
		{"cancel", on(cancel)},
		{"timeout", timeout},
		{"commit", on(commit)},
		{"rollback", on(rollback)},
		{"savepoint", on(savepoint)},
		{"isolation", on(isolation)},
		{"unique violation", on(uniqueViolation)},
		{"syntax error", on(syntaxError)},
		{"error in a transaction", on(errorInATransaction)},
		{"cursor", on(cursor)},
		{"large", on(large)},
		{"notice", notice},
		{"notify", on(notify)},
		{"session state", on(sessionState)},
		{"startup parameters", startupParameters},
		{"reconnect", reconnect},
		{"pool", defaultPool},
		{"many connections", manyConnections},
		{"tls", tls},
		{"query modes", on(queryModes)},
	})
}
