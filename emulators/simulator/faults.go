package simulator

import (
	"log/slog"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"agents.example/controlplane/emulators/simulator/kubelet"
)

// The sources of faults; see the package comment.
const (
	FaultAnnotation = domain + "/fault"
	FaultsConfigMap = "simulator-faults" // in kube-system
)

// faults are all faults by namespace.
type faults struct {
	log *slog.Logger

	mu        sync.RWMutex
	annotated map[string]kubelet.Fault
	listed    map[string]kubelet.Fault
}

func newFaults(log *slog.Logger) *faults {
	return &faults{log: log, annotated: map[string]kubelet.Fault{}, listed: map[string]kubelet.Fault{}}
}

// of returns the fault of a namespace's pods.
func (f *faults) of(namespace string) kubelet.Fault {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if annotated, ok := f.annotated[namespace]; ok {
		return annotated
	}
	return f.listed[namespace]
}

// annotate sets the annotated fault of a namespace, "" for none, and reports whether it changed.
func (f *faults) annotate(namespace, text string) bool {
	told := f.parseAll(map[string]string{namespace: text})[namespace]
	f.mu.Lock()
	defer f.mu.Unlock()
	before, none := f.annotated[namespace], kubelet.Fault{}
	if delete(f.annotated, namespace); told != none {
		f.annotated[namespace] = told
	}
	return before != told
}

// list replaces the faults of the ConfigMap and returns the namespaces whose fault changed.
func (f *faults) list(data map[string]string) (changed []string) {
	told := f.parseAll(data)
	f.mu.Lock()
	defer f.mu.Unlock()
	namespaces := maps.Clone(f.listed)
	maps.Copy(namespaces, told)
	for namespace := range namespaces {
		if f.listed[namespace] != told[namespace] {
			changed = append(changed, namespace)
		}
	}
	f.listed = told
	return changed
}

func (f *faults) parseAll(texts map[string]string) map[string]kubelet.Fault {
	parsed := make(map[string]kubelet.Fault, len(texts))
	for namespace, text := range texts {
		fault, err := kubelet.ParseFault(text)
		if err != nil {
			f.log.Warn("unknown fault ignored", "namespace", namespace, "error", err)
		}
		parsed[namespace] = fault
	}
	return parsed
}

// watchNamespaces tracks the annotated faults.
func (s *Simulator) watchNamespaces() cache.ResourceEventHandler {
	take := func(object any) {
		if namespace, ok := object.(*corev1.Namespace); ok &&
			s.faults.annotate(namespace.Name, namespace.Annotations[FaultAnnotation]) {
			s.faultsChanged(namespace.Name)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: take, UpdateFunc: func(_, object any) { take(object) },
		DeleteFunc: func(object any) {
			if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
				s.faults.annotate(name, "")
			}
		},
	}
}

// watchFaultsConfigMap tracks the faults of the ConfigMap.
func (s *Simulator) watchFaultsConfigMap() cache.ResourceEventHandler {
	take := func(data map[string]string) {
		for _, namespace := range s.faults.list(data) {
			s.faultsChanged(namespace)
		}
	}
	add := func(object any) {
		if list, ok := object.(*corev1.ConfigMap); ok {
			take(list.Data)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: add, UpdateFunc: func(_, object any) { add(object) },
		DeleteFunc: func(any) { take(nil) },
	}
}

// faultsChanged makes the simulator and the scheduler process all pods of a namespace again.
func (s *Simulator) faultsChanged(namespace string) {
	for _, key := range s.podKeys(namespace) {
		s.podQueue.keys.Add(key)
	}
	s.nodeQueue.keys.Add(nodeName(0))
}
