package registry

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateStatefulSet(o, old *appsv1.StatefulSet) field.ErrorList {
	errs := validateTemplate(o.Spec.Selector, &o.Spec.Template)
	if old == nil {
		return errs
	}
	changed, was := o.Spec.DeepCopy(), old.Spec.DeepCopy()
	for _, spec := range []*appsv1.StatefulSetSpec{changed, was} {
		spec.Replicas, spec.Template, spec.UpdateStrategy = nil, corev1.PodTemplateSpec{}, appsv1.StatefulSetUpdateStrategy{}
		spec.MinReadySeconds, spec.PersistentVolumeClaimRetentionPolicy = 0, nil
		spec.Ordinals, spec.RevisionHistoryLimit = nil, nil
	}
	if !equality.Semantic.DeepEqual(changed, was) {
		errs = append(errs, field.Forbidden(field.NewPath("spec"), "updates to statefulset spec for fields other than "+
			"'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', "+
			"'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"))
	}
	return errs
}

func validateReplicas(replicas *int32) field.ErrorList {
	return apivalidation.ValidateNonnegativeField(int64(*replicas), field.NewPath("spec", "replicas"))
}

// validateTemplate checks that a workload selects the pods of its template.
func validateTemplate(selector *metav1.LabelSelector, template *corev1.PodTemplateSpec) field.ErrorList {
	spec := field.NewPath("spec")
	matches, err := metav1.LabelSelectorAsSelector(selector)
	switch {
	case selector == nil:
		return field.ErrorList{field.Required(spec.Child("selector"), "")}
	case err != nil:
		return field.ErrorList{field.Invalid(spec.Child("selector"), selector, err.Error())}
	case matches.Empty():
		return field.ErrorList{field.Invalid(spec.Child("selector"), selector, "empty selector is invalid")}
	case !matches.Matches(labels.Set(template.Labels)):
		return field.ErrorList{field.Invalid(spec.Child("template", "metadata", "labels"), template.Labels,
			"`selector` does not match template `labels`")}
	}
	at := spec.Child("template", "spec")
	errs := validatePodSpec(&template.Spec, at)
	if p := template.Spec.RestartPolicy; p != corev1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(at.Child("restartPolicy"), p, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	return errs
}

func validatePod(q *Request, o, old *corev1.Pod) field.ErrorList {
	errs := append(validatePodSpec(&o.Spec, field.NewPath("spec")), validateMounts(&o.Spec)...)
	if old == nil || q.Subresource == "binding" {
		return errs
	}
	changed, was := o.Spec.DeepCopy(), old.Spec.DeepCopy()
	for i := range min(len(changed.Containers), len(was.Containers)) {
		changed.Containers[i].Image = was.Containers[i].Image
	}
	for i := range min(len(changed.InitContainers), len(was.InitContainers)) {
		changed.InitContainers[i].Image = was.InitContainers[i].Image
	}
	changed.ActiveDeadlineSeconds, changed.Tolerations = was.ActiveDeadlineSeconds, was.Tolerations
	if !equality.Semantic.DeepEqual(changed, was) {
		errs = append(errs, field.Forbidden(field.NewPath("spec"), "pod updates may not change fields other than "+
			"`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` "+
			"(only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if "+
			"it was previously negative)"))
	}
	return errs
}

// validateMounts checks that the volumes of a pod exist. Those of a template may come from claims.
func validateMounts(p *corev1.PodSpec) field.ErrorList {
	volumes := map[string]bool{}
	for i := range p.Volumes {
		volumes[p.Volumes[i].Name] = true
	}
	var errs field.ErrorList
	for name, containers := range map[string][]corev1.Container{"initContainers": p.InitContainers, "containers": p.Containers} {
		for i := range containers {
			at := field.NewPath("spec", name).Index(i).Child("volumeMounts")
			for j, mount := range containers[i].VolumeMounts {
				if !volumes[mount.Name] {
					errs = append(errs, field.NotFound(at.Index(j).Child("name"), mount.Name))
				}
			}
		}
	}
	return errs
}

func validatePodSpec(p *corev1.PodSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(p.Containers) == 0 {
		errs = append(errs, field.Required(at.Child("containers"), ""))
	}
	names := map[string]bool{}
	check := func(c *corev1.Container, at *field.Path) {
		for _, text := range validation.IsDNS1123Label(c.Name) {
			errs = append(errs, field.Invalid(at.Child("name"), c.Name, text))
		}
		if names[c.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), c.Name))
		}
		names[c.Name] = true
		if c.Image == "" {
			errs = append(errs, field.Required(at.Child("image"), ""))
		}
		errs = append(errs, validateContainer(c, at)...)
	}
	for i := range p.InitContainers {
		check(&p.InitContainers[i], at.Child("initContainers").Index(i))
	}
	for i := range p.Containers {
		check(&p.Containers[i], at.Child("containers").Index(i))
	}
	return errs
}

func validateContainer(c *corev1.Container, at *field.Path) field.ErrorList {
	errs := validateResources(&c.Resources, at.Child("resources"))
	for i := range c.Env {
		name := at.Child("env").Index(i).Child("name")
		if c.Env[i].Name == "" {
			errs = append(errs, field.Required(name, ""))
			continue
		}
		for _, text := range validation.IsRelaxedEnvVarName(c.Env[i].Name) {
			errs = append(errs, field.Invalid(name, c.Env[i].Name, text))
		}
	}
	for i := range c.Ports {
		for _, text := range validation.IsValidPortNum(int(c.Ports[i].ContainerPort)) {
			errs = append(errs, field.Invalid(at.Child("ports").Index(i).Child("containerPort"),
				c.Ports[i].ContainerPort, text))
		}
	}
	if s := c.SecurityContext; s != nil && s.Privileged != nil && *s.Privileged && s.AllowPrivilegeEscalation != nil &&
		!*s.AllowPrivilegeEscalation {
		errs = append(errs, field.Invalid(at.Child("securityContext"), s,
			"cannot set `allowPrivilegeEscalation` to false and `privileged` to true"))
	}
	return errs
}

func validateResources(r *corev1.ResourceRequirements, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for name, request := range r.Requests {
		if limit, ok := r.Limits[name]; ok && request.Cmp(limit) > 0 {
			errs = append(errs, field.Invalid(at.Child("requests"), request.String(),
				fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String())))
		}
	}
	return errs
}
