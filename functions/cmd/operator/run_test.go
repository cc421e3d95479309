package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"agents.example/controlplane/functions/cmd/config"
	"agents.example/controlplane/infra/firestore"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

func TestRun_UsesTheLocalCloudOfTheReadyFile(t *testing.T) {
	t.Parallel()
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
	ready := filepath.Join(t.TempDir(), "ready.json")
	facts := `{"project_id": "` + project + `", "firestore_emulator_host": "` + host +
		`", "pubsub_emulator_host": "127.0.0.1:1", "api_key": "x"}`
	if err := os.WriteFile(ready, []byte(facts), 0o600); err != nil {
		t.Fatal(err)
	}
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
