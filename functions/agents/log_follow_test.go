package agents_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/functions/agents"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agentlog"
	"agents.example/controlplane/shared/agentlog/agentlogtest"
	"agents.example/controlplane/shared/function"
)

const events = "text/event-stream"

// answerOf calls the route in the background. The answer arrives when the call has ended.
func (f logFixture) answerOf(t *testing.T, query string, options ...functiontest.Option) <-chan functiontest.Response {
	t.Helper()
	answer := make(chan functiontest.Response, 1)
	go func() { answer <- f.get(t, query, options...) }()
	synctest.Wait()
	return answer
}

// sentEvent is a server-sent event.
type sentEvent struct {
	id, message string
}

// parseEvents returns the events of a body, and the number of its comments.
func parseEvents(t *testing.T, body []byte) (found []sentEvent, comments int) {
	t.Helper()
	for block := range strings.SplitSeq(strings.TrimSuffix(string(body), "\n\n"), "\n\n") {
		var e sentEvent
		for field := range strings.Lines(block) {
			name, value, _ := strings.Cut(strings.TrimSuffix(field, "\n"), ": ")
			switch name {
			case "id":
				e.id = value
			case "data":
				e.message = messages(decodeLines(t, []byte(value+"\n")))
				found = append(found, e)
			case "":
				comments++
			case "retry":
			default:
				t.Fatalf("a field %q in %q", name, block)
			}
		}
	}
	return found, comments
}

func TestFollowLog_EndsAfterTenMinutes(t *testing.T) {
	t.Parallel()
	for accept, contentType := range map[string]string{
		"": "application/x-ndjson", "*/*": "application/x-ndjson", events: events, "text/*": events,
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newLogFixture()
			p := f.cell.Start(f.agent.ID)
			p.Write(time.Now(), "0")
			begun := time.Now()
			answer := f.answerOf(t, "follow=true", functiontest.Header("Accept", accept))
			for i := range 5 {
				<-time.After(time.Minute)
				p.Write(time.Now(), fmt.Sprint(i+1))
			}
			res := <-answer
			if took := time.Since(begun); took != agentlog.MaxFollow {
				t.Errorf("Accept %q: the answer took %s, want %s", accept, took, agentlog.MaxFollow)
			}
			if got := res.Header.Get("Content-Type"); got != contentType {
				t.Errorf("Accept %q: Content-Type = %q, want %q", accept, got, contentType)
			}
			got := ""
			if contentType == events {
				found, comments := parseEvents(t, res.Body)
				for _, e := range found {
					got += e.message + " "
				}
				if want := int(agentlog.MaxFollow / agentlog.Heartbeat); comments < want-1 || comments > want {
					t.Errorf("%d heartbeats, want %d", comments, want)
				}
			} else {
				got = messages(decodeLines(t, res.Body)) + " "
			}
			if got != "0 1 2 3 4 5 " {
				t.Errorf("Accept %q: lines %q, want 0 to 5", accept, got)
			}
			if n := f.cell.Readers(); n != 0 {
				t.Errorf("%d logs are still being read", n)
			}
		})
	}
}

// TestFollowLog_ResumesAfterEveryEvent breaks the stream off after each event. Lines share times, and the container
// restarts.
func TestFollowLog_ResumesAfterEveryEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newLogFixture()
		p := f.cell.Start(f.agent.ID)
		at := time.Now()
		p.Write(at, "a", "a", "b", "a", "c")
		p.Write(at.Add(-time.Microsecond), "out of order")
		answer := f.answerOf(t, "follow=true&tail=4", functiontest.Header("Accept", events))
		<-time.After(time.Second)
		p.Write(time.Now(), "d", "d")
		synctest.Wait()
		p.Restart()
		p.Write(time.Now(), "e", "f")
		all, _ := parseEvents(t, (<-answer).Body)
		want := []string{"b", "a", "c", "out of order", "d", "d", "e", "f"}
		for i, e := range all {
			if i >= len(want) || e.message != want[i] || e.id == "" {
				t.Fatalf("event %d is %+v, want %q", i, e, want)
			}
		}
		if len(all) != len(want) {
			t.Fatalf("%d events, want %d", len(all), len(want))
		}
		for i, e := range all {
			rest, _ := parseEvents(t, (<-f.answerOf(t, "follow=true&tail=4", functiontest.Header("Accept", events),
				functiontest.Header("Last-Event-ID", e.id))).Body)
			if !slices.Equal(rest, all[i+1:]) {
				t.Errorf("after %q: got %v, want %v", e.message, rest, all[i+1:])
			}
		}
	})
}

func TestFollowLog_GoesOnInTheNextContainer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newLogFixture()
		p := f.cell.Start(f.agent.ID)
		p.Write(time.Now(), "1")
		answer := f.answerOf(t, "follow=true")
		p.Restart()
		p.Write(time.Now(), "2")
		<-time.After(time.Minute)
		p.End() // waits for its next run
		<-time.After(time.Minute)
		p.Restart()
		p.Write(time.Now(), "3")
		<-time.After(time.Minute)
		f.cell.Remove(f.agent.ID)
		<-time.After(20 * time.Second) // the agent gets another pod
		f.cell.Start(f.agent.ID).Write(time.Now(), "4")
		<-time.After(time.Minute)
		f.cell.Remove(f.agent.ID)
		begun := time.Now()
		if got := messages(decodeLines(t, (<-answer).Body)); got != "1 2 3 4" {
			t.Errorf("lines %q, want 1 to 4", got)
		}
		if took := time.Since(begun); took > time.Minute {
			t.Errorf("the answer ended %s after the pod was gone, want at most a minute", took)
		}
	})
}

func TestFollowLog_EndsWithoutWaitingIfTheAgentGetsNoPod(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status  agent.Status
		gone    bool
		patient bool
	}{
		"stopped": {status: agent.Stopped}, "paused": {status: agent.Paused}, "deleting": {status: agent.Deleting},
		"deleted": {gone: true},
		"running": {status: agent.Running, patient: true}, "in error": {status: agent.Error, patient: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newLogFixture()
			p := f.cell.Start(f.agent.ID)
			p.Write(time.Now(), "1")
			answer := f.answerOf(t, "follow=true")
			if f.store.set(c.status); c.gone {
				f.store.remove()
			}
			<-time.After(20 * time.Second) // the pod terminates
			p.Write(time.Now(), "2")
			f.cell.Remove(f.agent.ID)
			begun := time.Now()
			if got := messages(decodeLines(t, (<-answer).Body)); got != "1 2" {
				t.Errorf("%s: lines %q, want 1 and 2", name, got)
			}
			if took := time.Since(begun); took >= 30*time.Second != c.patient {
				t.Errorf("%s: the answer ended %s after the pod was gone, want patience = %t", name, took, c.patient)
			}
		})
	}
}

func TestFollowLog_EndsAtAShutdownAndWithItsClient(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(shutdown, cancel func()){
		"shutdown":             func(shutdown, _ func()) { shutdown() },
		"the client goes away": func(_, cancel func()) { cancel() },
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newLogFixture()
			f.cell.Start(f.agent.ID).Write(time.Now(), "1")
			ending, shutdown := context.WithCancel(context.Background())
			defer shutdown()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			begun := time.Now()
			answer := f.answerOf(t, "follow=true", functiontest.WithContext(function.WithShutdown(ctx, ending)))
			end(shutdown, cancel)
			if got := messages(decodeLines(t, (<-answer).Body)); got != "1" {
				t.Errorf("%s: lines %q, want 1", name, got)
			}
			if took := time.Since(begun); took > 0 {
				t.Errorf("%s: the answer took %s more", name, took)
			}
			synctest.Wait()
			if n := f.cell.Readers(); n != 0 {
				t.Errorf("%s: %d logs are still being read", name, n)
			}
		})
	}
}

// TestFollowLog_LimitsTheAnswersOfACaller also ends the answers in every way, after which others may follow.
func TestFollowLog_LimitsTheAnswersOfACaller(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(f logFixture, cancel, shutdown func()){
		"the client goes away": func(_ logFixture, cancel, _ func()) { cancel() },
		"shutdown":             func(_ logFixture, _, shutdown func()) { shutdown() },
		"no pod":               func(f logFixture, _, _ func()) { f.cell.Remove(f.agent.ID) },
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newLogFixture()
			f.cell.Start(f.agent.ID)
			ending, shutdown := context.WithCancel(context.Background())
			defer shutdown()
			ctx, cancel := context.WithCancel(function.WithShutdown(context.Background(), ending))
			defer cancel()
			var answers []<-chan functiontest.Response
			for range 4 {
				answers = append(answers, f.answerOf(t, "follow=true", functiontest.WithContext(ctx)))
			}
			res := f.get(t, "follow=true").Want(t, http.StatusTooManyRequests, "too_many_followers")
			if got := res.Header.Get("Retry-After"); got != "10" {
				t.Errorf("%s: Retry-After = %q, want 10", name, got)
			}
			f.get(t, "").Want(t, http.StatusOK, "")
			end(f, cancel, shutdown)
			for _, answer := range answers {
				<-answer
			}
			synctest.Wait()
			if held := f.slots.Held(); held != 0 {
				t.Errorf("%s: %d slots are held after all answers have ended", name, held)
			}
		})
	}
}

func TestFollowLog_HoldsNoSlotAfterAFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newLogFixture()
		for range 10 {
			f.get(t, "follow=true").Want(t, http.StatusConflict, "agent_not_running")
		}
		broken := agents.Log(f.store, panickingSource{}, f.slots)
		ctx, cancel := context.WithCancel(t.Context())
		functiontest.Call(t, broken, functiontest.AsAdmin(org), functiontest.Path("agent_id", f.agent.ID),
			functiontest.Query(url.Values{"follow": {"true"}}), functiontest.WithContext(ctx)).
			Want(t, http.StatusInternalServerError, "internal_error")
		cancel() // as the server does when the handler has returned
		synctest.Wait()
		if held := f.slots.Held(); held != 0 {
			t.Errorf("%d slots are held, want none", held)
		}
	})
}

// panickingSource opens no log.
type panickingSource struct{ agentlog.Source }

// Open implements agentlog.Source.
func (panickingSource) Open(context.Context, agent.Agent, agentlog.Options) (agentlog.Stream, error) {
	panic("a defect")
}

// TestFollowLog_SendsLinesImmediately uses a real connection, because a recorder does not show when bytes are sent.
func TestFollowLog_SendsLinesImmediately(t *testing.T) {
	t.Parallel()
	for _, accept := range []string{"application/x-ndjson", events} {
		f := newLogFixture()
		p := f.cell.Start(f.agent.ID)
		server := functiontest.Serve(t, function.Mux([]function.Served{f.route.Served(functiontest.NewGuard())}))
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		res := request(t, ctx, server.URL+"/agents/"+f.agent.ID+"/logs?follow=true", accept)
		body := bufio.NewReader(res.Body)
		for _, text := range []string{"first", "second"} {
			p.Write(time.Now(), text)
			readUntil(t, body, text)
		}
		cancel()
		_ = res.Body.Close()
		server.Close() // waits for the handler
		if n := f.cell.Readers(); n != 0 {
			t.Errorf("%s: %d logs are still being read", accept, n)
		}
	}
}

func request(t *testing.T, ctx context.Context, address, accept string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+functiontest.AdminToken(org))
	req.Header.Set("Accept", accept)
	res, err := http.DefaultClient.Do(req)
	must(t, err)
	if res.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(res.Body)
		t.Fatalf("answer %d %s", res.StatusCode, b)
	}
	return res
}

func readUntil(t *testing.T, body *bufio.Reader, text string) {
	t.Helper()
	for {
		line, err := body.ReadString('\n')
		if err != nil {
			t.Fatalf("read %q: %v", text, err)
		}
		if strings.Contains(line, text) {
			return
		}
	}
}

var _ agentlog.Source = (*agentlogtest.Cell)(nil)
