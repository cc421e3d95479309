package cloud_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/shared/function"
)

// logs receives the log lines of the functions in this process.
var logs logBuffer

// logBuffer is a buffer for concurrent writers.
type logBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

// Write implements io.Writer.
func (s *logBuffer) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buffer.Write(b)
}

func (s *logBuffer) text() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.buffer.Bytes())
}

// dial connects to an emulator as an owner, for whom the official emulators skip their rules.
func dial(t *testing.T, host string) *grpc.ClientConn {
	t.Helper()
	owner := func(
		ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
		opts ...grpc.CallOption,
	) error {
		return invoke(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer owner"), method, req, reply, cc,
			opts...)
	}
	stream := func(
		ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer,
		opts ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		return open(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer owner"), desc, cc, method, opts...)
	}
	conn, err := grpc.NewClient("passthrough:///"+host, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(owner), grpc.WithStreamInterceptor(stream))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil && status.Code(err) != codes.Canceled { // its client has closed it already
			t.Error(err)
		}
	})
	return conn
}

// database opens Firestore without package infra/firestore.
func (d deployment) database(t *testing.T) *firestore.Client {
	t.Helper()
	client, err := firestore.NewClient(t.Context(), d.Ready.ProjectID,
		option.WithGRPCConn(dial(t, d.Ready.FirestoreEmulatorHost)))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// firestoreText returns all documents in Firestore.
func (d deployment) firestoreText(t *testing.T) (all []byte) {
	t.Helper()
	collections, err := d.database(t).Collections(t.Context()).GetAll()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range collections {
		names = append(names, c.ID)
		found, err := c.Documents(t.Context()).GetAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range found {
			text, err := json.Marshal(doc.Data())
			if err != nil {
				t.Fatal(err)
			}
			all = append(append(all, doc.Ref.Path...), text...)
		}
	}
	if !slices.Contains(names, "secret_operations") || !slices.Contains(names, "idempotency") {
		t.Fatalf("collections = %v, want secret_operations and idempotency among them", names)
	}
	return all
}

// nudgeNames returns the names of the topic of nudges and of the search's subscription.
func (d deployment) nudgeNames() (topic, listener string) {
	project := "projects/" + d.Ready.ProjectID
	return project + "/topics/" + string(function.AgentNudges), project + "/subscriptions/canary-listener"
}

// listenToNudges makes the search's subscription, which keeps every nudge from now on.
func (d deployment) listenToNudges(t *testing.T) {
	t.Helper()
	topic, listener := d.nudgeNames()
	_, err := pubsubpb.NewSubscriberClient(dial(t, d.Ready.PubSubEmulatorHost)).
		CreateSubscription(t.Context(), &pubsubpb.Subscription{Name: listener, Topic: topic, AckDeadlineSeconds: 600})
	if err != nil {
		t.Fatal(err)
	}
}

// quiet is how long a pull waits for another message before it counts as the last.
const quiet = 10 * time.Second

// pullNudges returns every nudge since the last call.
func (d deployment) pullNudges(t *testing.T) (all []byte) {
	t.Helper()
	_, listener := d.nudgeNames()
	service := pubsubpb.NewSubscriberClient(dial(t, d.Ready.PubSubEmulatorHost))
	pull := func() []*pubsubpb.ReceivedMessage {
		ctx, cancel := context.WithTimeout(t.Context(), quiet)
		defer cancel()
		pulled, err := service.Pull(ctx, &pubsubpb.PullRequest{Subscription: listener, MaxMessages: 1000})
		if err != nil && status.Code(err) != codes.DeadlineExceeded {
			t.Fatal(err)
		}
		return pulled.GetReceivedMessages()
	}
	for {
		received := pull()
		if len(received) == 0 {
			return all
		}
		ids := make([]string, len(received))
		for i, m := range received {
			ids[i] = m.GetAckId()
			all = fmt.Appendf(all, "%s %v\n", m.GetMessage().GetData(), m.GetMessage().GetAttributes())
		}
		if _, err := service.Acknowledge(t.Context(),
			&pubsubpb.AcknowledgeRequest{Subscription: listener, AckIds: ids}); err != nil {
			t.Fatal(err)
		}
	}
}

// clusterText returns every object of a namespace with its events, annotations and managed fields, but without the data
// of Secrets.
func (d deployment) clusterText(t *testing.T, namespace string) (all []byte) {
	t.Helper()
	config := clustertest.Config(t, d.Ready.Kubeconfig)
	config.WarningHandler = rest.NoWarnings{}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	secrets := 0
	for _, r := range d.namespacedResources(t) {
		found, err := client.Resource(r).Namespace(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range found.Items {
			if r.Resource == "secrets" {
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
	if secrets == 0 {
		t.Errorf("namespace %s has no Secret, so the search is in the wrong place", namespace)
	}
	return all
}

// namespacedResources returns what the API server can list in a namespace, in each of its versions. The library's
// discovery client would link the types of all API groups.
func (d deployment) namespacedResources(t *testing.T) (all []schema.GroupVersionResource) {
	t.Helper()
	read := func(path string, into any) {
		text, err := d.cluster.REST().Get().AbsPath(path).SetHeader("Accept", "application/json").DoRaw(t.Context())
		if err == nil {
			err = json.Unmarshal(text, into)
		}
		if err != nil {
			t.Fatalf("read %s: %v", path, err)
		}
	}
	var list metav1.APIGroupList
	read("/apis", &list)
	groups := map[string]schema.GroupVersion{"/api/v1": {Version: "v1"}}
	for _, g := range list.Groups {
		for _, v := range g.Versions {
			groups["/apis/"+v.GroupVersion] = schema.GroupVersion{Group: g.Name, Version: v.Version}
		}
	}
	for path, group := range groups {
		var resources metav1.APIResourceList
		read(path, &resources)
		for _, r := range resources.APIResources {
			if r.Namespaced && slices.Contains(r.Verbs, "list") {
				all = append(all, group.WithResource(r.Name))
			}
		}
	}
	return all
}

// logText returns the logs of the functions, in this process and in separate ones.
func (d deployment) logText(t *testing.T) []byte {
	t.Helper()
	all := logs.text()
	files, err := filepath.Glob(filepath.Join(d.dir, "functions", "*.log"))
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

// logLines returns what the functions logged about a request, which holds the cause of its failure.
func (d deployment) logLines(t *testing.T, requestID string) []byte {
	t.Helper()
	if requestID == "" {
		return nil
	}
	var lines []byte
	for line := range bytes.Lines(d.logText(t)) {
		if bytes.Contains(line, []byte(requestID)) {
			lines = append(lines, line...)
		}
	}
	return lines
}

// secretManagerText returns the names, labels and annotations of an agent's secrets.
func (d deployment) secretManagerText(t *testing.T, id string) (all []byte) {
	t.Helper()
	for listed, err := range d.secretStore.client.ListSecrets(t.Context(),
		&secretmanagerpb.ListSecretsRequest{Parent: d.secretStore.project, Filter: "labels.agent-id=" + id}).All() {
		if err != nil {
			t.Fatal(err)
		}
		all = fmt.Append(all, listed.GetName(), listed.GetLabels(), listed.GetAnnotations(), listed.GetVersionAliases())
	}
	return all
}

// searchedPlaces returns the content of every place that people read who must not read secrets.
func (d deployment) searchedPlaces(t *testing.T, ids ...string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{"Firestore": d.firestoreText(t), "Pub/Sub": d.pullNudges(t), "the logs": d.logText(t)}
	for _, id := range ids {
		all["the cluster"] = append(all["the cluster"], d.clusterText(t, "agent-"+id)...)
		all["Secret Manager's names"] = append(all["Secret Manager's names"], d.secretManagerText(t, id)...)
	}
	for place, text := range all {
		if len(text) == 0 {
			t.Errorf("%s: empty, so the search proves nothing", place)
		}
	}
	if !strings.Contains(string(all["the logs"]), `"function":"PutSecrets"`) {
		t.Error("the logs have no line of the function PutSecrets")
	}
	return all
}
