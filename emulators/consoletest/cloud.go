//go:build unix

package consoletest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"agents.example/controlplane/emulators/cloud"
	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/emulators/gcloud"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/function"
)

// sharedCloud is one local cloud, which the first test starts.
type sharedCloud struct {
	mu      sync.Mutex
	cloud   *cloud.Cloud
	dir     string
	log     io.Closer
	kube    metadata.Interface
	clients []*http.Client
	err     error
}

// Cloud returns the running cloud, with payments through the emulated Stripe. It skips as
// RequireBrowser does.
func (s *Suite) Cloud(t *testing.T) *cloud.Cloud {
	t.Helper()
	s.RequireBrowser(t) // a test without a browser needs no cloud
	c := &s.cloud
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cloud == nil && c.err == nil {
		c.err = c.start(t)
	}
	if c.err != nil {
		t.Fatal(c.err)
	}
	return c.cloud
}

// start does not use the context of a test: the cloud outlives it.
func (c *sharedCloud) start(t *testing.T) (err error) {
	if c.dir, err = os.MkdirTemp("", "console-test-"); err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(c.dir, "functions.log"))
	if err != nil {
		return err
	}
	c.log = file
	slog.SetDefault(function.NewLogger(file, slog.LevelInfo, ""))
	c.cloud, err = cloud.Start(context.Background(),
		cloud.Options{Dir: c.dir, Emulators: gcloud.Embedded, Payments: true})
	if err != nil {
		return fmt.Errorf("start the local cloud (logs: %s): %w", c.dir, err)
	}
	config := clustertest.Config(t, c.cloud.Ready.Kubeconfig)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	c.clients = []*http.Client{client, http.DefaultClient}
	c.kube, err = metadata.NewForConfigAndClient(config, client)
	return err
}

// close ends the cloud. It keeps the logs of failed tests.
func (c *sharedCloud) close(failed bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dir == "" {
		return nil
	}
	for _, client := range c.clients {
		client.CloseIdleConnections()
	}
	var err error
	if c.cloud != nil {
		err = c.cloud.Close()
	}
	if c.log != nil {
		err = errors.Join(err, c.log.Close())
	}
	if failed || err != nil {
		return errors.Join(err, fmt.Errorf("the logs of the cloud are in %s", c.dir))
	}
	return os.RemoveAll(c.dir)
}

// Break makes the pods of an agent suffer a fault, such as cluster.CrashLoop, also before they exist. An empty fault
// repairs them.
func (s *Suite) Break(t *testing.T, agentID string, fault cluster.Fault) {
	t.Helper()
	s.Cloud(t)
	configMaps := s.cloud.kube.Resource(corev1.SchemeGroupVersion.WithResource("configmaps"))
	_, err := configMaps.Namespace(cluster.FaultsNamespace).Patch(t.Context(), cluster.FaultsConfigMap,
		types.MergePatchType, cluster.FaultPatch(agent.Namespace(agentID), fault), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// Guest returns a page that may visit the console and the issuer and is not signed in.
func (s *Suite) Guest(t *testing.T) *Page {
	t.Helper()
	c := s.Cloud(t)
	return s.NewPage(t, c.Ready.BaseURL, strings.TrimSuffix(c.Issuer.URL(), "/"))
}
