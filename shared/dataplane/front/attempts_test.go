package front_test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"
)

func wrong(r *http.Request) { r.Header.Set("Authorization", "Bearer wrong") }

// exhaust fails from an address until it is refused, and returns how many attempts were checked.
func (f *fixture) exhaust(t *testing.T, address string) (checked int) {
	t.Helper()
	for range 1000 {
		status, _ := f.get(t, "/auth/check", wrong, from(address))
		if status == http.StatusTooManyRequests {
			return checked
		}
		checked++
	}
	t.Fatal("1000 attempts failed, and none was refused")
	return 0
}

func TestAttempts_LimitFailuresOfAnAddress(t *testing.T) {
	t.Parallel()
	f := start(t, serveContainer(t, func(http.ResponseWriter, *http.Request) {}), nil)
	if got := f.exhaust(t, "192.0.2.1"); got != 20 {
		t.Errorf("%d attempts were checked, want 20", got)
	}
	res := f.request(t, http.MethodGet, "/", basic, from("192.0.2.1"))
	wait, err := strconv.Atoi(res.Header.Get("Retry-After"))
	if res.StatusCode != http.StatusTooManyRequests || err != nil || wait < 1 || wait > 15 {
		t.Fatalf("status %d, Retry-After %q; want 429 and up to 15 seconds", res.StatusCode,
			res.Header.Get("Retry-After"))
	}
	if got, _ := f.get(t, "/", basic, from("192.0.2.2")); got != http.StatusOK {
		t.Errorf("another address: status %d, want 200", got)
	}
	f.clock.advance(time.Duration(wait) * time.Second)
	if got, _ := f.get(t, "/", basic, from("192.0.2.1")); got != http.StatusOK {
		t.Errorf("after Retry-After: status %d, want 200", got)
	}
}

// TestAttempts_CountTheAddressThatTheRouterSaw tries addresses that a client wrote, and addresses of one network.
func TestAttempts_CountTheAddressThatTheRouterSaw(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]func(i int) string{
		"a client that writes entries": func(i int) string { return fmt.Sprintf("10.0.0.%d, 192.0.2.1", i) },
		"a client of the load balancer": func(i int) string {
			return fmt.Sprintf("10.0.0.%d, 192.0.2.1, 34.96.0.1, 35.191.0.%d", i, i)
		},
		"an IPv6 network":      func(i int) string { return fmt.Sprintf("2001:db8:1:2::%x", i) },
		"addresses with ports": func(i int) string { return fmt.Sprintf("192.0.2.1:%d", 1024+i) },
		"text":                 func(i int) string { return fmt.Sprintf("x%d", i) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t, refusingPort(t), nil)
			last := 0
			for i := range 21 {
				last, _ = f.get(t, "/auth/check", wrong, from(address(i+1)))
			}
			if last != http.StatusTooManyRequests {
				t.Errorf("the 21st failure: status %d, want 429", last)
			}
		})
	}
}

func TestAttempts_RequestsWithoutACredentialDoNotCount(t *testing.T) {
	t.Parallel()
	f := start(t, refusingPort(t), nil)
	for range 30 {
		if got, _ := f.get(t, "/"); got != http.StatusUnauthorized {
			t.Fatalf("status %d, want 401", got)
		}
	}
}

// TestAttempts_DoNotLockOutAnAddressThatSucceeded is about a program with an old key behind the address of others.
func TestAttempts_DoNotLockOutAnAddressThatSucceeded(t *testing.T) {
	t.Parallel()
	f := start(t, serveContainer(t, func(http.ResponseWriter, *http.Request) {}), nil)
	f.get(t, "/", basic)
	f.exhaust(t, "203.0.113.7")
	if got, _ := f.get(t, "/", basic); got != http.StatusOK {
		t.Errorf("status %d, want 200", got)
	}
	if got, _ := f.get(t, "/auth/check", wrong); got != http.StatusTooManyRequests {
		t.Errorf("a wrong key: status %d, want 429", got)
	}
}

// TestAttempts_ManyAddressesDoNotLockOutAnother is about an attacker with many addresses.
func TestAttempts_ManyAddressesDoNotLockOutAnother(t *testing.T) {
	t.Parallel()
	f := start(t, serveContainer(t, func(http.ResponseWriter, *http.Request) {}), nil)
	for i := range 20 {
		f.exhaust(t, fmt.Sprintf("192.0.2.%d", i))
	}
	second := 0
	for range 2 {
		second, _ = f.get(t, "/auth/check", wrong, from("198.51.100.1"))
	}
	if second != http.StatusTooManyRequests {
		t.Errorf("the second failure of a new address: status %d, want 429, because 300 failed overall", second)
	}
	if got, _ := f.get(t, "/", basic, from("198.51.100.2")); got != http.StatusOK {
		t.Errorf("the first attempt of a good client: status %d, want 200", got)
	}
}
