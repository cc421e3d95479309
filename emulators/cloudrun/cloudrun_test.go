package cloudrun

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/ratelimit"
	"agents.example/controlplane/shared/testtier"
)

func TestMain(m *testing.M) {
	testtier.SilenceLogs()
	m.Run()
}

// TestEnvironment_IsThatOfTerraform compares the limits of a local instance with the deployed ones.
func TestEnvironment_IsThatOfTerraform(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../terraform/services.tf")
	if err != nil {
		t.Fatal(err)
	}
	sizes := regexp.MustCompile(`(?m)^    (\w+) += \{ memory = "\w+", heap = "(\w+)", gogc = (\d+), concurrency = (\d+) \}$`)
	found := sizes.FindAllStringSubmatch(string(b), -1)
	if len(found) != 3 {
		t.Fatalf("terraform/services.tf has %d sizes, want 3", len(found))
	}
	for _, size := range found {
		role := function.Role(size[1])
		if got := fmt.Sprint(Concurrency(role)); got != size[4] {
			t.Errorf("%s: concurrency %s, want %s", role, got, size[4])
		}
		want := []string{"GOMAXPROCS=1", "GOMEMLIMIT=" + size[2], "GOGC=" + size[3]}
		if got := Environment(role); !slices.Equal(got, want) {
			t.Errorf("%s: environment %q, want %q", role, got, want)
		}
	}
	most := regexp.MustCompile(`local\.dead_letters\), try\(f\.topic, ""\)\) \? 3 : (\d+)`).FindStringSubmatch(string(b))
	if most == nil || most[1] != strconv.Itoa(MaxInstances) {
		t.Errorf("a service of routes has at most %q instances in terraform/services.tf, want %d", most, MaxInstances)
	}
}

// TestService_QueuesThenRefuses: a request beyond the limit waits for a slot, and is refused after a time.
func TestService_QueuesThenRefuses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		served, end := 0, make(chan struct{})
		instance := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++; <-end })
		door := NewService(ServiceOptions{First: instance, Concurrency: 1, Patience: 10 * time.Second})
		defer closeService(t, door)
		answers := make(chan int, 3)
		request := func() { answers <- get(door) }
		go request()
		synctest.Wait()
		go request()
		<-time.After(10*time.Second - 1)
		synctest.Wait()
		if served != 1 || len(answers) != 0 {
			t.Fatalf("%d requests reached the instance and %d ended, want 1 and 0", served, len(answers))
		}
		<-time.After(2)
		if got := <-answers; got != http.StatusTooManyRequests {
			t.Errorf("request that waited for 10 s: status %d, want 429", got)
		}
		go request()
		synctest.Wait()
		end <- struct{}{}
		if got := <-answers; got != http.StatusOK {
			t.Errorf("first request: status %d, want 200", got)
		}
		synctest.Wait()
		if served != 2 {
			t.Errorf("%d requests reached the instance, want 2: the slot is free again", served)
		}
		close(end)
		if got := <-answers; got != http.StatusOK {
			t.Errorf("request that waited for the slot: status %d, want 200", got)
		}
	})
}

// get sends a request and returns its status.
func get(h http.Handler) int {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	return w.Code
}

func closeService(t *testing.T, s *Service) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestService_StartsInstancesForRequestsThatWait: as many as they need, and no more than the service may have.
func TestService_StartsInstancesForRequestsThatWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var served atomic.Int32
		end := make(chan struct{})
		instance := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1); <-end })
		started := 0
		door := NewService(ServiceOptions{
			First: instance, Concurrency: 2, Patience: 10 * time.Second, MaxInstances: 3,
			Start: func(context.Context) (http.Handler, error) {
				started++
				if started == 1 {
					return nil, errors.New("no place")
				}
				return instance, nil
			},
		})
		defer closeService(t, door)
		answers := make(chan int, 7)
		for range cap(answers) {
			go func() { answers <- get(door) }()
			synctest.Wait()
		}
		if got := served.Load(); got != 6 || started != 3 {
			t.Errorf("%d requests are served after %d starts, of which one failed; want 6 after 3", got, started)
		}
		if got := <-answers; got != http.StatusTooManyRequests {
			t.Errorf("status %d beyond what all instances may serve, want 429", got)
		}
		close(end)
	})
}

// TestService_GrowsWithAnswersThatAreHeld sends more followers than an instance holds. The instance refuses some of
// them and serves no more requests than 60 % of its concurrency would be. If that were enough for all that it holds, no
// second instance would ever start, and the refusals would never end.
func TestService_GrowsWithAnswersThatAreHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		start := func(context.Context) (http.Handler, error) {
			slots := ratelimit.NewSlots(ratelimit.StandardSlots(1, HeldAnswers))
			return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				organization := req.URL.Query().Get("organization")
				release, ok := slots.Acquire(organization, organization)
				if !ok {
					w.WriteHeader(http.StatusTooManyRequests)
					return
				}
				defer release()
				<-ctx.Done()
			}), nil
		}
		first, _ := start(ctx)
		door := NewService(ServiceOptions{
			First: first, Concurrency: Concurrency(function.RoleAccounts), Patience: QueueTime, Start: start,
			MaxInstances: MaxInstances,
		})
		const followers = 3*HeldAnswers + 1
		var following atomic.Int32
		var all sync.WaitGroup
		for i := range followers {
			all.Go(func() {
				for ctx.Err() == nil {
					following.Add(1)
					w := httptest.NewRecorder()
					door.ServeHTTP(w, httptest.NewRequest(http.MethodGet, fmt.Sprintf("/?organization=%d", i), nil))
					following.Add(-1)
					if w.Code == http.StatusTooManyRequests {
						<-time.After(10 * time.Second) // as the refusal asks for
					}
				}
			})
		}
		<-time.After(5 * time.Minute)
		synctest.Wait()
		if got := following.Load(); got != followers {
			t.Errorf("%d of %d followers are served after five minutes", got, followers)
		}
		cancel()
		all.Wait()
		closeService(t, door)
	})
}
