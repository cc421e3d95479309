package run

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestShutdown_EndsBeforeTheProcessIsKilled: neither requests nor clients may take all of the ten seconds.
func TestShutdown_EndsBeforeTheProcessIsKilled(t *testing.T) {
	t.Parallel()
	const killed, publish = 10 * time.Second, time.Second
	if shutdownTime >= killed || shutdownTime-drainTime < publish {
		t.Errorf("a shutdown takes %s and a drain %s; want less than %s, and %s between them", shutdownTime, drainTime,
			killed, publish)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, terminate := context.WithCancel(t.Context())
		ending, stop := afterShutdown(ctx)
		defer stop()
		<-time.After(time.Hour)
		if ending.Err() != nil {
			t.Error("the process ends without a signal")
		}
		terminate()
		began, hangs := time.Now(), make(chan struct{})
		<-time.After(drainTime)
		err := closeUntil(ending, func() error { <-hangs; return nil })
		if d := time.Since(began); d != shutdownTime || err == nil {
			t.Errorf("a client that hangs holds the process for %s (%v), want %s and an error", d, err, shutdownTime)
		}
		close(hangs)
	})
}
