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

// dial connects to an emulator. The official ones skip their rules for an owner, and the embedded ones have none.
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
		ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer,
		opts ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		return open(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer owner"), d, cc, method, opts...)
	}
	conn, err := grpc.NewClient("passthrough:///"+host, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(owner), grpc.WithStreamInterceptor(stream))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil && status.Code(err) != codes.Canceled { // a client that was closed closed it
			t.Error(err)
		}
	})
	return conn
}

// database opens Firestore past package infra/firestore.
func (w world) database(t *testing.T) *firestore.Client {
	t.Helper()
	client, err := firestore.NewClient(t.Context(), w.Ready.ProjectID,
		option.WithGRPCConn(dial(t, w.Ready.FirestoreEmulatorHost)))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// documents is everything in Firestore.
func (w world) documents(t *testing.T) (all []byte) {
	t.Helper()
	collections, err := w.database(t).Collections(t.Context()).GetAll()
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
		for _, d := range found {
			text, err := json.Marshal(d.Data())
			if err != nil {
				t.Fatal(err)
			}
			all = append(append(all, d.Ref.Path...), text...)
		}
	}
	if !slices.Contains(names, "secret_operations") || !slices.Contains(names, "idempotency") {
		t.Fatalf("the collections are %v", names)
	}
	return all
}

// nudges names the topic of nudges, and the subscription by which the search listens to it.
func (w world) nudges() (topic, listener string) {
	project := "projects/" + w.Ready.ProjectID
	return project + "/topics/" + string(function.AgentNudges), project + "/subscriptions/canary-listener"
}

// listen keeps a copy of every nudge from now on.
func (w world) listen(t *testing.T) {
	t.Helper()
	topic, listener := w.nudges()
	_, err := pubsubpb.NewSubscriberClient(dial(t, w.Ready.PubSubEmulatorHost)).
		CreateSubscription(t.Context(), &pubsubpb.Subscription{Name: listener, Topic: topic, AckDeadlineSeconds: 600})
	if err != nil {
		t.Fatal(err)
	}
}

// quiet is how long a pull waits for another message before there is none.
const quiet = 2 * time.Second

// messages is every nudge since it was asked for last.
func (w world) messages(t *testing.T) (all []byte) {
	t.Helper()
	_, listener := w.nudges()
	service := pubsubpb.NewSubscriberClient(dial(t, w.Ready.PubSubEmulatorHost))
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

// objects is every object of a namespace, events, annotations and managed fields included, but for what Secrets are
// there for: their data.
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
			found, err := client.Resource(group.WithResource(r.Name)).Namespace(namespace).List(t.Context(),
				metav1.ListOptions{})
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
	for listed, err := range w.vault.client.ListSecrets(t.Context(),
		&secretmanagerpb.ListSecretsRequest{Parent: w.vault.project, Filter: "labels.agent-id=" + id}).All() {
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
