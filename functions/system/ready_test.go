package system_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/functions/system"
	"agents.example/controlplane/shared/function"
)

// store is a dependency whose check takes a second.
type store struct {
	mu   sync.Mutex
	runs int
	down error
}

func (s *store) check(ctx context.Context) error {
	s.mu.Lock()
	s.runs++
	s.mu.Unlock()
	select {
	case <-time.After(time.Second):
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.down
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *store) set(down error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// TestReady_SharesChecks: calls at the same time and in the two seconds after it cost one check, at both paths.
func TestReady_SharesChecks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		routes := system.Ready([]system.Check{{Name: "store", Run: s.check}})
		call := func(route function.Route, status int, code string) {
			functiontest.Call(t, route).Want(t, status, code)
		}
		var callers sync.WaitGroup
		for n := range 100 {
			callers.Go(func() { call(routes[n%2], http.StatusOK, "") })
		}
		callers.Wait()
		<-time.After(2*time.Second - time.Nanosecond)
		s.set(errors.New("down"))
		call(routes[0], http.StatusOK, "")
		if s.runs != 1 {
			t.Errorf("%d checks for the calls of two seconds, want 1", s.runs)
		}
		<-time.After(time.Nanosecond)
		for range 100 {
			call(routes[0], http.StatusServiceUnavailable, "not_ready")
		}
		if s.runs != 2 {
			t.Errorf("%d checks for the calls of two periods of two seconds, want 2", s.runs)
		}
	})
}

// TestReady_SurvivesItsCaller: the outcome of a check is for all callers, so it does not depend on the first of them.
func TestReady_SurvivesItsCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		route := system.Ready([]system.Check{{Name: "store", Run: s.check}})[0]
		left, leave := context.WithCancel(t.Context())
		leave()
		functiontest.Call(t, route, functiontest.WithContext(left)).Want(t, http.StatusOK, "")
		functiontest.Call(t, route).Want(t, http.StatusOK, "")
	})
}

// TestReady_EndsHangingChecks: a check that does not end makes the service not ready after three seconds.
func TestReady_EndsHangingChecks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hanging := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		began := time.Now()
		functiontest.Call(t, system.Ready([]system.Check{{Name: "store", Run: hanging}})[0]).
			Want(t, http.StatusServiceUnavailable, "not_ready")
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("the call took %s, want 3 s", took)
		}
	})
}
