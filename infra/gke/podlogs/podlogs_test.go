package podlogs

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"agents.example/controlplane/infra/gke/connect"
	"agents.example/controlplane/infra/gke/keptlog"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agentlog"
	"agents.example/controlplane/shared/agentlog/agentlogtest"
	"agents.example/controlplane/shared/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// apiServer answers as the API server of a cell with simulated pods does.
type apiServer struct {
	*httptest.Server
	cell  *agentlogtest.Cell
	agent agent.Agent
	// answer replaces the answer to a request, unless it returns false.
	answer atomic.Pointer[func(w http.ResponseWriter, r *http.Request) bool]
	logs   atomic.Int32
}

func newAPIServer(t *testing.T) (*apiServer, *Logs) {
	t.Helper()
	s := &apiServer{
		cell:  agentlogtest.NewCell(),
		agent: agent.Agent{ID: uuid.NewString(), Cell: "cell-1"},
	}
	s.Server = httptest.NewTLSServer(s)
	t.Cleanup(s.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	config := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"clusters": [{"name": "c", "cluster": {"server": %q, "certificate-authority-data": %q}}],
		"users": [{"name": "u", "user": {"token": "t0ken"}}],
		"contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}`, s.URL, base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{
		Type: "CERTIFICATE", Bytes: s.Certificate().Raw,
	})))
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	logs := New(t.Context(), []connect.Cell{{Name: "cell-1", Kubeconfig: file}})
	t.Cleanup(func() {
		if err := logs.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, logs
}

// replace replaces the answers of the API server.
func (s *apiServer) replace(answer func(w http.ResponseWriter, r *http.Request) bool) {
	s.answer.Store(&answer)
}

// ServeHTTP implements http.Handler.
func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if answer := s.answer.Load(); answer != nil && (*answer)(w, r) {
		return
	}
	if r.Header.Get("Authorization") != "Bearer t0ken" {
		refuse(w, http.StatusUnauthorized, "Unauthorized")
		return
	}
	pod := "/api/v1/namespaces/agent-" + s.agent.ID + "/pods/agent-0"
	p := s.cell.Pod(s.agent.ID)
	if name, ok := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/agent-"+s.agent.ID+"/configmaps/"); ok {
		s.serveKept(w, r, name)
		return
	}
	switch {
	case r.Method != http.MethodGet || r.URL.Path != pod && r.URL.Path != pod+"/log":
		refuse(w, http.StatusForbidden, "no right to "+r.Method+" "+r.URL.Path)
	case p == nil:
		refuse(w, http.StatusNotFound, `pods "agent-0" not found`)
	case r.URL.Path == pod:
		s.servePod(w, p)
	default:
		s.serveLog(w, r, p)
	}
}

func refuse(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": status,
		"reason": strings.ReplaceAll(http.StatusText(status), " ", ""),
	})
}

// serveKept serves a ConfigMap with the log of a container that has ended, as a worker makes it.
func (s *apiServer) serveKept(w http.ResponseWriter, r *http.Request, name string) {
	all, _ := s.cell.Kept(r.Context(), s.agent)
	i := slices.Index(keptlog.Names(), name)
	if i < 0 || i >= len(all) {
		refuse(w, http.StatusNotFound, "configmaps not found")
		return
	}
	o := keptObject{BinaryData: map[string][]byte{}}
	o.Metadata.Annotations = keptlog.Annotations(all[i])
	if !strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata") {
		log, err := s.cell.KeptLog(s.agent.ID, all[i].Container)
		if err == nil {
			var lines []byte
			lines, err = io.ReadAll(log)
			o.BinaryData[keptlog.Key], _ = keptlog.Compress(lines)
		}
		if err != nil {
			refuse(w, http.StatusInternalServerError, err.Error())
			return
		}
	}
	_ = json.NewEncoder(w).Encode(o)
}

// servePod serves a pod whose sidecar has other containers than the agent's.
func (s *apiServer) servePod(w http.ResponseWriter, p *agentlogtest.Pod) {
	current, previous := p.IDs()
	ended := func(id string) map[string]any {
		if id == "" {
			return map[string]any{}
		}
		return map[string]any{"terminated": map[string]any{
			"containerID": id, "exitCode": 1, "reason": "Error", "finishedAt": p.Last().EndedAt,
		}}
	}
	status := map[string]any{
		"name": "agent", "containerID": current, "lastState": ended(previous),
		"state": map[string]any{"running": map[string]any{}},
	}
	if current == previous {
		status["state"] = map[string]any{"waiting": map[string]any{"reason": "CrashLoopBackOff"}}
	}
	front := map[string]any{
		"name": "front", "containerID": "containerd://front", "state": map[string]any{"running": map[string]any{}},
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind": "Pod", "metadata": map[string]any{"uid": p.UID},
		"status": map[string]any{
			"containerStatuses": []any{status}, "initContainerStatuses": []any{front},
		},
	})
}

// serveLog serves a log with the parameters that a kubelet knows.
func (s *apiServer) serveLog(w http.ResponseWriter, r *http.Request, p *agentlogtest.Pod) {
	s.logs.Add(1)
	q := r.URL.Query()
	part := agentlog.Part{Follow: q.Get("follow") == "true", Previous: q.Get("previous") == "true"}
	if q.Get("container") != "agent" || q.Get("timestamps") != "true" {
		refuse(w, http.StatusBadRequest, "want the agent's container with times")
		return
	}
	var err error
	if text := q.Get("tailLines"); text != "" {
		part.Tail, err = strconv.Atoi(text)
	}
	if text := q.Get("sinceTime"); text != "" && err == nil {
		part.From, err = time.Parse("2006-01-02T15:04:05Z", text)
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	if _, previous := p.IDs(); part.Previous && previous == "" {
		refuse(w, http.StatusBadRequest, `previous terminated container "agent" in pod "agent-0" not found`)
		return
	}
	log, err := p.Log(r.Context(), part)
	if err != nil {
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	defer func() { _ = log.Close() }()
	control := http.NewResponseController(w)
	_ = control.Flush()
	buffer := make([]byte, 1000)
	for {
		n, err := log.Read(buffer)
		_, _ = w.Write(buffer[:n])
		_ = control.Flush()
		if err != nil {
			return
		}
	}
}

func TestLogs_KeepThePromisesOfTheirPort(t *testing.T) {
	t.Parallel()
	agentlogtest.Run(t, func(t *testing.T) agentlogtest.Fixture {
		s, logs := newAPIServer(t)
		return agentlogtest.Fixture{Source: logs, Agent: s.agent, Start: func(*testing.T) agentlogtest.Running {
			return s.cell.Start(s.agent.ID)
		}, Keep: func(*testing.T) { s.cell.Keep(s.agent.ID) }}
	})
}

// TestLogs_ServeNoKeptLogOfAnotherContainer uses an object again for another container while it is read.
func TestLogs_ServeNoKeptLogOfAnotherContainer(t *testing.T) {
	t.Parallel()
	server, logs := newAPIServer(t)
	p := server.cell.Start(server.agent.ID)
	p.Write(time.Now(), "of the first container")
	p.Restart()
	server.cell.Keep(server.agent.ID)
	server.cell.Remove(server.agent.ID)
	server.replace(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Accept") != "application/json" {
			return false
		}
		o := keptObject{BinaryData: map[string][]byte{}}
		o.Metadata.Annotations = keptlog.Annotations(agentlog.Ended{Container: "another", EndedAt: time.Now()})
		o.BinaryData[keptlog.Key], _ = keptlog.Compress([]byte("of another container"))
		return json.NewEncoder(w).Encode(o) == nil
	})
	_, err := logs.Open(t.Context(), server.agent, agentlog.Options{Previous: 1})
	if fault.Code(err) != agentlog.CodeNoPrevious {
		t.Errorf("error %v, want that there is no such log", err)
	}
}

// TestLogs_FallBackToAKeptLog reads a log that the kubelet no longer has, in both ways in which kubelets say so.
func TestLogs_FallBackToAKeptLog(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]func(w http.ResponseWriter){
		"no container": func(w http.ResponseWriter) {
			refuse(w, http.StatusBadRequest, `previous terminated container "agent" in pod "agent-0" not found`)
		},
		"no file": func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, "unable to retrieve container logs for containerd://1")
		},
	} {
		server, logs := newAPIServer(t)
		p := server.cell.Start(server.agent.ID)
		p.Write(time.Now(), "kept")
		p.Restart()
		server.cell.Keep(server.agent.ID)
		server.replace(func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/log") {
				return false
			}
			gone(w)
			return true
		})
		s, err := logs.Open(t.Context(), server.agent, agentlog.Options{Previous: 1})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if l, err := s.Next(); err != nil || l.Message != "kept" {
			t.Errorf("%s: line %q, %v, want the kept one", name, l.Message, err)
		}
		_ = s.Close()
	}
}

func TestLogs_EndTheStreamOfTheCell(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(cancel func(), s agentlog.Stream){
		"the client goes away": func(cancel func(), _ agentlog.Stream) { cancel() },
		"the stream is closed": func(_ func(), s agentlog.Stream) { _ = s.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, logs := newAPIServer(t)
			ended := make(chan struct{})
			server.cell.Start(server.agent.ID)
			server.replace(func(w http.ResponseWriter, r *http.Request) bool {
				if strings.HasSuffix(r.URL.Path, "/log") {
					_ = http.NewResponseController(w).Flush()
					<-r.Context().Done()
					close(ended)
					return true
				}
				return false
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s, err := logs.Open(ctx, server.agent, agentlog.Options{Follow: true})
			if err != nil {
				t.Fatal(err)
			}
			end(cancel, s)
			<-ended
			if _, err := s.Next(); err == nil || err == io.EOF { //nolint:errorlint // exactly io.EOF
				t.Errorf("Next: %v, want an error", err)
			}
		})
	}
}

// TestLogs_ExplainErrors lists answers of API servers and kubelets. No error repeats what may be a line of a log.
func TestLogs_ExplainErrors(t *testing.T) {
	t.Parallel()
	const line = "CANARY a line of a tenant's log"
	for name, c := range map[string]struct {
		status    int
		message   string
		header    string
		page      bool // in place of a Status
		wantKind  fault.Kind
		wantCode  string
		wantAfter time.Duration
		wantText  string
	}{
		"waits to start": {
			status: 400, message: `container "agent" in pod "agent-0" is waiting to start: ContainerCreating`,
			wantKind: fault.Conflict, wantCode: agentlog.CodeNotRunning,
		},
		"log is gone": {status: 404, message: line, wantKind: fault.Conflict, wantCode: agentlog.CodeNotRunning},
		"a proxy's page": {
			status: 404, page: true, wantKind: fault.Unavailable, wantCode: "cluster_unavailable",
		},
		"node is down": {status: 500, message: line, wantKind: fault.Unavailable, wantCode: "cluster_unavailable"},
		"bad gateway":  {status: 502, wantKind: fault.Unavailable, wantCode: "cluster_unavailable"},
		"bad request":  {status: 400, message: line, wantKind: fault.Unavailable, wantCode: "cluster_unavailable"},
		"unauthorized": {status: 401, wantKind: fault.Unavailable, wantCode: "cluster_unavailable"},
		"busy, says so": {
			status: 429, header: "7", wantKind: fault.Unavailable, wantCode: "cluster_unavailable",
			wantAfter: 7 * time.Second,
		},
		"a right is missing": {
			status: 403, message: "user cannot get resource pods/log", wantKind: fault.Unavailable,
			wantCode: "cluster_unavailable", wantText: "cannot get resource pods/log",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, logs := newAPIServer(t)
			server.cell.Start(server.agent.ID)
			server.replace(func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, "/log") {
					return false
				}
				if c.header != "" {
					w.Header().Set("Retry-After", c.header)
				}
				if c.page {
					http.Error(w, "<!DOCTYPE html>", c.status)
				} else {
					refuse(w, c.status, c.message)
				}
				return true
			})
			_, err := logs.Open(t.Context(), server.agent, agentlog.Options{})
			if !fault.Is(err, c.wantKind) || fault.Code(err) != c.wantCode {
				t.Fatalf("error %v, want kind %v, code %s", err, c.wantKind, c.wantCode)
			}
			e := fault.From(err)
			if c.wantAfter > 0 && e.After() != c.wantAfter {
				t.Errorf("retry after %s, want %s", e.After(), c.wantAfter)
			}
			if c.wantKind == fault.Unavailable && e.After() == 0 {
				t.Error("no time to retry after")
			}
			if !strings.Contains(err.Error(), c.wantText) || strings.Contains(err.Error(), "CANARY") {
				t.Errorf("error %q, want the text %q and no line of a log", err, c.wantText)
			}
		})
	}
}

func TestLogs_UnreachableClusterIsUnavailable(t *testing.T) {
	t.Parallel()
	server, logs := newAPIServer(t)
	server.Close()
	_, err := logs.Open(t.Context(), server.agent, agentlog.Options{})
	if !fault.Is(err, fault.Unavailable) || fault.Code(err) != "cluster_unavailable" {
		t.Errorf("error %v, want cluster_unavailable", err)
	}
	_, err = logs.Open(t.Context(), agent.Agent{ID: server.agent.ID, Cell: "other"}, agentlog.Options{})
	if !fault.Is(err, fault.Unavailable) || fault.Code(err) != "cell_unknown" {
		t.Errorf("a cell that is not configured: error %v, want cell_unknown", err)
	}
}

// A connection that breaks in the middle of a line must not deliver its beginning: the position after it would skip the
// line.
func TestLogs_BrokenLineIsNotDelivered(t *testing.T) {
	t.Parallel()
	server, logs := newAPIServer(t)
	server.cell.Start(server.agent.ID)
	server.replace(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/log") {
			return false
		}
		_, _ = io.WriteString(w, "2026-03-02T09:30:00.000000001Z whole\n2026-03-02T09:30:00.000000002Z CANARY bro")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	s, err := logs.Open(t.Context(), server.agent, agentlog.Options{Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	if l, err := s.Next(); err != nil || l.Message != "whole" {
		t.Fatalf("got %+v, %v, want the whole line", l, err)
	}
	l, err := s.Next()
	if !fault.Is(err, fault.Unavailable) || strings.Contains(fmt.Sprint(l, err), "CANARY") {
		t.Errorf("got %+v, %v, want Unavailable without the line", l, err)
	}
}
