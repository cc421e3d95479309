package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/handoff"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/role"
	"agents.example/controlplane/shared/webhook"
)

// TestCreateAPIKey_MakesAKeyThatWorks calls with the key, as a client does.
func TestCreateAPIKey_MakesAKeyThatWorks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	token := strings.TrimSpace(f.run("apikeys create -organization " + org + " -name smoke -role member"))
	a := identity.Authenticator{
		Keys: f.client.Keys(), Peppers: apikey.Peppers{Present: f.operator.Peppers.Present}, Now: time.Now,
	}
	caller, _, err := a.Authenticate(t.Context(), identity.Attempt{Token: token})
	if err != nil || caller.OrganizationID != org || caller.Role != role.Member || caller.Name != "smoke" {
		t.Errorf("the key authenticates %+v, %v; want a member of %s", caller, err, org)
	}
	if got, want := f.auditedActions(), []string{"CreateAPIKey"}; !slices.Equal(got, want) {
		t.Errorf("audited actions = %v, want %v", got, want)
	}
	k, _, err := f.client.Keys().Find(t.Context(), apikey.Hash(f.operator.Peppers.Present, token), document.Ref{})
	if _, parseErr := uuid.Parse(k.CreatedBy); err != nil || parseErr != nil {
		t.Errorf("created_by = %q (%v), want the id that the API promises", k.CreatedBy, err)
	}
	if strings.Contains(f.warnings.String(), token) || !strings.Contains(f.warnings.String(), k.ID) {
		t.Errorf("warnings = %q, want the id and not the key", f.warnings)
	}
	f.fail("apikeys create -organization org_nowhere -name smoke -role member", "not found")
	f.fail("apikeys create -organization "+org+" -name smoke -role owner", "want one of [admin member]")
	f.fail("apikeys create -organization "+org+" -role admin -name "+strings.Repeat("x", 81), "1 to 80 characters")
	f.operator.Peppers = apikey.Peppers{Present: apikey.Pepper("of another deployment")}
	f.fail("apikeys create -organization "+org+" -name smoke -role member", "functions have another one")
	f.run("apikeys create -organization " + org + " -name smoke -role member -force")
	f.operator.Peppers = apikey.Peppers{}
	f.fail("apikeys create -organization "+org+" -name smoke -role member", "API_KEY_PEPPER is required")
}

// TestKeysStatus_CountsWhatNeedsThePreviousPepper makes keys under each pepper, and one of an earlier release.
func TestKeysStatus_CountsWhatNeedsThePreviousPepper(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	one, two, other := f.operator.Peppers.Previous, f.operator.Peppers.Present, apikey.Pepper("0")
	create := func(p apikey.Pepper, edit func(*apikey.Key)) {
		k := apikey.Key{ID: uuid.NewString(), Name: "k", Role: role.Admin, CreatedAt: time.Now()}.
			HashedWith(p, apikey.Generate())
		if edit != nil {
			edit(&k)
		}
		if _, err := f.client.Keys().Create(f.admin, k); err != nil {
			t.Fatal(err)
		}
	}
	used := func(k *apikey.Key) { k.LastUsedAt = time.Now() }
	create(two, used)
	create(two, nil)
	create(one, used)
	create(one, func(k *apikey.Key) { k.Pepper = "" })
	create(one, func(k *apikey.Key) { k.ExpiresAt = time.Now().Add(-time.Hour) })
	create(other, nil)
	f.run("keys status", "present        2     1", "previous       2     1", "none of these  1     0", "1 expired",
		"2 keys need the previous pepper", org+"         "+time.Now().UTC().Format(time.DateOnly))
	f.operator.Peppers = apikey.Peppers{Present: one, Next: two}
	output := f.run("keys status", "present        2     1", "next           2     1", "none of these  1     0")
	if strings.Contains(output, "need the previous") {
		t.Errorf("before the change, keys status says %q", output)
	}
	f.operator.Peppers = apikey.Peppers{}
	f.fail("keys status", "API_KEY_PEPPER is required")
	if got := f.auditedActions(); len(got) != 0 {
		t.Errorf("audited actions = %v, want none", got)
	}
}

// TestWebhooksStatus_CountsOlderSecrets rotates one of two secrets.
func TestWebhooksStatus_CountsOlderSecrets(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var ids []string
	for range 2 {
		w, err := f.client.Webhooks().Create(f.admin, webhook.Webhook{
			ID: uuid.NewString(), Status: webhook.Enabled, SecretVersion: 1, CreatedAt: time.Now().AddDate(0, 0, -9),
		})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, w.ID)
	}
	yesterday := time.Now().AddDate(0, 0, -1).UTC().Format(time.DateOnly)
	f.run("webhooks status -since "+yesterday, org+"         2", "all           2 of 2")
	if _, err := f.client.Webhooks().Change(f.admin, ids[0], func(w *webhook.Webhook) (*webhook.Delivery, error) {
		w.RotateSecret(time.Now(), webhook.MaxFormerLifetime)
		return nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	f.run("webhooks status -since "+yesterday, org+"         1", "all           1 of 2")
	f.fail("webhooks status -since yesterday", "-since must be a date")
}

// TestKeysCreate_KeepsWhatFormerKeysSigned replaces a key: a receipt of the former key still verifies.
func TestKeysCreate_KeepsWhatFormerKeysSigned(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, []byte(`{"keys": []}`), 0o600); err != nil {
		t.Fatal(err)
	}
	first, firstSet := createKey(t, filepath.Join(dir, "first"), empty, nil)
	// The present set comes from the API, in its published form.
	second, secondSet := createKey(t, filepath.Join(dir, "second"), "-", firstSet)
	for name, row := range map[string]struct {
		signer handoff.Key
		set    []byte
		want   bool
	}{
		"former key, former set": {signer: first, set: firstSet, want: true},
		"former key, new set":    {signer: first, set: secondSet, want: true},
		"new key, new set":       {signer: second, set: secondSet, want: true},
		"new key, former set":    {signer: second, set: firstSet},
	} {
		keys, err := handoff.ParseKeySet(string(row.set))
		if err != nil {
			t.Fatal(err)
		}
		at := time.Now()
		receipt, err := handoff.NewSigner(row.signer).DeletionReceipt(agent.DeletionRecord{
			AgentID: uuid.NewString(), OrganizationID: org, CompletedAt: at, Deletion: agent.Deletion{
				RequestedAt: at, ClusterRequestedAt: at, NamespaceGoneAt: at, VolumeGoneAt: at, SecretsRequestedAt: at,
				SecretsGoneAt: at,
			},
		}, at)
		if err != nil || receipt == nil {
			t.Fatalf("%s: receipt %v, %v", name, receipt, err)
		}
		if _, err := handoff.VerifyReceipt(*receipt, keys); (err == nil) != row.want {
			t.Errorf("%s: the receipt verifies: %v, want %t", name, err, row.want)
		}
	}
}

// createKey runs keys create without a database, and returns the private key and the set that it printed.
func createKey(t *testing.T, private, presentSet string, in []byte) (handoff.Key, []byte) {
	t.Helper()
	var out bytes.Buffer
	args := []string{"keys", "create", "-private", private, "-present", presentSet}
	if err := (operator{Out: &out, In: bytes.NewReader(in)}).run(t.Context(), args); err != nil {
		t.Fatal(err)
	}
	value, ok := strings.CutPrefix(out.String(), "handoff_public_keys = ")
	var set string
	if err := json.Unmarshal([]byte(value), &set); err != nil || !ok {
		t.Fatalf("output = %q, want a setting (%v)", out.String(), err)
	}
	content, err := os.ReadFile(private)
	if err != nil {
		t.Fatal(err)
	}
	var key handoff.Key
	if err := key.EnvDecode(string(content)); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(private)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the mode of the private key is %v (%v), want 0600", info.Mode(), err)
	}
	if strings.Contains(out.String(), `\"d\"`) {
		t.Error("the output has a private key")
	}
	return key, []byte(set)
}

func TestKeysCreate_RefusesWithoutWriting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "key")
	private, _, err := handoff.Generate()
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct{ args, in, want string }{
		"no present keys": {args: "-private " + file, want: "-present is missing"},
		"a missing file":  {args: "-private " + file + " -present " + file, want: "no such file"},
		"an answer that is no set": {
			args: "-private " + file + " -present -", in: "<html>", want: "want a JSON Web Key Set",
		},
		"a private key": {
			args: "-private " + file + " -present -", in: `{"keys":[` + private + `]}`, want: "not a valid public key",
		},
		"a file that exists": {args: "-private keys.go -present -", in: `{"keys":[]}`, want: "needs a new file"},
	} {
		var out bytes.Buffer
		err := operator{Out: &out, In: strings.NewReader(row.in)}.run(t.Context(),
			strings.Fields("keys create "+row.args))
		if err == nil || !strings.Contains(err.Error(), row.want) || out.Len() > 0 {
			t.Errorf("%s: %v and output %q, want an error with %q", name, err, out.String(), row.want)
		}
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a refused command leaves a file")
	}
}
