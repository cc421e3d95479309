package cloud

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"

	"agents.example/controlplane/shared/dataplane/sampleagent"
)

// The stand-in of a model provider in the network of a real node. Agents may connect to addresses of the internet only.
const (
	ModelHost    = "model.example"
	modelAddress = "203.0.113.30"
)

// Model is a stand-in of a model provider: an OpenAI-compatible API that repeats what it is told, to clients with any
// key.
type Model struct {
	addr string

	mu  sync.Mutex
	key string
}

// Key returns the key of the last request.
func (m *Model) Key() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.key
}

// serve passes requests with a key on to a provider.
func (m *Model) serve(provider http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		key, ok := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
		if !ok || key == "" {
			http.Error(w, `{"error": {"message": "The request has no key.", "type": "invalid_request_error"}}`,
				http.StatusUnauthorized)
			return
		}
		m.mu.Lock()
		m.key = key
		m.mu.Unlock()
		provider.ServeHTTP(w, req)
	}
}

// startModel starts the stand-in for pods of a real node.
func (c *Cloud) startModel(ctx context.Context) error {
	provider, err := sampleagent.New(sampleagent.Options{DataDir: c.options.Dir})
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	c.Model = &Model{addr: listener.Addr().String()}
	server := &http.Server{Handler: c.Model.serve(provider)} //nolint:gosec // only pods of this node are clients
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) }) // it returns when the server is closed
	c.closeLater(func() error {
		err := server.Close()
		serving.Wait()
		provider.Close()
		return err
	})
	return nil
}
