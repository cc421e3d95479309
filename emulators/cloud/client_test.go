package cloud_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"agents.example/controlplane/emulators/cloud"
	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/emulators/gcloud"
	"agents.example/controlplane/emulators/gcloud/gcloudtest"
	"agents.example/controlplane/functions/openapi/openapitest"
)

// binaries are those of the image, when the story is told of them.
var binaries = flag.String("binaries", "", "the directory of the binaries that run as deployed; empty builds them")

// patience is how long a test waits for a condition before it says that it does not come about.
const patience = 90 * time.Second

// world is a running cloud with what tests look at it with.
type world struct {
	*cloud.Cloud
	cluster kubernetes.Interface
	// clock is that of accounts; nil where it is another process's.
	clock *clock
	// client checks every answer against the description that the cloud itself serves.
	client *http.Client
	vault  *vault
	// dir holds the logs.
	dir string
}

// choose spreads the clouds of these tests over the emulators, so that every run tells the story on both kinds: with
// all functions in this process on the embedded ones, and as deployed on the official ones where they are installed.
func choose(t *testing.T, separate bool) gcloud.Choice {
	t.Helper()
	choice, err := gcloudtest.Choice()
	if err != nil {
		t.Fatal(err)
	}
	if choice == gcloud.Auto && !separate {
		return gcloud.Embedded
	}
	return choice
}

func start(t *testing.T, separate bool) world {
	t.Helper()
	clustertest.Require(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	dir := t.TempDir()
	o := cloud.Options{Dir: dir, Separate: separate, Binaries: *binaries, Emulators: choose(t, separate),
		Payments: true, Progress: progress{t}}
	var accounts *clock
	if !separate {
		accounts = &clock{}
		o.BillingClock = accounts.now
	}
	c, err := cloud.Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		transport.CloseIdleConnections()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	config, err := clientcmd.BuildConfigFromFlags("", c.Ready.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	cluster, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	w := world{
		Cloud: c, cluster: cluster, clock: accounts, client: &http.Client{Transport: transport}, vault: openVault(t, c),
		dir: dir,
	}
	w.client.Transport = openapitest.Transport{
		Base: transport, Document: w.description(t), Report: func(err error) { t.Error(err) },
	}
	return w
}

// description is the document that clients read.
func (w world) description(t *testing.T) *openapitest.Document {
	t.Helper()
	doc, err := openapitest.Parse([]byte(w.call(t, "", http.MethodGet, "/openapi.json", "").text))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// progress shows what a start waits for in the test's log.
type progress struct{ t *testing.T }

func (p progress) Write(b []byte) (int, error) {
	p.t.Log(strings.TrimRight(string(b), "\n"))
	return len(b), nil
}

// answer is what the API answered.
type answer struct {
	status int
	header http.Header
	text   string
	body   map[string]any
}

// withoutRequestID is the text in which only the request id differs between two calls.
func (a answer) withoutRequestID() string {
	id, _ := a.body["request_id"].(string)
	return strings.ReplaceAll(a.text, id, "")
}

func (w world) call(t *testing.T, token, method, path, body string) answer {
	t.Helper()
	return w.send(t, method, path, body, http.Header{"Authorization": {"Bearer " + token}})
}

// ifMatch calls as an admin of the first organization with an If-Match header.
func (w world) ifMatch(t *testing.T, tag, method, path string) answer {
	t.Helper()
	return w.send(t, method, path, "", http.Header{"Authorization": {"Bearer " + w.Ready.APIKey}, "If-Match": {tag}})
}

func (w world) send(t *testing.T, method, path, body string, header http.Header) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, w.Ready.BaseURL+path, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := w.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // reading is over
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := answer{status: res.StatusCode, header: res.Header, text: string(b)}
	_ = json.Unmarshal(b, &a.body) // a list is no object, and nothing has no body
	return a
}

// must calls as an admin of the first organization and wants a status.
func (w world) must(t *testing.T, want int, method, path, body string) answer {
	t.Helper()
	a := w.call(t, w.Ready.APIKey, method, path, body)
	if a.status != want {
		t.Fatalf("%s %s: status %d, want %d: %s", method, path, a.status, want, a.text)
	}
	return a
}

// create creates an agent and answers its id.
func (w world) create(t *testing.T, body string) string {
	t.Helper()
	a := w.must(t, http.StatusCreated, http.MethodPost, "/api/v1/agents", body)
	id, _ := a.body["id"].(string)
	if a.body["status"] != "provisioning" || a.header.Get("Location") != "/api/v1/agents/"+id ||
		a.header.Get("ETag") == "" {
		t.Fatalf("created %s with headers %v", a.text, a.header)
	}
	return id
}

// await polls an agent until a condition holds, and fails the test when it does not.
func (w world) await(t *testing.T, id, what string, holds func(a answer) bool) answer {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		a := w.call(t, w.Ready.APIKey, http.MethodGet, "/agents/"+id, "")
		if holds(a) {
			return a
		}
		if time.Now().After(deadline) {
			t.Fatalf("agent %s: not %s: %s", id, what, a.text)
		}
		<-tick.C
	}
}

func (w world) awaitStatus(t *testing.T, id, status string) answer {
	t.Helper()
	return w.await(t, id, status, func(a answer) bool { return a.body["status"] == status })
}

// stages lists an agent's stages as name=status.
func stages(a answer) map[string]string {
	found := map[string]string{}
	config, _ := a.body["config"].(map[string]any)
	list, _ := config["provisioning_stages"].([]any)
	for _, s := range list {
		stage, _ := s.(map[string]any)
		name, _ := stage["name"].(string)
		status, _ := stage["status"].(string)
		found[name] = status
	}
	return found
}
