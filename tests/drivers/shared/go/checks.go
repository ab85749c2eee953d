// Package checks is shared by all drivers of Go: where the server is, and how checks are named, run and reported. It
// knows no driver. README.md two folders up explains the names.
package checks

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

var (
	Mode      = os.Getenv("MODE")
	Host      = os.Getenv("HOST")
	Port      = os.Getenv("PORT")
	User      = os.Getenv("USER_NAME")
	Password  = os.Getenv("PASSWORD")
	Database  = os.Getenv("DATABASE")
	Authority = os.Getenv("TLS_AUTHORITY")
)

// Check is one of README.md's names, and its function.
type Check struct {
	Name string
	Run  func() error
}

type verdict struct{ word, why string }

func (v verdict) Error() string { return v.why }

// None reports that the driver, or a pool in this mode, has no such feature.
func None(why string) error { return verdict{"none", why} }

// Setting reports that a check passed, but only with a setting that is not the default.
func Setting(what string) error { return verdict{"set ", what} }

// SessionOnly is an error in transaction mode, where a check of session state is not possible.
func SessionOnly(what string) error {
	if Mode == "transaction" {
		return None(what + " needs session mode")
	}
	return nil
}

// URL of the server, with more options ("&name=value") appended.
func URL(password, options string) string {
	return fmt.Sprintf("postgres://%s@%s:%s/%s?connect_timeout=20%s",
		url.UserPassword(User, password), Host, Port, Database, options)
}

// Expect is nil if it holds, else an error with the actual value.
func Expect(holds bool, format string, args ...any) error {
	if holds {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// Each runs the function in `count` goroutines at once, and returns the first error.
func Each(count int, work func(number int) error) error {
	var group sync.WaitGroup
	failures := make(chan error, count)
	for number := 0; number < count; number++ {
		group.Add(1)
		go func() {
			defer group.Done()
			if err := work(number); err != nil {
				failures <- fmt.Errorf("%d: %w", number, err)
			}
		}()
	}
	group.Wait()
	close(failures)
	return <-failures
}

// KillOthers terminates all other connections of the user, and waits until their processes have ended.
const KillOthers = "SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity WHERE usename = current_user AND pid <> pg_backend_pid()"

// Eventually tries again for a while, and returns the last error.
func Eventually(work func() error) (err error) {
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = work(); err == nil {
			return nil
		}
	}
	return err
}

// Version of a package, as the program was built with it.
func Version(module string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == module {
				return strings.TrimPrefix(dep.Version, "v")
			}
		}
	}
	return "?"
}

// Main runs the checks in order, prints a line for each, and ends the program.
func Main(version string, all []Check) {
	failed := 0
	for _, check := range all {
		err := guarded(check.Run)
		var said verdict
		switch {
		case err == nil:
			fmt.Println("ok  ", check.Name)
		case errors.As(err, &said):
			fmt.Printf("%s %s: %s\n", said.word, check.Name, said.why)
		default:
			failed++
			fmt.Printf("FAIL %s: %s\n", check.Name, strings.Join(strings.Fields(err.Error()), " "))
		}
	}
	fmt.Printf("%s: %d checks, %d failed\n", version, len(all), failed)
	if failed > 0 {
		os.Exit(1)
	}
}

func guarded(run func() error) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v", panicked)
		}
	}()
	return run()
}
