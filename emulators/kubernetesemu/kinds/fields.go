package kinds

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// manager merges the fields of objects and records who manages them.
type manager interface {
	UpdateNoErrors(live, next runtime.Object, manager string) runtime.Object
	Apply(live, applied runtime.Object, manager string, force bool) (runtime.Object, error)
}

// Update records in next the fields that a manager changed through a subresource, which may be empty. For a new object,
// live is empty.
func (k *Kind) Update(live, next runtime.Object, subresource, manager string) runtime.Object {
	return k.managerOf(subresource).UpdateNoErrors(live, next, manager)
}

// Apply merges fields that a manager applies through a subresource into live. Conflicts with other managers are errors,
// unless force is set.
func (k *Kind) Apply(live runtime.Object, applied *unstructured.Unstructured, subresource, manager string,
	force bool,
) (runtime.Object, error) {
	merged, err := k.managerOf(subresource).Apply(live, applied, manager, force)
	if err != nil {
		return nil, err
	}
	u, ok := merged.(*unstructured.Unstructured)
	if !ok {
		return merged, nil
	}
	o := k.New()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o); err != nil {
		return nil, fmt.Errorf("convert the applied %s: %w", k.Kind, err)
	}
	return o, nil
}

func (k *Kind) managerOf(subresource string) manager {
	if m, ok := k.managers[subresource]; ok {
		return m
	}
	return k.managers[""]
}

// newManagers makes the field managers of all kinds.
func (c *Catalog) newManagers() error {
	parser, err := newParser()
	if err != nil {
		return err
	}
	types := managedfields.NewSchemeTypeConverter(c.Scheme, parser)
	for _, k := range c.Kinds {
		k.managers = map[string]manager{}
		// A client that writes an object does not manage its status, and the other way around.
		reset := map[string][]string{"": nil}
		if k.Status {
			reset[""], reset["status"] = []string{"status"}, []string{"spec"}
		}
		if k.Scale {
			reset["scale"] = []string{"status"}
		}
		for subresource, fields := range reset {
			k.managers[subresource], err = managedfields.NewDefaultFieldManager(types, unconverted{c.Scheme},
				undefaulted{},
				creator{k}, k.GroupVersionKind, k.GroupVersion(), subresource, without(k, fields))
			if err != nil {
				return fmt.Errorf("manage the fields of %s: %w", k.Kind, err)
			}
		}
	}
	return nil
}

// without returns a filter that ignores fields.
func without(k *Kind, fields []string) map[fieldpath.APIVersion]fieldpath.Filter {
	if len(fields) == 0 {
		return nil
	}
	set := fieldpath.NewSet()
	for _, field := range fields {
		set.Insert(fieldpath.MakePathOrDie(field))
	}
	return map[fieldpath.APIVersion]fieldpath.Filter{
		fieldpath.APIVersion(k.GroupVersion().String()): fieldpath.NewExcludeSetFilter(set),
	}
}

// unconverted converts no object, because each kind has one version.
type unconverted struct{ runtime.ObjectConvertor }

// ConvertToVersion returns the object itself.
func (unconverted) ConvertToVersion(o runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return o, nil
}

// undefaulted leaves defaults to the registry.
type undefaulted struct{}

// Default does nothing.
func (undefaulted) Default(runtime.Object) {}

// creator creates empty objects of one kind.
type creator struct{ kind *Kind }

// New returns an empty object.
func (c creator) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	if gvk != c.kind.GroupVersionKind {
		return nil, fmt.Errorf("the object is a %s and no %s", gvk.Kind, c.kind.Kind)
	}
	return c.kind.New(), nil
}
