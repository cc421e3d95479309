package agent

import "time"

// MaxAwakeDays bounds the days of which an agent's record knows how long it was awake.
const MaxAwakeDays = 35

// daySeconds is the length of a UTC day.
const daySeconds = 24 * 60 * 60

// AwakeLog counts the seconds of each UTC day in which an agent had or wanted a pod: from its creation, start or wake
// until it fell asleep, was paused, stopped or deleted. The commit that starts or ends such a time writes it, so the
// count depends on no collection, and neither a running nor a sleeping agent costs a write.
type AwakeLog struct {
	// Since is when the agent began to want the pod that it has; zero if it wants none.
	Since time.Time
	// Last is the day of the last one of Seconds, in days since 1970.
	Last int64
	// Seconds lists the former times, by day, the oldest first. The time that began at Since is not in it.
	Seconds []int
}

// AwakeDay is how long an agent was awake on a day.
type AwakeDay struct {
	Date    string `json:"date" jsonschema:"The day, in UTC, such as 2026-03-02."`
	Seconds int    `json:"seconds" jsonschema:"For how many seconds of the day the agent had or wanted a pod."`
}

// add counts the time from since until to. Times are counted by their whole seconds, so that no sum of parts differs
// from the whole.
func (l AwakeLog) add(since, to time.Time) AwakeLog {
	from, until := since.Unix(), to.Unix()
	if until < from { // the clock of another machine is ahead
		until = from
	}
	first, last := from/daySeconds, max(until/daySeconds, l.Last)
	oldest := max(last-MaxAwakeDays+1, min(first, l.first(first)))
	seconds := make([]int, last-oldest+1)
	for i, s := range l.Seconds {
		if at := l.first(first) + int64(i); at >= oldest {
			seconds[at-oldest] = s
		}
	}
	for d := max(first, oldest); d <= until/daySeconds; d++ {
		seconds[d-oldest] += int(min(until, (d+1)*daySeconds) - max(from, d*daySeconds))
	}
	return AwakeLog{Last: last, Seconds: seconds}
}

// first is the oldest day of the log, or another one if it has none.
func (l AwakeLog) first(otherwise int64) int64 {
	if len(l.Seconds) == 0 {
		return otherwise
	}
	return l.Last - int64(len(l.Seconds)) + 1
}

// awakeLog is the log up to the last change of the record. A time that began or ended with that change is not in the
// record yet, and neither is one that a former release began or ended: then the history of serving says when, or else
// the change itself.
func (a Agent) awakeLog() AwakeLog {
	l := a.Awake
	switch {
	case a.WantsPod() && l.Since.IsZero():
		l.Since = a.UpdatedAt
		for history := a.ServingHistory(); LastServing(history) != Idle; history = history[:len(history)-1] {
			l.Since = history[len(history)-1].Since
		}
	case !a.WantsPod() && !l.Since.IsZero():
		end := a.UpdatedAt
		if h := a.ServingChanges; len(h) > 0 && LastServing(h) == Idle && h[len(h)-1].Since.After(l.Since) {
			end = h[len(h)-1].Since
		}
		l = l.add(l.Since, end)
	}
	return l
}

// recordAwake records when the agent began or ceased to want a pod. It comes after recordServing.
func (a *Agent) recordAwake(before *Agent) {
	if a.Status != before.Status {
		a.Awake = before.awakeLog()
		a.Awake = a.awakeLog()
	}
}

// AwakeDays lists how long the agent was awake on each of the last days, the oldest first and the present one last: at
// most MaxAwakeDays, and none before the first one that the record knows.
func (a Agent) AwakeDays(now time.Time) []AwakeDay {
	l := a.awakeLog()
	if !l.Since.IsZero() {
		l = l.add(l.Since, now)
	}
	today := now.Unix() / daySeconds
	days := []AwakeDay{}
	for d := max(today-MaxAwakeDays+1, l.first(today)); d <= today; d++ {
		seconds := 0
		if i := d - l.first(today); i < int64(len(l.Seconds)) {
			seconds = l.Seconds[i]
		}
		days = append(days, AwakeDay{time.Unix(d*daySeconds, 0).UTC().Format(time.DateOnly), seconds})
	}
	return days
}
