package front_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/dataplane/front"
	"agents.example/controlplane/shared/nettest"
)

const (
	agentID    = "5b9f8c0a-7d1e-4c53-9a8e-2f64d1a7c3b9"
	sleepAfter = 5 * time.Minute
)

// report is a report of a closed door.
type report struct {
	door string
	at   time.Duration // since the front began
}

// sleeper is a front in virtual time that lets its agent sleep after sleepAfter.
type sleeper struct {
	*fixture
	began time.Time
	dial  func(context.Context) (net.Conn, error)

	mu      sync.Mutex
	reports []report
	answer  http.HandlerFunc // to a report; nil is 409
}

// runSleeper calls a test with a front in front of a container. It has virtual time.
func runSleeper(
	t *testing.T, container http.HandlerFunc, change func(*front.Options), test func(t *testing.T, s *sleeper),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &sleeper{began: time.Now()}
		behind, plane := nettest.Serve(t, container), nettest.Serve(t, s.controlPlane(t))
		l := nettest.Listen()
		s.dial = l.Dial
		s.fixture = startOn(t, l, l.Dial, 1, func(o *front.Options) {
			o.HealthPath, o.KeysURL = "/healthz", "http://control.test"+dataplane.PathKeys
			o.AgentID, o.SleepAfter, o.DrainTime = agentID, sleepAfter, patience
			if change != nil {
				change(o)
			}
		}, func(f *front.Front) {
			f.DialContainer(behind.DialContext)
			f.DialControlPlane(plane.DialContext)
		})
		test(t, s)
		_ = s.end()
	})
}

// controlPlane records reports.
func (s *sleeper) controlPlane(t *testing.T) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodPost || req.URL.Path != "/api/v1/agents/"+agentID+"/sleep" ||
			req.Header.Get("Authorization") != "Bearer "+apiKey {
			t.Errorf("a report is %s %s with %q", req.Method, req.URL, req.Header)
		}
		door := req.Header.Get(dataplane.HeaderDoor)
		if door == "" || req.ContentLength != 0 {
			t.Errorf("a report has the door %q and %d bytes, want a door and none", door, req.ContentLength)
		}
		s.mu.Lock()
		s.reports = append(s.reports, report{door, time.Since(s.began)})
		answer := s.answer
		s.mu.Unlock()
		if answer == nil {
			answer = statuses(http.StatusConflict)
		}
		answer(w, req)
	}
}

// reported returns when the doors were reported.
func (s *sleeper) reported() (at []time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.reports {
		at = append(at, r.at)
	}
	return at
}

// doors returns the names of the doors that were reported.
func (s *sleeper) doors() (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.reports {
		ids = append(ids, r.door)
	}
	return ids
}

func (s *sleeper) setAnswer(answer http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

func (s *sleeper) wantReported(t *testing.T, when string, want ...time.Duration) {
	t.Helper()
	if got := s.reported(); !slices.Equal(got, want) {
		t.Errorf("%s: the door was reported at %v, want %v", when, got, want)
	}
}

// until waits until a time since the front began.
func (s *sleeper) until(at time.Duration) {
	<-time.After(time.Until(s.began.Add(at)))
	synctest.Wait()
}

// door returns the name of the closed door and the time for which it stays closed, "" for an open one.
func (s *sleeper) door(t *testing.T) (id string, left time.Duration) {
	t.Helper()
	res := s.request(t, http.MethodGet, "/health/door")
	if res.StatusCode != http.StatusNoContent || res.Header.Get(dataplane.HeaderPublic) == "" {
		t.Errorf("the door is answered with %d and %v, want 204 to anyone", res.StatusCode, res.Header)
	}
	id, text := res.Header.Get(dataplane.HeaderDoor), res.Header.Get(dataplane.HeaderDoorTime)
	seconds, err := strconv.Atoi(text)
	if id == "" && text != "" || id != "" && err != nil {
		t.Errorf("the door %q has the time %q", id, text)
	}
	return id, time.Duration(seconds) * time.Second
}

// wantClosed and wantOpen check the door and what a request gets.
func (s *sleeper) wantClosed(t *testing.T, when string) (id string) {
	t.Helper()
	id, _ = s.door(t)
	res := s.request(t, http.MethodGet, "/v1/models", bearer)
	if got := res.Header.Get(dataplane.HeaderDoor); id == "" || got != id ||
		res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
		t.Errorf("%s: door %q; a request got %d and the door %q, want 503 and the closed door", when, id,
			res.StatusCode, got)
	}
	return id
}

func (s *sleeper) wantOpen(t *testing.T, when string) {
	t.Helper()
	if id, _ := s.door(t); id != "" {
		t.Errorf("%s: the door %s is closed, want it open", when, id)
	}
}

func answers(http.ResponseWriter, *http.Request) {}

// TestSleep_ClosesTheDoorOfAnIdleAgent follows one attempt after which no worker takes the pod away.
func TestSleep_ClosesTheDoorOfAnIdleAgent(t *testing.T) {
	t.Parallel()
	var got atomic.Int32
	container := func(_ http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/v1/models" {
			got.Add(1)
		}
	}
	runSleeper(t, container, nil, func(t *testing.T, s *sleeper) {
		s.setAnswer(statuses(503))
		s.until(sleepAfter - time.Nanosecond)
		s.wantOpen(t, "before its time")
		s.wantReported(t, "before its time")
		s.until(sleepAfter)
		s.wantReported(t, "after five minutes", sleepAfter)
		first := s.wantClosed(t, "after five minutes")
		if reported := s.doors(); !slices.Equal(reported, []string{first}) {
			t.Errorf("the door %s is closed, and %v were reported", first, reported)
		}
		if _, left := s.door(t); left != dataplane.DoorTime {
			t.Errorf("the door stays closed for %s, want %s", left, dataplane.DoorTime)
		}
		for name, row := range map[string]struct {
			path string
			as   func(*http.Request)
			want int
		}{
			"a refused credential": {path: "/v1/models", as: basic, want: http.StatusUnauthorized},
			"readiness":            {path: "/health/ready", as: basic, want: http.StatusOK},
			"a check":              {path: "/auth/check", as: bearer, want: http.StatusNoContent},
		} {
			res := s.request(t, http.MethodGet, row.path, row.as)
			if door := res.Header.Get(dataplane.HeaderDoor); res.StatusCode != row.want || door != "" {
				t.Errorf("%s: status %d and door %q, want %d and none", name, res.StatusCode, door, row.want)
			}
		}
		s.until(sleepAfter + dataplane.DoorTime - time.Second)
		if id, left := s.door(t); id != first || left != time.Second {
			t.Errorf("a second before its end, the door %s stays closed for %s, want %s for 1 s", id, left, first)
		}
		s.until(sleepAfter + dataplane.DoorTime)
		s.wantOpen(t, "after its time")
		if got.Load() != 0 {
			t.Errorf("the container got %d requests through a closed door", got.Load())
		}
		if status, _ := s.get(t, "/v1/models", bearer); status != http.StatusOK || got.Load() != 1 {
			t.Errorf("through the open door, a request got %d", status)
		}
		s.until(2*sleepAfter + dataplane.DoorTime)
		if second := s.wantClosed(t, "the second time"); second == first {
			t.Errorf("the door %s closes twice", second)
		}
	})
}

// TestSleep_CountsWhatReachesTheContainer: the front's own paths, and refused credentials, are no use of the agent.
func TestSleep_CountsWhatReachesTheContainer(t *testing.T) {
	t.Parallel()
	const at = 4 * time.Minute
	for name, row := range map[string]struct {
		path string
		as   func(*http.Request)
		used bool
	}{
		"the API":                {path: "/v1/models", as: bearer, used: true},
		"the dashboard":          {path: "/", as: basic, used: true},
		"a public path":          {path: "/hooks/x", as: func(*http.Request) {}, used: true},
		"the container's logout": {path: "/logout", as: basic, used: true},
		"a wrong credential":     {path: "/v1/models", as: basic},
		"no credential":          {path: "/", as: func(*http.Request) {}},
		"readiness":              {path: "/health/ready", as: basic},
		"the dashboard's health": {path: "/health/dashboard", as: basic},
		"the door":               {path: "/health/door", as: basic},
		"a check":                {path: "/auth/check", as: basic},
		"a bad link":             {path: "/handoff?token=x", as: basic},
		"another agent's host":   {path: "/", as: func(r *http.Request) { r.Host = "other.test" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			public := func(o *front.Options) { o.PublicPaths = []string{"/hooks/"} }
			runSleeper(t, answers, public, func(t *testing.T, s *sleeper) {
				s.until(at)
				s.get(t, row.path, row.as)
				s.until(at + sleepAfter - time.Nanosecond)
				want := []time.Duration{sleepAfter}
				if row.used {
					want = nil
				}
				s.wantReported(t, "five minutes after it", want...)
				s.until(at + sleepAfter)
				if row.used {
					s.wantReported(t, "five minutes after it", at+sleepAfter)
				}
			})
		})
	}
}

// TestSleep_WaitsForWhatIsOpen keeps a silent WebSocket and a silent answer open for hours.
func TestSleep_WaitsForWhatIsOpen(t *testing.T) {
	t.Parallel()
	const open = 3 * time.Hour
	basicLine := "\r\nAuthorization: Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password)) + "\r\n"
	silent := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			echoSocket(w, r)
			return
		}
		serveStream(w, r)
	}
	for name, request := range map[string]string{
		"a WebSocket": "GET /x HTTP/1.1\r\nHost: " + hostname + basicLine +
			"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
		"an answer": "GET /stream HTTP/1.1\r\nHost: " + hostname + basicLine + "\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runSleeper(t, silent, nil, func(t *testing.T, s *sleeper) {
				conn, err := s.dial(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				send(t, conn, request)
				res, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil || res.StatusCode >= http.StatusBadRequest {
					t.Fatalf("answer %v, %v", res, err)
				}
				s.until(open)
				s.wantReported(t, "while it is open")
				_ = conn.Close()
				s.until(open + sleepAfter - time.Nanosecond)
				s.wantReported(t, "before five minutes after its end")
				s.until(open + sleepAfter)
				s.wantReported(t, "five minutes after its end", open+sleepAfter)
			})
		})
	}
}

// TestSleep_NeverWithoutATimeOrAControlPlane waits for eight days.
func TestSleep_NeverWithoutATimeOrAControlPlane(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*front.Options){
		"no time":          func(o *front.Options) { o.SleepAfter = 0 },
		"no control plane": func(o *front.Options) { o.KeysURL = "" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runSleeper(t, answers, change, func(t *testing.T, s *sleeper) {
				for day := range 8 {
					s.until(time.Duration(day) * 24 * time.Hour)
					s.wantOpen(t, "day "+strconv.Itoa(day))
				}
				s.wantReported(t, "in eight days")
			})
		})
	}
}

func TestNew_RefusesASleepThatCannotWork(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*front.Options){
		"no id":           func(o *front.Options) { o.AgentID = "" },
		"a negative time": func(o *front.Options) { o.SleepAfter = -time.Second },
	} {
		o := front.Options{
			Port: 1, Credentials: front.Credentials{Username: user, Password: password, APIKey: apiKey},
			KeysURL: "http://control.test" + dataplane.PathKeys, AgentID: agentID, SleepAfter: sleepAfter,
		}
		change(&o)
		if f, err := front.New(o); err == nil || strings.Contains(err.Error(), apiKey) {
			f.Close()
			t.Errorf("%s: error %v, want one", name, err)
		}
	}
}
