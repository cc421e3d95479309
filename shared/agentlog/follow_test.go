package agentlog_test

import (
	"bytes"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agentlog"
	"agents.example/controlplane/shared/agentlog/agentlogtest"
	"agents.example/controlplane/shared/fault"
)

func TestFollower_ReportsACellThatStopsAnswering(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := agentlogtest.NewCell()
		a := agent.Agent{ID: "1"}
		p := c.Start(a.ID)
		s, err := c.Open(t.Context(), a, agentlog.Options{Follow: true})
		if err != nil {
			t.Fatal(err)
		}
		var failing atomic.Bool
		c.Fail = func() error {
			if failing.Load() {
				return fault.New(fault.Unavailable, "cluster_unavailable", "Retry.")
			}
			return nil
		}
		var body bytes.Buffer
		f := agentlog.Follower{Source: c, Agent: a, Flush: func() error { return nil }}
		done := make(chan error, 1)
		go func() { done <- f.Follow(t.Context(), s, agentlog.NewLines(&body)) }()
		synctest.Wait()
		failing.Store(true)
		begun := time.Now()
		p.Restart()
		<-time.After(10 * time.Second)
		synctest.Wait()
		failing.Store(false) // a short outage goes unnoticed
		<-time.After(10 * time.Second)
		p.Write(time.Now(), "after the outage")
		synctest.Wait()
		if !bytes.Contains(body.Bytes(), []byte("after the outage")) {
			t.Errorf("the body is %s, want the line after a short outage", body.String())
		}
		failing.Store(true)
		p.Restart()
		if err := <-done; !fault.Is(err, fault.Unavailable) {
			t.Errorf("Follow: %v after %s, want Unavailable", err, time.Since(begun))
		}
	})
}

// failingWriter fails as the connection of a client that has gone away.
type failingWriter struct{}

var errGone = errors.New("the client has gone away")

func (failingWriter) Write([]byte) (int, error) { return 0, errGone }

func TestFollower_EndsTheStreamWhenTheClientIsGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := agentlogtest.NewCell()
		a := agent.Agent{ID: "1"}
		p := c.Start(a.ID)
		s, err := c.Open(t.Context(), a, agentlog.Options{Follow: true})
		if err != nil {
			t.Fatal(err)
		}
		f := agentlog.Follower{Source: c, Agent: a, Flush: func() error { return nil }}
		done := make(chan error, 1)
		go func() { done <- f.Follow(t.Context(), s, agentlog.NewLines(failingWriter{})) }()
		synctest.Wait()
		for range 1000 { // more than waits in between
			p.Write(time.Now(), "line")
		}
		if err := <-done; !errors.Is(err, errGone) {
			t.Errorf("Follow: %v, want %v", err, errGone)
		}
		synctest.Wait()
		if n := c.Readers(); n != 0 {
			t.Errorf("%d logs are still being read", n)
		}
	})
}
