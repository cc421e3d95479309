// Command subject is an agent that does what $MODE says, for tests of checks of images.
package main

import (
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	mode := os.Getenv("MODE")
	switch mode {
	case "exits":
		fmt.Fprintln(os.Stderr, "no key of a model")
		os.Exit(3)
	case "silent":
		time.Sleep(time.Hour)
	case "hungry":
		for all := [][]byte{}; ; {
			all = append(all, []byte(strings.Repeat("x", 16<<20)))
		}
	case "writes":
		_ = os.MkdirAll("/var/cache/subject", 0o755)
		_ = os.WriteFile("/var/cache/subject/index", []byte("x"), 0o600)
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
	}
	if mode != "stubborn" { // the first process of a container has no default for signals
		ended := make(chan os.Signal, 1)
		signal.Notify(ended, syscall.SIGTERM)
		go func() { <-ended; os.Exit(0) }()
	}
	if err := os.WriteFile("/data/kept", []byte(mode), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	//nolint:gosec // a test's server
	fmt.Fprintln(os.Stderr, http.ListenAndServe(":"+os.Getenv("PORT"), http.HandlerFunc(
		func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Path != "/" {
				http.NotFound(w, req)
			}
		})))
}
