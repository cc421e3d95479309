package cloud_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/emulators/cloud"
	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/emulators/gcloud"
	"agents.example/controlplane/emulators/gcloud/gcloudtest"
	"agents.example/controlplane/emulators/kubeclient"
	"agents.example/controlplane/functions/openapi/openapitest"
	"agents.example/controlplane/shared/testtier"
)

// binaries lets the test of the image run the image's binaries.
var binaries = flag.String("binaries", "", "`directory` of the binaries of the separate functions; empty builds them")

// patience is how long a test waits for a condition before it fails. Runs that fail repeatedly are a minute apart, then
// two, and the sweep may start them a minute late: on a slow machine, a namespace that terminates for some seconds
// delays its agent so long.
const patience = 5 * time.Minute

// pollInterval is how often a test reads what it waits for. One read costs the API, the database and the check of the
// response several milliseconds of CPU, and many tests wait concurrently.
const pollInterval = 100 * time.Millisecond

// deployment is a running cloud, with clients of its parts.
type deployment struct {
	*cloud.Cloud
	cluster *kubeclient.Client
	// clock is the clock of accounts; nil when they run in another process.
	clock *clock
	// client checks every response against the OpenAPI description that the cloud serves.
	client      *http.Client
	secretStore *secretStore
	// dir holds the logs.
	dir string
	// binaries holds the binaries of functions that the test starts itself.
	binaries string
	// retry takes the place of the schedule in a cloud that has none, while a test waits for an agent: on a busy
	// machine, runs of the workers fail so often that only a sweep repeats them. It may be nil.
	retry func(t *testing.T, id string)
	// outside has the hosts that pods of a real node reach; nil without one.
	outside *outside
	// inSandbox makes a test put its agents into gVisor.
	inSandbox bool
}

// choose returns the emulators and the cluster of a deployment. In the full tier, separate functions use what is
// official and real; functions in one process use what is embedded, in every tier.
func choose(t *testing.T, separate bool) (gcloud.Choice, cluster.Kind) {
	t.Helper()
	if !separate {
		clustertest.RequireKind(t, cluster.Embedded)
		return gcloud.Embedded, cluster.Embedded
	}
	choice, err := gcloudtest.Choice()
	if err != nil {
		t.Fatal(err)
	}
	clustertest.Require(t)
	return choice, clustertest.Kind()
}

func start(t *testing.T, separate bool, change ...func(*cloud.Options)) deployment {
	t.Helper()
	emulators, kind := choose(t, separate)
	dir := t.TempDir()
	o := cloud.Options{
		Dir: dir, Separate: separate, Binaries: *binaries, Emulators: emulators, Cluster: kind,
		AttachFirestore: os.Getenv("FIRESTORE_EMULATOR_HOST"), AttachPubSub: os.Getenv("PUBSUB_EMULATOR_HOST"),
		Payments: testtier.IsFull(t), Progress: progress{t},
	}
	var accounts *clock
	if !separate {
		accounts = &clock{}
		o.BillingClock = accounts.now
	}
	for _, f := range change {
		f(&o)
	}
	c, err := cloud.Start(t.Context(), o)
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
	d := deployment{
		Cloud: c, cluster: clustertest.Client(t, c.Ready.Kubeconfig),
		clock: accounts, client: &http.Client{Transport: transport},
		secretStore: openSecretStore(t, c),
		dir:         o.Dir,
	}
	d.client.Transport = openapitest.Transport{
		Base: transport, Document: d.fetchDescription(t), Report: func(err error) { t.Error(err) },
	}
	return d
}

// fetchDescription returns the OpenAPI description that the cloud serves.
func (d deployment) fetchDescription(t *testing.T) *openapitest.Document {
	t.Helper()
	doc, err := openapitest.Parse([]byte(d.call(t, "", http.MethodGet, "/openapi.json", "").text))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// progress writes the progress of a start to the test's log.
type progress struct{ t *testing.T }

func (p progress) Write(b []byte) (int, error) {
	p.t.Log(strings.TrimRight(string(b), "\n"))
	return len(b), nil
}

// answer is a response of the API.
type answer struct {
	status int
	header http.Header
	text   string
	body   map[string]any
}

// withoutRequestID is the text in which only the request id differs between two calls.
func (a answer) withoutRequestID() string { return strings.ReplaceAll(a.text, a.requestID(), "") }

// requestID is the request id of a problem; empty for other responses.
func (a answer) requestID() string {
	id, _ := a.body["request_id"].(string)
	return id
}

func (d deployment) call(t *testing.T, token, method, path, body string) answer {
	t.Helper()
	return d.send(t, method, path, body, http.Header{"Authorization": {"Bearer " + token}})
}

// ifMatch calls as an admin of the first organization, with an If-Match header.
func (d deployment) ifMatch(t *testing.T, tag, method, path string) answer {
	t.Helper()
	return d.send(t, method, path, "", http.Header{"Authorization": {"Bearer " + d.Ready.APIKey}, "If-Match": {tag}})
}

func (d deployment) send(t *testing.T, method, path, body string, header http.Header) answer {
	t.Helper()
	a, err := d.trySend(t, method, d.Ready.BaseURL+path, body, header)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// trySend returns an error if there is no response.
func (d deployment) trySend(t *testing.T, method, url, body string, header http.Header) (answer, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := d.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close() //nolint:errcheck // reading is over
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return answer{}, err
	}
	a := answer{status: res.StatusCode, header: res.Header, text: string(b)}
	_ = json.Unmarshal(b, &a.body) // stays nil for a list and an empty response
	return a, nil
}

// must calls as an admin of the first organization and ends the test unless the response has the wanted status.
func (d deployment) must(t *testing.T, want int, method, path, body string) answer {
	t.Helper()
	a := d.repeat(t, want, method, path, body)
	if a.status != want {
		t.Fatalf("%s %s: status %d, want %d: %s", method, path, a.status, want, a.text)
	}
	return a
}

// repeat calls as an admin of the first organization. Unless it wants to be told that the service is unavailable, it
// repeats the request with its key while the response says to, like every client: on a busy machine, the database may
// answer too late.
func (d deployment) repeat(t *testing.T, want int, method, path, body string) answer {
	t.Helper()
	key := uuid.NewString()
	for end := time.Now().Add(patience); ; {
		a := d.callWithKey(t, key, method, path, body)
		pause, err := strconv.Atoi(a.header.Get("Retry-After"))
		if a.status != http.StatusServiceUnavailable || a.status == want || err != nil || time.Now().After(end) {
			return a
		}
		t.Logf("%s %s: repeated after %s\n%s", method, path, a.text, d.logLines(t, a.requestID()))
		select {
		case <-time.After(time.Duration(pause) * time.Second):
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
}

// create creates an agent and returns its ID.
func (d deployment) create(t *testing.T, body string) string {
	t.Helper()
	a := d.must(t, http.StatusCreated, http.MethodPost, "/api/v1/agents", body)
	id, _ := a.body["id"].(string)
	if a.body["status"] != "provisioning" || a.header.Get("Location") != "/api/v1/agents/"+id ||
		a.header.Get("ETag") == "" {
		t.Fatalf("creation: got %s with headers %v, want status provisioning, a Location and an ETag", a.text, a.header)
	}
	return id
}

// await reads an agent until a condition holds. It ends the test if that takes too long.
func (d deployment) await(t *testing.T, id, what string, holds func(a answer) bool) answer {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		a := d.call(t, d.Ready.APIKey, http.MethodGet, "/agents/"+id, "")
		if holds(a) {
			return a
		}
		if time.Now().After(deadline) {
			t.Fatalf("timed out after %s waiting for agent %s to be %s: %s", patience, id, what, a.text)
		}
		if d.retry != nil {
			d.retry(t, id)
		}
		select {
		case err := <-d.Died():
			t.Fatal(err)
		case <-tick.C:
		}
	}
}

func (d deployment) awaitStatus(t *testing.T, id, status string) answer {
	t.Helper()
	return d.await(t, id, status, func(a answer) bool { return a.body["status"] == status })
}

// stages returns the status of each stage of an agent.
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

// checkEqual reports a value that differs from the wanted one.
func checkEqual(t *testing.T, what string, got, want any) {
	t.Helper()
	if got != want {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}

// checkRefusal reports a response that is not the wanted error.
func checkRefusal(t *testing.T, what string, got answer, status int, code string) {
	t.Helper()
	if got.status != status || got.body["code"] != code {
		t.Errorf("%s: got %d %v, want %d %s: %s", what, got.status, got.body["code"], status, code, got.text)
	}
}
