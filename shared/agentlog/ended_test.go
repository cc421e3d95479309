package agentlog_test

import (
	"testing"
	"time"

	"agents.example/controlplane/shared/agentlog"
)

func TestKept_ServesTheLastSevenDaysInOrder(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ended := func(container string, ago time.Duration, run int) agentlog.Ended {
		return agentlog.Ended{Container: container, EndedAt: now.Add(-ago), Run: run}
	}
	kept := agentlog.Kept([]agentlog.Ended{
		ended("old", agentlog.KeptFor+time.Second, 0), ended("second", time.Hour, 4), ended("last", time.Hour, 5),
		ended("first", agentlog.KeptFor, 9), ended("second", time.Hour, 4),
	}, now)
	got := ""
	for _, e := range kept {
		got += e.Container + " "
	}
	if got != "last second first " {
		t.Errorf("kept %s, want last second first", got)
	}
}
