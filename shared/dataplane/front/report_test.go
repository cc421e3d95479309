package front_test

import (
	"bufio"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/dataplane/front"
)

// TestSleep_OpensTheDoorAfterTheAnswer: an agent that stays awake is open to its users immediately, if the control
// plane knows that it does.
func TestSleep_OpensTheDoorAfterTheAnswer(t *testing.T) {
	t.Parallel()
	status := func(codes ...int) http.HandlerFunc {
		next := new(atomic.Int32)
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(codes[min(int(next.Add(1)), len(codes))-1])
		}
	}
	hang := func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() }
	large := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.CopyN(w, new(countingReader), 64<<20) }
	const all = dataplane.DoorTime
	for name, row := range map[string]struct {
		answer http.HandlerFunc
		opens  time.Duration // after it closed
		twice  time.Duration // when it is reported once more
	}{
		"200":                   {answer: status(200), opens: all},
		"200 and a large body":  {answer: large, opens: all},
		"400":                   {answer: status(400)},
		"401":                   {answer: status(401)},
		"403":                   {answer: status(403)},
		"404":                   {answer: status(404)},
		"409":                   {answer: status(409)},
		"429":                   {answer: status(429), opens: all, twice: time.Second},
		"429, then 409":         {answer: status(429, 409), opens: time.Second, twice: time.Second},
		"500":                   {answer: status(500), opens: all, twice: time.Second},
		"503":                   {answer: status(503), opens: all, twice: time.Second},
		"500, then 200":         {answer: status(500, 200), opens: all, twice: time.Second},
		"recorded, then 409":    {answer: status(500, 409), opens: all, twice: time.Second},
		"a redirect":            {answer: status(307), opens: all, twice: time.Second},
		"no answer":             {answer: hang, opens: all, twice: 6 * time.Second},
		"an answer of no known": {answer: status(204), opens: all, twice: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runSleeper(t, answers, nil, func(t *testing.T, s *sleeper) {
				s.setAnswer(row.answer)
				if row.opens > 0 {
					s.until(sleepAfter + row.opens - time.Nanosecond)
					s.wantClosed(t, "before it opens")
				}
				s.until(sleepAfter + row.opens)
				s.wantOpen(t, "after the answer")
				want := []time.Duration{sleepAfter}
				if row.twice > 0 {
					want = append(want, sleepAfter+row.twice)
					if doors := s.doors(); doors[0] != doors[1] {
						t.Errorf("the reports are about the doors %v", doors)
					}
				}
				s.wantReported(t, "for one door", want...)
				s.until(2*sleepAfter + row.opens - time.Nanosecond)
				s.wantReported(t, "before five more minutes are over", want...)
				s.until(2*sleepAfter + row.opens)
				if got := s.reported(); len(got) != len(want)+1 {
					t.Errorf("five minutes later, the door was reported at %v, want once more", got)
				}
			})
		})
	}
}

// TestSleep_AsksLessOftenIfItIsRefused: an agent whose key the control plane does not know costs a call an hour.
func TestSleep_AsksLessOftenIfItIsRefused(t *testing.T) {
	t.Parallel()
	runSleeper(t, answers, nil, func(t *testing.T, s *sleeper) {
		s.setAnswer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
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
		"asleep": {answer: answers, after: time.Second},
		"no answer yet": {
			answer: func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() }, after: time.Second,
		},
		"just before it opens": {answer: answers, after: dataplane.DoorTime - 500*time.Millisecond},
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
