package podexec

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"agents.example/controlplane/shared/agentexec"
	"agents.example/controlplane/shared/agentexec/channel"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/provisioning"
)

// program is an API server whose command writes a secret and ends with a status, or goes on if that is empty.
func program(t *testing.T, status string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if got := fmt.Sprint(q["command"]); got != "[/opt/quiesce begin]" || q.Get("container") != "agent" ||
			q.Get("stdin") != "false" || q.Get("tty") != "false" {
			t.Errorf("request %s", r.URL)
		}
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{channel.Protocol}})
		if err != nil {
			return
		}
		defer func() { _ = conn.CloseNow() }()
		s := channel.NewSocket(conn, 1<<20)
		_ = s.Write(r.Context(), channel.Frame{Channel: channel.Errors, Data: []byte("CANARY")})
		if status == "" {
			_, _ = s.Read(r.Context()) // until the client leaves
			return
		}
		_ = s.Write(r.Context(), channel.Frame{Channel: channel.Status, Data: []byte(status)})
		_ = s.Close(websocket.StatusNormalClosure, "")
	}
}

func failure(message string) string {
	return fmt.Sprintf(`{"status": "Failure", "reason": "InternalError", "message": %q}`, message)
}

func TestQuiesce_SaysWhetherTheImagesProgramSucceeded(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		status string
		// want is in the message of a Permanent fault, unavailable the code of another one.
		want, unavailable string
	}{
		"success": {status: `{"status": "Success"}`},
		"another exit code": {
			status: `{"status": "Failure", "reason": "NonZeroExitCode", "message": "CANARY",
				"details": {"causes": [{"reason": "ExitCode", "message": "3"}]}}`,
			want: "/opt/quiesce begin failed with exit code 3",
		},
		"no program": {status: failure("exec: CANARY: executable file not found"), want: "has no program /opt/quiesce"},
		"too slow":   {want: "did not end within"},
		"no container": {
			status: failure("container is in CONTAINER_EXITED state"), unavailable: agentexec.CodeNotRunning,
		},
		"the cluster": {status: failure("rpc error CANARY"), unavailable: "cluster_unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, a := newCommands(t, program(t, row.status))
			if row.status == "" {
				c.quiesceTime = 50 * time.Millisecond
			}
			a.Image.Quiesce = "/opt/quiesce"
			err := c.Quiesce(t.Context(), a, provisioning.QuiesceBegin)
			var refused *provisioning.Permanent
			switch {
			case row.want != "":
				if !errors.As(err, &refused) || refused.Code != codeHookFailed ||
					!strings.Contains(refused.Message, row.want) {
					t.Errorf("error %v, want %s with %q", err, codeHookFailed, row.want)
				}
			case row.unavailable != "":
				if !fault.Is(err, fault.Unavailable) || fault.Code(err) != row.unavailable {
					t.Errorf("error %v, want an Unavailable %s", err, row.unavailable)
				}
			case err != nil:
				t.Errorf("error %v, want none", err)
			}
			if strings.Contains(fmt.Sprint(err), "CANARY") {
				t.Errorf("error %v has what the program or the cluster wrote", err)
			}
		})
	}
}

// A worker whose time is over says nothing about the image.
func TestQuiesce_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	c, a := newCommands(t, program(t, ""))
	a.Image.Quiesce = "/opt/quiesce"
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := c.Quiesce(ctx, a, provisioning.QuiesceBegin); !fault.Is(err, fault.Unavailable) {
		t.Errorf("error %v, want Unavailable", err)
	}
}

func TestQuiesce_NeedsAProgram(t *testing.T) {
	t.Parallel()
	c, a := newCommands(t, nil)
	var refused *provisioning.Permanent
	if err := c.Quiesce(t.Context(), a, provisioning.QuiesceEnd); !errors.As(err, &refused) {
		t.Errorf("error %v, want a Permanent one", err)
	}
}
