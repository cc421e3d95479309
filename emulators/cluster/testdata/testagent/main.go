// Command testagent is the program of the images that the tests of package cluster run. Started as entrypoint, it is an
// agent that listens on $PORT; started as front, it is a sidecar that is ready when the agent answers.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

func main() {
	name := filepath.Base(os.Args[0])
	fmt.Println(name, "starts with", strings.Join(os.Args[1:], " "))
	fmt.Fprintln(os.Stderr, name, "warns")
	if name == "init" {
		record("init ran")
		return
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	address, handler := ":"+os.Getenv("PORT"), agent()
	if name == "front" {
		address, handler = net.JoinHostPort(os.Getenv("LISTEN_HOST"), "8080"), front()
	}
	server := &http.Server{Addr: address, Handler: handler}
	context.AfterFunc(ctx, func() {
		record(name + " got SIGTERM")
		_ = server.Shutdown(context.Background())
	})
	err := server.ListenAndServe()
	if !errors.Is(err, http.ErrServerClosed) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	record(name + " ends")
	fmt.Println(name, "ends")
}

// record adds a line to the file that $RECORD names. It makes no file: a pod may run on after its test, and would keep
// the test from deleting its folder.
func record(line string) {
	file, err := os.OpenFile(os.Getenv("RECORD"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, _ = fmt.Fprintln(file, line)
		_ = file.Close()
	}
}

func agent() http.Handler {
	var sick atomic.Bool
	mux := http.NewServeMux()
	mux.HandleFunc("GET /env", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(os.Environ())
	})
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		if sick.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("POST /sick/{sick}", func(_ http.ResponseWriter, r *http.Request) {
		sick.Store(r.PathValue("sick") == "true")
	})
	mux.HandleFunc("POST /exit/{code}", func(_ http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.PathValue("code"))
		os.Exit(code)
	})
	mux.HandleFunc("POST /print/{line}", func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println(r.PathValue("line"))
	})
	return mux
}

func front() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request, err := http.NewRequestWithContext(r.Context(), http.MethodGet,
			"http://127.0.0.1:"+os.Getenv("AGENT_PORT")+"/health", http.NoBody)
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		_ = response.Body.Close()
		w.WriteHeader(response.StatusCode)
	})
}
