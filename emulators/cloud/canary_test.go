package cloud_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/rpc"
)

// testSecretValuesDoNotLeak sends secret values on every path, also through failures, and searches every place where
// they must not be. Then it plants values there, which the search must find.
func testSecretValuesDoNotLeak(t *testing.T, d deployment) {
	c := &canaries{}
	send := func(path string) string { return c.add(path, "cnry+/=%"+rand.Text()) }
	d.listenToNudges(t)
	var answers bytes.Buffer
	call := func(want int, method, path, body string, header http.Header) answer {
		t.Helper()
		if header == nil {
			header = http.Header{}
		}
		if header.Get("Authorization") == "" {
			header.Set("Authorization", "Bearer "+d.Ready.APIKey)
		}
		a := d.send(t, method, path, body, header)
		fmt.Fprintf(&answers, "%s %v\n", a.text, a.header)
		if a.status != want {
			t.Errorf("%s %s: got %d %s, want %d", method, path, a.status, strings.ReplaceAll(a.text, "cnry", ""), want)
		}
		return a
	}
	created := call(http.StatusCreated, http.MethodPost, "/api/v1/agents",
		`{"name": "confidential", "resource_plan": "hobby", "env_vars": {"TOKEN": "`+send("create")+`"}}`, nil)
	id, _ := created.body["id"].(string)
	d.awaitStatus(t, id, "running")
	secrets := "/agents/" + id + "/secrets"
	one := func(key, value string) string { return `{"secrets": {"` + key + `": "` + value + `"}}` }

	call(http.StatusAccepted, http.MethodPut, secrets, one("TOKEN", send("put")), nil)
	call(http.StatusOK, http.MethodPost, "/mcp", fmt.Sprintf(`{"jsonrpc": "2.0", "id": 1, "method": "tools/call",
		"params": {"name": "set_secrets", "arguments": {"agent_id": %q, "secrets": {"MCP": %q}}}}`, id,
		send("set with a tool")), nil)
	repeated := one("OTHER", send("put with a key"))
	for range 2 {
		call(http.StatusAccepted, http.MethodPut, secrets, repeated, http.Header{"Idempotency-Key": {"canary"}})
	}
	call(http.StatusUnprocessableEntity, http.MethodPut, secrets, one("OTHER", send("another request with the key")),
		http.Header{"Idempotency-Key": {"canary"}})
	sendDuringFaults(t, d, id, func(name string, want int) {
		call(want, http.MethodPut, secrets, one("FAULTY", send(name)), nil)
	})
	sendUnacceptable(d, send, func(want int, method, path, body string,
		header http.Header,
	) {
		call(want, method, path, body, header)
	}, id)

	former := d.revealCredentials(t, id)
	call(http.StatusOK, http.MethodPost, "/agents/"+id+"/credentials/rotate", "", nil)
	d.await(t, id, "rotated", func(a answer) bool { return a.body["credential_rotation_pending"] == false })
	latter := d.revealCredentials(t, id)
	for name, k := range map[string]credentials{"former": former, "latter": latter} {
		c.add(name+" password", k.password)
		c.add(name+" key", k.key)
	}
	injectPodFault(t, d, id, cluster.CrashLoop)
	call(http.StatusAccepted, http.MethodPut, secrets, one("TOKEN", send("put to an agent that crashes")), nil)
	d.awaitStatus(t, id, "error")
	injectPodFault(t, d, id, "")
	call(http.StatusOK, http.MethodPost, "/agents/"+id+"/restart", "", nil)
	d.awaitStatus(t, id, "running")
	for _, path := range []string{
		"/agents/" + id, secrets, "/agents/" + id + "/secret-operations", "/api/v1/agents",
		"/api/v1/organizations/current/audit-log",
	} {
		call(http.StatusOK, http.MethodGet, path, "", nil)
	}
	printSecret(t, d, id, c.add("printed by the agent", "cnry"+rand.Text())) // valid in a URL
	for place, text := range d.searchedPlaces(t, id) {
		for _, found := range c.find(text) {
			t.Errorf("%s has %s", place, found)
		}
	}
	for _, found := range c.find(answers.Bytes()) {
		t.Errorf("a response has %s", found)
	}
	checkPlantedValuesAreFound(t, d, c, id)
	d.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
}

// sendDuringFaults sends a value during each kind of failure of the secret store.
func sendDuringFaults(t *testing.T, d deployment, id string, send func(name string, want int)) {
	t.Helper()
	for name, fault := range map[string]rpc.Fault{
		"denied":        {Before: status.Error(codes.PermissionDenied, "no")},
		"over quota":    {Before: status.Error(codes.ResourceExhausted, "no")},
		"down":          {Before: status.Error(codes.Unavailable, "no")},
		"lost":          {After: status.Error(codes.DeadlineExceeded, "no")},
		"misunderstood": {Before: status.Error(codes.InvalidArgument, "no")}, "slow": {Delay: 300 * time.Millisecond},
	} {
		want := http.StatusServiceUnavailable
		switch name {
		case "misunderstood":
			want = http.StatusInternalServerError
		case "slow":
			want = http.StatusAccepted
		}
		d.secretStore.inject(id, func(method, _ string) rpc.Fault {
			if method == "AddSecretVersion" {
				return fault
			}
			return rpc.Fault{}
		})
		send(name, want)
		d.secretStore.inject(id, nil)
	}
}

// sendUnacceptable sends values in requests that are refused.
func sendUnacceptable(d deployment, send func(string) string,
	call func(want int, method, path, body string, header http.Header),
	id string,
) {
	secrets := "/agents/" + id + "/secrets"
	for name, body := range map[string]func(value string) string{
		"a reserved key":     func(v string) string { return `{"secrets": {"DASHBOARD_PASSWORD": "` + v + `"}}` },
		"a bad key":          func(v string) string { return `{"secrets": {"a-b": "` + v + `"}}` },
		"a list":             func(v string) string { return `{"secrets": {"TOKEN": ["` + v + `"]}}` },
		"an object":          func(v string) string { return `{"secrets": {"TOKEN": {"value": "` + v + `"}}}` },
		"no object":          func(v string) string { return `{"secrets": "` + v + `"}` },
		"in the wrong place": func(v string) string { return `{"secret": {"TOKEN": "` + v + `"}}` },
		"a long value": func(v string) string {
			return `{"secrets": {"TOKEN": "` + strings.Repeat(v, 3000) +
				`"}}`
		},
		"a NUL":       func(v string) string { return `{"secrets": {"TOKEN": "` + v + `\u0000"}}` },
		"broken JSON": func(v string) string { return `{"secrets": {"TOKEN": "` + v + `"` },
		"no JSON":     func(v string) string { return v },
	} {
		call(http.StatusUnprocessableEntity, http.MethodPut, secrets, body(send(name)), nil)
	}
	one := func(name string) string { return `{"secrets": {"TOKEN": "` + send(name) + `"}}` }
	call(http.StatusRequestEntityTooLarge, http.MethodPut, secrets, `{"secrets": {"TOKEN": "`+
		strings.Repeat(send("too much"), 20_000)+`"}}`, nil)
	call(http.StatusNotFound, http.MethodPut, secrets, one("a stranger"),
		http.Header{"Authorization": {"Bearer " + d.Ready.OtherOrganizationAPIKey}})
	call(http.StatusForbidden, http.MethodPut, secrets, one("a member"),
		http.Header{"Authorization": {"Bearer " + d.Ready.MemberToken}})
	call(http.StatusUnauthorized, http.MethodPut, secrets, one("no caller"),
		http.Header{"Authorization": {"Bearer " + send("a token")}})
	call(http.StatusUnprocessableEntity, http.MethodPatch, "/agents/"+id, `{"env_vars": {"NEW_TOKEN": "`+
		send("a patch")+`"}}`, nil)
	call(http.StatusUnprocessableEntity, http.MethodPost, "/api/v1/agents",
		`{"name": "", "resource_plan": "hobby", "env_vars": {"NEW_TOKEN": "`+send("a creation")+`"}}`, nil)
	call(http.StatusPaymentRequired, http.MethodPost, "/api/v1/agents",
		`{"name": "large", "resource_plan": "enterprise", "env_vars": {"NEW_TOKEN": "`+
			send("a creation that is too large")+`"}}`,
		http.Header{"Authorization": {"Bearer " + d.Ready.OtherOrganizationAPIKey}})
}

// checkPlantedValuesAreFound puts a value, differently encoded, in each searched place. The search must find all.
func checkPlantedValuesAreFound(t *testing.T, d deployment, c *canaries, id string) {
	t.Helper()
	value := c.add("planted", "cnry+/=%"+rand.Text())
	leak := map[string]any{"f": base64.StdEncoding.EncodeToString([]byte("before " + value))}
	if _, err := d.database(t).Collection("planted").Doc("leak").Set(t.Context(), leak); err != nil {
		t.Fatal(err)
	}
	topic, _ := d.nudgeNames()
	nudge := &pubsubpb.PubsubMessage{
		Data:       []byte(`{"agent_id": "` + id + `"}`),
		Attributes: map[string]string{"leak": hex.EncodeToString([]byte(value))},
	}
	if _, err := pubsubpb.NewPublisherClient(dial(t, d.Ready.PubSubEmulatorHost)).
		Publish(t.Context(), &pubsubpb.PublishRequest{
			Topic:    topic,
			Messages: []*pubsubpb.PubsubMessage{nudge},
		}); err != nil {
		t.Fatal(err)
	}
	slog.Info("planted", "url", "https://example.com/?q="+url.QueryEscape(value))
	patch := `{"metadata": {"annotations": {"planted": "` + value + `"}}}`
	if _, err := d.cluster.Services("agent-"+id).Patch(t.Context(), "agent", types.MergePatchType,
		[]byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	places := d.searchedPlaces(t, id)
	for _, place := range []string{"Firestore", "Pub/Sub", "the logs", "the cluster"} {
		if len(c.find(places[place])) == 0 {
			t.Errorf("%s: the search does not find the planted value", place)
		}
	}
}
