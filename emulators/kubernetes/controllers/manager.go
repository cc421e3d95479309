// Package controllers runs the control loops of a real cluster in this process: kube-controller-manager,
// kube-scheduler, and the deletion of namespaces. It selects the necessary loops and tunes them for one local API
// server. It does not simulate nodes.
package controllers

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	kcm "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	kcmoptions "k8s.io/kubernetes/cmd/kube-controller-manager/app/options"

	"agents.example/controlplane/emulators/kubernetes/component"
)

// ManagerOptions configure RunManager; all are required.
type ManagerOptions struct {
	Kubeconfig string // an administrator's, next to the key of service accounts and the certificate authority
}

// RunManager runs kube-controller-manager until ctx ends. klog.OsExit must not end the process: it is called when a
// controller stops late.
func RunManager(ctx context.Context, o ManagerOptions) error {
	s, err := kcmoptions.NewKubeControllerManagerOptions()
	if err != nil {
		return fmt.Errorf("configure kube-controller-manager: %w", err)
	}
	all, disabled, aliases := kcm.KnownControllers(), kcm.ControllersDisabledByDefault(), kcm.ControllerAliases()
	sets := s.Flags(all, disabled, aliases)
	s.ParsedFlags = &sets
	dir := filepath.Dir(o.Kubeconfig)
	err = component.Parse("kube-controller-manager", sets, []string{
		"--kubeconfig=" + o.Kubeconfig, "--leader-elect=false", "--secure-port=0",
		"--service-account-private-key-file=" + filepath.Join(dir, "service-account.key"),
		"--root-ca-file=" + filepath.Join(dir, "ca.crt"),
		"--controllers=" + strings.Join(enabled(), ","),
		"--kube-api-qps=-1", "--kube-api-content-type=application/vnd.kubernetes.protobuf",
		"--concurrent-statefulset-syncs=10", "--concurrent-resource-quota-syncs=10",
		// A request that is canceled between charging the quota and storing its object leaves the quota charged until
		// the next full sync. The default of five minutes is too long for tests.
		"--resource-quota-sync-period=10s", "--concurrent-serviceaccount-token-syncs=10",
		// The binder binds a claim on its next sync. The default of 15 s is for provisioners that take minutes.
		"--pvclaimbinder-sync-period=1s",
		"--controller-shutdown-timeout=5s",
	})
	if err != nil {
		return err
	}
	if err := s.ComponentGlobalsRegistry.Set(); err != nil {
		return fmt.Errorf("set feature gates: %w", err)
	}
	config, err := s.Config(ctx, all, disabled, aliases)
	if err != nil {
		return fmt.Errorf("configure kube-controller-manager: %w", err)
	}
	return kcm.Run(ctx, config.Complete())
}

// enabled lists the loops that tenants' objects need.
//
// Omitted on purpose: namespace-controller, which RunNamespaceDeletion replaces; node-lifecycle-controller, so that
// simulated nodes need no heartbeat; endpoints-controller, whose deprecated objects cannot have the loopback addresses
// of pods that run as processes; and controllers for real nodes, clouds and certificates.
func enabled() []string {
	return []string{
		"serviceaccount-controller", "serviceaccount-token-controller", "root-ca-certificate-publisher-controller",
		"clusterrole-aggregation-controller",
		"resourcequota-controller", "garbage-collector-controller", "pod-garbage-collector-controller",
		"ttl-after-finished-controller",
		"statefulset-controller", "deployment-controller", "replicaset-controller", "daemonset-controller",
		"job-controller", "cronjob-controller",
		"disruption-controller", "endpointslice-controller",
		"persistentvolume-binder-controller", "persistentvolumeclaim-protection-controller",
		"persistentvolume-protection-controller",
		"ephemeral-volume-controller",
	}
}
