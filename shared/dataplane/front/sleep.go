package front

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"agents.example/controlplane/shared/dataplane"
)

// reportInterval is the time between an answer to a report and the next report of the same door.
const reportInterval = 5 * time.Second

// sleepAfter is how long the agent must be idle to sleep; 0 is never. A front without a control plane cannot report.
func sleepAfter(o Options) (time.Duration, error) {
	_, reports := strings.CutSuffix(o.KeysURL, dataplane.PathKeys)
	switch {
	case o.SleepAfter < 0:
		return 0, fmt.Errorf("the time after which the agent sleeps is negative: %s", o.SleepAfter)
	case o.SleepAfter == 0 || !reports:
		return 0, nil
	case o.AgentID == "":
		return 0, fmt.Errorf("the agent sleeps after %s, but its id is missing", o.SleepAfter)
	default:
		return o.SleepAfter, nil
	}
}

// watchIdleness makes the agent sleep whenever it is idle, until ctx ends. Between two looks it waits for the earliest
// moment at which the agent may be idle for long enough.
func (f *Front) watchIdleness(ctx context.Context) {
	if f.door.after == 0 {
		return
	}
	for wait := f.door.after; pause(ctx, wait); {
		wait = f.tryToSleep(ctx)
	}
}

// pause waits, and reports whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// tryToSleep closes the door of an idle agent and reports that, and opens the door again if the process goes on. It
// returns the time until the next look.
func (f *Front) tryToSleep(ctx context.Context) time.Duration {
	idle, wanted := f.door.idle()
	if idle < wanted {
		return f.nextLook(idle, wanted)
	}
	if f.staysAwake(ctx, idle-wanted) {
		return busyInterval
	}
	if id, ok := f.door.close(); ok && f.awaitSleep(ctx, id) {
		f.door.open()
	}
	return f.nextLook(f.door.idle())
}

// nextLook returns the time until the agent may be idle for long enough. A request shortens what failures have made
// long.
func (f *Front) nextLook(idle, wanted time.Duration) time.Duration {
	return min(max(0, wanted-idle), f.door.after)
}

// awaitSleep reports a closed door until it must open, and returns false if ctx ends before: the door of a process that
// ends stays closed. The answer 200 means that the agent sleeps, or that it was woken and a late worker may still take
// its pod away. It holds the door. A refusal means that the agent is awake: the door opens immediately. Without an
// answer, it opens after its time.
func (f *Front) awaitSleep(ctx context.Context, id string) (opens bool) {
	former := 0
	for left := f.door.left(); left > 0; left = f.door.left() {
		status := f.reportDoor(ctx, id, left)
		if status != former {
			slog.Info("sleep was reported", "door", id, "status", status)
		}
		former = status
		switch {
		case status == http.StatusOK:
			f.door.hold()
		case status >= http.StatusBadRequest && status < http.StatusInternalServerError &&
			status != http.StatusTooManyRequests:
			return ctx.Err() == nil
		}
		if !pause(ctx, min(reportInterval, f.door.left())) {
			return false
		}
	}
	return ctx.Err() == nil
}

// reportDoor tells the control plane that the door is closed, for the time that is left. It returns the status of the
// answer, 0 without one.
func (f *Front) reportDoor(ctx context.Context, id string, left time.Duration) (status int) {
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	base := strings.TrimSuffix(f.options.KeysURL, dataplane.PathKeys)
	target := base + fmt.Sprintf(dataplane.PathSleep, url.PathEscape(f.options.AgentID))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, nil)
	if err != nil {
		return 0
	}
	req.Header.Set("User-Agent", "agent-front")
	req.Header.Set("Authorization", "Bearer "+f.options.Credentials.APIKey)
	req.Header.Set(dataplane.HeaderDoor, id)
	res, err := f.links.keys.client.Do(req) // bounds the time, and follows no redirect
	if err != nil {
		slog.Warn("sleep could not be reported", "door", id, "error", err.Error())
		return 0
	}
	_ = res.Body.Close() // unread
	return res.StatusCode
}
