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

// reportPause is the time between two reports of a door. Two reports, each of at most keysTimeout, and the pause are
// over before the door opens.
const reportPause = time.Second

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
	if id, ok := f.door.close(); ok {
		opens := f.options.Now().Add(dataplane.DoorTime)
		if refused := f.reportDoor(ctx, id); !refused && !pause(ctx, opens.Sub(f.options.Now())) {
			return 0 // the process ends, and its door stays closed
		}
		if ctx.Err() == nil {
			f.door.open()
		}
	}
	return f.nextLook(f.door.idle())
}

// nextLook returns the time until the agent may be idle for long enough. A request shortens what failures have made
// long.
func (f *Front) nextLook(idle, wanted time.Duration) time.Duration {
	return min(max(0, wanted-idle), f.door.after)
}

// reportDoor tells the control plane that the door is closed, twice if the first report has no answer. It returns
// whether the door may open immediately: every report was refused, so no worker relies on the door.
func (f *Front) reportDoor(ctx context.Context, id string) (refused bool) {
	status, certain := f.postDoor(ctx, id)
	if status == http.StatusTooManyRequests || !certain {
		if !pause(ctx, reportPause) {
			return false
		}
		again, sure := f.postDoor(ctx, id)
		status, certain = again, sure && status == http.StatusTooManyRequests
	}
	return certain && status != http.StatusOK && status != http.StatusTooManyRequests
}

// postDoor sends one report. The status is 0 without an answer. It is certain if the control plane knows for sure
// whether the agent sleeps: any other answer than 200 and 4xx may hide a report that was recorded.
func (f *Front) postDoor(ctx context.Context, id string) (status int, certain bool) {
	base := strings.TrimSuffix(f.options.KeysURL, dataplane.PathKeys)
	target := base + fmt.Sprintf(dataplane.PathSleep, url.PathEscape(f.options.AgentID))
	body := strings.NewReader(`{"door": "` + id + `"}`) // of letters and digits
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, body)
	if err != nil {
		return 0, false
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "agent-front")
	req.Header.Set("Authorization", "Bearer "+f.options.Credentials.APIKey)
	res, err := f.links.keys.client.Do(req) // bounds the time, and follows no redirect
	if err != nil {
		slog.Warn("sleep could not be reported", "door", id, "error", err.Error())
		return 0, false
	}
	_ = res.Body.Close() // unread
	slog.Info("sleep was reported", "door", id, "status", res.StatusCode)
	refused := res.StatusCode >= http.StatusBadRequest && res.StatusCode < http.StatusInternalServerError
	return res.StatusCode, res.StatusCode == http.StatusOK || refused
}
