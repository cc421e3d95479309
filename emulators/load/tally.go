package load

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// outcome is the end of a good client's request.
type outcome struct {
	kind string
	took time.Duration
	// failure says why the request was not served; empty if it was.
	failure string
}

// tally collects outcomes. It is safe for concurrent use.
type tally struct {
	mu       sync.Mutex
	outcomes []outcome
}

func (t *tally) add(o outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.outcomes = append(t.outcomes, o)
}

// Stats are what good clients saw.
type Stats struct {
	// Requests is the number of requests, and Failures of those that were not served.
	Requests, Failures int
	// P50 and P99 are percentiles of the time until the answer, of all requests. Starting an agent counts in Start.
	P50, P99 time.Duration
	// Start is the median of the time from the creation of an agent until it runs.
	Start time.Duration
	// Reasons counts failures by kind of request and reason.
	Reasons map[string]int
	// Kinds has the 99th percentile of each kind of request.
	Kinds map[string]time.Duration
}

// ErrorRate returns the share of requests that failed.
func (s Stats) ErrorRate() float64 { return float64(s.Failures) / float64(max(1, s.Requests)) }

// start is the kind of outcome that is not one request: an agent that was created and runs.
const start = "start"

func (t *tally) stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := Stats{Reasons: map[string]int{}, Kinds: map[string]time.Duration{}}
	var requests, starts []time.Duration
	kinds := map[string][]time.Duration{}
	for _, o := range t.outcomes {
		s.Requests++
		if o.failure != "" {
			s.Failures++
			s.Reasons[o.kind+" "+o.failure]++
		}
		if o.kind == start {
			starts = append(starts, o.took)
		} else {
			requests = append(requests, o.took)
			kinds[o.kind] = append(kinds[o.kind], o.took)
		}
	}
	for kind, took := range kinds {
		s.Kinds[kind] = percentile(took, 99)
	}
	s.P50, s.P99, s.Start = percentile(requests, 50), percentile(requests, 99), percentile(starts, 50)
	return s
}

// percentile returns the smallest value that is not less than p percent of all values; 0 without values.
func percentile(values []time.Duration, p int) time.Duration {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[max(0, (len(values)*p+99)/100-1)]
}

// score counts what an attack did, as evidence that it took place. It is safe for concurrent use.
type score struct {
	mu         sync.Mutex
	answers    map[string]int
	held, most int
}

func newScore() *score { return &score{answers: map[string]int{}} }

// count counts an answer to the hostile client.
func (s *score) count(answer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[answer]++
}

// hold counts a request in flight until release.
func (s *score) hold() (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held++
	s.most = max(s.most, s.held)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.held--
	}
}

// String formats the score, such as "300 in flight; 401: 12".
func (s *score) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.answers) == 0 && s.most == 0 {
		return ""
	}
	return strings.TrimSuffix(fmt.Sprintf("%d in flight; %s", s.most, counts(s.answers)), "; ")
}

// counts formats the most frequent entries, the most frequent first.
func counts(of map[string]int) string {
	keys := slices.SortedFunc(maps.Keys(of), func(a, b string) int {
		return cmp.Or(cmp.Compare(of[b], of[a]), cmp.Compare(a, b))
	})
	var parts []string
	for i, k := range keys {
		if i == mostReasons {
			parts = append(parts, fmt.Sprintf("%d further kinds", len(keys)-i))
			break
		}
		parts = append(parts, fmt.Sprintf("%s: %d", k, of[k]))
	}
	return strings.Join(parts, ", ")
}

// mostReasons is how many entries counts prints.
const mostReasons = 6
