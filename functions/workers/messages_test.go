package workers

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/egresslog"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/logevent"
)

// TestAgentNudge_ReadsNudgesOfOtherReleases: a message may come from a release a week ago, or from a newer one.
func TestAgentNudge_ReadsNudgesOfOtherReleases(t *testing.T) {
	t.Parallel()
	const id = "3fa85f64-5717-4562-b3fc-2c963f66afa6"
	for name, data := range map[string]string{
		"first release": `{"agent_id":"` + id + `"}`,
		"later release": `{"agent_id":"` + id + `","reason":"created","generation":7,"trace":{"id":"x"}}`,
	} {
		if got, err := agentNudge(function.Message{Data: []byte(data)}); err != nil || got.AgentID != id || got.Wake {
			t.Errorf("%s: agentNudge = %+v, %v; want %q", name, got, err, id)
		}
	}
	for name, data := range map[string]string{
		"empty": ``, "no agent": `{}`, "invalid id": `{"agent_id":"all"}`,
		"not an object": `["` + id + `"]`,
	} {
		if got, err := agentNudge(function.Message{Data: []byte(data)}); err == nil {
			t.Errorf("%s: agentNudge = %+v, want an error", name, got)
		}
	}
}

// TestRecordEgress_DropsWhatIsNoReport: a message that no retry can repair must not come again.
func TestRecordEgress_DropsWhatIsNoReport(t *testing.T) {
	t.Parallel()
	worker := RecordEgress(&egresslog.Recorder{Now: time.Now}) // without a log, which would be written to
	for _, data := range []string{``, `x`, `[]`, `{}`, `{"gate":"g","reports":[{}]}`, `{"gate":"g","reports":{}}`} {
		if err := worker.Handle(t.Context(), function.Message{Data: []byte(data)}); err != nil {
			t.Errorf("the message %q fails: %v", data, err)
		}
	}
}

// backedUp says from when the newest backup is.
type backedUp struct {
	since time.Time
	err   error
}

// SafeSince implements Backups.
func (b backedUp) SafeSince(context.Context) (time.Time, error) { return b.since, b.err }

// TestCheckBackups_ReportsOldOnesOnly is not parallel, because a process has one log.
func TestCheckBackups_ReportsOldOnesOnly(t *testing.T) { //nolint:paralleltest // see above
	outage := errors.New("outage")
	for name, c := range map[string]struct {
		backups    Backups
		wantReport bool
		want       error
	}{
		"of yesterday, made late": {backups: backedUp{since: time.Now().Add(-49 * time.Hour)}},
		"of two days ago":         {backups: backedUp{since: time.Now().Add(-51 * time.Hour)}, wantReport: true},
		"that cannot be listed":   {backups: backedUp{err: outage}, want: outage},
	} {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // see above
			var written bytes.Buffer
			before := slog.Default()
			slog.SetDefault(slog.New(slog.NewJSONHandler(&written, nil)))
			defer slog.SetDefault(before)
			err := CheckBackups(c.backups).Handle(t.Context(), function.Message{})
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if got := strings.Contains(written.String(), string(logevent.RecordsNotBackedUp)); got != c.wantReport {
				t.Errorf("reported: %t, want %t\n%s", got, c.wantReport, written.String())
			}
		})
	}
}
