package events_test

import (
	"bufio"
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/functions/backendtest"
	"agents.example/controlplane/functions/events"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/ratelimit"
)

func TestRoutes_AreForMembers(t *testing.T) {
	t.Parallel()
	functiontest.CheckRefusals(t, events.List(nil), function.Member)
	functiontest.CheckRefusals(t, events.Stream(nil, nil), function.Member)
}

// list reads a page of events.
func list(t *testing.T, b *backendtest.Backend, as functiontest.Option, query url.Values) (
	functiontest.Response, []event.View,
) {
	t.Helper()
	res := b.Call(t, events.List(b.Events), as, functiontest.Query(query)).Want(t, http.StatusOK, "")
	var found []event.View
	res.Decode(t, &found)
	return res, found
}

func typesOf(found []event.View) []event.Type {
	types := []event.Type{}
	for _, e := range found {
		types = append(types, e.Type)
	}
	return types
}

// TestList_TellsTheLifeOfAnAgent polls in small pages while an agent is created, runs, is stopped and is deleted.
func TestList_TellsTheLifeOfAnAgent(t *testing.T) {
	t.Parallel()
	b, admin := backendtest.New(t), functiontest.AsAdmin("org-1")
	res, found := list(t, b, admin, nil)
	if len(found) > 0 {
		t.Fatalf("a new organization has the events %v", typesOf(found))
	}
	a := b.RunningAgent(t, "org-1", nil)
	id := functiontest.Path("agent_id", a.ID)
	b.CallNamed(t, "StopAgent", admin, id).Want(t, http.StatusOK, "")
	b.Reconcile(t, a.ID)
	b.CallNamed(t, "DeleteAgent", admin, id).Want(t, http.StatusAccepted, "")
	b.Reconcile(t, a.ID)

	var all []event.View
	for pages, more := 0, true; more; pages++ {
		if pages == 100 {
			t.Fatalf("%d pages have %d events, and there is another page", pages, len(all))
		}
		cursor := res.Header.Get("X-Event-Cursor")
		res, found = list(t, b, admin, url.Values{"cursor": {cursor}, "limit": {"3"}})
		all, more = append(all, found...), res.Header.Get("X-Next-Cursor") != ""
		if more != strings.Contains(res.Header.Get("Link"), "limit=3") {
			t.Errorf("Link = %q, want the next page if there is one", res.Header.Get("Link"))
		}
	}
	statuses := slices.DeleteFunc(typesOf(all), func(typ event.Type) bool {
		return typ == event.AgentStageChanged || typ == event.AgentUpdated
	})
	want := []event.Type{
		event.AgentCreated, event.AgentRunning, event.AgentStopped, event.AgentDeleting, event.AgentDeleted,
	}
	if !slices.Equal(statuses, want) {
		t.Errorf("events %v, want %v", statuses, want)
	}
	for _, e := range all {
		if e.AgentID == nil || *e.AgentID != a.ID || e.OrganizationID != "org-1" {
			t.Errorf("event %+v, want one about the agent", e)
		}
	}
	if _, again := list(t, b, admin, url.Values{"cursor": {res.Header.Get("X-Event-Cursor")}}); len(again) > 0 {
		t.Errorf("events after the last: %v, want none", typesOf(again))
	}
}

func TestList_ShowsMembersNoKeys(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	b.CreateKey(t, "org-1")
	_, asAdmin := list(t, b, functiontest.AsAdmin("org-1"), nil)
	_, asMember := list(t, b, functiontest.AsMember("org-1"), nil)
	_, asOther := list(t, b, functiontest.AsAdmin("org-2"), nil)
	if got := typesOf(asAdmin); !slices.Equal(got, []event.Type{event.APIKeyCreated}) {
		t.Errorf("an admin sees %v, want the key's creation", got)
	}
	if len(asMember) > 0 || len(asOther) > 0 {
		t.Errorf("a member sees %v and another organization %v, want none", typesOf(asMember), typesOf(asOther))
	}
}

func TestRoutes_RefuseBadCursors(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	old := string(event.After(time.Now().Add(-31 * 24 * time.Hour)))
	for cursor, code := range map[string]string{"evt_1": "invalid_cursor", old: "cursor_expired"} {
		query := functiontest.Query(url.Values{"cursor": {cursor}})
		for _, r := range []function.Route{events.List(b.Events), events.Stream(b.Events, nil)} {
			b.Call(t, r, functiontest.AsMember("org-1"), query).Want(t, http.StatusBadRequest, code)
		}
		b.Call(t, events.Stream(b.Events, nil), functiontest.AsMember("org-1"),
			functiontest.Header("Last-Event-ID", cursor)).Want(t, http.StatusBadRequest, code)
	}
}

// quietLog is a log to which the test adds events.
type quietLog struct {
	event.Log
	batches chan event.Batch
	after   chan event.ID
	err     error
}

// Follow implements event.Log.
func (l quietLog) Follow(ctx context.Context, _ string, _ event.Filter, after event.ID, idle time.Duration) iter.Seq2[
	event.Batch, error,
] {
	return func(yield func(event.Batch, error) bool) {
		l.after <- after
		if l.err != nil {
			yield(event.Batch{}, l.err)
			return
		}
		for {
			b := event.Batch{Next: after}
			select {
			case b = <-l.batches:
				after = b.Next
			case <-time.After(idle):
			case <-ctx.Done():
				return
			}
			if !yield(b, nil) {
				return
			}
		}
	}
}

func newQuietLog() quietLog {
	return quietLog{batches: make(chan event.Batch, 10), after: make(chan event.ID, 1)}
}

func example(n int) event.Event {
	at := time.Date(2026, 3, 2, 9, 30, n, 0, time.UTC)
	return event.Event{
		ID: event.NewID(at, event.RecordID(7), 0), Type: event.AgentRunning, CreatedAt: at, OrganizationID: "org-1",
		Data: json.RawMessage(`{"status":"running"}`),
	}
}

// TestStream_SendsEventsForTenMinutes: time is that of the test's bubble.
func TestStream_SendsEventsForTenMinutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, began := newQuietLog(), time.Now()
		log.batches <- event.Batch{Events: []event.Event{example(1), example(2)}, Next: example(2).ID}
		res := functiontest.Call(t, events.Stream(log, nil), functiontest.AsMember("org-1"),
			functiontest.Header("Last-Event-ID", string(example(0).ID))).Want(t, http.StatusOK, "")
		if took := time.Since(began); took != 10*time.Minute {
			t.Errorf("the answer took %s, want 10 minutes", took)
		}
		if after := <-log.after; after != example(0).ID {
			t.Errorf("the stream began after %s, want the Last-Event-ID", after)
		}
		if got := res.Header.Get("Content-Type"); got != "text/event-stream" {
			t.Errorf("Content-Type = %q, want text/event-stream", got)
		}
		blocks := strings.Split(strings.TrimSuffix(string(res.Body), "\n\n"), "\n\n")
		if blocks[0] != "retry: 2000" {
			t.Errorf("the stream begins with %q, want the time to reconnect", blocks[0])
		}
		for n, block := range blocks[1:3] {
			e := example(n + 1)
			shown, _ := json.Marshal(e.Show())
			if want := "id: " + string(e.ID) + "\nevent: agent.running\ndata: " + string(shown); block != want {
				t.Errorf("event %d is sent as %q, want %q", n+1, block, want)
			}
		}
		heartbeat := ": heartbeat\nid: " + string(example(2).ID)
		if got := slices.Compact(blocks[3:]); len(blocks) < 3+39 || !slices.Equal(got, []string{heartbeat}) {
			t.Errorf("%d blocks after the events, of these kinds: %q, want about 40 heartbeats", len(blocks)-3, got)
		}
	})
}

// TestStream_EndsWithItsProcess shuts the process down while a stream is open: the answer ends without an error, long
// before the process is killed.
func TestStream_EndsWithItsProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ending, shutDown := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, shutDown)
		began := time.Now()
		functiontest.Call(t, events.Stream(newQuietLog(), nil), functiontest.AsMember("org-1"),
			functiontest.WithContext(function.WithShutdown(t.Context(), ending))).Want(t, http.StatusOK, "")
		if took := time.Since(began); took != time.Minute {
			t.Errorf("the answer took %s, want it to end with its process after a minute", took)
		}
	})
}

func TestStream_FailsAsAResponseBeforeItsFirstEvent(t *testing.T) {
	t.Parallel()
	log := newQuietLog()
	log.err = fault.New(fault.Unavailable, "store_unavailable", "Down.")
	functiontest.Call(t, events.Stream(log, nil), functiontest.AsMember("org-1")).Want(t,
		http.StatusServiceUnavailable, "store_unavailable")
}

func TestStream_HoldsASlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, slots := newQuietLog(), ratelimit.NewSlots(ratelimit.SlotLimits{Caller: 1, Organization: 1, Process: 8})
		ended := make(chan struct{})
		call := func() functiontest.Response {
			return functiontest.Call(t, events.Stream(log, slots), functiontest.AsMember("org-1"))
		}
		go func() {
			defer close(ended)
			call().Want(t, http.StatusOK, "")
		}()
		synctest.Wait()
		call().Want(t, http.StatusTooManyRequests, "too_many_followers")
		<-ended
		if _, ok := slots.Acquire("org-1", "caller"); !ok {
			t.Error("the slot is not free after the stream")
		}
	})
}

// TestStream_FollowsTheLog reads a stream of the real log over HTTP while a key is created.
func TestStream_FollowsTheLog(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	_, key := b.CreateKey(t, "org-1")
	server := functiontest.Serve(t, function.Mux([]function.Served{events.Stream(b.Events, nil).Served(b.Guard)}))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/api/v1/events/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	res, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b.CreateKey(t, "org-1")
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if lines.Text() == "event: api_key.created" {
			return
		}
	}
	t.Error("the stream ended without the creation of the second key")
}
