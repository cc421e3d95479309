package monitoringemu

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// retention is how long a series keeps points, counted back from its newest one.
const retention = 48 * time.Hour

// store holds series by project name and identity.
type store struct {
	mu       sync.RWMutex
	projects map[string]map[string]*series
}

func newStore() *store { return &store{projects: map[string]map[string]*series{}} }

// add adds a point at any time, replacing one with the same end.
func (s *store) add(project string, added series) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, err := s.series(project, added)
	if err != nil {
		return err
	}
	known.insert(added.points[0])
	return nil
}

// find returns copies of the matching series, in a stable order.
func (s *store) find(project string, matches func(series) bool) []series {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var found []series
	for _, key := range slices.Sorted(maps.Keys(s.projects[project])) {
		if known := *s.projects[project][key]; matches(known) {
			known.points = slices.Clone(known.points)
			found = append(found, known)
		}
	}
	return found
}

// series returns the series with the same identity, creating it if necessary. The caller holds the lock.
func (s *store) series(project string, like series) (*series, error) {
	if s.projects[project] == nil {
		s.projects[project] = map[string]*series{}
	}
	key := like.key()
	known, ok := s.projects[project][key]
	if !ok {
		known = &series{metric: like.metric, resource: like.resource, kind: like.kind, valueType: like.valueType}
		s.projects[project][key] = known
	}
	if known.kind != like.kind || known.valueType != like.valueType {
		return nil, fmt.Errorf("the series is a %v of %v, the point a %v of %v", known.kind, known.valueType, like.kind,
			like.valueType)
	}
	return known, nil
}

func (s *series) insert(p point) {
	at, same := slices.BinarySearchFunc(s.points, p.end, func(p point, end time.Time) int { return p.end.Compare(end) })
	if same {
		s.points[at] = p
		return
	}
	s.points = slices.Insert(s.points, at, p)
	oldest := s.points[len(s.points)-1].end.Add(-retention)
	s.points = slices.DeleteFunc(s.points, func(p point) bool { return p.end.Before(oldest) })
}

// key returns the identity of a series: its types and labels.
func (s series) key() string {
	return strings.Join([]string{
		s.metric.Type, labelKey(s.metric.Labels), s.resource.Type,
		labelKey(s.resource.Labels),
	}, "\x00")
}

func labelKey(labels map[string]string) string {
	pairs := make([]string, 0, len(labels))
	for name, value := range labels {
		pairs = append(pairs, name+"\x01"+value)
	}
	slices.SortFunc(pairs, cmp.Compare)
	return strings.Join(pairs, "\x02")
}
