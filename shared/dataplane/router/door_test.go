package router_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agents.example/controlplane/shared/dataplane"
)

// closedDoor is a front whose door is closed.
func closedDoor(w http.ResponseWriter, req *http.Request) {
	w.Header().Set(dataplane.HeaderDoor, "d1")
	w.Header().Set(dataplane.HeaderDoorTime, "12")
	if req.Body != http.NoBody {
		w.Header().Set("Connection", "close")
	}
	w.WriteHeader(http.StatusServiceUnavailable)
}

// TestHold_SendsAgainWhatAClosedDoorRefused: with all of its body, to the next pod or to the same one.
func TestHold_SendsAgainWhatAClosedDoorRefused(t *testing.T) {
	t.Parallel()
	for _, moved := range []bool{true, false} {
		for method, size := range map[string]int{http.MethodGet: 0, http.MethodPost: 1 << 20} {
			t.Run(fmt.Sprint(method, ", another pod ", moved), func(t *testing.T) {
				t.Parallel()
				bubble(t, func(w *world, at *alarm) {
					a := newAgent("a")
					var open atomic.Bool
					var refused atomic.Int64
					kill := w.wake(a, func(res http.ResponseWriter, req *http.Request) {
						if open.Load() {
							fine(res, req)
							return
						}
						refused.Add(1)
						closedDoor(res, req)
					})
					var body io.ReadCloser
					if size > 0 {
						body = io.NopCloser(strings.NewReader(strings.Repeat("x", size)))
					}
					got := w.background(w.with(w.request(method, hostname(a), "/p", body), "Authorization", "x"))
					<-time.After(3100 * time.Millisecond) // while no attempt is under way
					if n := refused.Load(); n < 10 || n > 13 || at.count() != 1 {
						t.Errorf("the door refused %d times in 3 s, %d wakes; want once in 250 ms and 1", n, at.count())
					}
					if moved {
						w.sleep(a)
						kill()
						<-time.After(10 * time.Second)
						w.wake(a, fine)
					} else {
						open.Store(true)
					}
					res := <-got
					if want := fmt.Sprint(method, " /p ", size); res.status != http.StatusOK || res.body != want {
						t.Errorf("got %d %q, want 200 %q", res.status, res.body, want)
					}
					if res.header.Get(dataplane.HeaderDoor) != "" {
						t.Error("the client learns of the door")
					}
				})
			})
		}
	}
}

// TestHold_SendsNoBodyTwice: a front that has read a byte of it may have done something.
func TestHold_SendsNoBodyTwice(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world, _ *alarm) {
		a := newAgent("a")
		var requests atomic.Int64
		w.wake(a, func(res http.ResponseWriter, req *http.Request) {
			requests.Add(1)
			_, _ = req.Body.Read(make([]byte, 1))
			closedDoor(res, req)
		})
		body := io.NopCloser(strings.NewReader("{}"))
		res := <-w.background(w.with(w.request(http.MethodPost, hostname(a), "/", body), "Authorization", "x"))
		if res.status != http.StatusServiceUnavailable || res.header.Get("Retry-After") != "1" ||
			requests.Load() != 1 || res.header.Get(dataplane.HeaderDoor) != "" {
			t.Errorf("got %d, Retry-After %q after %d requests, want 503, 1 after 1", res.status,
				res.header.Get("Retry-After"), requests.Load())
		}
	})
}

// TestHold_LeavesTheInterimAnswerToTheServer: the router asks the front for 100 Continue, and a client that did not
// must not get one.
func TestHold_LeavesTheInterimAnswerToTheServer(t *testing.T) {
	t.Parallel()
	for expects, want := range map[string]int{"": 0, "100-continue": 1} {
		bubble(t, func(w *world, _ *alarm) {
			a := newAgent("a")
			w.wake(a, func(res http.ResponseWriter, req *http.Request) {
				if req.Header.Get("Expect") != "100-continue" {
					t.Error("the front was not asked")
				}
				fine(res, req)
			})
			var interim atomic.Int64
			req := w.with(w.request(http.MethodPost, hostname(a), "/", io.NopCloser(strings.NewReader("{}"))))
			if expects != "" {
				req.Header.Set("Expect", expects)
			}
			req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
				Got1xxResponse: func(int, textproto.MIMEHeader) error { interim.Add(1); return nil },
			}))
			if res := <-w.background(req); res.status != http.StatusOK || interim.Load() != int64(want) {
				t.Errorf("Expect %q: got %d and %d interim answers, want 200 and %d", expects, res.status,
					interim.Load(), want)
			}
		})
	}
}

// TestHold_HidesTheDoorFromAllButItsPath: a program of a tenant may send such headers, too.
func TestHold_HidesTheDoorFromAllButItsPath(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world, _ *alarm) {
		host := hostname(w.start("a", func(res http.ResponseWriter, _ *http.Request) {
			res.Header().Set(dataplane.HeaderDoor, "d1")
			res.Header().Set(dataplane.HeaderDoorTime, "12")
		}))
		for path, want := range map[string]string{"/": "", "/health/ready": "", dataplane.PathDoor: "d1 12"} {
			res, _ := w.get(host, path)
			got := res.header.Get(dataplane.HeaderDoor) + " " + res.header.Get(dataplane.HeaderDoorTime)
			if strings.TrimSpace(got) != want {
				t.Errorf("%s: the door is %q, want %q", path, got, want)
			}
		}
	})
}

// TestHold_WaitsForAPodThatJustWent: its address is still known, or its successor's is.
func TestHold_WaitsForAPodThatJustWent(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world, at *alarm) {
		a := newAgent("a")
		w.wake(a, fine)() // and is killed
		got := w.background(w.with(w.request(http.MethodPost, hostname(a), "/p", io.NopCloser(strings.NewReader("{}"))),
			"Authorization", "x"))
		anonymous := w.background(w.request(http.MethodGet, hostname(a), "/", nil))
		<-time.After(2 * time.Second)
		w.sleep(a)
		<-time.After(10 * time.Second)
		w.wake(a, fine)
		if res := <-got; res.status != http.StatusOK || res.body != "POST /p 2" || at.count() == 0 {
			t.Errorf("got %d %q after %d wakes, want 200", res.status, res.body, at.count())
		}
		if res := <-anonymous; res.status != http.StatusUnauthorized || res.took > time.Second {
			t.Errorf("without a credential: got %d after %s, want 401", res.status, res.took)
		}
	})
}

// TestStrangers_StayStrangersAtTheDoor: a front answers anyone whether its door is closed.
func TestStrangers_StayStrangersAtTheDoor(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world, _ *alarm) {
		host := hostname(w.start("a", func(res http.ResponseWriter, _ *http.Request) {
			res.WriteHeader(http.StatusNoContent)
		}))
		began := time.Now()
		for range 50 {
			w.get(host, dataplane.PathDoor)
		}
		if took := time.Since(began); took < time.Second {
			t.Errorf("50 requests for the door took %s, as those of a client that the agent accepted", took)
		}
	})
}
