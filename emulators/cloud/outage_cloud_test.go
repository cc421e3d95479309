package cloud_test

import (
	"maps"
	"net/http"
	"path/filepath"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"agents.example/controlplane/emulators/cloud"
	"agents.example/controlplane/emulators/proxy"
	"agents.example/controlplane/functions"
	"agents.example/controlplane/shared/function"
)

// fragile is a cloud whose functions reach every service through a proxy, which can interrupt the service. Nothing runs
// on a schedule. The data plane and the test reach the services directly.
type fragile struct {
	deployment
	*deliveries
	records  records
	services map[string]*proxy.TCP
	// gate is closed while workers wait with their next push.
	gate sync.RWMutex
}

// The services that can be interrupted.
const (
	databaseService   = "Firestore"
	queueService      = "Pub/Sub"
	secretsService    = "Secret Manager"
	clusterService    = "cluster"
	monitoringService = "Monitoring"
)

func startFragile(t *testing.T) *fragile {
	t.Helper()
	f := &fragile{deliveries: newDeliveries(), services: map[string]*proxy.TCP{}}
	t.Cleanup(func() {
		for _, p := range f.services {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	f.deployment = start(t, false, func(o *cloud.Options) {
		o.NoSchedule, o.Wrap = true, f.route
		o.Environment = func(env map[string]string) error { return f.intercept(t, env) }
	})
	f.records = openRecords(t, f.Cloud)
	return f
}

// intercept starts the proxies.
func (f *fragile) intercept(t *testing.T, env map[string]string) error {
	t.Helper()
	for service, name := range map[string]string{
		databaseService: "FIRESTORE_EMULATOR_HOST", queueService: "PUBSUB_EMULATOR_HOST",
		secretsService: "SECRET_MANAGER_ENDPOINT", monitoringService: "MONITORING_ENDPOINT",
	} {
		p, err := proxy.StartTCP(env[name])
		if err != nil {
			return err
		}
		f.services[service], env[name] = p, p.Addr
	}
	return f.interceptCluster(t, env)
}

func (f *fragile) interceptCluster(t *testing.T, env map[string]string) error {
	t.Helper()
	config, err := clientcmd.LoadFromFile(cellsOf(t, env)[0]["kubeconfig"])
	if err != nil {
		return err
	}
	for _, c := range config.Clusters {
		p, err := proxy.StartTCP(c.Server[len("https://"):])
		if err != nil {
			return err
		}
		f.services[clusterService], c.Server = p, "https://"+p.Addr
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	setKubeconfig(t, env, file)
	return clientcmd.WriteToFile(*config, file)
}

// route makes workers wait at the gate.
func (f *fragile) route(functions http.Handler) http.Handler {
	return routeNudges(functions, func(w http.ResponseWriter, r *http.Request, p push) {
		f.track(w, r, p, func(w http.ResponseWriter, r *http.Request) {
			f.gate.RLock()
			f.gate.RUnlock() //nolint:staticcheck // waits while the gate is closed
			functions.ServeHTTP(w, r)
		})
	})
}

// tickAll runs every scheduled worker once. It waits for those that fail quickly without the service; the others, which
// retry, end before the returned function does.
func (f *fragile) tickAll(t *testing.T, retry func(function.Worker) bool) (await func()) {
	t.Helper()
	var quick, retrying sync.WaitGroup
	for _, w := range functions.Workers(functions.Dependencies{}) {
		switch {
		case w.Schedule == "":
		case retry(w):
			retrying.Go(func() { f.tick(t, w.Name) })
		default:
			quick.Go(func() { f.tick(t, w.Name) })
		}
	}
	quick.Wait()
	return retrying.Wait
}

// bystander is what an outage must leave as it is of a running agent.
type bystander struct {
	record, pods string
	// rollouts counts the changes of the pod template.
	rollouts int64
}

func (f *fragile) observe(t *testing.T, id string) (b bystander) {
	t.Helper()
	stored, err := f.records.agent(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(stored, func(_ string, value any) bool { _, aging := older(value, 1); return aging })
	b.record = text(t, stored)
	pods, err := f.cluster.Pods("agent-"+id).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		b.pods += p.Name + " " + string(p.UID) + ";"
	}
	b.rollouts = f.countRollouts(t, id)
	return b
}

// objects are the names of namespaces with their UIDs, and of secrets.
type objects map[string]bool

func (f *fragile) listObjects(t *testing.T) objects {
	t.Helper()
	all := objects{}
	namespaces, err := f.cluster.Namespaces().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range namespaces.Items {
		all["namespace "+n.Name+" "+string(n.UID)] = true
	}
	for _, name := range f.secretStore.listSecrets() {
		all[name] = true
	}
	return all
}

// missing lists the objects that are not among others.
func (o objects) missing(others objects) (lost []string) {
	for name := range o {
		if !others[name] {
			lost = append(lost, name)
		}
	}
	return lost
}

// authenticatedRoutes lists the routes that are not public.
func authenticatedRoutes() (routes []function.Route) {
	for _, r := range functions.Routes(functions.Dependencies{}) {
		if r.Access != function.Public {
			routes = append(routes, r)
		}
	}
	return routes
}
