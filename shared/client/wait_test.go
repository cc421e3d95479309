package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/client"
)

// settling is an API with an agent that settles, or is gone, after some time, and whose operations end later.
type settling struct {
	begun  time.Time
	after  time.Duration
	status string // then; empty if the agent is gone
	early  bool   // no wait is held
	reads  atomic.Int32
	err    int // a status, instead
}

// ServeHTTP implements http.Handler.
func (s *settling) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.reads.Add(1)
	rest := s.after - time.Since(s.begun)
	if seconds := r.URL.Query().Get("wait"); seconds != "" && rest > 0 && s.early {
		w.Header().Set("Retry-After", "5")
	} else if seconds != "" && rest > 0 {
		held, err := time.ParseDuration(seconds + "s")
		if err != nil {
			panic(err)
		}
		select {
		case <-time.After(min(held, rest)):
		case <-r.Context().Done():
		}
		rest -= min(held, rest)
	}
	status := "provisioning"
	if rest <= 0 {
		status = s.status
	}
	switch {
	case s.err != 0:
		w.WriteHeader(s.err)
	case status == "":
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, problem("agent_not_found"))
	default:
		w.Header().Set("ETag", status)
		_, _ = fmt.Fprintf(w, `{"id": "a", "status": %q}`, status)
	}
}

func TestWait_ReadsSparingly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		given    *settling
		watch    bool
		maxReads int32
		changes  int
		within   time.Duration
	}{
		"holds requests": {
			given:    &settling{after: 2 * time.Minute, status: "running"},
			maxReads: 3, within: time.Second,
		},
		"fails": {
			given:    &settling{after: 70 * time.Second, status: "error"},
			maxReads: 2, within: time.Second,
		},
		"already": {given: &settling{status: "stopped"}, maxReads: 1},
		"the API has no slot": {
			given:    &settling{after: time.Minute, status: "running", early: true},
			maxReads: 14, within: 6 * time.Second,
		},
		"watches": {
			given: &settling{after: 10 * time.Second, status: "running"},
			watch: true, maxReads: 36, changes: 2, within: time.Second,
		},
		"deleted": {
			given:    &settling{after: 70 * time.Second},
			maxReads: 3, within: time.Second,
		},
		"watches it be deleted": {
			given: &settling{after: 10 * time.Second},
			watch: true, maxReads: 36, changes: 1, within: time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := c.given
				s.begun = time.Now()
				api := serve(t, s)
				changes := 0
				var onChange func(*client.Agent)
				if c.watch {
					onChange = func(*client.Agent) { changes++ }
				}
				var err error
				if s.status == "" {
					err = api.WaitUntilDeleted(t.Context(), "a", onChange)
				} else {
					var a *client.Agent
					a, err = api.WaitUntilSettled(t.Context(), "a", onChange)
					if err == nil && string(a.Status) != s.status {
						t.Errorf("status %s, want %s", a.Status, s.status)
					}
				}
				if took := time.Since(s.begun); err != nil || took < s.after || took > s.after+c.within {
					t.Errorf("ended after %s with %v, want %s", took, err, s.after)
				}
				if s.reads.Load() > c.maxReads || changes != c.changes {
					t.Errorf("%d reads and %d changes, want at most %d, and %d", s.reads.Load(), changes, c.maxReads,
						c.changes)
				}
			})
		})
	}
}

// TestWait_BearsAnOutage: a deployment, or a network that is away for a minute, ends no wait.
func TestWait_BearsAnOutage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		known    bool          // the API has shown the object
		held     time.Duration // how long the first request waits for its error
		away     time.Duration
		attempts int
		// least and most are how long the API was away when the wait fails; 0 if it does not fail.
		least, most time.Duration
	}{
		"short":         {known: true, away: 110 * time.Second, attempts: 5},
		"in a wait":     {known: true, held: 45 * time.Second, away: 110 * time.Second, attempts: 5},
		"long":          {known: true, away: time.Hour, attempts: 5, least: 2 * time.Minute, most: 3 * time.Minute},
		"no repeats":    {known: true, away: time.Hour, attempts: 1, most: 10 * time.Second},
		"never reached": {away: time.Hour, attempts: 5, most: 10 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			var began time.Time
			answers := 0
			api := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if answers++; c.known && answers == 1 {
					_, _ = w.Write([]byte(`{"id": "a", "status": "pending", "stage": "bind", "retry_after_seconds": 1}`))
					return
				}
				if began.IsZero() {
					time.Sleep(c.held) //nolint:forbidigo // in the bubble's time
					began = time.Now()
				}
				if time.Since(began) < c.away {
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				_, _ = w.Write([]byte(`{"id": "a", "status": "running", "reachable": true}`))
			}), client.WithAttempts(c.attempts))
			for what, wait := range map[string]func() error{
				"agent": func() error {
					_, err := api.WaitUntilSettled(t.Context(), "a", nil)
					return err
				},
				"dashboard": func() error {
					_, err := api.WaitUntilDashboardReachable(t.Context(), "a")
					return err
				},
			} {
				began, answers = time.Time{}, 0
				err := wait()
				took := time.Since(began)
				if fails := c.most > 0; (err != nil) != fails || fails && (took < c.least || took > c.most) {
					t.Errorf("%s, %s: ended after %s with %v", name, what, took, err)
				}
			}
		})
	}
}

func TestWait_EndsWithItsContextAndWithErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		patient := serve(t, &settling{begun: time.Now(), after: time.Hour})
		denied := serve(t, &settling{err: http.StatusForbidden})
		for _, wait := range []func(ctx context.Context, c *client.Client) error{
			func(ctx context.Context, c *client.Client) error { return c.WaitUntilDeleted(ctx, "a", nil) },
			func(ctx context.Context, c *client.Client) error {
				return c.WaitUntilDeleted(ctx, "a", func(*client.Agent) {})
			},
			func(ctx context.Context, c *client.Client) error {
				_, err := c.WaitUntilSettled(ctx, "a", nil)
				return err
			},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
			if err := wait(ctx, patient); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("ended with %v, want the context's error", err)
			}
			cancel()
			if e := client.AsError(wait(t.Context(), denied)); e == nil || e.Status != http.StatusForbidden {
				t.Errorf("ended with %v, want 403", e)
			}
		}
	})
}

func TestWaitUntilReady_WaitsForTheNewestPod(t *testing.T) {
	t.Parallel()
	const warming = `{"id": "a", "status": "running", "dashboard_warming": true}`
	for name, c := range map[string]struct {
		given  []answer
		want   client.AgentStatus
		wantIn time.Duration
	}{
		"not changed": {given: []answer{{body: `{"status": "running"}`}}, want: "running"},
		"after a restart": {
			given: []answer{{body: warming}, {body: warming}, {body: `{"status": "running"}`}}, want: "running",
			wantIn: 2 * time.Second,
		},
		"a change of the plan": {
			given: []answer{{body: `{"status": "provisioning"}`}, {body: warming}, {body: `{"status": "running"}`}},
			want:  "running", wantIn: 2 * time.Second,
		},
		"stopped in between": {
			given: []answer{{body: warming}, {body: `{"status": "stopped", "dashboard_warming": true}`}},
			want:  "stopped", wantIn: time.Second,
		},
		"failed": {given: []answer{{body: warming}, {body: `{"status": "error"}`}}, want: "error", wantIn: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				a, err := serve(t, &schedule{answers: c.given}).WaitUntilReady(t.Context(), "a", nil)
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); a.Status != c.want || took != c.wantIn {
					t.Errorf("%s after %s, want %s after %s", a.Status, took, c.want, c.wantIn)
				}
			})
		})
	}
}

// TestWaitUntilDeleted_TakesNoPageOfAProxyForTheEnd: a proxy, or a service that is closed to the internet, answers 404,
// too, while the agent runs.
func TestWaitUntilDeleted_TakesNoPageOfAProxyForTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := serve(t, &schedule{answers: []answer{
			{body: `{"id": "a", "status": "deleting"}`}, {status: http.StatusNotFound, body: "<h1>Page not found</h1>"},
		}})
		err := api.WaitUntilDeleted(t.Context(), "a", nil)
		if e := client.AsError(err); e == nil || e.Status != http.StatusNotFound {
			t.Errorf("ended with %v, want the error 404", err)
		}
	})
}

func TestWaitUntilDeleted_FailsIfTheAgentStays(t *testing.T) {
	t.Parallel()
	for name, watch := range map[string]func(*client.Agent){"held": nil, "watched": func(*client.Agent) {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				api := serve(t, &settling{begun: time.Now(), after: time.Minute, status: "running"})
				err := api.WaitUntilDeleted(ctx, "a", watch)
				if err == nil || !strings.Contains(err.Error(), "the agent a is running, not being deleted") {
					t.Errorf("ended with %v, want an error that says that the agent is not being deleted", err)
				}
			})
		})
	}
}

// operations is an API with secret operations, each with the statuses that it goes through, one a read.
type operations struct {
	statuses map[string][]string
	reads    []time.Time
	hidden   string // an operation that is too old for the first page
}

// ServeHTTP implements http.Handler.
func (o *operations) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.reads = append(o.reads, time.Now())
	_, id, one := strings.Cut(r.URL.Path, "/secret-operations/")
	if one {
		_, _ = fmt.Fprint(w, o.view(id))
		return
	}
	var all []string
	for id := range o.statuses {
		if id != o.hidden {
			all = append(all, o.view(id))
		}
	}
	_, _ = fmt.Fprintf(w, "[%s]", strings.Join(all, ","))
}

func (o *operations) view(id string) string {
	status := o.statuses[id][0]
	if len(o.statuses[id]) > 1 {
		o.statuses[id] = o.statuses[id][1:]
	}
	code := "null"
	if status == "parked" {
		status, code = "pending", `"agent_not_running"`
	}
	stage := "rollout"
	if status == "storing" {
		status, stage = "pending", "store"
	}
	return fmt.Sprintf(`{"id": %q, "status": %q, "stage": %q, "error_code": %s}`, id, status, stage, code)
}

func TestWaitForSecretOperations_EndsIfAValueWasNotStored(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		given map[string][]string
		want  string
		least time.Duration
	}{
		"stored in time": {
			given: map[string][]string{"a": {"storing", "storing", "running", "succeeded"}, "b": {"succeeded"}},
			want:  "succeeded succeeded",
		},
		"never stored": {
			given: map[string][]string{"a": {"storing"}, "b": {"storing"}}, want: "pending pending",
			least: 30 * time.Second,
		},
		"the other one succeeded": {
			given: map[string][]string{"a": {"succeeded"}, "b": {"storing"}}, want: "succeeded pending",
			least: 30 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				api := serve(t, &operations{statuses: c.given})
				found, err := api.WaitForSecretOperations(t.Context(), "agent", []string{"a", "b"})
				if err != nil {
					t.Fatal(err)
				}
				got := fmt.Sprintf("%s %s", found[0].Status, found[1].Status)
				most := c.least + 6*time.Second
				if took := time.Since(began); got != c.want || took < c.least || took > most {
					t.Errorf("%s after %s, want %s after %s to %s", got, took, c.want, c.least, most)
				}
				if last := found[1]; last.IsStoring() != (last.Status == client.SecretOperationStatusPending) {
					t.Errorf("IsStoring = %t for %s at %s", last.IsStoring(), last.Status, last.Stage)
				}
			})
		})
	}
}

func TestWaitForSecretOperations_WaitsForEach(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		given    operations
		ids      []string
		want     string
		maxReads int
	}{
		"none": {},
		"one": {
			given: operations{statuses: map[string][]string{"a": {"pending", "running", "succeeded"}}},
			ids:   []string{"a"}, want: "succeeded", maxReads: 3,
		},
		"every end": {
			given: operations{statuses: map[string][]string{
				"a": {"pending", "failed"}, "b": {"superseded"}, "c": {"canceled"}, "d": {"running", "parked"},
				"e": {"pending", "pending", "pending", "succeeded"}, "of others": {"pending"},
			}},
			ids: []string{"e", "a", "b", "c", "d"}, want: "succeeded failed superseded canceled pending", maxReads: 4,
		},
		"an old one": {
			given: operations{
				hidden: "b", statuses: map[string][]string{"a": {"succeeded"}, "b": {"pending", "failed"}},
			},
			ids: []string{"a", "b"}, want: "succeeded failed", maxReads: 3,
		},
		"a status of later": {
			given: operations{statuses: map[string][]string{"a": {"thinking", "succeeded"}}}, ids: []string{"a"},
			want: "succeeded", maxReads: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := &c.given
				found, err := serve(t, o).WaitForSecretOperations(t.Context(), "agent", c.ids)
				if err != nil {
					t.Fatal(err)
				}
				got := make([]string, len(found))
				for i, f := range found {
					if got[i] = string(f.Status); f.ID != c.ids[i] {
						t.Errorf("operation %d is %s, want %s", i, f.ID, c.ids[i])
					}
				}
				if joined := strings.Join(got, " "); joined != c.want || len(o.reads) > c.maxReads {
					t.Errorf("%q after %d reads, want %q after %d", joined, len(o.reads), c.want, c.maxReads)
				}
				for i := range o.reads[min(5, len(o.reads)):] {
					if within := o.reads[i+5].Sub(o.reads[i]); within < time.Second {
						t.Errorf("6 reads in %s, want at most 5 in a second", within)
					}
				}
			})
		})
	}
}

func TestWaitUntilDashboardReachable_WaitsAsLongAsItHelps(t *testing.T) {
	t.Parallel()
	const warming = `{"reachable": true, "dashboard_warming": true, "retry_after_seconds": 2}`
	for name, c := range map[string]struct {
		given  []answer
		want   bool
		wantIn time.Duration
	}{
		"reachable": {given: []answer{{body: `{"reachable": true}`}}, want: true},
		"after a restart": {
			given: []answer{{body: warming}, {body: `{"retry_after_seconds": 5}`}, {body: `{"reachable": true}`}},
			want:  true, wantIn: 7 * time.Second,
		},
		"stopped": {given: []answer{{body: `{"reason": "not_running"}`}}},
		"stopped in between": {
			given: []answer{{body: `{"retry_after_seconds": 10}`}, {body: `{"reason": "not_running"}`}}, wantIn: 10 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				r, err := serve(t, &schedule{answers: c.given}).WaitUntilDashboardReachable(t.Context(), "a")
				if took := time.Since(began); err != nil || r.Reachable != c.want || took != c.wantIn {
					t.Errorf("%+v, %v after %s; want reachable = %t after %s", r, err, took, c.want, c.wantIn)
				}
			})
		})
	}
}
