// pgxpool, with its defaults but for the size, or with CHECK a ping of each connection that it hands out.
package main

import (
	"context"
	"fmt"
	"io"
	"math/rand"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const busy, calm = 8, 8

func main() {
	ctx := context.Background()
	where := url.URL{
		Scheme: "postgres",
		User:   url.UserPassword(os.Getenv("USER_NAME"), os.Getenv("PASSWORD")),
		Host:   os.Getenv("HOST") + ":" + os.Getenv("PORT"),
		Path:   os.Getenv("DATABASE"),
	}
	config, err := pgxpool.ParseConfig(where.String())
	if err != nil {
		panic(err)
	}
	config.MaxConns = busy + calm
	if os.Getenv("CHECK") != "" {
		config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return true }
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		panic(err)
	}
	var ends atomic.Bool
	var done atomic.Int64
	var lock sync.Mutex
	var failures []string
	once := func(number int) error {
		if done.Load()%3 != 0 {
			var one int
			return pool.QueryRow(ctx, "SELECT $1::int", number).Scan(&one)
		}
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "SELECT 1")
			return err
		})
	}
	gap := 5 * time.Millisecond
	if text := os.Getenv("GAP"); text != "" {
		if gap, err = time.ParseDuration(text + "ms"); err != nil {
			panic(err)
		}
	}
	var tasks sync.WaitGroup
	for number := range busy + calm {
		tasks.Go(func() {
			longest := 3 * time.Second
			if number < busy {
				longest = gap
			}
			for !ends.Load() {
				if err := once(number); err != nil {
					lock.Lock()
					failures = append(failures, err.Error())
					lock.Unlock()
				} else {
					done.Add(1)
				}
				time.Sleep(time.Duration(rand.Float64() * float64(longest)))
			}
		})
	}
	fmt.Println("works")
	_, _ = io.ReadAll(os.Stdin)
	ends.Store(true)
	tasks.Wait()
	pool.Close()
	fmt.Printf("pgxpool: %d done, %d failed\n", done.Load(), len(failures))
	for _, failure := range failures {
		fmt.Println("error", failure)
	}
}
