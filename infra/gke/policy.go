package gke

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	// quotaPods is the number of pods that a namespace has room for: the agent's, one that reads a snapshot, and one
	// more. The API server may count a pod for a moment after it is gone, and must not refuse its replacement in that
	// moment. The overhead of a sandbox counts, too.
	quotaPods = 3
	// quotaVolumes is the number of volumes: the present one, the former or the next one, and one that a snapshot is
	// read from.
	quotaVolumes = 3
	// ephemeralBytes is what the agent's container may write outside its volume: its logs, and scratchBytes. On
	// Autopilot the request is the limit.
	ephemeralBytes = 1 << 30
	// The front writes nothing but its log.
	frontEphemeralBytes = 64 << 20
	frontMemoryMiB      = 32
	frontCPURequest     = 10  // millicores
	frontCPULimit       = 250 // millicores
	// minProtectedCPU is the CPU request, in millicores, to which Autopilot raises a pod that must not be evicted.
	// Smaller pods stay evictable, because their plans do not cover the difference.
	minProtectedCPU = 500
)

// quota bounds the namespace as a whole, whatever pods are created in it. A request is at most its limit, so the limits
// bound the requests, too. A plan's own requests would not do: Autopilot raises the CPU request of a pod that has much
// memory for its CPU, or that must not be evicted.
func (b blueprint) quota() object {
	limits := sum(b.agentResources().Limits, frontResources().Limits)
	for name, quantity := range limits {
		quantity.Mul(quotaPods)
		limits[name] = quantity
	}
	cpu, memory, ephemeral := limits[corev1.ResourceCPU], limits[corev1.ResourceMemory],
		limits[corev1.ResourceEphemeralStorage]
	return &corev1.ResourceQuota{
		TypeMeta: typed("v1", "ResourceQuota"), ObjectMeta: b.named(agentName),
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
			corev1.ResourcePods:                     *resource.NewQuantity(quotaPods, resource.DecimalSI),
			corev1.ResourceRequestsCPU:              cpu,
			corev1.ResourceLimitsCPU:                cpu,
			corev1.ResourceRequestsMemory:           memory,
			corev1.ResourceLimitsMemory:             memory,
			corev1.ResourceRequestsEphemeralStorage: ephemeral,
			corev1.ResourceLimitsEphemeralStorage:   ephemeral,
			corev1.ResourcePersistentVolumeClaims:   *resource.NewQuantity(quotaVolumes, resource.DecimalSI),
			corev1.ResourceRequestsStorage:          size(quotaVolumes * b.volumeBytes()),
			// Both would open a way in past the router.
			corev1.ResourceServicesLoadBalancers: {},
			corev1.ResourceServicesNodePorts:     {},
		}},
	}
}

// sum adds up the quantities of two lists.
func sum(a, b corev1.ResourceList) corev1.ResourceList {
	total := corev1.ResourceList{}
	for _, list := range []corev1.ResourceList{a, b} {
		for name, quantity := range list {
			subtotal := total[name]
			subtotal.Add(quantity)
			total[name] = subtotal
		}
	}
	return total
}

// agentResources are what the plan promises to the agent's container, and what it allows.
func (b blueprint) agentResources() corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Requests: resources(b.plan.CPURequestMillicores, b.plan.MemoryRequestMiB, ephemeralBytes),
		Limits:   resources(b.plan.CPULimitMillicores, b.plan.MemoryLimitMiB, ephemeralBytes),
	}
}

// frontResources are what the front takes in addition to the plan.
func frontResources() corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Requests: resources(frontCPURequest, frontMemoryMiB, frontEphemeralBytes),
		Limits:   resources(frontCPULimit, frontMemoryMiB, frontEphemeralBytes),
	}
}

func resources(cpuMillicores, memoryMiB, ephemeral int64) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:              millicores(cpuMillicores),
		corev1.ResourceMemory:           mebibytes(memoryMiB),
		corev1.ResourceEphemeralStorage: size(ephemeral),
	}
}

func millicores(n int64) resource.Quantity { return *resource.NewMilliQuantity(n, resource.DecimalSI) }

func mebibytes(n int64) resource.Quantity { return size(n << 20) }

func size(bytes int64) resource.Quantity { return *resource.NewQuantity(bytes, resource.BinarySI) }
