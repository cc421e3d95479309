package front_test

import (
	"bufio"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/dataplane/front"
)

// statuses answers one report after the other, and all further ones like the last.
func statuses(codes ...int) http.HandlerFunc {
	next := new(atomic.Int32)
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(codes[min(int(next.Add(1)), len(codes))-1])
	}
}

func hang(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() }

// TestSleep_OpensTheDoorAfterTheAnswer: an agent that stays awake is open to its users immediately, if the control
// plane knows that it does. Without an answer it is so in 15 seconds. The time is that of the last answer 200.
func TestSleep_OpensTheDoorAfterTheAnswer(t *testing.T) {
	t.Parallel()
	large := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		_, _ = io.CopyN(w, new(countingReader), 64<<20)
	}
	slow := new(atomic.Bool)
	lateThenNone := func(w http.ResponseWriter, req *http.Request) {
		if slow.Swap(true) {
			hang(w, req)
			return
		}
		<-time.After(4 * time.Second)
	}
	all := []int{0, 5, 10}
	for name, row := range map[string]struct {
		answer  http.HandlerFunc
		opens   int   // in seconds after it closed
		reports []int // in seconds after it closed
	}{
		"400":                  {answer: statuses(400), reports: []int{0}},
		"401":                  {answer: statuses(401), reports: []int{0}},
		"403":                  {answer: statuses(403), reports: []int{0}},
		"404":                  {answer: statuses(404), reports: []int{0}},
		"409":                  {answer: statuses(409), reports: []int{0}},
		"409 and a large body": {answer: large, reports: []int{0}},
		"429":                  {answer: statuses(429), opens: 15, reports: all},
		"429, then 409":        {answer: statuses(429, 409), opens: 5, reports: []int{0, 5}},
		"500":                  {answer: statuses(500), opens: 15, reports: all},
		"500, then 409":        {answer: statuses(500, 409), opens: 5, reports: []int{0, 5}},
		"500, then 200 once":   {answer: statuses(500, 200, 500), opens: 20, reports: []int{0, 5, 10, 15}},
		"503":                  {answer: statuses(503), opens: 15, reports: all},
		"200 once":             {answer: statuses(200, 503), opens: 15, reports: all},
		"asleep, then awake":   {answer: statuses(200, 200, 409), opens: 10, reports: all},
		"a redirect":           {answer: statuses(307), opens: 15, reports: all},
		"an unknown answer":    {answer: statuses(204), opens: 15, reports: all},
		"no answer":            {answer: hang, opens: 15, reports: []int{0, 10}},
		"200 late, then none":  {answer: lateThenNone, opens: 19, reports: []int{0, 9}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runSleeper(t, answers, nil, func(t *testing.T, s *sleeper) {
				s.setAnswer(row.answer)
				opens := sleepAfter + time.Duration(row.opens)*time.Second
				if row.opens > 0 {
					s.until(opens - time.Nanosecond)
					s.wantClosed(t, "before it opens")
				}
				s.until(opens)
				s.wantOpen(t, "after the answer")
				var want []time.Duration
				for _, seconds := range row.reports {
					want = append(want, sleepAfter+time.Duration(seconds)*time.Second)
				}
				s.wantReported(t, "for one door", want...)
				if doors := slices.Compact(s.doors()); len(doors) != 1 {
					t.Errorf("the reports are about the doors %v, want one", doors)
				}
				s.until(opens + sleepAfter - time.Nanosecond)
				s.wantReported(t, "before five more minutes are over", want...)
				s.until(opens + sleepAfter)
				s.wantReported(t, "after five more minutes", append(want, opens+sleepAfter)...)
			})
		})
	}
}

// TestSleep_HoldsTheDoorOfAnAgentThatSleeps: the record says that the agent sleeps, and no worker comes.
func TestSleep_HoldsTheDoorOfAnAgentThatSleeps(t *testing.T) {
	t.Parallel()
	runSleeper(t, answers, nil, func(t *testing.T, s *sleeper) {
		s.setAnswer(statuses(200))
		s.until(sleepAfter)
		first := s.wantClosed(t, "after five minutes")
		for n := range 100 {
			s.until(sleepAfter + time.Duration(n)*5*time.Second)
			if id, left := s.door(t); id != first || left != dataplane.DoorTime {
				t.Fatalf("report %d: the door %s stays closed for %s, want %s for %s", n, id, left, first,
					dataplane.DoorTime)
			}
			if got := s.reported(); len(got) != n+1 {
				t.Fatalf("report %d: the door was reported at %v", n, got)
			}
		}
	})
}

// TestSleep_AsksLessOftenIfItIsRefused: an agent whose key the control plane does not know costs a call an hour.
func TestSleep_AsksLessOftenIfItIsRefused(t *testing.T) {
	t.Parallel()
	runSleeper(t, answers, nil, func(t *testing.T, s *sleeper) {
		s.setAnswer(statuses(http.StatusUnauthorized))
		s.until(5 * time.Hour)
		var want []time.Duration
		for _, minutes := range []int{5, 10, 20, 40, 80, 140, 200, 260} {
			want = append(want, time.Duration(minutes)*time.Minute)
		}
		s.wantReported(t, "in five hours", want...)
		s.get(t, "/v1/models", bearer)
		s.until(5*time.Hour + sleepAfter)
		s.wantReported(t, "five minutes after use", append(want, 5*time.Hour+sleepAfter)...)
	})
}

// TestSleep_KeepsTheDoorClosedToTheEnd: a door that is closed when SIGTERM arrives stays closed, whatever the control
// plane answers.
func TestSleep_KeepsTheDoorClosedToTheEnd(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		answer http.HandlerFunc
		after  time.Duration // from the close to SIGTERM
	}{
		"asleep":               {answer: statuses(200), after: time.Second},
		"no answer yet":        {answer: hang, after: time.Second},
		"just before it opens": {answer: statuses(503), after: dataplane.DoorTime - 500*time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runSleeper(t, answers, nil, func(t *testing.T, s *sleeper) {
				s.setAnswer(row.answer)
				s.until(sleepAfter + row.after)
				before := s.wantClosed(t, "before SIGTERM")
				ended := make(chan error, 1)
				go func() { ended <- s.end() }()
				<-time.After(900 * time.Millisecond) // the front still accepts connections
				synctest.Wait()
				if after := s.wantClosed(t, "after SIGTERM"); after != before {
					t.Errorf("after SIGTERM the door %s is closed, want %s", after, before)
				}
				if _, left := s.door(t); left < dataplane.DoorMargin {
					t.Errorf("after SIGTERM the door stays closed for %s, want until the end", left)
				}
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestSleep_RefusesUnread: the router holds a request, and its body, that a closed door refuses.
func TestSleep_RefusesUnread(t *testing.T) {
	t.Parallel()
	runSleeper(t, answers, nil, func(t *testing.T, s *sleeper) {
		s.setAnswer(statuses(200))
		s.until(sleepAfter)
		conn, err := s.dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close() //nolint:errcheck // the test is over
		send(t, conn, "POST /v1/x HTTP/1.1\r\nHost: "+hostname+"\r\nAuthorization: Bearer "+apiKey+
			"\r\nExpect: 100-continue\r\nContent-Length: 1048576\r\n\r\n")
		in := bufio.NewReader(conn)
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get(dataplane.HeaderDoor) == "" || !res.Close {
			t.Errorf("a closed door answers 100-continue with %d, %v, and closes: %t; want 503, a door and true",
				res.StatusCode, res.Header, res.Close)
		}
		body := new(countingReader)
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/x", io.NopCloser(body))
		req.ContentLength = 1 << 30
		req.Header.Set("Expect", "100-continue")
		bearer(req)
		s.client.Transport.(*http.Transport).ExpectContinueTimeout = time.Hour
		res, err = s.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if n := body.n.Load(); n != 0 || res.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("status %d after %d bytes of the body, want 503 after none", res.StatusCode, n)
		}
	})
}

// TestSleep_LosesNoRequestAtTheDoor sends requests at the very moment in which the door closes, while the container is
// asked whether it is busy.
func TestSleep_LosesNoRequestAtTheDoor(t *testing.T) {
	t.Parallel()
	var got atomic.Int32
	container := func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/busy":
			answerJSON(`{"busy": false}`)(w)
		case "/v1/x":
			got.Add(1)
			<-time.After(time.Millisecond)
		}
	}
	change := func(o *front.Options) { o.BusyPath = "/busy" }
	runSleeper(t, container, change, func(t *testing.T, s *sleeper) {
		s.setAnswer(statuses(503))
		answered, refused := 0, 0
		for round := range 200 {
			_, _ = s.get(t, "/v1/y", bearer) // the idle time begins
			before := got.Load()
			<-time.After(sleepAfter) // and no longer
			statuses := make(chan int, 4)
			for range cap(statuses) {
				go func() {
					status, _ := s.get(t, "/v1/x", bearer)
					statuses <- status
				}()
			}
			passed := 0
			for range cap(statuses) {
				switch status := <-statuses; status {
				case http.StatusOK:
					passed++
				case http.StatusServiceUnavailable:
					refused++
				default:
					t.Fatalf("round %d: a request got %d", round, status)
				}
			}
			if n := int(got.Load() - before); n != passed {
				t.Fatalf("round %d: %d requests were answered, and %d reached the container", round, passed, n)
			}
			answered += passed
			if id, left := s.door(t); id != "" {
				<-time.After(left)
				synctest.Wait()
			}
		}
		t.Logf("%d requests were answered, %d refused", answered, refused)
	})
}

// TestForward_RemovesTheDoorOfAContainer: an answer with the header would make the router send a request again.
func TestForward_RemovesTheDoorOfAContainer(t *testing.T) {
	t.Parallel()
	f := start(t, serveContainer(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(dataplane.HeaderDoor, "forged")
		w.Header().Set(dataplane.HeaderDoorTime, "15")
		w.WriteHeader(http.StatusServiceUnavailable)
	}), nil)
	res := f.request(t, http.MethodPost, "/v1/x", bearer)
	for _, name := range []string{dataplane.HeaderDoor, dataplane.HeaderDoorTime} {
		if got := res.Header.Get(name); got != "" {
			t.Errorf("the container's %s %q passed", name, got)
		}
	}
}
