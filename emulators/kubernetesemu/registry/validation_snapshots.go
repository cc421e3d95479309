package registry

import (
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"agents.example/controlplane/emulators/kubeclient"
)

// What the definitions of the custom resources in emulators/cluster/snapshots.yaml say for other clusters.

func validateSnapshotKinds(o, old runtime.Object) field.ErrorList {
	switch o := o.(type) {
	case *kubeclient.VolumeSnapshot:
		before, _ := old.(*kubeclient.VolumeSnapshot)
		return validateSnapshot(o, before)
	case *kubeclient.VolumeSnapshotContent:
		before, _ := old.(*kubeclient.VolumeSnapshotContent)
		return validateSnapshotContent(o, before)
	case *kubeclient.VolumeSnapshotClass:
		return validateDeletionPolicy(nil, o.DeletionPolicy, o.Driver)
	}
	return nil
}

func validateSnapshot(o, old *kubeclient.VolumeSnapshot) field.ErrorList {
	source := field.NewPath("spec", "source")
	errs := validateSource(source, o.Spec.Source.Claim, o.Spec.Source.Content,
		"exactly one of volumeSnapshotContentName and persistentVolumeClaimName must be set")
	if o.Spec.Class != nil && *o.Spec.Class == "" {
		errs = append(errs, field.Invalid(field.NewPath("spec", "volumeSnapshotClassName"), "",
			"volumeSnapshotClassName must not be the empty string when set"))
	}
	if old != nil {
		errs = append(errs, apivalidation.ValidateImmutableField(o.Spec.Source, old.Spec.Source, source)...)
	}
	return errs
}

func validateSnapshotContent(o, old *kubeclient.VolumeSnapshotContent) field.ErrorList {
	spec := field.NewPath("spec")
	errs := validateSource(spec.Child("source"), o.Spec.Source.Volume, o.Spec.Source.Snapshot,
		"exactly one of volumeHandle and snapshotHandle must be set")
	errs = append(errs, validateDeletionPolicy(spec, o.Spec.DeletionPolicy, o.Spec.Driver)...)
	if ref := o.Spec.Snapshot; ref.Name == "" || ref.Namespace == "" {
		errs = append(errs, field.Invalid(spec.Child("volumeSnapshotRef"), ref.Name,
			"both spec.volumeSnapshotRef.name and spec.volumeSnapshotRef.namespace must be set"))
	}
	if old != nil {
		errs = append(errs, apivalidation.ValidateImmutableField(o.Spec.Source, old.Spec.Source,
			spec.Child("source"))...)
	}
	return errs
}

func validateSource(path *field.Path, a, b *string, text string) field.ErrorList {
	if (a == nil) == (b == nil) {
		return field.ErrorList{field.Invalid(path, "object", text)}
	}
	return nil
}

func validateDeletionPolicy(path *field.Path, policy, driver string) field.ErrorList {
	at := func(name string) *field.Path {
		if path == nil {
			return field.NewPath(name)
		}
		return path.Child(name)
	}
	var errs field.ErrorList
	switch policy {
	case "Delete", "Retain":
	case "":
		errs = append(errs, field.Required(at("deletionPolicy"), ""))
	default:
		errs = append(errs, field.NotSupported(at("deletionPolicy"), policy, []string{"Delete", "Retain"}))
	}
	if driver == "" {
		errs = append(errs, field.Required(at("driver"), ""))
	}
	return errs
}
