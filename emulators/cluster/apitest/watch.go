//go:build unix

package apitest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// watching is an open watch.
type watching struct {
	*space
	events chan watchEvent
}

// watchEvent is an event with its object as the answer of a call.
type watchEvent struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

func (e watchEvent) answer() answer { return answer{code: http.StatusOK, body: e.Object} }

func (e watchEvent) String() string {
	a := e.answer()
	if a.text("/kind") == "Status" {
		return fmt.Sprintf("%s %v", e.Type, a.at("/code"))
	}
	return strings.TrimSpace(e.Type + " " + a.text("/metadata/name"))
}

// watch opens a watch of a path, which ends with the test.
func (s *space) watch(path, query string, header map[string]string) *watching {
	s.Helper()
	r := call{path: path, query: "watch=true&" + query, header: header}
	response, err := s.admin.open(s.Context(), s.namespace, r) //nolint:bodyclose // the goroutine below closes it
	if err != nil {
		s.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		_ = response.Body.Close()
		s.Fatalf("watch of %s?%s: answer %d", path, query, response.StatusCode)
	}
	w := &watching{space: s, events: make(chan watchEvent)}
	ctx, cancel := context.WithCancel(s.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(w.events)
		defer func() { _ = response.Body.Close() }()
		for decoder := json.NewDecoder(bufio.NewReader(response.Body)); ; {
			var e watchEvent
			if decoder.Decode(&e) != nil { // the watch has ended
				return
			}
			select {
			case w.events <- e:
			case <-ctx.Done():
				return
			}
		}
	}()
	s.Cleanup(func() {
		cancel()
		<-done
	})
	return w
}

// next returns the next event, but no bookmark in between, which a server may send at any time. It ends the test if
// that takes too long or the watch has ended.
func (w *watching) next() watchEvent {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	for {
		select {
		case e, open := <-w.events:
			if !open {
				w.Fatal("the watch has ended")
			}
			if e.Type == "BOOKMARK" && e.answer().at("/metadata/annotations") == nil {
				continue
			}
			return e
		case <-ctx.Done():
			w.Fatal("there is no event")
		}
	}
}

// wants checks the next events as "TYPE name".
func (w *watching) wants(want ...string) watchEvent {
	w.Helper()
	var last watchEvent
	for i := range want {
		if last = w.next(); last.String() != want[i] {
			w.Errorf("event %d is %s, want %s: %s", i, last, want[i], last.Object)
		}
	}
	return last
}

// ended waits until the server has ended the watch.
func (w *watching) ended() {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	for {
		select {
		case e, open := <-w.events:
			if !open {
				return
			}
			w.Errorf("event %s before the end", e)
		case <-ctx.Done():
			w.Fatal("the watch does not end")
		}
	}
}

// version is the resource version of a list, from which a watch misses nothing.
func (s *space) version(path string) string {
	s.Helper()
	return s.get(path).text("/metadata/resourceVersion")
}
