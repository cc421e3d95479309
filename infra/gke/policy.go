package gke

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	// quotaPods is how many pods, and plans' worth of CPU and memory, fit a namespace: the agent's, and one more. The
	// API server may count what a pod held for a moment after the pod is gone, and must not refuse the replacement in
	// that moment. A sandbox's overhead counts as well.
	quotaPods = 2
	// ephemeralBytes is what a pod may write outside its volume: its logs, and scratchBytes. On Autopilot the request
	// is the limit.
	ephemeralBytes = 1 << 30
)

// quota bounds the namespace as a whole, whatever comes to be in it.
func (b blueprint) quota() object {
	return &corev1.ResourceQuota{
		TypeMeta: typed("v1", "ResourceQuota"), ObjectMeta: b.named(agentName),
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
			corev1.ResourcePods:                     *resource.NewQuantity(quotaPods, resource.DecimalSI),
			corev1.ResourceRequestsCPU:              millicores(quotaPods * b.plan.CPURequestMillicores),
			corev1.ResourceLimitsCPU:                millicores(quotaPods * b.plan.CPULimitMillicores),
			corev1.ResourceRequestsMemory:           mebibytes(quotaPods * b.plan.MemoryRequestMiB),
			corev1.ResourceLimitsMemory:             mebibytes(quotaPods * b.plan.MemoryLimitMiB),
			corev1.ResourceRequestsEphemeralStorage: size(quotaPods * ephemeralBytes),
			corev1.ResourceLimitsEphemeralStorage:   size(quotaPods * ephemeralBytes),
			corev1.ResourcePersistentVolumeClaims:   *resource.NewQuantity(1, resource.DecimalSI),
			corev1.ResourceRequestsStorage:          size(b.plan.StorageBytes()),
			// Both would open a way in past the gateway.
			corev1.ResourceServicesLoadBalancers: {},
			corev1.ResourceServicesNodePorts:     {},
		}},
	}
}

// limits bounds each container and volume in the namespace, and is what a container gets that asks for nothing.
func (b blueprint) limits() object {
	return &corev1.LimitRange{
		TypeMeta: typed("v1", "LimitRange"), ObjectMeta: b.named(agentName),
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
			{Type: corev1.LimitTypeContainer, Max: b.most(), Default: b.most(), DefaultRequest: b.least()},
			{
				Type: corev1.LimitTypePersistentVolumeClaim,
				Max:  corev1.ResourceList{corev1.ResourceStorage: size(b.plan.StorageBytes())},
			},
		}},
	}
}

// most is what the plan lets a container have.
func (b blueprint) most() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:              millicores(b.plan.CPULimitMillicores),
		corev1.ResourceMemory:           mebibytes(b.plan.MemoryLimitMiB),
		corev1.ResourceEphemeralStorage: size(ephemeralBytes),
	}
}

// least is what the plan keeps ready for a container.
func (b blueprint) least() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:              millicores(b.plan.CPURequestMillicores),
		corev1.ResourceMemory:           mebibytes(b.plan.MemoryRequestMiB),
		corev1.ResourceEphemeralStorage: size(ephemeralBytes),
	}
}

func millicores(n int64) resource.Quantity { return *resource.NewMilliQuantity(n, resource.DecimalSI) }

func mebibytes(n int64) resource.Quantity { return size(n << 20) }

func size(bytes int64) resource.Quantity { return *resource.NewQuantity(bytes, resource.BinarySI) }
