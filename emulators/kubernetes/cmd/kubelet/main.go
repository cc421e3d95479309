// Command kubelet is the Kubernetes kubelet, with its usual flags. It is compiled with the packages of the local
// cluster's control plane, so that most of them are compiled only once. It does not simulate: package simulator does.
package main

import (
	"context"
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // the log format JSON
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of the client
	_ "k8s.io/component-base/metrics/prometheus/version"  // the metric of the version
	"k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	os.Exit(cli.Run(app.NewKubeletCommand(context.Background())))
}
