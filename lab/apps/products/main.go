// The web API of the articles: one query, and four ways to get the connection that it runs on.
//
// It exists to be measured and played with. What differs between the ways is in ways.go; this file is the command
// line and HTTP.
package main

import (
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"time"

	_ "github.com/lib/pq"
)

//go:embed page.html
var page []byte

// The page needs nothing from elsewhere, and may not ask for it.
const policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; " +
	"connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'"

func main() {
	settings := settingsOf(os.Args[1:])
	ways := newWays(settings)
	mux := http.NewServeMux()
	for _, way := range ways.all() {
		mux.HandleFunc("/products/"+way.name, serve(way))
	}
	mux.HandleFunc("/state", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, ways.state()) })
	mux.HandleFunc("/reset", func(w http.ResponseWriter, r *http.Request) { reset(w, r, ways) })
	mux.HandleFunc("/", front)
	listener, err := net.Listen("tcp", settings.listen)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on http://%s/\n", listener.Addr())
	server := http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(server.Serve(listener))
}

// Settings: flags, each with an environment variable as its default.
type settings struct {
	listen   string
	postgres string
	weir     string
	user     string
	password string
	database string
	pool     string
	sslmode  string
	open     int
	idle     int
	lifetime time.Duration
}

func settingsOf(args []string) settings {
	var s settings
	flags := flag.NewFlagSet("products", flag.ExitOnError)
	text := func(into *string, name, env, otherwise, usage string) {
		if value, is := os.LookupEnv(env); is {
			otherwise = value
		}
		flags.StringVar(into, name, otherwise, usage+" ($"+env+")")
	}
	number := func(into *int, name, env string, otherwise int, usage string) {
		if value, err := strconv.Atoi(os.Getenv(env)); err == nil {
			otherwise = value
		}
		flags.IntVar(into, name, otherwise, usage+" ($"+env+")")
	}
	text(&s.listen, "listen", "PRODUCTS_LISTEN", "127.0.0.1:8080", "where to serve")
	text(&s.postgres, "postgres", "PRODUCTS_POSTGRES", "127.0.0.1:5432", "PostgreSQL's address")
	text(&s.weir, "weir", "PRODUCTS_WEIR", "", "Weir's address; without one, /products/weir is an error")
	text(&s.user, "user", "PRODUCTS_USER", "lab", "the database's user, whose password is in $PRODUCTS_PASSWORD")
	text(&s.database, "database", "PRODUCTS_DATABASE", "products", "the database")
	text(&s.pool, "pool", "PRODUCTS_POOL", "products", "the name of Weir's pool")
	text(&s.sslmode, "sslmode", "PRODUCTS_SSLMODE", "disable", "TLS to PostgreSQL: disable or require; never to Weir")
	number(&s.open, "open", "PRODUCTS_OPEN", 90, "pooled: connections open at most")
	number(&s.idle, "idle", "PRODUCTS_IDLE", 50, "pooled: idle connections kept at most")
	flags.DurationVar(&s.lifetime, "lifetime", 2*time.Minute, "pooled: how old a connection may become")
	_ = flags.Parse(args)
	s.password = os.Getenv("PRODUCTS_PASSWORD")
	return s
}

// serve answers one endpoint: the products, what this request took, and the average since the last reset.
func serve(way *way) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		began := time.Now()
		products, err := way.products()
		elapsed := time.Since(began)
		if err != nil {
			answer(w, http.StatusInternalServerError, map[string]string{"error": err.Error()})
			return
		}
		average := way.meter.add(elapsed)
		answer(w, http.StatusOK, response{elapsed.Microseconds(), average.Microseconds(), products})
	}
}

// Elapsed and average are in microseconds: from the request's arrival until the last row is read, the connection and
// the wait for it included, the JSON and its way to the client not.
type response struct {
	Elapsed  int64     `json:"elapsed"`
	Average  int64     `json:"average"`
	Products []product `json:"products"`
}

// reset closes every connection of every pool: the same as a restart of the app, which the articles did.
func reset(w http.ResponseWriter, r *http.Request, ways *ways) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		answer(w, http.StatusMethodNotAllowed, map[string]string{"error": "POST resets the pools"})
		return
	}
	ways.reset()
	answer(w, http.StatusOK, ways.state())
}

func front(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(page)
}

func answer(w http.ResponseWriter, status int, value interface{}) {
	body, err := json.Marshal(value)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// program says what this app is made of, for the page.
func program() string {
	return "Go " + runtime.Version()[len("go"):] + ", database/sql and lib/pq"
}
