package cloud

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
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
		body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxPrompt))
		if err != nil {
			return // the client left, or sent more than any model takes
		}
		body = lastLine(body)
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		provider.ServeHTTP(w, req)
	}
}

// maxPrompt bounds the body of a chat.
const maxPrompt = 8 << 20

// lastLine makes the last line of the last message the only one of a chat: runtimes add instructions to what their
// users write, which no model repeats. Other bodies are returned as they are.
func lastLine(body []byte) []byte {
	var chat map[string]json.RawMessage
	var messages []struct{ Content json.RawMessage }
	if json.Unmarshal(body, &chat) != nil || json.Unmarshal(chat["messages"], &messages) != nil || len(messages) == 0 {
		return body
	}
	text := string(messages[len(messages)-1].Content)
	var plain string
	var parts []struct{ Text string }
	switch {
	case json.Unmarshal([]byte(text), &plain) == nil:
		text = plain
	case json.Unmarshal([]byte(text), &parts) == nil && len(parts) > 0:
		text = parts[len(parts)-1].Text
	}
	text = strings.TrimSpace(text)
	text = text[strings.LastIndexByte(text, '\n')+1:]
	chat["messages"], _ = json.Marshal([]map[string]string{{"role": "user", "content": text}}) // texts always encode
	changed, err := json.Marshal(chat)
	if err != nil {
		return body
	}
	return changed
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
