package telemetry

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	corev1 "k8s.io/api/core/v1"
)

// summary is what a kubelet measured, as far as it is read here.
type summary struct {
	Pods []struct {
		PodRef     podKey               `json:"podRef"`
		Containers []measuredContainers `json:"containers"`
	} `json:"pods"`
}

type podKey struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	UID       string `json:"uid"`
}

type measuredContainers struct {
	Name string `json:"name"`
	CPU  struct {
		UsageCoreNanoSeconds *uint64 `json:"usageCoreNanoSeconds"`
	} `json:"cpu"`
	Memory struct {
		UsageBytes      *uint64 `json:"usageBytes"`
		WorkingSetBytes *uint64 `json:"workingSetBytes"`
	} `json:"memory"`
}

// usage is what a kubelet measured of a container.
type usage struct {
	seconds float64 // of CPU since the container's start
	// working is the memory that the kernel cannot reclaim, and cache the memory that it can.
	working, cache int64
}

// measured is the usage of the real node's containers, by the pods' UIDs and the containers' names.
type measured map[string]usage

// measure asks the kubelet of the real node for its measurements, by way of the API server. They are nil if there is no
// such node.
func (t *Telemetry) measure(ctx context.Context) (measured, error) {
	node := t.options.RealNode
	if node == "" {
		return nil, nil
	}
	b, err := t.proxied(ctx, "/api/v1/nodes/"+url.PathEscape(node)+"/proxy/stats/summary")
	if err != nil {
		return nil, fmt.Errorf("measure the pods of %s: %w", node, err)
	}
	return readSummary(b)
}

func readSummary(b []byte) (measured, error) {
	var s summary
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("read the kubelet's measurements: %w", err)
	}
	all := measured{}
	for _, pod := range s.Pods {
		for _, c := range pod.Containers {
			if c.CPU.UsageCoreNanoSeconds == nil || c.Memory.WorkingSetBytes == nil {
				continue // not measured yet
			}
			u := usage{
				seconds: float64(*c.CPU.UsageCoreNanoSeconds) / 1e9,
				working: int64(*c.Memory.WorkingSetBytes), //nolint:gosec // bytes of memory
			}
			if used := c.Memory.UsageBytes; used != nil && *used > *c.Memory.WorkingSetBytes {
				u.cache = int64(*used - *c.Memory.WorkingSetBytes) //nolint:gosec // as above
			}
			all[containerKey(pod.PodRef.UID, c.Name)] = u
		}
	}
	return all, nil
}

// of returns the usage of a pod's first container, if the kubelet measured it.
func (all measured) of(pod *corev1.Pod) func(*meter, int64) (usage, bool) {
	return func(*meter, int64) (usage, bool) {
		u, known := all[containerKey(string(pod.UID), pod.Spec.Containers[0].Name)]
		return u, known
	}
}

func containerKey(uid, container string) string { return uid + "/" + container }

// onRealNode reports whether a pod runs as containers.
func (t *Telemetry) onRealNode(pod *corev1.Pod) bool {
	return t.options.RealNode != "" && pod.Spec.NodeName == t.options.RealNode
}

// proxied returns the answer of a node or a pod that only the API server reaches.
func (t *Telemetry) proxied(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	return t.client.Get().AbsPath(path).SetHeader("Accept", "application/json, text/plain").DoRaw(ctx)
}
