package agentctl

import (
	"bytes"
	"errors"
	"net/http"
	"testing"
	"time"

	"agents.example/controlplane/shared/client"
)

func TestRetryNotice_ExplainsLongPauses(t *testing.T) {
	t.Parallel()
	busy := &client.Error{Status: http.StatusTooManyRequests}
	for _, row := range []struct {
		pause time.Duration
		err   error
		want  string
	}{
		{pause: time.Second, err: busy},
		{pause: 20 * time.Second, err: busy, want: "The API asks to wait (status 429). Trying again in 20s.\n"},
		{pause: 8 * time.Second, err: errors.New("reset"), want: "The API cannot be reached. Trying again in 8s.\n"},
	} {
		var stderr bytes.Buffer
		c := &tool{app: &App{Stderr: &stderr, Lookup: func(string) (string, bool) { return "", false }}}
		if c.retryNotice(row.pause, row.err); stderr.String() != row.want {
			t.Errorf("a pause of %s prints %q, want %q", row.pause, stderr.String(), row.want)
		}
	}
}
