package router_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane"
)

// doorman is a front that accepts one credential, and any for a public path.
func doorman(w http.ResponseWriter, req *http.Request) {
	switch {
	case strings.HasPrefix(req.URL.Path, "/hooks/"):
		w.Header().Set(dataplane.HeaderPublic, "1")
	case req.URL.Path == dataplane.PathDoor, req.URL.Path == dataplane.PathReady:
	case req.Header.Get("Authorization") != "good":
		w.WriteHeader(http.StatusUnauthorized)
	}
}

// night is an agent that sleeps whenever a visit begins.
type night struct {
	*world
	agent agent.Agent
	busy  bool
}

// visit is a request to an agent that sleeps.
type visit struct {
	// client is the last part of the address.
	client              int
	credential, path    string
	page, leaves, stays bool
	// asks means that the client sends a request without a credential when the agent is ready.
	asks bool
}

// visit lets a client send a request. The pod starts 2 s later. The agent falls asleep again after 10 minutes, and in a
// busy night after two and a half. visit returns the answer's status, and the seconds of Retry-After of
// an answer that came before the pod.
func (n *night) visit(v visit) (status, retry int) {
	n.sleep(n.agent)
	header := append(from(fmt.Sprint("203.0.113.", v.client)), "Authorization", v.credential)
	if v.page {
		header = append(header, "Accept", "text/html")
	}
	ctx, leave := context.WithCancel(n.t.Context())
	defer leave()
	path := cmp.Or(v.path, "/")
	req := n.with(n.request(http.MethodGet, hostname(n.agent), path, nil), header...).WithContext(ctx)
	got, c := make(chan answer, 1), n.client()
	go func() {
		res, err := c.Do(req)
		if err != nil { // it left
			got <- answer{}
			return
		}
		_ = res.Body.Close()
		got <- answer{res.StatusCode, res.Header}
	}()
	<-time.After(1500 * time.Millisecond)
	if v.leaves {
		leave()
	}
	<-time.After(500 * time.Millisecond)
	early := len(got) > 0
	defer n.wake(n.agent, doorman)()
	res := <-got
	if early {
		retry, _ = strconv.Atoi(res.header.Get("Retry-After"))
	}
	if v.stays {
		_, _ = n.get(hostname(n.agent), path, header...)
	}
	if v.asks {
		_, _ = n.get(hostname(n.agent), path, from(fmt.Sprint("203.0.113.", v.client))...)
	}
	if !n.busy {
		<-time.After(10 * time.Minute)
		return res.status, retry
	}
	_, _ = n.get(hostname(n.agent), dataplane.PathDoor, header...) // which proves nothing
	_, _ = n.get(hostname(n.agent), dataplane.PathReady, header...)
	<-time.After(150 * time.Second)
	return res.status, retry
}

// TestWakeLimit_BoundsFalseWakes: clients come to an agent one after the other, 10 minutes apart.
func TestWakeLimit_BoundsFalseWakes(t *testing.T) {
	t.Parallel()
	bad := func(client int) visit { return visit{client: client, credential: "bad"} }
	good := func(client int) visit { return visit{client: client, credential: "good"} }
	for name, row := range map[string]struct {
		visits []visit
		want   []int // statuses
		// wantRetry is the least that Retry-After of the last visit may be. It is 5 minutes below the most.
		wantRetry int
	}{
		"a good credential, each time": {
			visits: []visit{good(1), good(2), good(3), good(4), good(5), good(6), good(7), good(8)},
			want:   []int{200, 200, 200, 200, 200, 200, 200, 200},
		},
		"a bad one, again":            {visits: []visit{bad(1), bad(1)}, want: []int{401, 503}, wantRetry: 45 * 60},
		"a bad one of another client": {visits: []visit{bad(1), bad(2), good(3)}, want: []int{401, 401, 200}},
		"a bad one, and the right one too late": {
			visits: []visit{bad(1), good(1)}, want: []int{401, 503}, wantRetry: 45 * 60,
		},
		"bad ones of one network": {
			visits: []visit{bad(1), bad(1), bad(1), bad(1), bad(1), bad(1), bad(1)},
			want:   []int{401, 503, 503, 503, 503, 503, 401}, // an hour later
		},
		"a browser that asks for the password": {
			visits: []visit{{client: 1, credential: "good", leaves: true, asks: true}, good(1)}, want: []int{0, 200},
		},
		"clients that go away": {
			visits: []visit{
				{client: 1, credential: "bad", leaves: true},
				{client: 1, credential: "bad", leaves: true},
				{client: 1, credential: "good"},
			},
			want: []int{0, 0, 200},
		},
		"a public path after a bad credential": {
			visits: []visit{bad(1), {client: 2, credential: "x", path: "/hooks/a"}}, want: []int{401, 200},
		},
		"a public path does not prove a client": {
			visits: []visit{{client: 1, credential: "bad", path: "/", stays: true}, {client: 1, path: "/hooks/x"}},
			want:   []int{401, 503}, wantRetry: 45 * 60,
		},
		"a page": {
			visits: []visit{
				{client: 1, credential: "good", page: true, stays: true},
				{client: 1, credential: "good", page: true, stays: true},
			},
			want: []int{503, 503},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(w *world, _ *alarm) {
				n := &night{world: w, agent: newAgent("a")}
				retry := 0
				for i, v := range row.visits {
					var status int
					if status, retry = n.visit(v); status != row.want[i] {
						t.Errorf("visit %d got %d, want %d", i, status, row.want[i])
					}
				}
				if row.wantRetry > 0 && (retry < row.wantRetry || retry > row.wantRetry+5*60) {
					t.Errorf("Retry-After of the last visit = %d, want about %d", retry, row.wantRetry)
				}
			})
		})
	}
}

// TestWakeLimit_BoundsTheWakesOfStrangers: whatever their clients do, and from wherever they come. Who is known is not
// limited.
func TestWakeLimit_BoundsTheWakesOfStrangers(t *testing.T) {
	t.Parallel()
	for name, stranger := range map[string]visit{
		"refused":         {credential: "bad"},
		"gone":            {credential: "bad", leaves: true},
		"one, gone":       {credential: "bad", leaves: true, client: 1},
		"a page, gone":    {credential: "bad", page: true},
		"a page, refused": {credential: "bad", page: true, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(w *world, at *alarm) {
				n := &night{world: w, agent: newAgent("a"), busy: true}
				if status, _ := n.visit(visit{client: 100, credential: "good"}); status != http.StatusOK {
					t.Fatalf("the client got %d, want 200", status)
				}
				limited := 0
				for i := range 18 {
					if name != "one, gone" {
						stranger.client = i
					}
					before := at.count()
					if _, retry := n.visit(stranger); retry > 10 {
						limited++
						if at.count() != before {
							t.Error("a limited request woke the agent")
						}
					}
				}
				if limited != 12 {
					t.Errorf("%d of 18 strangers were limited, want all but 6", limited)
				}
				if status, _ := n.visit(visit{client: 100, credential: "good"}); status != http.StatusOK {
					t.Errorf("the known client got %d, want 200", status)
				}
				if got := w.metric(`router_wakes_total{result="limited"}`); got != 12 {
					t.Errorf("%v requests are counted as limited, want 12", got)
				}
			})
		})
	}
}

// TestWakeLimit_LetsAllWaitWhileTheAgentWakes: a start takes as long as it takes, and a browser asks every few seconds.
func TestWakeLimit_LetsAllWaitWhileTheAgentWakes(t *testing.T) {
	t.Parallel()
	asleep(t, func(w *world, _ *alarm, a agent.Agent) {
		for i := range 200 { // 10 minutes
			header := append(from(fmt.Sprint("203.0.113.", i)), "Authorization", "bad", "Accept", "text/html")
			if res, _ := w.get(hostname(a), "/", header...); res.header.Get("Retry-After") != "2" {
				t.Fatalf("page %d: Retry-After = %q, want 2", i, res.header.Get("Retry-After"))
			}
			<-time.After(2 * time.Second)
		}
	})
}
