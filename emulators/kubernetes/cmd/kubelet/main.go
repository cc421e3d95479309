// Command kubelet is the Kubernetes kubelet, with its usual flags and a configuration file. It is compiled with the
// packages of the local cluster's control plane, so that most of them are compiled only once. It does not simulate:
// package simulator does.
//
// In addition to the usual flags, -least-cpus makes the node report at least that many processors. The scheduler adds up
// what pods request of them, which is little use to a machine with two: agents that wait need no processor, and those
// that work share what there is.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	cadvisorapi "github.com/google/cadvisor/info/v1"
	"github.com/spf13/cobra"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/cli"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register"          // the log format JSON
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of the client
	_ "k8s.io/component-base/metrics/prometheus/version"  // the metric of the version
	"k8s.io/kubernetes/cmd/kubelet/app"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/validation"
	"k8s.io/kubernetes/pkg/kubelet/cadvisor"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/kubeletconfig/configfiles"
	utilfs "k8s.io/kubernetes/pkg/util/filesystem"
)

func main() { os.Exit(cli.Run(command())) }

func command() *cobra.Command {
	flags, cpus := options.NewKubeletFlags(), 0
	c := &cobra.Command{
		Use: "kubelet", SilenceUsage: true,
		RunE: func(*cobra.Command, []string) error {
			return run(genericapiserver.SetupSignalContext(), flags, cpus)
		},
	}
	flags.AddFlags(c.Flags())
	c.Flags().IntVar(&cpus, "least-cpus", 0, "least number of processors that the node reports")
	return c
}

func run(ctx context.Context, flags *options.KubeletFlags, cpus int) error {
	loader, err := configfiles.NewFsLoader(&utilfs.DefaultFs{}, flags.KubeletConfigFile)
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	config, err := loader.Load(ctx)
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	gates := utilfeature.DefaultMutableFeatureGate
	err = errors.Join(gates.SetFromMap(config.FeatureGates), options.ValidateKubeletFlags(flags),
		logsapi.ValidateAndApply(&config.Logging, gates), validation.ValidateKubeletConfiguration(config, gates))
	if err != nil {
		return fmt.Errorf("configure the kubelet: %w", err)
	}
	s := &options.KubeletServer{KubeletFlags: *flags, KubeletConfiguration: *config}
	dependencies, err := app.UnsecuredDependencies(ctx, s, gates)
	if err != nil {
		return err
	}
	endpoint := s.ContainerRuntimeEndpoint
	measured, err := cadvisor.New(cadvisor.NewImageFsInfoProvider(endpoint), s.RootDirectory,
		[]string{cm.NodeAllocatableRoot(s.CgroupRoot, s.CgroupsPerQOS, s.CgroupDriver)},
		cadvisor.UsingLegacyCadvisorStats(endpoint), s.LocalStorageCapacityIsolation)
	if err != nil {
		return fmt.Errorf("measure the machine: %w", err)
	}
	dependencies.CAdvisorInterface = roomy{measured, cpus}
	return app.Run(ctx, s, dependencies, gates)
}

// roomy reports a machine with at least a number of processors.
type roomy struct {
	cadvisor.Interface
	cpus int
}

func (r roomy) MachineInfo() (*cadvisorapi.MachineInfo, error) {
	info, err := r.Interface.MachineInfo()
	if err != nil {
		return nil, err
	}
	info = info.Clone()
	info.NumCores = max(info.NumCores, r.cpus)
	return info, nil
}
