package agentctl_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"agents.example/controlplane/functions/agentctl"
	"agents.example/controlplane/functions/backendtest"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/handoff"
)

// deleteAgent creates and deletes an agent, of which everything is then gone, and returns its id.
func deleteAgent(t *testing.T, a *api) string {
	t.Helper()
	id := a.RunningAgent(t, org, nil).ID
	a.admin().run(t, "agents", "delete", id, "--yes").ok(t)
	a.Reconcile(t, id)
	return id
}

// publishedKeys writes the keys that the API publishes to a file.
func publishedKeys(t *testing.T, a *api) string {
	t.Helper()
	return writeFile(t, "file", a.admin().run(t, "api", "GET", "/.well-known/jwks.json").ok(t).Stdout)
}

// TestReceipt_NamesTheKeyThatRequestedTheDeletion also has a key that is revoked since, which no list has.
func TestReceipt_NamesTheKeyThatRequestedTheDeletion(t *testing.T) {
	t.Parallel()
	a := serve(t)
	for name, want := range map[string]string{"known": " by the key known\n", "revoked": " by ID\n"} {
		id := a.RunningAgent(t, org, nil).ID
		var key struct{ ID, Secret string }
		created := a.admin().run(t, "keys", "create", name, "-o", "json").ok(t)
		if err := json.Unmarshal([]byte(created.Stdout), &key); err != nil {
			t.Fatal(err)
		}
		a.as(key.Secret).run(t, "agents", "delete", id, "--yes").ok(t)
		a.Reconcile(t, id)
		if name == "revoked" {
			a.admin().run(t, "keys", "revoke", key.ID, "--yes").ok(t)
		}
		if shown := normal(a.admin().run(t, "agents", "receipt", id).ok(t).Stdout); !strings.Contains(shown, want) {
			t.Errorf("the receipt has no %q:\n%s", want, shown)
		}
	}
}

func TestReceipt_ShowsWhatWasObservedAndIsVerifiedOffline(t *testing.T) {
	t.Parallel()
	a := serve(t)
	id := deleteAgent(t, a)
	shown := a.admin().run(t, "agents", "receipt", id).ok(t).Stdout
	const facts = "ID:  ID\nName:  test\nRequested:  TIME UTC (AGE ago) by ID\nCompleted:  TIME UTC (AGE ago)\n"
	const resources = "\nRESOURCE  REQUESTED  OBSERVED GONE\nnamespace  TIME UTC (AGE ago)  TIME UTC (AGE ago)\n" +
		"volume  TIME UTC (AGE ago)  TIME UTC (AGE ago)\nsnapshots  TIME UTC (AGE ago)  TIME UTC (AGE ago)\n" +
		"secrets  TIME UTC (AGE ago)  TIME UTC (AGE ago)\n" +
		"route  TIME UTC (AGE ago)  TIME UTC (AGE ago)\nrecord  TIME UTC (AGE ago)  TIME UTC (AGE ago)\n"
	if text := normal(shown); !strings.HasPrefix(text, facts+resources+"\ney") {
		t.Errorf("the receipt is\n%s\nwant\n%s%s", text, facts, resources)
	}
	a.admin().run(t, "agents", "receipt", id, "-o", "name").want(t, output{0, "ID\n", ""})
	answer := a.admin().run(t, "agents", "receipt", id, "-o", "json").ok(t).Stdout
	alone := a.admin().run(t, "agents", "receipt", id, "-o", "jsonpath={.receipt}").ok(t).Stdout
	keys := publishedKeys(t, a)
	want := "The receipt is valid.\n" + facts + "Organization:  org-1\nSigned:  TIME UTC (AGE ago)\n" + resources
	for name, verified := range map[string]output{
		"the answer in a file":     offline.run(t, "verify", writeFile(t, "file", answer), "--jwks", keys),
		"the answer in a pipe":     offline.with(answer).run(t, "verify", "-", "--jwks", keys),
		"the receipt alone":        offline.with(alone).run(t, "verify", "-", "--jwks", keys),
		"the keys of the API":      a.admin().with(alone).run(t, "verify", "-"),
		"without an API key":       a.as("").with(alone).run(t, "verify", "-"),
		"with a wrong API key":     a.as("so_wrong").with(alone).run(t, "verify", "-"),
		"without an API, by flags": tool{}.with(alone).run(t, "verify", "-", "--jwks", keys),
	} {
		if text := normal(verified.ok(t).Stdout); text != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, text, want)
		}
	}
	var claims handoff.ReceiptClaims
	out := offline.with(answer).run(t, "verify", "-", "--jwks", keys, "-o", "json").ok(t)
	if err := json.Unmarshal([]byte(out.Stdout), &claims); err != nil || claims.AgentID != id ||
		claims.OrganizationID != org || claims.Issuer != handoff.Issuer || len(claims.Resources) != 6 {
		t.Errorf("claims %+v (%v) of\n%s", claims, err, out.Stdout)
	}
}

func TestReceipt_SaysWhyThereIsNone(t *testing.T) {
	t.Parallel()
	a := serve(t)
	running, unrecorded := a.RunningAgent(t, org, nil).ID, a.RunningAgent(t, org, nil).ID
	deleted := deleteAgent(t, a)
	begun := strings.TrimSpace(a.admin().run(t, "agents", "create", "leaving", "-o", "name").ok(t).Stdout)
	a.admin().run(t, "agents", "delete", begun, "--yes").ok(t)
	a.admin().run(t, "agents", "delete", unrecorded, "--yes").ok(t)
	if err := a.WorkerStore.Remove(t.Context(), a.Agent(t, unrecorded), agent.Deletion{}); err != nil {
		t.Fatal(err)
	}
	keyless := serveWith(t, func(b *backendtest.Backend) { b.Handoff = nil })
	for name, c := range map[string]struct {
		as   tool
		of   string
		code int
		say  []string
	}{
		"during the deletion": {
			as: a.admin(), of: "leaving", code: agentctl.ExitConflict,
			say: []string{
				"Not observed gone yet: namespace, volume, snapshots, secrets, route, record", begun + " --for deleted",
			},
		},
		"of a running agent": {
			as: a.admin(), of: running, code: agentctl.ExitNotFound, say: []string{"is not being deleted"},
		},
		"by the former name": {
			as: a.admin(), of: "gone", code: agentctl.ExitNotFound, say: []string{"known by its id only"},
		},
		"of another organization": {
			as: a.as(functiontest.AdminToken("org-2")), of: deleted, code: agentctl.ExitNotFound,
			say: []string{"deletion_not_found"},
		},
		"for a member": {
			as: a.as(functiontest.MemberToken(org)), of: deleted, code: agentctl.ExitNotAllowed,
			say: []string{"Ask an admin"},
		},
		"without observations": {
			as: a.admin(), of: unrecorded, code: agentctl.ExitFailed,
			say: []string{"did not record", "namespace, volume, snapshots, secrets, route"},
		},
		"without a key": {
			as: keyless.admin(), of: deleteAgent(t, keyless), code: agentctl.ExitFailed,
			say: []string{"no signing key", "agentctl api GET"},
		},
	} {
		got := c.as.run(t, "agents", "receipt", c.of)
		if got.wantCode(t, c.code, append(c.say, "Error: ")...); got.Stdout != "" {
			t.Errorf("%s: standard output has %q, want nothing", name, got.Stdout)
		}
	}
}

func TestVerify_RefusesWhatTheServiceDidNotSign(t *testing.T) {
	t.Parallel()
	a, other := serve(t), serve(t)
	answer := a.admin().run(t, "agents", "receipt", deleteAgent(t, a), "-o", "json").ok(t).Stdout
	var d struct{ Receipt string }
	if err := json.Unmarshal([]byte(answer), &d); err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(d.Receipt, ".")
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	parts[1] = base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(payload), `"test"`, `"best"`, 1)))
	private, _, err := handoff.Generate()
	if err != nil {
		t.Fatal(err)
	}
	keys, otherKeys := publishedKeys(t, a), publishedKeys(t, other)
	for name, c := range map[string]struct {
		text, keys string
		code       int
		say        string
	}{
		"changed": {
			text: strings.Join(parts, "."), keys: keys, code: agentctl.ExitFailed, say: "signature is wrong",
		},
		"changed around": {
			text: strings.Replace(answer, `"test"`, `"best"`, 1), keys: keys, code: agentctl.ExitFailed,
			say: "something else",
		},
		"of another service": {text: d.Receipt, keys: otherKeys, code: agentctl.ExitFailed, say: "has no key"},
		"of no service":      {text: "x.y.z", keys: keys, code: agentctl.ExitFailed, say: "is not valid"},
		"empty":              {keys: keys, code: agentctl.ExitFailed, say: "is not valid"},
		"not signed yet": {
			text: `{"receipt": null}`, keys: keys, code: agentctl.ExitFailed, say: "agentctl agents receipt",
		},
		"broken JSON": {text: "{", keys: keys, code: agentctl.ExitInvalid, say: "neither a receipt nor"},
		"private keys": {
			text: d.Receipt, keys: writeFile(t, "file", `{"keys": [`+private+`]}`), code: agentctl.ExitInvalid,
			say: "public key",
		},
		"no keys": {
			text: d.Receipt, keys: writeFile(t, "file", "{}"), code: agentctl.ExitInvalid, say: "JSON Web Key Set",
		},
		"no file of keys": {text: d.Receipt, keys: keys + "x", code: agentctl.ExitUsage, say: "no such file"},
	} {
		got := offline.with(c.text).run(t, "verify", "-", "--jwks", c.keys)
		if got.wantCode(t, c.code, c.say); got.Stdout != "" {
			t.Errorf("%s: standard output has %q, want nothing", name, got.Stdout)
		}
	}
	offline.with(d.Receipt).run(t, "verify", "-").wantCode(t, agentctl.ExitUnavailable, "refuses connections")
	tool{}.with(d.Receipt).run(t, "verify", "-").wantCode(t, agentctl.ExitNoSession, "--jwks FILE")
	offline.run(t, "verify", keys+"x").wantCode(t, agentctl.ExitUsage, "FILE cannot be opened: no such file")
}
