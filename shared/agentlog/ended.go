package agentlog

import (
	"cmp"
	"slices"
	"time"
)

// The limits of what a cell keeps of containers that have ended.
const (
	// MaxKept is the number of containers of an agent whose logs are kept.
	MaxKept = 5
	// MaxKeptBytes is how much of the end of each log is kept.
	MaxKeptBytes = 64 << 10
	// KeptFor is how long a log is kept after the end of its container.
	KeptFor = 7 * 24 * time.Hour
)

// Ended describes a container that has ended.
type Ended struct {
	// Container identifies the run of the container, as in positions.
	Container string
	// StartedAt is zero if the container could not be started, or if that is not known.
	StartedAt time.Time
	EndedAt   time.Time
	ExitCode  int
	// Reason is the cluster's, such as OOMKilled.
	Reason string
	// Run counts the runs of the container in its pod, from 0. It orders those that ended within one second.
	Run int
}

// Compare orders containers by their end.
func (e Ended) Compare(other Ended) int {
	return cmp.Or(e.EndedAt.Compare(other.EndedAt), e.StartedAt.Compare(other.StartedAt), cmp.Compare(e.Run, other.Run))
}

// Expired reports whether the log of the container is no longer kept.
func (e Ended) Expired(now time.Time) bool { return now.Sub(e.EndedAt) > KeptFor }

// Kept returns the logs that a cell keeps and serves, the container that ended last first.
func Kept(all []Ended, now time.Time) []Ended {
	var kept []Ended
	for _, e := range all {
		same := func(k Ended) bool { return k.Container == e.Container }
		if !e.Expired(now) && !slices.ContainsFunc(kept, same) {
			kept = append(kept, e)
		}
	}
	slices.SortStableFunc(kept, func(a, b Ended) int { return b.Compare(a) })
	return kept
}

// choosePrevious finds the container that ended as the nth before now. A cell has the log of the last one of a pod; the
// others are kept. noPod is the error of an agent without a pod.
func (s *stream) choosePrevious(found Containers, noPod error) (Part, error) {
	n, last := s.options.Previous, found.Last
	if n == 1 && last.Container != "" {
		return Part{Container: last.Container, Previous: !found.Held, Ended: last}, nil
	}
	all, err := s.pods.Kept(s.ctx, s.agent)
	if err != nil {
		return Part{}, err
	}
	kept := Kept(all, time.Now())
	if last.Container != "" {
		// A container that ended before the last one of the pod is not the last one, whatever the clocks say.
		kept = slices.DeleteFunc(kept, func(e Ended) bool { return e.Container == last.Container })
		kept = slices.Insert(kept, 0, last)
	}
	switch {
	case n <= len(kept):
		return Part{Container: kept[n-1].Container, Kept: true, Ended: kept[n-1]}, nil
	case len(kept) > 0:
		return Part{}, NoEarlier(len(kept))
	case noPod != nil:
		return Part{}, noPod
	default:
		return Part{}, NoPrevious()
	}
}
