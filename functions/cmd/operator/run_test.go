package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/functions/cmd/config"
	"agents.example/controlplane/infra/firestore"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/plan"
)

// readyFile is that of a local cloud with the organization org_1, and its records.
func readyFile(t *testing.T) (ready string, records *firestore.Client) {
	t.Helper()
	project := "test-" + uuid.NewString()
	records, err := firestore.Open(t.Context(), firestore.Options{ProjectID: project, EmulatorHost: host})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := records.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := records.Directory().Ensure(t.Context(), "org_1", organization.User{}); err != nil {
		t.Fatal(err)
	}
	ready = filepath.Join(t.TempDir(), "ready.json")
	facts := `{"project_id": "` + project + `", "firestore_emulator_host": "` + host +
		`", "pubsub_emulator_host": "127.0.0.1:1", "api_key": "x", "api_key_pepper": "` +
		base64.StdEncoding.EncodeToString(make([]byte, 32)) + `"}`
	if err := os.WriteFile(ready, []byte(facts), 0o600); err != nil {
		t.Fatal(err)
	}
	return ready, records
}

func TestRun_UsesTheLocalCloudOfTheReadyFile(t *testing.T) {
	t.Parallel()
	ready, records := readyFile(t)
	var out bytes.Buffer
	if err := run(t.Context(), strings.Fields("-ready "+ready+" -as ada set-plan -organization org_1 -plan enterprise"),
		&out); err != nil {
		t.Fatal(err)
	}
	a, err := records.Accounts().Account(t.Context(), "org_1")
	if err != nil {
		t.Fatal(err)
	}
	if a.Plan != plan.Enterprise {
		t.Errorf("plan = %s, want %s", a.Plan, plan.Enterprise)
	}
	if !strings.Contains(out.String(), "enterprise") {
		t.Errorf("output = %q, want it to contain enterprise", out.String())
	}
	for _, args := range []string{"-ready " + ready + ".not list", "-ready main.go list", "-color list"} {
		if err := run(t.Context(), strings.Fields(args), &out); err == nil {
			t.Errorf("run(%s) succeeded, want an error", args)
		}
	}
}

// TestRun_MakesAndCountsTheKeysOfALocalCloud holds that the tool knows the pepper of the functions of a local cloud.
func TestRun_MakesAndCountsTheKeysOfALocalCloud(t *testing.T) {
	t.Parallel()
	ready, _ := readyFile(t)
	for _, command := range []string{"apikeys create -organization org_1 -name smoke -role admin", "keys status"} {
		var out bytes.Buffer
		if err := run(t.Context(), strings.Fields("-ready "+ready+" "+command), &out); err != nil || out.Len() == 0 {
			t.Errorf("%s = %v with the output %q, want success", command, err, out.String())
		}
	}
}

// TestRun_RefusesAClockThatIsWrong holds that no entry gets a time that its seal does not expect.
func TestRun_RefusesAClockThatIsWrong(t *testing.T) {
	t.Parallel()
	ready, records := readyFile(t)
	for name, row := range map[string]struct {
		ahead   time.Duration
		refused bool
	}{
		"a little behind": {ahead: -maxSkew / 2},
		"a little ahead":  {ahead: maxSkew / 2},
		"behind":          {ahead: -2 * maxSkew, refused: true},
		"ahead":           {ahead: 2 * maxSkew, refused: true},
	} {
		before := entriesOf(t, records)
		err := runAt(t.Context(), strings.Fields("-ready "+ready+" show -organization org_1"), &bytes.Buffer{},
			func() time.Time { return time.Now().Add(row.ahead) })
		if (err != nil) != row.refused || err != nil && !strings.Contains(err.Error(), "10m0s: set it") {
			t.Errorf("%s: error = %v, want one: %t", name, err, row.refused)
		}
		if wrote := entriesOf(t, records) > before; wrote == row.refused {
			t.Errorf("%s: the audit log has another entry: %t, want %t", name, wrote, !row.refused)
		}
	}
}

// entriesOf counts the entries in the audit log of org_1.
func entriesOf(t *testing.T, records *firestore.Client) int {
	t.Helper()
	admin := identity.Caller{Type: identity.Session, OrganizationID: "org_1", Role: identity.RoleAdmin}
	found, err := records.AuditLog().List(call.As(t.Context(), admin), audit.Filter{}, page.Request{})
	if err != nil {
		t.Fatal(err)
	}
	return len(found.Items)
}

func TestActor_IsTheIdentityOfTheCredentials(t *testing.T) {
	t.Parallel()
	local := config.Local{FirestoreEmulator: "127.0.0.1:1"}
	for name, c := range map[string]struct {
		configured config.Operator
		email      string
		err        error
		want       string
	}{
		"Google Cloud": {
			configured: config.Operator{Note: "ada"}, email: "grace@example.com", want: "grace@example.com",
		},
		"no identity": {configured: config.Operator{Note: "ada"}, err: errors.New("no email")},
		"a local cloud": {
			configured: config.Operator{Note: "ada", Local: local}, err: errors.New("no email"), want: "ada",
		},
	} {
		got, err := actor(t.Context(), c.configured, func(context.Context) (string, error) { return c.email, c.err })
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: actor = %q, %v, want %q", name, got, err, c.want)
		}
	}
}
