package agentctl

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/coder/websocket"

	"agents.example/controlplane/shared/agentexec/channel"
	"agents.example/controlplane/shared/client"
)

// TestPack_EndsNoArchiveAfterAFailure: tar takes what ends as an archive for the whole.
func TestPack_EndsNoArchiveAfterAFailure(t *testing.T) {
	t.Parallel()
	var archive bytes.Buffer
	if err := pack(&archive, filepath.Join(t.TempDir(), "none"), "none"); err == nil {
		t.Error("pack succeeds without the directory")
	}
	if archive.Len() > 0 {
		t.Errorf("the archive has %d bytes, want none after the failure", archive.Len())
	}
}

// TestOpenSession_EndsWithoutAnAnswer opens a session at an API that accepts the connection, and is silent.
func TestOpenSession_EndsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // nothing depends on it
	api, err := client.New("http://"+l.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = openSession(ctx, api, "a", client.TerminalParams{}, 10*time.Millisecond)
	if code := exitCode(err); code != ExitUnavailable {
		t.Errorf("the session ends with %v, exit code %d, want %d", err, code, ExitUnavailable)
	}
}

// TestOpenSession_TriesAgainAfterARefusal: the API has started no command when it refuses a session for the moment, as
// during a deployment, or while other sessions are open.
func TestOpenSession_TriesAgainAfterARefusal(t *testing.T) {
	t.Parallel()
	const busy = `{"status": 503, "code": "cluster_unavailable", "detail": "The cluster does not answer."}`
	for name, c := range map[string]struct {
		refusal   string
		refusals  int
		wantCalls int
		wantCode  int
	}{
		"for the moment": {refusal: busy, refusals: 2, wantCalls: 3},
		"always":         {refusal: busy, refusals: 9, wantCalls: 5, wantCode: ExitUnavailable},
		"a page of a proxy": {
			refusal: "<h1>Service Unavailable</h1>", refusals: 9, wantCalls: 1, wantCode: ExitUnavailable,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if calls++; calls <= c.refusals {
					w.WriteHeader(http.StatusServiceUnavailable)
					_, _ = io.WriteString(w, c.refusal)
					return
				}
				conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{channel.Protocol}})
				if err == nil {
					_ = conn.CloseNow()
				}
			}))
			t.Cleanup(server.Close)
			api, err := client.New(server.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			s, err := openSession(t.Context(), api, "a", client.TerminalParams{}, time.Minute)
			if err == nil {
				_ = s.CloseNow()
			}
			if code := exitCode(err); code != c.wantCode || calls != c.wantCalls {
				t.Errorf("%v, exit code %d, after %d calls; want %d after %d", err, code, calls, c.wantCode,
					c.wantCalls)
			}
		})
	}
}

// TestSession_EndsWithItsConnection watches the connection to an API that is gone without a word, and to one that
// answers.
func TestSession_EndsWithItsConnection(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		isDead   bool
		patience time.Duration
	}{
		"dead":  {isDead: true, patience: 10 * time.Millisecond},
		"alive": {patience: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				pings := make(chan bool, 3)
				conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
					Subprotocols:   []string{channel.Protocol},
					OnPingReceived: func(context.Context, []byte) bool { pings <- true; return true },
				})
				if err != nil {
					return
				}
				defer conn.CloseNow() //nolint:errcheck // nothing depends on it
				if c.isDead {
					<-ctx.Done()
					return
				}
				conn.CloseRead(ctx)
				for range cap(pings) {
					<-pings
				}
				status := append([]byte{byte(channel.Status)}, `{"status":"Success"}`...)
				_ = conn.Write(ctx, websocket.MessageBinary, status)
			}))
			t.Cleanup(server.Close)
			api, err := client.New(server.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			s, err := openSession(ctx, api, "a", client.TerminalParams{}, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			go s.watch(ctx, time.Millisecond, c.patience)
			input, write := io.Pipe()
			defer write.Close() //nolint:errcheck // nothing depends on it
			err = s.run(ctx, input, io.Discard, io.Discard)
			if (err != nil) != c.isDead || ctx.Err() != nil {
				t.Errorf("the session ends with %v (%v), want an error only of a dead connection", err, ctx.Err())
			}
		})
	}
}
