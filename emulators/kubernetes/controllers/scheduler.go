package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/component-base/configz"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"

	"agents.example/controlplane/emulators/kubernetes/component"
)

// SchedulerOptions configure RunScheduler; all are required.
type SchedulerOptions struct {
	Dir        string // where the scheduler's configuration file is written
	Kubeconfig string // an administrator's
	Extender   string // URL of an extender that filters nodes by name
}

// RunScheduler runs kube-scheduler until ctx ends.
func RunScheduler(ctx context.Context, o SchedulerOptions) error {
	file, err := writeSchedulerConfig(o)
	if err != nil {
		return err
	}
	s := options.NewOptions()
	if err := component.Parse("kube-scheduler", *s.Flags, []string{"--config=" + file, "--secure-port=0"}); err != nil {
		return err
	}
	if err := s.ComponentGlobalsRegistry.Set(); err != nil {
		return fmt.Errorf("set feature gates: %w", err)
	}
	// kube-scheduler registers its configuration under this name and fails if the name is taken, for example by an
	// earlier scheduler.
	configz.Delete("componentconfig")
	config, scheduler, err := app.Setup(ctx, s)
	if err != nil {
		return fmt.Errorf("configure kube-scheduler: %w", err)
	}
	if err := app.Run(ctx, config, scheduler); ctx.Err() == nil {
		return err // Run ends only with an error
	}
	return nil
}

func writeSchedulerConfig(o SchedulerOptions) (string, error) {
	type object = map[string]any
	config, err := json.Marshal(object{
		"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
		"clientConnection": object{"kubeconfig": o.Kubeconfig, "qps": -1},
		"leaderElection":   object{"leaderElect": false},
		// Short, so that a pod is retried soon after the obstacle to scheduling is gone.
		"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 2,
		"extenders": []object{{
			"urlPrefix": o.Extender, "filterVerb": "filter", "nodeCacheCapable": true, "httpTimeout": "10s",
		}},
	})
	if err != nil {
		return "", fmt.Errorf("encode the scheduler's configuration: %w", err)
	}
	file := filepath.Join(o.Dir, "scheduler.json")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return "", fmt.Errorf("write the scheduler's configuration: %w", err)
	}
	return file, nil
}
