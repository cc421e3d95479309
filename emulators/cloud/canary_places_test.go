package cloud_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"agents.example/controlplane/shared/function"
)

// logs takes what the functions of this process log.
var logs sink

// sink is a buffer that many may write to.
type sink struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

// Write implements io.Writer.
func (s *sink) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buffer.Write(b)
}

func (s *sink) text() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.buffer.Bytes())
}

// emulator calls the REST interface of an emulator.
func emulator(t *testing.T, host, method, path string, body any) []byte {
	t.Helper()
	sent, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+host+"/v1/"+path, bytes.NewReader(sent))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer owner")
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // reading is over
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %d %s, %v", method, path, res.StatusCode, text, err)
	}
	return text
}

// documents is everything in Firestore.
func (w world) documents(t *testing.T) (all []byte) {
	t.Helper()
	root := "projects/" + w.Ready.ProjectID + "/databases/(default)/documents"
	var collections struct{ CollectionIDs []string }
	if err := json.Unmarshal(emulator(t, w.Ready.FirestoreEmulatorHost, http.MethodPost, root+":listCollectionIds", struct{}{}), &collections); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(collections.CollectionIDs, "secret_operations") || !slices.Contains(collections.CollectionIDs, "idempotency") {
		t.Fatalf("the collections are %v", collections.CollectionIDs)
	}
	for _, collection := range collections.CollectionIDs {
		for token := ""; ; {
			text := emulator(t, w.Ready.FirestoreEmulatorHost, http.MethodGet, root+"/"+collection+"?pageSize=300&pageToken="+token, nil)
			all = append(all, text...)
			var page struct{ NextPageToken string }
			if err := json.Unmarshal(text, &page); err != nil {
				t.Fatal(err)
			}
			if token = page.NextPageToken; token == "" {
				break
			}
		}
	}
	return all
}

const listener = "canary-listener"

func (w world) subscriptions() string { return "projects/" + w.Ready.ProjectID + "/subscriptions/" }

// listen keeps a copy of every nudge from now on.
func (w world) listen(t *testing.T) {
	t.Helper()
	emulator(t, w.Ready.PubSubEmulatorHost, http.MethodPut, w.subscriptions()+listener, map[string]any{
		"topic": "projects/" + w.Ready.ProjectID + "/topics/" + string(function.AgentNudges),
	})
}

// messages is every nudge since listen.
func (w world) messages(t *testing.T) (all []byte) {
	t.Helper()
	for {
		text := emulator(t, w.Ready.PubSubEmulatorHost, http.MethodPost, w.subscriptions()+listener+":pull",
			map[string]any{"maxMessages": 1000, "returnImmediately": true})
		var pulled struct{ ReceivedMessages []struct{ AckID string } }
		if err := json.Unmarshal(text, &pulled); err != nil {
			t.Fatal(err)
		}
		if len(pulled.ReceivedMessages) == 0 {
			return all
		}
		all = append(all, text...)
		var ids []string
		for _, m := range pulled.ReceivedMessages {
			ids = append(ids, m.AckID)
		}
		emulator(t, w.Ready.PubSubEmulatorHost, http.MethodPost, w.subscriptions()+listener+":acknowledge", map[string]any{"ackIds": ids})
	}
}

// objects is every object of a namespace, events, annotations and managed fields included, but for what Secrets are there for: their data.
func (w world) objects(t *testing.T, namespace string) (all []byte) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", w.Ready.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	lists, err := w.cluster.Discovery().ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	secrets := 0
	for _, list := range lists {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			if !r.Namespaced || !slices.Contains(r.Verbs, "list") {
				continue
			}
			found, err := client.Resource(group.WithResource(r.Name)).Namespace(namespace).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range found.Items {
				if r.Name == "secrets" {
					secrets++
					unstructured.RemoveNestedField(o.Object, "data")
				}
				text, err := o.MarshalJSON()
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, text...)
			}
		}
	}
	if secrets == 0 {
		t.Errorf("the namespace %s has no Secret: the search looks elsewhere", namespace)
	}
	return all
}

// logged is what functions logged: those of this process, and those that have their own.
func (w world) logged(t *testing.T) []byte {
	t.Helper()
	all := logs.text()
	files, err := filepath.Glob(filepath.Join(w.dir, "functions", "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text...)
	}
	return all
}

// shelves is what Secret Manager tells of an agent's secrets without their values.
func (w world) shelves(t *testing.T, id string) (all []byte) {
	t.Helper()
	for listed, err := range w.vault.client.ListSecrets(t.Context(), &secretmanagerpb.ListSecretsRequest{Parent: w.vault.project, Filter: "labels.agent-id=" + id}).All() {
		if err != nil {
			t.Fatal(err)
		}
		all = fmt.Append(all, listed.GetName(), listed.GetLabels(), listed.GetAnnotations(), listed.GetVersionAliases())
	}
	return all
}

// places is everything that somebody may read who is not to read a secret.
func (w world) places(t *testing.T, ids ...string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{"Firestore": w.documents(t), "Pub/Sub": w.messages(t), "the logs": w.logged(t)}
	for _, id := range ids {
		all["the cluster"] = append(all["the cluster"], w.objects(t, "agent-"+id)...)
		all["Secret Manager's names"] = append(all["Secret Manager's names"], w.shelves(t, id)...)
	}
	for place, text := range all {
		if len(text) == 0 {
			t.Errorf("%s: nothing was found to search", place)
		}
	}
	if !strings.Contains(string(all["the logs"]), `"function":"PutSecrets"`) {
		t.Error("the logs are not those of the functions")
	}
	return all
}
