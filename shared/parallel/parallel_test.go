package parallel_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"agents.example/controlplane/shared/parallel"
)

func TestForEach_ReturnsTheErrorOfEachItem(t *testing.T) {
	t.Parallel()
	odd := errors.New("odd")
	errs := parallel.ForEach([]int{0, 1, 2, 3}, 2, func(n int) error {
		if n%2 == 1 {
			return odd
		}
		return nil
	})
	if want := []error{nil, odd, nil, odd}; !slices.Equal(errs, want) {
		t.Errorf("ForEach = %v, want %v", errs, want)
	}
	if errs := parallel.ForEach(nil, 2, func(int) error { return odd }); len(errs) != 0 {
		t.Errorf("ForEach over no items = %v, want no errors", errs)
	}
}

func TestForEach_KeepsToItsLimit(t *testing.T) {
	t.Parallel()
	const limit = 3
	var mu sync.Mutex
	running, most := 0, 0
	reached := make(chan struct{})
	parallel.ForEach(make([]int, 20), limit, func(int) error {
		mu.Lock()
		running++
		if most = max(most, running); running == limit {
			select {
			case <-reached:
			default:
				close(reached)
			}
		}
		mu.Unlock()
		<-reached // hangs if fewer than limit calls run concurrently
		mu.Lock()
		running--
		mu.Unlock()
		return nil
	})
	if most != limit {
		t.Errorf("%d calls ran concurrently, want %d", most, limit)
	}
}

func TestForEach_WithLimitOneKeepsTheOrder(t *testing.T) {
	t.Parallel()
	var got []int
	want := []int{3, 1, 2}
	parallel.ForEach(want, 1, func(n int) error { got = append(got, n); return nil })
	if !slices.Equal(got, want) {
		t.Errorf("items were visited in the order %v, want %v", got, want)
	}
}

func TestForEach_TurnsAPanicIntoAnErrorWithoutItsValue(t *testing.T) {
	t.Parallel()
	do := func(s string) error {
		if s == "a" {
			panic(errors.New("the secret value"))
		}
		return nil
	}
	if errs := parallel.ForEach([]string{"a"}, 1, do); errs[0] == nil {
		t.Error("ForEach of one item that panics returned no error")
	}
	errs := parallel.ForEach([]string{"a", "b"}, 2, do)
	if errs[0] == nil || errs[1] != nil {
		t.Fatalf("ForEach = %v, want an error of the first item only", errs)
	}
	text := errs[0].Error()
	if strings.Contains(text, "the secret value") {
		t.Errorf("the error quotes the value of the panic: %s", text)
	}
	for _, part := range []string{"*errors.errorString", "parallel_test.go"} {
		if !strings.Contains(text, part) {
			t.Errorf("the error lacks %q: %s", part, text)
		}
	}
}

func TestApart_ReturnsTheResultAndAPanicAsAnError(t *testing.T) {
	t.Parallel()
	if got, err := parallel.Apart(func() (int, error) { return 7, nil }); got != 7 || err != nil {
		t.Errorf("Apart = %d, %v, want 7", got, err)
	}
	_, err := parallel.Apart(func() (int, error) { panic("secret") })
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("Apart = %v, want an error without the panic's value", err)
	}
}
