package podexec

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/google/uuid"
	"go.uber.org/goleak"

	"agents.example/controlplane/infra/gke/connect"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agentexec"
	"agents.example/controlplane/shared/agentexec/channel"
	"agents.example/controlplane/shared/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newCommands returns the commands of a cell whose API server is a handler.
func newCommands(t *testing.T, serve http.HandlerFunc) (*Commands, agent.Agent) {
	t.Helper()
	s := httptest.NewTLSServer(serve)
	t.Cleanup(s.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	config := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"clusters": [{"name": "c", "cluster": {"server": %q, "certificate-authority-data": %q}}],
		"users": [{"name": "u", "user": {"token": "t0ken"}}],
		"contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}`, s.URL,
		base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{
			Type: "CERTIFICATE", Bytes: s.Certificate().Raw,
		})))
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	c := New(t.Context(), []connect.Cell{{Name: "cell-1", Kubeconfig: file}})
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c, agent.Agent{ID: uuid.NewString(), Cell: "cell-1"}
}

// echoes is an API server whose command writes what it reads, and then ends with a status.
func echoes(t *testing.T, status string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if !strings.HasSuffix(r.URL.Path, "/pods/agent-0/exec") || q.Get("container") != "agent" ||
			r.Header.Get("Authorization") != "Bearer t0ken" {
			t.Errorf("request %s", r.URL)
		}
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{channel.Protocol}})
		if err != nil {
			return
		}
		defer func() { _ = conn.CloseNow() }()
		s := channel.NewSocket(conn, 1<<20)
		_ = s.Write(r.Context(), channel.Frame{Channel: channel.Output}) // says that the stream is open
		for q.Get("stdin") == "true" {
			f, err := s.Read(r.Context())
			if err != nil || f.Channel == channel.Close {
				break
			}
			_ = s.Write(r.Context(), channel.Frame{Channel: channel.Output, Data: f.Data})
		}
		_ = s.Write(r.Context(), channel.Frame{Channel: channel.Status, Data: []byte(status)})
		_ = s.Close(websocket.StatusNormalClosure, "")
	}
}

func TestCommands_PassOnInputOutputAndTheExitCode(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]int{
		`{"status": "Success"}`: 0,
		`{"status": "Failure", "reason": "NonZeroExitCode",
			"details": {"causes": [{"reason": "ExitCode", "message": "3"}]}}`: 3,
	} {
		c, a := newCommands(t, echoes(t, status))
		input := bytes.Repeat([]byte("0123456789"), 100_000)
		var output bytes.Buffer
		code, err := agentexec.Run(t.Context(), c, a, agentexec.Task{
			Args: []string{"cat"}, Input: bytes.NewReader(input), Output: &output,
		})
		if err != nil || code != want || !bytes.Equal(output.Bytes(), input) {
			t.Errorf("exit code %d, %v, %d bytes; want %d and %d bytes", code, err, output.Len(), want, len(input))
		}
	}
}

// TestCommands_ExplainHowTheyDidNotRun has the messages of kubelets, container runtimes and sandboxes.
func TestCommands_ExplainHowTheyDidNotRun(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		`exec: "CANARY": executable file not found in $PATH: unknown`:       agentexec.CodeNotFound,
		`exec: "/CANARY": stat /CANARY: no such file or directory: unknown`: agentexec.CodeNotFound,
		`the image has no program CANARY, and neither has the machine`:      agentexec.CodeNotFound,
		`unable to upgrade connection: container not found ("agent")`:       agentexec.CodeNotRunning,
		`unable to upgrade connection: pod does not exist`:                  agentexec.CodeNotRunning,
		`failed to load task: no running task found: task CANARY not found`: agentexec.CodeNotRunning,
		`container is in CONTAINER_EXITED state`:                            agentexec.CodeNotRunning,
		`pod agent/agent-0 is simulated: no process runs that could answer`: agentexec.CodeNotRunning,
		`rpc error: code = Unavailable desc = connection to CANARY closed`:  "cluster_unavailable",
	} {
		b, err := json.Marshal(map[string]string{"status": "Failure", "reason": "InternalError", "message": message})
		if err != nil {
			t.Fatal(err)
		}
		c, a := newCommands(t, echoes(t, string(b)))
		_, err = agentexec.Run(t.Context(), c, a, agentexec.Task{Args: []string{"x"}})
		if fault.Code(err) != want || strings.Contains(fmt.Sprint(err), "CANARY") {
			t.Errorf("%s: error %v, want %s without a word of the message", message, err, want)
		}
	}
}

func TestCommands_ExplainRefusals(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		status  int
		reason  string
		message string
		want    string
	}{
		{status: 404, reason: "NotFound", message: `pods "agent-0" not found`, want: agentexec.CodeNotRunning},
		{status: 404, message: "of a proxy", want: "cluster_unavailable"},
		{status: 400, message: `container "agent" in pod "agent-0" is not available`, want: agentexec.CodeNotRunning},
		{status: 403, message: "cannot create resource pods/exec", want: "cluster_unavailable"},
		{status: 500, want: "cluster_unavailable"},
	} {
		c, a := newCommands(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(row.status)
			_ = json.NewEncoder(w).Encode(map[string]string{"message": row.message, "reason": row.reason})
		})
		if _, err := c.Open(t.Context(), a, agentexec.Command{Args: []string{"ls"}}); fault.Code(err) != row.want {
			t.Errorf("%d: error %v, want %s", row.status, err, row.want)
		}
	}
	c, a := newCommands(t, nil)
	a.Cell = "other"
	if _, err := c.Open(t.Context(), a, agentexec.Command{}); fault.Code(err) != "cell_unknown" {
		t.Errorf("a cell that is not configured: %v", err)
	}
}

func TestCommands_EndWithTheirContext(t *testing.T) {
	t.Parallel()
	c, a := newCommands(t, echoes(t, ""))
	ctx, cancel := context.WithCancelCause(t.Context())
	s, err := c.Open(ctx, a, agentexec.Command{Args: []string{"cat"}, Input: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	over := errors.New("over")
	cancel(over)
	if _, err := s.Read(ctx); !errors.Is(err, over) {
		t.Errorf("Read: %v, want the cause of the context", err)
	}
}
