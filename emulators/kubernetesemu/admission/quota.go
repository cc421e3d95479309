package admission

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"agents.example/controlplane/emulators/kubernetesemu/kinds"
)

// countedKinds are the kinds of the core group whose objects quotas count.
func (a *Admission) countedKinds() []*kinds.Kind {
	return []*kinds.Kind{
		a.catalog.Core("Pod"), a.catalog.Core("PersistentVolumeClaim"), a.catalog.Core("Service"),
		a.catalog.Core("ConfigMap"), a.catalog.Core("Secret"),
	}
}

// Used returns what the objects of a namespace use of the resources that a quota limits.
func (a *Admission) Used(namespace string, hard corev1.ResourceList) corev1.ResourceList {
	used := corev1.ResourceList{}
	for name := range hard {
		used[name] = *resource.NewQuantity(0, resource.DecimalSI)
	}
	for _, k := range a.countedKinds() {
		for _, o := range a.store.List(k, namespace) {
			for name, quantity := range Usage(o) {
				if sum, ok := used[name]; ok {
					sum.Add(quantity)
					used[name] = sum
				}
			}
		}
	}
	return used
}

// Usage returns what an object uses of quotas.
func Usage(o runtime.Object) corev1.ResourceList {
	used := corev1.ResourceList{}
	count := func(name corev1.ResourceName) { used[name] = *resource.NewQuantity(1, resource.DecimalSI) }
	switch o := o.(type) {
	case *corev1.Pod:
		if o.Status.Phase == corev1.PodSucceeded || o.Status.Phase == corev1.PodFailed {
			return nil
		}
		count(corev1.ResourcePods)
		count("count/pods")
		addPod(used, &o.Spec)
	case *corev1.PersistentVolumeClaim:
		count(corev1.ResourcePersistentVolumeClaims)
		count("count/persistentvolumeclaims")
		used[corev1.ResourceRequestsStorage] = o.Spec.Resources.Requests[corev1.ResourceStorage]
	case *corev1.Service:
		count(corev1.ResourceServices)
		count("count/services")
		switch o.Spec.Type { //nolint:exhaustive // the others need no ports of nodes
		case corev1.ServiceTypeLoadBalancer:
			count(corev1.ResourceServicesLoadBalancers)
			fallthrough
		case corev1.ServiceTypeNodePort:
			used[corev1.ResourceServicesNodePorts] = *resource.NewQuantity(int64(len(o.Spec.Ports)), resource.DecimalSI)
		}
	case *corev1.ConfigMap:
		count(corev1.ResourceConfigMaps)
		count("count/configmaps")
	case *corev1.Secret:
		count(corev1.ResourceSecrets)
		count("count/secrets")
	}
	return used
}

func addPod(used corev1.ResourceList, spec *corev1.PodSpec) {
	for name, quantity := range PodRequests(spec) {
		used["requests."+name] = quantity
		used[name] = quantity
	}
	limits := podTotal(spec, func(c *corev1.Container) corev1.ResourceList { return c.Resources.Limits })
	for name, quantity := range limits {
		used["limits."+name] = quantity
	}
}

// PodRequests returns what a pod requests of a node.
func PodRequests(spec *corev1.PodSpec) corev1.ResourceList {
	return podTotal(spec, func(c *corev1.Container) corev1.ResourceList { return c.Resources.Requests })
}

// podTotal returns the most that containers need at any time: all containers and sidecars together, or an init
// container with the sidecars before it.
func podTotal(spec *corev1.PodSpec, of func(*corev1.Container) corev1.ResourceList) corev1.ResourceList {
	sidecars, most := corev1.ResourceList{}, corev1.ResourceList{}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(sidecars, of(c))
			continue
		}
		step := maps.Clone(sidecars)
		add(step, of(c))
		raise(most, step)
	}
	total := sidecars
	for i := range spec.Containers {
		add(total, of(&spec.Containers[i]))
	}
	raise(total, most)
	add(total, spec.Overhead)
	return total
}

func add(to, list corev1.ResourceList) {
	for name, quantity := range list {
		sum := to[name].DeepCopy()
		sum.Add(quantity)
		to[name] = sum
	}
}

func raise(to, list corev1.ResourceList) {
	for name, quantity := range list {
		if now, ok := to[name]; !ok || quantity.Cmp(now) > 0 {
			to[name] = quantity
		}
	}
}

// checkQuotas refuses what would use more than a quota of the namespace allows. It counts what exists, so requests
// that the store's lock orders never exceed a quota together. As in Kubernetes, the limits are those of the status: a
// quota that has just been made or changed counts a moment later.
func (a *Admission) checkQuotas(r *Attributes) error {
	asked := Usage(r.Object)
	if len(asked) == 0 {
		return nil
	}
	var had corev1.ResourceList
	if r.Old != nil {
		had = Usage(r.Old)
	}
	for _, o := range a.store.List(a.catalog.Core("ResourceQuota"), r.Key.Namespace) {
		quota := o.(*corev1.ResourceQuota)
		if pod, ok := r.Object.(*corev1.Pod); ok && r.Old == nil {
			if missing := unspecified(pod, quota.Status.Hard); len(missing) > 0 {
				return r.forbidden("failed quota: %s: must specify %s", quota.Name, strings.Join(missing, "; "))
			}
		}
		if err := a.checkQuota(r, quota, asked, had); err != nil {
			return err
		}
	}
	return nil
}

func (a *Admission) checkQuota(r *Attributes, quota *corev1.ResourceQuota, asked, had corev1.ResourceList) error {
	var used corev1.ResourceList
	var requested, taken, limited []string
	for _, name := range slices.Sorted(maps.Keys(quota.Status.Hard)) {
		more, ok := asked[name]
		if !ok {
			continue
		}
		more = more.DeepCopy()
		more.Sub(had[name])
		if more.Sign() <= 0 {
			continue
		}
		if used == nil {
			used = a.Used(r.Key.Namespace, quota.Status.Hard)
		}
		hard, now := quota.Status.Hard[name], used[name]
		after := now.DeepCopy()
		if after.Add(more); after.Cmp(hard) > 0 {
			requested = append(requested, fmt.Sprintf("%s=%s", name, more.String()))
			taken = append(taken, fmt.Sprintf("%s=%s", name, now.String()))
			limited = append(limited, fmt.Sprintf("%s=%s", name, hard.String()))
		}
	}
	if len(requested) == 0 {
		return nil
	}
	return r.forbidden("exceeded quota: %s, requested: %s, used: %s, limited: %s", quota.Name,
		strings.Join(requested, ","), strings.Join(taken, ","), strings.Join(limited, ","))
}

// unspecified names the resources that a quota limits and containers do not specify, and these containers.
func unspecified(pod *corev1.Pod, hard corev1.ResourceList) []string {
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(hard)) {
		kind, of, found := strings.Cut(string(name), ".")
		if !found {
			kind, of = "requests", string(name)
		}
		if kind != "requests" && kind != "limits" || of != "cpu" && of != "memory" {
			continue
		}
		var lacking []string
		for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range containers {
				r := &containers[i].Resources
				has := r.Requests
				if kind == "limits" {
					has = r.Limits
				}
				if _, ok := has[corev1.ResourceName(of)]; !ok {
					lacking = append(lacking, containers[i].Name)
				}
			}
		}
		if len(lacking) > 0 {
			slices.SortFunc(lacking, cmp.Compare[string])
			missing = append(missing, string(name)+" for: "+strings.Join(lacking, ","))
		}
	}
	return missing
}
