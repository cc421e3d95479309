package podlogs

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agentlog"
)

// TestLogs_ResumeAfterALogThatIsGone has a reader that missed the end of a container of which the kubelet has no log.
func TestLogs_ResumeAfterALogThatIsGone(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		keeps bool
		gone  func(w http.ResponseWriter)
		want  []string
	}{
		"kept": {keeps: true, want: []string{"missed", "next"}, gone: func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, "unable to retrieve container logs for containerd://1")
		}},
		"no file": {want: []string{"next"}, gone: func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, "unable to retrieve container logs for containerd://1")
		}},
		"no container": {want: []string{"next"}, gone: func(w http.ResponseWriter) {
			refuse(w, http.StatusBadRequest, `previous terminated container "agent" in pod "agent-0" not found`)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, logs := newAPIServer(t)
			p, at := server.cell.Start(server.agent.ID), time.Now()
			p.Write(at, "read")
			read, position := messages(t, logs, server.agent, agentlog.Options{})
			p.Write(at.Add(time.Second), "missed")
			p.Restart()
			if row.keeps {
				server.cell.Keep(server.agent.ID)
			}
			p.Write(at.Add(2*time.Second), "next")
			server.replace(func(w http.ResponseWriter, r *http.Request) bool {
				gone := strings.HasSuffix(r.URL.Path, "/log") && r.URL.Query().Get("previous") == "true"
				if gone {
					row.gone(w)
				}
				return gone
			})
			got, _ := messages(t, logs, server.agent, agentlog.Options{After: position})
			if !slices.Equal(read, []string{"read"}) || !slices.Equal(got, row.want) {
				t.Errorf("lines %q and then %q, want %q after the first", read, got, row.want)
			}
		})
	}
}

// messages reads a log to its end, and returns the position there.
func messages(t *testing.T, logs *Logs, a agent.Agent, o agentlog.Options) (texts []string, at agentlog.Position) {
	t.Helper()
	s, err := logs.Open(t.Context(), a, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	for {
		l, err := s.Next()
		if errors.Is(err, io.EOF) {
			return texts, s.Position()
		}
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, l.Message)
	}
}
