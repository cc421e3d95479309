//go:build unix

package dataplane_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/emulators/dataplane"
	"agents.example/controlplane/emulators/process"
	"agents.example/controlplane/emulators/pubsubemu"
	"agents.example/controlplane/shared/agent"
	labels "agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/dataplane/router"
)

// TestWake_GoesFromTheRouterToTheTopic sends a request to an agent that sleeps: the router asks the notifier, which
// publishes a nudge that wakes the agent.
func TestWake_GoesFromTheRouterToTheTopic(t *testing.T) {
	k := clustertest.Start(t, cluster.Options{})
	built, err := dataplane.BuildPackages(t.Context(), "agents.example/controlplane/functions/cmd/router",
		"agents.example/controlplane/functions/cmd/notifier")
	if err != nil {
		t.Fatal(err)
	}
	for name, binaries := range map[string]dataplane.Binaries{
		"in this process": {}, "in separate processes": {Dir: built, Logs: t.TempDir()},
	} {
		t.Run(name, func(t *testing.T) { testWake(t, k, binaries) })
	}
}

func testWake(t *testing.T, k *cluster.Cluster, binaries dataplane.Binaries) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	project := "p-" + uuid.NewString()[:8]
	emulator, err := pubsubemu.Start(ctx, pubsubemu.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer emulator.Close() //nolint:errcheck // the test ends
	client, err := pubsubemu.Client(ctx, emulator.Host, project)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close() //nolint:errcheck // the test ends
	at, from := "projects/"+project+"/topics/nudges", "projects/"+project+"/subscriptions/nudges"
	if _, err := client.TopicAdminClient.CreateTopic(ctx, &pubsubpb.Topic{Name: at}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.SubscriptionAdminClient.CreateSubscription(ctx,
		&pubsubpb.Subscription{Name: from, Topic: at}); err != nil {
		t.Fatal(err)
	}
	ports, err := process.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	addr := (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: ports[0]}).String()
	r, err := dataplane.StartRouter(ctx, dataplane.RouterOptions{
		Binaries: binaries, Kubeconfig: k.Kubeconfig, Domain: "x.local", Notifier: "http://" + addr,
		Timeouts: router.Timeouts{Hold: 5 * time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // a held request outlasts the drain
	n, err := dataplane.StartNotifier(ctx, dataplane.NotifierOptions{
		Binaries: binaries, Kubeconfig: k.Kubeconfig, Project: project, Topic: "nudges", PubSub: emulator.Host,
		Addr: addr,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close() //nolint:errcheck // the test ends
	a := sleeper(t, k)
	clustertest.Eventually(t, func(ctx context.Context) error { return askOnce(ctx, r, a) })
	pulled, err := client.SubscriptionAdminClient.Pull(ctx, &pubsubpb.PullRequest{Subscription: from, MaxMessages: 1})
	if err != nil || len(pulled.GetReceivedMessages()) == 0 {
		t.Fatalf("pull = %v, %v", pulled, err)
	}
	got := string(pulled.GetReceivedMessages()[0].GetMessage().GetData())
	if want := `{"agent_id":"` + a.ID + `","wake":true}`; got != want {
		t.Errorf("the message is %s, want %s", got, want)
	}
}

// sleeper creates what the cluster has of an agent that sleeps, as far as the router sees it.
func sleeper(t *testing.T, k *cluster.Cluster) agent.Agent {
	t.Helper()
	c := clustertest.Client(t, k.Kubeconfig)
	a := agent.Agent{ID: uuid.NewString(), Slug: "a", Cell: "x"}
	_, err := c.Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.Namespace()}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Services(a.Namespace()).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "agent", Labels: map[string]string{
			"app.kubernetes.io/managed-by": "agent-control-plane", labels.LabelSlug: a.Slug,
			labels.LabelStarter: labels.StarterRequest, labels.LabelOrganization: "org_1",
		}},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"app.kubernetes.io/name": "agent"},
			Ports: []corev1.ServicePort{{Name: "http", Port: 8080}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// askOnce opens a page of the agent, and fails until the router shows that the agent wakes.
func askOnce(ctx context.Context, r *dataplane.Router, a agent.Agent) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.Addr+"/", nil)
	if err != nil {
		return err
	}
	req.Host, req.Close = a.Hostname(agent.Addresses{Domain: "local"}), true
	req.Header.Set("Authorization", "x")
	req.Header.Set("Accept", "text/html")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close() //nolint:errcheck // it is read
	body, err := io.ReadAll(res.Body)
	if err == nil && res.Header.Get("Retry-After") != "2" {
		err = errNotWaking(body)
	}
	return err
}

// errNotWaking is an answer that does not say that the agent wakes.
type errNotWaking string

// Error implements error.
func (e errNotWaking) Error() string { return "the router answers " + string(e) }
