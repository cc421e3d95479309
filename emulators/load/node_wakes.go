package load

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"agents.example/controlplane/emulators/cloud"
	"agents.example/controlplane/emulators/kubeclient"
	"agents.example/controlplane/shared/client"
)

// measureWakes puts agents to sleep until their pods are gone, and measures a request to each of them, which wakes it.
func (f *NodeFigures) measureWakes(ctx context.Context, c *cloud.Cloud, api *client.Client, ids []string) error {
	for _, id := range ids {
		if _, err := api.SleepAgent(ctx, id); err != nil {
			return err
		}
	}
	if err := awaitNoPods(ctx, c.Ready.Kubeconfig, ids); err != nil {
		return err
	}
	router := httpClient(c.Router.Addr)
	defer router.CloseIdleConnections()
	for _, id := range ids {
		agent, err := newCaller(ctx, api, router, id)
		if err != nil {
			return err
		}
		took, err := agent.get(ctx, "/", http.StatusOK)
		if err != nil {
			return fmt.Errorf("the request that wakes agent %s: %w", id, err)
		}
		f.Woken = append(f.Woken, took)
	}
	return nil
}

// awaitNoPods waits until agents have no pods.
func awaitNoPods(ctx context.Context, kubeconfig string, ids []string) (err error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	cluster, err := kubeclient.New(config)
	if err != nil {
		return err
	}
	defer cluster.Close()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for len(ids) > 0 {
		pods, err := cluster.Pods("agent-"+ids[0]).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(pods.Items) == 0 {
			ids = ids[1:]
			continue
		}
		select {
		case <-ctx.Done():
			return errors.New("the agents do not fall asleep")
		case <-tick.C:
		}
	}
	return nil
}
