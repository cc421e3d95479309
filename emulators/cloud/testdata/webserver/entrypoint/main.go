// Command entrypoint is a web server that knows nothing of this project, as an image that was made for Cloud Run: it
// listens on $PORT, and stops on SIGTERM.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/net/websocket"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	server := &http.Server{
		Addr: net.JoinHostPort("", os.Getenv("PORT")), Handler: routes(), ReadHeaderTimeout: 10 * time.Second,
	}
	go func() {
		<-ctx.Done()
		_ = server.Shutdown(context.Background())
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
}

func routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) {
		fmt.Fprintf(w, "hello %q from process %d; authorization %q\n", req.Header.Get("X-Forwarded-User"), os.Getpid(),
			req.Header.Get("Authorization"))
	})
	mux.HandleFunc("/v1/models", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"data": []}`) })
	mux.HandleFunc("/variable", func(w http.ResponseWriter, req *http.Request) {
		fmt.Fprint(w, os.Getenv(req.URL.Query().Get("name")))
	})
	mux.HandleFunc("/file", func(w http.ResponseWriter, req *http.Request) {
		http.ServeFile(w, req, os.ExpandEnv(req.URL.Query().Get("name")))
	})
	mux.HandleFunc("/broken", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
	})
	mux.HandleFunc("/slow", func(w http.ResponseWriter, req *http.Request) {
		time.Sleep(duration(req, "for"))
		fmt.Fprint(w, "done")
	})
	mux.HandleFunc("/events", events)
	mux.Handle("/echo", websocket.Handler(func(c *websocket.Conn) { _, _ = io.Copy(c, c) }))
	return mux
}

// events sends events until the client ends the request, with a pause after each.
func events(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	for i := 0; ; i++ {
		fmt.Fprintf(w, "data: %d\n\n", i)
		if http.NewResponseController(w).Flush() != nil {
			return
		}
		time.Sleep(duration(req, "every"))
	}
}

func duration(req *http.Request, name string) time.Duration {
	d, _ := time.ParseDuration(req.URL.Query().Get(name))
	return d
}
