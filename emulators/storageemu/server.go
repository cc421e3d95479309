// Package storageemu serves the files of a directory as objects of Cloud Storage, through the two calls of its JSON API
// that this project makes: list objects, and read one. It takes no uploads and checks no credentials.
package storageemu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// readTimeout bounds the wait for a request's header.
const readTimeout = 10 * time.Second

// Options configure Start.
type Options struct {
	// Dir has the objects of all buckets, as files.
	Dir string
	// Make makes an object that is not there, as a file below Dir. It is called once at a time. Its error for an object
	// that it does not know is fs.ErrNotExist. If nil, there are no others.
	Make func(ctx context.Context, object string) error
}

// Server is a running emulator.
type Server struct {
	// Addr is the address for STORAGE_EMULATOR_HOST.
	Addr string

	options Options
	server  *http.Server
	life    context.Context //nolint:containedctx // until Close
	cancel  context.CancelFunc
	serving sync.WaitGroup
	making  sync.Mutex
}

// Start starts an emulator on a free port.
func Start(ctx context.Context, o Options) (*Server, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for Cloud Storage: %w", err)
	}
	s := &Server{Addr: listener.Addr().String(), options: o}
	s.life, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /storage/v1/b/{bucket}/o", s.list)
	mux.HandleFunc("GET /storage/v1/b/{bucket}/o/{object...}", s.read)
	s.server = &http.Server{Handler: mux, ReadHeaderTimeout: readTimeout}
	s.serving.Go(func() {
		if err := s.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			slog.Error("the emulator of Cloud Storage ended", "error", err)
		}
	})
	return s, nil
}

// Close ends the emulator, and what it makes.
func (s *Server) Close() error {
	s.cancel()
	err := s.server.Close()
	s.serving.Wait()
	s.making.Lock() // until what was being made has ended
	defer s.making.Unlock()
	return err
}

// list lists the objects whose names begin with a prefix, all on one page.
func (s *Server) list(w http.ResponseWriter, req *http.Request) {
	type item struct {
		Name string `json:"name"`
	}
	items := []item{}
	err := filepath.WalkDir(s.options.Dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(s.options.Dir, file)
		if name = filepath.ToSlash(name); err == nil && strings.HasPrefix(name, req.URL.Query().Get("prefix")) {
			items = append(items, item{name})
		}
		return err
	})
	if err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "storage#objects", "items": items})
}

// read sends an object.
func (s *Server) read(w http.ResponseWriter, req *http.Request) {
	object := req.PathValue("object")
	if req.URL.Query().Get("alt") != "media" || !fs.ValidPath(object) {
		http.Error(w, "want a valid name, and alt=media", http.StatusBadRequest)
		return
	}
	file := filepath.Join(s.options.Dir, filepath.FromSlash(object))
	if err := s.makeMissing(object, file); err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeFile(w, req, file)
}

// makeMissing makes an object that is not there. It goes on if its client disconnects, whose next try then finds it.
func (s *Server) makeMissing(object, file string) error {
	s.making.Lock()
	defer s.making.Unlock()
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) || s.options.Make == nil {
		return err
	}
	return s.options.Make(s.life, object)
}

// refuse answers with an error in Cloud Storage's form.
func refuse(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	if errors.Is(err, fs.ErrNotExist) {
		code = http.StatusNotFound
	} else {
		slog.Error("an object could not be made", "error", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"code": code, "message": err.Error()}})
}
