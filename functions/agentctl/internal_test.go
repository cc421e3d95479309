package agentctl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/functions/agentctl/login"
	"agents.example/controlplane/shared/client"
)

func TestForPeople_SpeaksOfTheCommandLine(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"It is paused. See meta.allowed_actions.":              "It is paused.",
		"It is paused. See meta.allowed_actions. Retry later.": "It is paused. Retry later.",
		"There is none. Read the log without previous.":        "There is none. Read the log without --previous.",
		"Value error, too long":                                "too long",
	} {
		if got := forPeople(given); got != want {
			t.Errorf("forPeople(%q) = %q, want %q", given, got, want)
		}
	}
}

// TestExitCode_SaysThatTheSessionCannotBeRenewedNow: the user need not sign in again, and no --timeout has passed.
func TestExitCode_SaysThatTheSessionCannotBeRenewedNow(t *testing.T) {
	t.Parallel()
	for _, reason := range []error{
		errors.New("the identity provider answered with the status 503"),
		context.DeadlineExceeded,
	} {
		err := fmt.Errorf("there is no token for the API: %w", &client.TokenUnavailableError{Err: reason})
		if got := exitCode(err); got != ExitUnavailable {
			t.Errorf("%v: exit code %d, want %d", err, got, ExitUnavailable)
		}
	}
}

// TestPrintError_SaysThatTheProfileChanged: the refused token is the reason why the changed profile was found.
func TestPrintError_SaysThatTheProfileChanged(t *testing.T) {
	t.Parallel()
	refused := &client.Error{Status: http.StatusUnauthorized, Code: "unauthorized", Detail: "The token is not valid."}
	err := fmt.Errorf("%w; the token could not be replaced: %w", refused, login.ErrProfileChanged)
	var stderr bytes.Buffer
	app := &App{Stderr: &stderr, Lookup: func(string) (string, bool) { return "", false }}
	command, root := app.tool()
	command.printError(root, err, false)
	if got, want := stderr.String(), "Error: "+login.ErrProfileChanged.Error()+"\n"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
	if got := exitCode(err); got != ExitNoSession {
		t.Errorf("exit code %d, want %d", got, ExitNoSession)
	}
}

func TestTable_FitsNarrowTerminals(t *testing.T) {
	t.Parallel()
	const id = "0b7c2a54-6f1d-4d0e-9c1b-2f6d3a8e5b90"
	cells := map[string]string{
		"ID": id, "NAME": "an agent with a long name", "STATUS": "provisioning", "PLAN": "enterprise",
		"REGION": "europe-west1", "AGE": "5m",
	}
	titles := []string{"ID", "NAME", "STATUS", "PLAN", "REGION", "AGE"}
	var columns []column[map[string]string]
	for _, title := range titles {
		value := func(c map[string]string) string { return c[title] }
		columns = append(columns, column[map[string]string]{title, value})
	}
	for _, row := range []struct {
		width int
		want  string // the titles that are shown
		cut   bool   // the name is cut
	}{
		{width: 0, want: "ID NAME STATUS PLAN REGION AGE"},
		{width: 200, want: "ID NAME STATUS PLAN REGION AGE"},
		{width: 90, want: "ID NAME STATUS PLAN REGION AGE", cut: true},
		{width: 75, want: "ID NAME STATUS PLAN REGION", cut: true},
		{width: 67, want: "ID NAME STATUS PLAN", cut: true},
		{width: 60, want: "ID NAME STATUS", cut: true},
		{width: 40, want: "ID NAME STATUS"},
	} {
		var b bytes.Buffer
		s := screen{Writer: &b, width: row.width, unicode: true, paint: true}
		if err := printTable(s, []map[string]string{cells}, columns); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(ansi.Strip(b.String()), "\n")
		if got := strings.Join(strings.Fields(lines[0]), " "); got != row.want {
			t.Errorf("%d columns: titles %q, want %q", row.width, got, row.want)
		}
		if isCut := !strings.Contains(lines[1], cells["NAME"]); isCut != row.cut {
			t.Errorf("%d columns: the name is cut: %t, want %t: %q", row.width, isCut, row.cut, lines[1])
		}
		if width := ansi.StringWidth(lines[1]); row.cut && width > row.width {
			t.Errorf("the line has %d columns, want at most %d: %q", width, row.width, lines[1])
		}
		if !strings.Contains(lines[1], id) || !strings.Contains(b.String(), "\x1b[33mprovisioning\x1b[0m") {
			t.Errorf("%d columns: no whole id, or no colored status: %q", row.width, b.String())
		}
	}
}

func TestTableLine_ColorsByTheWholeStatus(t *testing.T) {
	t.Parallel()
	s := screen{paint: true, unicode: true}
	if got, want := s.tableLine(false, []string{"STATUS"}, []string{"provisioning"}, []int{0}, []int{6}),
		"\x1b[33mprovi…\x1b[0m"; got != want {
		t.Errorf("the line of a cut status = %q, want %q", got, want)
	}
}

func TestEndedRun_TakesNumbersAndFormerValues(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]endedRun{"1": 1, "5": 5, "true": 1, "false": 0} {
		var got endedRun
		if err := got.Set(text); err != nil || got != want {
			t.Errorf("--previous=%s is %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"0", "6", "-1", "x", ""} {
		if err := new(endedRun).Set(text); err == nil {
			t.Errorf("--previous=%s is accepted, want an error", text)
		}
	}
}

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

func TestOutcome_OfAValueThatWasNotStoredSaysToSetItAgain(t *testing.T) {
	t.Parallel()
	o := client.SecretOperation{
		ID: "id", Key: "TOKEN", Action: client.SecretOperationActionSet, Stage: client.SecretOperationStageStore,
		Status: client.SecretOperationStatusPending,
	}
	for _, row := range []struct {
		action client.SecretOperationAction
		want   string
	}{
		{client.SecretOperationActionSet, "Set it again: agentctl secrets set agent TOKEN --wait"},
		{client.SecretOperationActionRotate, "Rotate again: agentctl credentials rotate agent --wait"},
	} {
		o.Action = row.action
		err := (&tool{}).outcome("agent", []client.SecretOperation{o}, true)
		want := []string{
			row.want, "Or look for it in the secret store: agentctl secrets reconcile agent id --wait",
		}
		if code, got := exitCode(err), nextSteps(err); code != ExitUnsettled || !slices.Equal(got, want) {
			t.Errorf("exit code %d and %q, want %d and %q", code, got, ExitUnsettled, want)
		}
	}
}

// TestEnvFile_IsReadAsTheConsoleDoes reads the files whose meaning emulators/consoletest checks in a browser.
func TestEnvFile_IsReadAsTheConsoleDoes(t *testing.T) {
	t.Parallel()
	type entry struct {
		Key, Value string
		Line       int
	}
	var rows []struct {
		Given    string
		Entries  []entry
		Problems []int
	}
	text, err := os.ReadFile("testdata/envfiles.json")
	if err == nil {
		err = json.Unmarshal(text, &rows)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		f := readEnv(row.Given)
		entries, problems := []entry{}, []int{}
		for _, e := range f.entries {
			entries = append(entries, entry{e.key, e.value, e.line})
		}
		for _, p := range f.problems {
			var line int
			if _, err := fmt.Sscanf(p, "line %d:", &line); err != nil {
				t.Errorf("the problem %q names no line", p)
			}
			problems = append(problems, line)
		}
		if diff := cmp.Diff(row.Entries, entries); diff != "" {
			t.Errorf("readEnv(%q) (-want +got):\n%s", row.Given, diff)
		}
		if diff := cmp.Diff(row.Problems, problems); diff != "" {
			t.Errorf("problems of %q (-want +got):\n%s", row.Given, diff)
		}
	}
}

// FuzzEnvFile looks for files that the reader cannot end, or whose problems have a value.
func FuzzEnvFile(f *testing.F) {
	f.Add("A=\"b\\\nc\"\n#d\n`=e")
	f.Fuzz(func(t *testing.T, text string) {
		const value = "canary"
		for _, p := range readEnv(strings.ReplaceAll(text, "x", value)).problems {
			if strings.Contains(p, value) {
				t.Errorf("the problem %q has a value", p)
			}
		}
	})
}
