package ratelimit_test

import (
	"fmt"
	"testing"
	"time"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/ratelimit"
)

func TestBuckets(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	l := ratelimit.New(ratelimit.Standard(1), func() time.Time { return now })
	for i := range 60 {
		if d := l.Take(ratelimit.Mutations, "key-1"); !d.Allowed || d.Remaining != 59-i {
			t.Fatalf("call %d: %+v", i, d)
		}
	}
	refused := l.Take(ratelimit.Mutations, "key-1")
	err := fault.From(refused.Err())
	if refused.Allowed || err.Kind != fault.RateLimited || err.After() != time.Second {
		t.Fatalf("the call beyond the limit: %+v, %v", refused, err)
	}
	if refused.Policy() != `"mutations";q=60;w=60` || refused.Header() != `"mutations";r=0;t=1` {
		t.Errorf("headers %s, %s", refused.Policy(), refused.Header())
	}
	if d := l.Take(ratelimit.Mutations, "key-2"); !d.Allowed {
		t.Error("another key pays for the first")
	}
	if d := l.Take(ratelimit.Reads, "key-1"); !d.Allowed {
		t.Error("another class pays for the first")
	}
	now = now.Add(time.Second)
	if d := l.Take(ratelimit.Mutations, "key-1"); !d.Allowed || d.Remaining != 0 {
		t.Errorf("a second later: %+v", d)
	}
	now = now.Add(time.Hour)
	if d := l.Peek(ratelimit.Mutations, "key-1"); d.Remaining != 60 || d.Reset != 0 {
		t.Errorf("an hour later: %+v", d)
	}
}

func TestLookingCostsNothing(t *testing.T) {
	t.Parallel()
	l := ratelimit.New(ratelimit.Standard(1), nil)
	for range 1000 {
		if d := l.Peek(ratelimit.Authentication, "192.0.2.1"); !d.Allowed {
			t.Fatal("looking used the bucket up")
		}
	}
}

func TestWithoutALimit(t *testing.T) {
	t.Parallel()
	l := ratelimit.New(nil, nil)
	for range 1000 {
		if d := l.Take(ratelimit.Reads, "k"); !d.Allowed || d.Err() != nil {
			t.Fatal("a class without a limit is limited")
		}
	}
}

func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	l := ratelimit.New(ratelimit.Standard(1), nil)
	for i := range 250_000 {
		l.Take(ratelimit.Authentication, fmt.Sprint(i))
	}
	if n := l.Buckets(); n > 100_000 {
		t.Errorf("%d buckets", n)
	}
}
