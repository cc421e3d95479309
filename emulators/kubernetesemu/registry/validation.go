package registry

import (
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"agents.example/controlplane/emulators/kubernetesemu/admission"
	"agents.example/controlplane/emulators/kubernetesemu/store"
)

// validate returns what Kubernetes would not accept of an object: all of its metadata, and of its specification what
// names, limits or freezes the kinds that agents have. old is the object before a change, or nil.
func validate(q *Request, o, old runtime.Object) field.ErrorList {
	m, metadata := store.Meta(o), field.NewPath("metadata")
	errs := apivalidation.ValidateObjectMetaAccessor(m, q.Kind.Namespaced, nameRule(q), metadata)
	errs = append(errs, metavalidation.ValidateLabels(m.GetLabels(), metadata.Child("labels"))...)
	if old != nil {
		errs = append(errs, apivalidation.ValidateObjectMetaAccessorUpdate(m, store.Meta(old), metadata)...)
	}
	if q.Subresource != "status" {
		errs = append(errs, validateSpecification(q, o, old)...)
	}
	return deduplicated(errs)
}

// nameRule returns what names the objects of a kind may have.
func nameRule(q *Request) apivalidation.ValidateNameFunc {
	switch {
	case q.Kind.Group == rbacv1.GroupName:
		return validatePathSegment
	case q.Kind.Group == "" && (q.Kind.Kind == "Namespace" || q.Kind.Kind == "Service"):
		return apivalidation.NameIsDNSLabel
	}
	return apivalidation.NameIsDNSSubdomain
}

// validatePathSegment refuses names that cannot stand in the path of a URL.
func validatePathSegment(name string, _ bool) []string {
	if name == "." || name == ".." || strings.ContainsAny(name, "/%") {
		return []string{"may not be '.' or '..', and may not contain '/' or '%'"}
	}
	return nil
}

// deduplicated drops errors that two rules found.
func deduplicated(errs field.ErrorList) field.ErrorList {
	seen := map[string]bool{}
	var rest field.ErrorList
	for _, err := range errs {
		if text := err.Error(); !seen[text] {
			seen[text], rest = true, append(rest, err)
		}
	}
	return rest
}

func validateSpecification(q *Request, o, old runtime.Object) field.ErrorList {
	switch o := o.(type) {
	case *corev1.ConfigMap:
		before, _ := old.(*corev1.ConfigMap)
		return validateConfigMap(o, before)
	case *corev1.Secret:
		before, _ := old.(*corev1.Secret)
		return validateSecret(o, before)
	case *corev1.PersistentVolumeClaim:
		before, _ := old.(*corev1.PersistentVolumeClaim)
		return validateClaim(o, before)
	case *corev1.Service:
		before, _ := old.(*corev1.Service)
		return validateService(o, before)
	case *corev1.Pod:
		before, _ := old.(*corev1.Pod)
		return validatePod(q, o, before)
	case *appsv1.StatefulSet:
		before, _ := old.(*appsv1.StatefulSet)
		return append(validateReplicas(o.Spec.Replicas), validateStatefulSet(o, before)...)
	case *appsv1.ReplicaSet:
		return append(validateReplicas(o.Spec.Replicas), validateTemplate(o.Spec.Selector, &o.Spec.Template)...)
	case *corev1.ResourceQuota:
		return validateQuota(o)
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		return admission.ValidatePolicy(o)
	case *networkingv1.NetworkPolicy:
		return validateNetworkPolicy(o)
	case *rbacv1.RoleBinding:
		before, _ := old.(*rbacv1.RoleBinding)
		if before == nil {
			return validateRole(o.RoleRef, nil, "Role", "ClusterRole")
		}
		return validateRole(o.RoleRef, &before.RoleRef, "Role", "ClusterRole")
	case *rbacv1.ClusterRoleBinding:
		before, _ := old.(*rbacv1.ClusterRoleBinding)
		if before == nil {
			return validateRole(o.RoleRef, nil, "ClusterRole")
		}
		return validateRole(o.RoleRef, &before.RoleRef, "ClusterRole")
	case *appsv1.Deployment:
		errs := append(validateReplicas(o.Spec.Replicas), validateTemplate(o.Spec.Selector, &o.Spec.Template)...)
		if before, ok := old.(*appsv1.Deployment); ok {
			errs = append(errs, apivalidation.ValidateImmutableField(o.Spec.Selector, before.Spec.Selector,
				field.NewPath("spec", "selector"))...)
		}
		return errs
	}
	return validateSnapshotKinds(o, old)
}

// data collects the sizes and wrong names of entries.
type data struct {
	size int
	errs field.ErrorList
}

func (d *data) add(path *field.Path, name string, size int) {
	d.size += size
	for _, text := range validation.IsConfigMapKey(name) {
		d.errs = append(d.errs, field.Invalid(path.Key(name), name, text))
	}
}

func (d *data) all(path *field.Path) field.ErrorList {
	if d.size > corev1.MaxSecretSize {
		d.errs = append(d.errs, field.TooLong(path, "", corev1.MaxSecretSize))
	}
	return d.errs
}

const frozen = "field is immutable when `immutable` is set"

func validateConfigMap(o, old *corev1.ConfigMap) field.ErrorList {
	var d data
	for name, value := range o.Data {
		d.add(field.NewPath("data"), name, len(value))
	}
	for name, value := range o.BinaryData {
		d.add(field.NewPath("binaryData"), name, len(value))
	}
	errs := d.all(field.NewPath(""))
	if old == nil || old.Immutable == nil || !*old.Immutable {
		return errs
	}
	if o.Immutable == nil || !*o.Immutable {
		errs = append(errs, field.Forbidden(field.NewPath("immutable"), frozen))
	}
	if !equality.Semantic.DeepEqual(o.Data, old.Data) {
		errs = append(errs, field.Forbidden(field.NewPath("data"), frozen))
	}
	if !equality.Semantic.DeepEqual(o.BinaryData, old.BinaryData) {
		errs = append(errs, field.Forbidden(field.NewPath("binaryData"), frozen))
	}
	return errs
}

func validateSecret(o, old *corev1.Secret) field.ErrorList {
	var d data
	for name, value := range o.Data {
		d.add(field.NewPath("data"), name, len(value))
	}
	errs := d.all(field.NewPath("data"))
	if old == nil {
		return errs
	}
	errs = append(errs, apivalidation.ValidateImmutableField(o.Type, old.Type, field.NewPath("type"))...)
	if old.Immutable == nil || !*old.Immutable {
		return errs
	}
	if o.Immutable == nil || !*o.Immutable {
		errs = append(errs, field.Forbidden(field.NewPath("immutable"), frozen))
	}
	if !equality.Semantic.DeepEqual(o.Data, old.Data) {
		errs = append(errs, field.Forbidden(field.NewPath("data"), frozen))
	}
	return errs
}

func validateClaim(o, old *corev1.PersistentVolumeClaim) field.ErrorList {
	spec := field.NewPath("spec")
	var errs field.ErrorList
	if len(o.Spec.AccessModes) == 0 {
		errs = append(errs, field.Required(spec.Child("accessModes"), "at least 1 access mode is required"))
	}
	storage, ok := o.Spec.Resources.Requests[corev1.ResourceStorage]
	if path := spec.Child("resources").Key(string(corev1.ResourceStorage)); !ok {
		errs = append(errs, field.Required(path, ""))
	} else if storage.Sign() <= 0 {
		errs = append(errs, field.Invalid(path, storage.String(), "must be greater than zero"))
	}
	if old == nil {
		return errs
	}
	if shrinks(storage, old) {
		errs = append(errs, field.Forbidden(spec.Child("resources", "requests", "storage"),
			"field can not be less than status.capacity"))
	}
	changed, was := o.Spec.DeepCopy(), old.Spec.DeepCopy()
	changed.Resources, was.Resources = corev1.VolumeResourceRequirements{}, corev1.VolumeResourceRequirements{}
	if old.Status.Phase != corev1.ClaimBound {
		changed.Resources, was.Resources = o.Spec.Resources, old.Spec.Resources
	}
	if was.VolumeName == "" {
		changed.VolumeName = ""
	}
	if !equality.Semantic.DeepEqual(changed, was) {
		errs = append(errs, field.Forbidden(spec, "spec is immutable after creation except resources.requests and "+
			"volumeAttributesClassName for bound claims"))
	}
	return errs
}

// shrinks reports whether a claim would request less than before, and less than it has.
func shrinks(storage resource.Quantity, old *corev1.PersistentVolumeClaim) bool {
	has := old.Status.Capacity[corev1.ResourceStorage]
	return storage.Cmp(old.Spec.Resources.Requests[corev1.ResourceStorage]) < 0 && (has.IsZero() || storage.Cmp(has) < 0)
}

func validateService(o, old *corev1.Service) field.ErrorList {
	spec := field.NewPath("spec")
	var errs field.ErrorList
	for i := range o.Spec.Ports {
		at := spec.Child("ports").Index(i)
		for _, text := range validation.IsValidPortNum(int(o.Spec.Ports[i].Port)) {
			errs = append(errs, field.Invalid(at.Child("port"), o.Spec.Ports[i].Port, text))
		}
		if len(o.Spec.Ports) > 1 && o.Spec.Ports[i].Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
		}
	}
	if len(o.Spec.Ports) == 0 && o.Spec.ClusterIP != corev1.ClusterIPNone && o.Spec.Type != corev1.ServiceTypeExternalName {
		errs = append(errs, field.Required(spec.Child("ports"), ""))
	}
	if old != nil && old.Spec.ClusterIP != "" && o.Spec.Type != corev1.ServiceTypeExternalName &&
		o.Spec.ClusterIP != old.Spec.ClusterIP {
		errs = append(errs, field.Invalid(spec.Child("clusterIPs").Index(0), []string{o.Spec.ClusterIP},
			"may not change once set"))
	}
	return errs
}
