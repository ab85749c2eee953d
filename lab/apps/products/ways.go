// Four ways to get a connection for one and the same query.

package main

import (
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"
)

// The query of every request.
const query = "SELECT id, name, price, description FROM products LIMIT 1000"

type product struct {
	ID          int     `json:"id"`
	Name        string  `json:"name"`
	Price       float64 `json:"price"`
	Description *string `json:"description"`
}

// A way is an endpoint: where its requests' connections come from, and how long they took.
type way struct {
	name  string
	meter meter
	// products runs the query on a connection got this way.
	products func() ([]product, error)
	// stats counts connections, and waits for one.
	stats func() sql.DBStats
	// reset closes all connections.
	reset func()
}

type ways struct {
	settings                  settings
	new, normal, pooled, weir *way
}

func newWays(s settings) *ways {
	return &ways{
		settings: s,
		new:      leavingOpen(dataSource(s, s.postgres, s.database, s.sslmode)),
		normal: keeping("normal", dataSource(s, s.postgres, s.database, s.sslmode), func(db *sql.DB) {
			db.SetMaxIdleConns(1)
		}),
		pooled: keeping("pooled", dataSource(s, s.postgres, s.database, s.sslmode), func(db *sql.DB) {
			db.SetMaxOpenConns(s.open)
			db.SetMaxIdleConns(s.idle)
			db.SetConnMaxLifetime(s.lifetime)
		}),
		weir: closing(s),
	}
}

func (w *ways) all() []*way { return []*way{w.new, w.normal, w.pooled, w.weir} }

func (w *ways) reset() {
	for _, way := range w.all() {
		way.reset()
		way.meter.reset()
	}
}

// leavingOpen is the articles' first way: a connection for every request, which is never closed. That is the mistake that it
// shows, so it is kept. A handle that never got a connection has nothing to leave open, and is closed.
func leavingOpen(source string) *way {
	var lock sync.Mutex
	var left []*sql.DB
	products := func() ([]product, error) {
		db, err := sql.Open("postgres", source)
		if err != nil {
			return nil, err
		}
		products, err := read(db)
		if err != nil {
			_ = db.Close()
			return nil, err
		}
		lock.Lock()
		defer lock.Unlock()
		left = append(left, db)
		return products, nil
	}
	stats := func() sql.DBStats {
		lock.Lock()
		defer lock.Unlock()
		var all sql.DBStats
		for _, db := range left {
			all.OpenConnections += db.Stats().OpenConnections
		}
		return all
	}
	reset := func() {
		lock.Lock()
		closed := left
		left = nil
		lock.Unlock()
		for _, db := range closed {
			_ = db.Close()
		}
	}
	return &way{name: "new", products: products, stats: stats, reset: reset}
}

// keeping is a handle for all requests, as database/sql means it; what it keeps is up to configure.
func keeping(name, source string, configure func(*sql.DB)) *way {
	var lock sync.RWMutex
	open := func() *sql.DB {
		db, err := sql.Open("postgres", source)
		if err != nil {
			panic(err) // The driver is linked in, and nothing is connected yet.
		}
		configure(db)
		return db
	}
	db := open()
	current := func() *sql.DB {
		lock.RLock()
		defer lock.RUnlock()
		return db
	}
	reset := func() {
		lock.Lock()
		old := db
		db = open()
		lock.Unlock()
		_ = old.Close()
	}
	products := func() ([]product, error) { return read(current()) }
	return &way{name: name, products: products, stats: func() sql.DBStats { return current().Stats() }, reset: reset}
}

// closing is a program without a pool before Weir: a connection for every request, closed after it.
func closing(s settings) *way {
	source := dataSource(s, s.weir, s.pool, "disable")
	products := func() ([]product, error) {
		if s.weir == "" {
			return nil, errors.New("no address of Weir was given to this app")
		}
		db, err := sql.Open("postgres", source)
		if err != nil {
			return nil, err
		}
		defer db.Close()
		return read(db)
	}
	return &way{name: "weir", products: products, stats: func() sql.DBStats { return sql.DBStats{} }, reset: func() {}}
}

// read runs the query on a connection of db's.
func read(db *sql.DB) ([]product, error) {
	rows, err := db.Query(query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	products := make([]product, 0, 1000)
	for rows.Next() {
		var p product
		if err := rows.Scan(&p.ID, &p.Name, &p.Price, &p.Description); err != nil {
			return nil, err
		}
		products = append(products, p)
	}
	return products, rows.Err()
}

// dataSource is what lib/pq connects by.
func dataSource(s settings, address, database, sslmode string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		host, port = address, "5432"
	}
	quote := func(value string) string {
		return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(value) + "'"
	}
	source := fmt.Sprintf("host=%s port=%s user=%s dbname=%s sslmode=%s",
		quote(host), quote(port), quote(s.user), quote(database), quote(sslmode))
	if s.password != "" {
		source += " password=" + quote(s.password)
	}
	return source
}

// State is what the page shows besides the results.
type state struct {
	Program string              `json:"program"`
	SSLMode string              `json:"sslmode"`
	Open    int                 `json:"open"`
	Idle    int                 `json:"idle"`
	Weir    bool                `json:"weir"`
	Ways    map[string]wayState `json:"ways"`
}

// Connections open now; requests that waited for one since the last reset, and for how long all together.
type wayState struct {
	Connections int   `json:"connections"`
	Waits       int64 `json:"waits"`
	Waited      int64 `json:"waited"`
}

func (w *ways) state() state {
	s := state{
		Program: program(), SSLMode: w.settings.sslmode, Open: w.settings.open, Idle: w.settings.idle,
		Weir: w.settings.weir != "", Ways: map[string]wayState{},
	}
	for _, way := range w.all() {
		stats := way.stats()
		s.Ways[way.name] = wayState{stats.OpenConnections, stats.WaitCount, stats.WaitDuration.Microseconds()}
	}
	return s
}

// A meter averages, since its last reset.
type meter struct {
	lock  sync.Mutex
	count int64
	total time.Duration
}

// add counts one in and returns the average with it.
func (m *meter) add(elapsed time.Duration) time.Duration {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.count++
	m.total += elapsed
	return m.total / time.Duration(m.count)
}

func (m *meter) reset() {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.count, m.total = 0, 0
}
