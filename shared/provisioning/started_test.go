package provisioning_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"
	"testing/synctest"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/logevent"
)

// TestReconcile_TellsOnceHowLongANewAgentTook starts an agent, and restarts it: the metric is about new agents.
func TestReconcile_TellsOnceHowLongANewAgentTook(t *testing.T) { //nolint:paralleltest // captures the process's logger
	var log bytes.Buffer
	former := slog.Default()
	slog.SetDefault(slog.New(slog.NewJSONHandler(&log, nil)))
	defer slog.SetDefault(former)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.settle()
		took := w.Now().Sub(w.record().CreatedAt).Seconds()
		w.change(act(agent.Restart))
		w.settle()
		found := 0
		for line := range bytes.Lines(log.Bytes()) {
			var entry struct {
				Event   logevent.Name
				AgentID string `json:"agent_id"`
				Seconds float64
			}
			must(t, json.Unmarshal(line, &entry))
			if entry.Event != logevent.AgentStarted {
				continue
			}
			found++
			if entry.AgentID != w.id || entry.Seconds < 0 || entry.Seconds > took {
				t.Errorf("the line says that agent %s took %v s, want %s and at most %v", entry.AgentID,
					entry.Seconds, w.id, took)
			}
		}
		if found != 1 {
			t.Errorf("%d lines say that the agent started, want 1:\n%s", found, log.Bytes())
		}
	})
}
