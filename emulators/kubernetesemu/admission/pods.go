package admission

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	podsecurity "k8s.io/pod-security-admission/policy"

	"agents.example/controlplane/emulators/kubernetesemu/store"
)

// notReadySeconds is how long pods stay on a node that is not ready, unless they say something else.
const notReadySeconds = 300

// completePod does what the plugins ServiceAccount, RuntimeClass, Priority and DefaultTolerationSeconds do.
func (a *Admission) completePod(r *Attributes, pod *corev1.Pod) error {
	if pod.Spec.ServiceAccountName == "" {
		pod.Spec.ServiceAccountName = "default"
	}
	pod.Spec.DeprecatedServiceAccount = pod.Spec.ServiceAccountName
	account := store.Key{Namespace: r.Key.Namespace, Name: pod.Spec.ServiceAccountName}
	o, ok := a.store.Get(a.catalog.Core("ServiceAccount"), account).(*corev1.ServiceAccount)
	if !ok {
		return r.forbidden("error looking up service account %s/%s: serviceaccount %q not found", account.Namespace,
			account.Name, account.Name)
	}
	if mountsToken(pod, o) {
		mountToken(pod)
	}
	if class := pod.Spec.RuntimeClassName; class != nil {
		kind := a.catalog.Kind(nodev1.SchemeGroupVersion.WithKind("RuntimeClass"))
		found, ok := a.store.Get(kind, store.Key{Name: *class}).(*nodev1.RuntimeClass)
		if !ok {
			return r.forbidden("pod rejected: RuntimeClass %q not found", *class)
		}
		if found.Overhead != nil {
			pod.Spec.Overhead = found.Overhead.PodFixed
		}
	}
	tolerate(pod, corev1.TaintNodeNotReady)
	tolerate(pod, corev1.TaintNodeUnreachable)
	return a.setPriority(r, pod)
}

func (a *Admission) setPriority(r *Attributes, pod *corev1.Pod) error {
	priority, preemption := int32(0), corev1.PreemptLowerPriority
	if name := pod.Spec.PriorityClassName; name != "" {
		kind := a.catalog.Kind(schedulingv1.SchemeGroupVersion.WithKind("PriorityClass"))
		class, ok := a.store.Get(kind, store.Key{Name: name}).(*schedulingv1.PriorityClass)
		switch {
		case name == "system-cluster-critical":
			priority = 2_000_000_000
		case name == "system-node-critical":
			priority = 2_000_001_000
		case !ok:
			return r.forbidden("no PriorityClass with name %v was found", name)
		default:
			priority = class.Value
			if class.PreemptionPolicy != nil {
				preemption = *class.PreemptionPolicy
			}
		}
	}
	pod.Spec.Priority = &priority
	if pod.Spec.PreemptionPolicy == nil {
		pod.Spec.PreemptionPolicy = &preemption
	}
	return nil
}

// tolerate lets a pod stay for a while on a node with a taint.
func tolerate(pod *corev1.Pod, taint string) {
	for i := range pod.Spec.Tolerations {
		if t := &pod.Spec.Tolerations[i]; t.Key == taint || t.Key == "" && t.Operator == corev1.TolerationOpExists {
			return
		}
	}
	seconds := int64(notReadySeconds)
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
		Key: taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds,
	})
}

// evaluator has the checks of the Pod Security Standards.
var evaluator = sync.OnceValues(func() (podsecurity.Evaluator, error) {
	return podsecurity.NewEvaluator(podsecurity.DefaultChecks(), nil)
})

// checkPodSecurity refuses a pod that violates the standard that its namespace enforces.
func (a *Admission) checkPodSecurity(r *Attributes, meta *metav1.ObjectMeta, spec *corev1.PodSpec) error {
	standard, checks, err := a.standardOf(r.Key.Namespace)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	result := podsecurity.AggregateCheckResults(checks.EvaluatePod(standard.Enforce, meta, spec))
	if !result.Allowed {
		return r.forbidden("violates PodSecurity %q: %s", standard.Enforce.String(), result.ForbiddenDetail())
	}
	warnPod(r, checks, standard.Warn, meta, spec)
	return nil
}

// warnTemplate warns of a workload whose pods will violate the standard of the namespace.
func (a *Admission) warnTemplate(r *Attributes, template *corev1.PodTemplateSpec) {
	if standard, checks, err := a.standardOf(r.Key.Namespace); err == nil && r.Subresource == "" {
		warnPod(r, checks, standard.Warn, &template.ObjectMeta, &template.Spec)
	}
}

func warnPod(r *Attributes, checks podsecurity.Evaluator, level api.LevelVersion, meta *metav1.ObjectMeta,
	spec *corev1.PodSpec,
) {
	if result := podsecurity.AggregateCheckResults(checks.EvaluatePod(level, meta, spec)); !result.Allowed {
		r.Warn("would violate PodSecurity \"" + level.String() + "\": " + result.ForbiddenDetail())
	}
}

// standardOf returns what a namespace demands of pods.
func (a *Admission) standardOf(namespace string) (api.Policy, podsecurity.Evaluator, error) {
	checks, err := evaluator()
	if err != nil {
		return api.Policy{}, nil, err
	}
	var labels map[string]string
	if o := a.store.Get(a.catalog.Core("Namespace"), store.Key{Name: namespace}); o != nil {
		labels = store.Meta(o).GetLabels()
	}
	privileged := api.LevelVersion{Level: api.LevelPrivileged, Version: api.LatestVersion()}
	standard, errs := api.PolicyToEvaluate(labels, api.Policy{Enforce: privileged, Warn: privileged, Audit: privileged})
	return standard, checks, errs.ToAggregate()
}
