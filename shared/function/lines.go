package function

import (
	"log/slog"
	"net/http"
	"sync"
	"time"

	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
)

// linesASecond is how many lines about calls of strangers a process writes in a second.
const linesASecond = 10

// LineBudget bounds the log lines about calls that cost whoever sends them nothing: those without a known caller, and
// those over a limit. A flood of them would otherwise cost more in stored lines than in all else. Lines about failures
// of the service, and about other calls, are all written. A line says how many were left out before it.
//
// It is safe for concurrent use. A nil LineBudget leaves none out.
type LineBudget struct {
	mu      sync.Mutex
	second  int64
	written int
	leftOut int64
}

// bounds reports whether the line about a call counts against the budget. So do two kinds of warnings that strangers
// cause as cheaply: who leaves within an answer, and who sends too many requests at the same time.
func (b *LineBudget) bounds(level slog.Level, status int, err error, made *call.Call) bool {
	stranger := made.Caller.ID == ""
	switch {
	case b == nil || level > slog.LevelWarn:
		return false
	case level == slog.LevelWarn:
		return stranger && (status < http.StatusBadRequest || fault.Code(err) == codeInFlight)
	default:
		return stranger || status == http.StatusTooManyRequests
	}
}

// take reports whether a line may be written at a time, and how many were left out since the last one.
func (b *LineBudget) take(at time.Time) (leftOut int64, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := at.Unix(); now != b.second {
		b.second, b.written = now, 0
	}
	if b.written >= linesASecond {
		b.leftOut++
		return 0, false
	}
	b.written++
	leftOut, b.leftOut = b.leftOut, 0
	return leftOut, true
}
