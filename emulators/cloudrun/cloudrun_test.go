package cloudrun

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/function"
)

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
}

// TestLimitConcurrency_QueuesThenRefuses: a request beyond the limit waits for a slot, and is refused after a time.
func TestLimitConcurrency_QueuesThenRefuses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		served, end := 0, make(chan struct{})
		instance := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++; <-end })
		door := LimitConcurrency(instance, 1, 10*time.Second)
		answers := make(chan int, 3)
		request := func() {
			w := httptest.NewRecorder()
			door.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
			answers <- w.Code
		}
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
