package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/client"
)

// lastEvent is the id of the newest event. The events 3 and 6 do not match the filter, so that only the cursor moves.
const lastEvent = 6

// eventText is what a stream sends after an event.
func eventText(after int) string {
	var b strings.Builder
	b.WriteString("retry: 100\n\n")
	for id := after + 1; id <= lastEvent; id++ {
		if id%3 == 0 {
			fmt.Fprintf(&b, ": heartbeat\nid: %d\n\n", id)
			continue
		}
		fmt.Fprintf(&b, "id: %d\nevent: agent.running\ndata: {\"id\": \"%d\", \"type\": \"agent.running\"}\n\n", id, id)
	}
	return b.String()
}

// eventAnswer is one answer of an eventServer: an error, or a stream.
type eventAnswer struct {
	// status is that of an error with a code; 0 is a stream.
	status int
	code   string
	// cut is after how many bytes the connection breaks; 0 does not break it.
	cut int
	// hang is true if the stream stays open without a byte.
	hang bool
	// page is true if another server answers, such as a proxy, with a page.
	page bool
}

// eventServer has the newest event at the first request, and answers with a script of streams.
type eventServer struct {
	script []eventAnswer
	// asked are the paths, queries and cursors of the requests.
	asked []string
}

// ServeHTTP implements http.Handler.
func (s *eventServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	cursor := r.Header.Get("Last-Event-ID")
	s.asked = append(s.asked, strings.TrimSpace(r.URL.String()+" "+cursor))
	if r.URL.Path == "/api/v1/events" {
		w.Header().Set("X-Event-Cursor", "0")
		_, _ = io.WriteString(w, "[]")
		return
	}
	next := eventAnswer{status: http.StatusBadRequest, code: "cursor_expired"}
	if len(s.script) > 0 {
		next, s.script = s.script[0], s.script[1:]
	}
	if next.status != 0 {
		w.WriteHeader(next.status)
		_, _ = fmt.Fprintf(w, `{"detail": "d", "code": %q}`, next.code)
		return
	}
	if next.page {
		_, _ = io.WriteString(w, "<html>\n\nSign in to the network\n\n</html>\n")
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	after := 0
	_, _ = fmt.Sscan(cursor, &after)
	text := eventText(after)
	if next.cut > 0 {
		_, _ = io.WriteString(w, text[:next.cut])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = io.WriteString(w, text)
	if next.hang {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}

// followEvents returns the ids of the events and the error that ended them.
func followEvents(ctx context.Context, c *client.Client, params client.StreamEventsParams) (ids string, err error) {
	var all []string
	for e, failed := range c.FollowEvents(ctx, params) {
		if failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		all = append(all, e.ID)
	}
	return strings.Join(all, " "), err
}

// TestFollowEvents_LosesAndRepeatsNoEvent breaks a stream off after each of its bytes.
func TestFollowEvents_LosesAndRepeatsNoEvent(t *testing.T) {
	t.Parallel()
	for cut := range eventText(0) {
		synctest.Test(t, func(t *testing.T) {
			s := &eventServer{script: []eventAnswer{
				{cut: cut + 1}, {status: http.StatusServiceUnavailable, code: "store_unavailable"}, {},
			}}
			got, err := followEvents(t.Context(), serve(t, s), client.StreamEventsParams{})
			if e := client.AsError(err); got != "1 2 4 5" || e == nil || e.Code != "cursor_expired" {
				t.Errorf("cut after %d bytes: events %q, %v; want 1 2 4 5 and cursor_expired", cut+1, got, err)
			}
			first, last := s.asked[1], s.asked[len(s.asked)-1]
			if first != "/api/v1/events/stream 0" || last != "/api/v1/events/stream 6" {
				t.Errorf("cut after %d bytes: the requests were %q, want them from 0 to 6", cut+1, s.asked)
			}
		})
	}
}

func TestFollowEvents_ContinuesUntilAnErrorIsPermanent(t *testing.T) {
	t.Parallel()
	down := eventAnswer{status: http.StatusServiceUnavailable, code: "store_unavailable"}
	for name, c := range map[string]struct {
		script   []eventAnswer
		wantCode string
		want     string
	}{
		"an outage of an hour": {
			script: slices.Concat(
				[]eventAnswer{{cut: 100}}, slices.Repeat([]eventAnswer{down}, 400), []eventAnswer{{}},
			),
			want: "1 2 4 5", wantCode: "cursor_expired",
		},
		"a page between streams": {
			script: []eventAnswer{{cut: 100}, {page: true}, {}}, want: "1 2 4 5", wantCode: "cursor_expired",
		},
		"a dead connection": {script: []eventAnswer{{hang: true}}, want: "1 2 4 5", wantCode: "cursor_expired"},
		"the token was revoked": {
			script: []eventAnswer{{}, {status: 401, code: "invalid_token"}}, want: "1 2 4 5", wantCode: "invalid_token",
		},
		"access was withdrawn": {
			script: []eventAnswer{{}, {status: 403, code: "role_required"}}, want: "1 2 4 5", wantCode: "role_required",
		},
		"refused at first": {
			script: []eventAnswer{{status: 403, code: "role_required"}}, wantCode: "role_required",
		},
		"out of reach from first": {script: slices.Repeat([]eventAnswer{down}, 50), wantCode: "store_unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &eventServer{script: c.script}
				got, err := followEvents(t.Context(), serve(t, s), client.StreamEventsParams{})
				if e := client.AsError(err); got != c.want || e == nil || e.Code != c.wantCode {
					t.Errorf("events %q, %v; want %q and the code %q", got, err, c.want, c.wantCode)
				}
			})
		})
	}
}

func TestFollowEvents_ContinuesAfterACursorAndKeepsTheFilter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &eventServer{script: []eventAnswer{{}}}
		got, _ := followEvents(t.Context(), serve(t, s),
			client.StreamEventsParams{Cursor: "2", AgentID: "a", Type: client.EventTypeAgentRunning})
		const path = "/api/v1/events/stream?agent_id=a&type=agent.running"
		if want := []string{path + " 2", path + " 6"}; got != "4 5" || !slices.Equal(s.asked, want) {
			t.Errorf("events %q of the requests %q, want 4 5 and %q", got, s.asked, want)
		}
	})
}

func TestFollowEvents_EndsWithItsContextAndItsCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &eventServer{script: []eventAnswer{{hang: true}, {hang: true}}}
		c := serve(t, s)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		got, err := followEvents(ctx, c, client.StreamEventsParams{Cursor: "0"})
		if got != "1 2 4 5" || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("events %q, %v; want 1 2 4 5 and the context's error", got, err)
		}
		for e, err := range c.FollowEvents(t.Context(), client.StreamEventsParams{Cursor: "0"}) {
			if err != nil || e.ID != "1" {
				t.Errorf("the first event is %q, %v; want 1", e.ID, err)
			}
			break
		}
		if len(s.asked) != 2 {
			t.Errorf("%d streams were opened, want one for each iteration", len(s.asked))
		}
	})
}

// TestFollowEvents_TakesNoPageForAStream: a wrong base URL, or a network that asks for a sign-in, answers with a page.
// A follower that waits for its events would wait forever.
func TestFollowEvents_TakesNoPageForAStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &eventServer{script: []eventAnswer{{page: true}}}
		_, err := followEvents(t.Context(), serve(t, s), client.StreamEventsParams{Cursor: "0"})
		if err == nil || !strings.Contains(err.Error(), "no stream of events") || len(s.asked) != 1 {
			t.Errorf("ended with %v after %d requests, want an error about the answer after one", err, len(s.asked))
		}
	})
}

func TestFollowEvents_FailsOnWhatItCannotRead(t *testing.T) {
	t.Parallel()
	broken := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		_, _ = io.WriteString(w, "data: {\n\n")
	})
	_, err := followEvents(t.Context(), serve(t, broken), client.StreamEventsParams{Cursor: "0"})
	if err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("ended with %v, want an error about the event", err)
	}
}
