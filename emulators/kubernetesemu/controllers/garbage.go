package controllers

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"agents.example/controlplane/emulators/kubernetesemu/kinds"
	"agents.example/controlplane/emulators/kubernetesemu/store"
)

// object names an object.
type object struct {
	kind *kinds.Kind
	key  store.Key
}

// owners has the dependents of objects by the owner's uid. The store's lock guards it.
type owners map[types.UID]map[object]bool

func (w owners) observe(c store.Change) {
	o := object{c.Kind, c.Key}
	if c.Before != nil {
		for _, ref := range store.Meta(c.Before).GetOwnerReferences() {
			if delete(w[ref.UID], o); len(w[ref.UID]) == 0 {
				delete(w, ref.UID)
			}
		}
	}
	if c.After == nil {
		return
	}
	for _, ref := range store.Meta(c.After).GetOwnerReferences() {
		if w[ref.UID] == nil {
			w[ref.UID] = map[object]bool{}
		}
		w[ref.UID][o] = true
	}
}

// observeOwners takes note of objects that may be garbage, or that wait for their dependents.
func (c *Controllers) observeOwners(change store.Change) {
	m := store.Meta(change.Last)
	if change.After == nil {
		for o := range c.owners[m.GetUID()] {
			c.queue.Add(task{garbage, o.kind, o.key})
		}
	} else if len(m.GetOwnerReferences()) > 0 && change.Before == nil || m.GetDeletionTimestamp() != nil &&
		(hasFinalizer(change.Last, metav1.FinalizerDeleteDependents) || hasFinalizer(change.Last, metav1.FinalizerOrphanDependents)) {
		c.queue.Add(task{garbage, change.Kind, change.Key})
	}
	if change.After == nil || change.Before != nil &&
		len(store.Meta(change.Before).GetOwnerReferences()) > len(m.GetOwnerReferences()) {
		for _, ref := range store.Meta(change.Last).GetOwnerReferences() { // whom its end may release
			if k := c.ownerKind(ref); k != nil {
				c.queue.Add(task{garbage, k, ownerKey(k, change.Key.Namespace, ref)})
			}
		}
	}
}

func (c *Controllers) ownerKind(ref metav1.OwnerReference) *kinds.Kind {
	return c.catalog.Kind(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind))
}

// ownerKey returns the key of the owner of an object. Owners are in the same namespace, or in none.
func ownerKey(k *kinds.Kind, namespace string, ref metav1.OwnerReference) store.Key {
	if !k.Namespaced {
		namespace = ""
	}
	return store.Key{Namespace: namespace, Name: ref.Name}
}

// collect deletes an object whose owners are all gone, and does with the dependents of a deleted object what its
// deletion asked for.
func (c *Controllers) collect(k *kinds.Kind, key store.Key) error {
	o, err := c.registry.Get(k, key)
	if err != nil {
		return nil //nolint:nilerr // it is gone
	}
	if m := store.Meta(o); m.GetDeletionTimestamp() != nil {
		switch {
		case hasFinalizer(o, metav1.FinalizerOrphanDependents):
			return c.orphan(o)
		case hasFinalizer(o, metav1.FinalizerDeleteDependents):
			return c.deleteDependents(o)
		}
		return nil
	}
	refs := store.Meta(o).GetOwnerReferences()
	solid := slices.DeleteFunc(slices.Clone(refs), func(ref metav1.OwnerReference) bool { return !c.ownerExists(key.Namespace, ref) })
	switch len(solid) {
	case len(refs):
		return nil
	case 0:
		return remove(c, garbage, o, metav1.DeleteOptions{})
	}
	return change(c, garbage, o, "", func(live runtime.Object) { store.Meta(live).SetOwnerReferences(solid) })
}

// ownerExists reports whether an owner exists, or is of a kind that is not known here.
func (c *Controllers) ownerExists(namespace string, ref metav1.OwnerReference) bool {
	k := c.ownerKind(ref)
	if k == nil {
		return true
	}
	owner, err := c.registry.Get(k, ownerKey(k, namespace, ref))
	return err == nil && store.Meta(owner).GetUID() == ref.UID
}

// dependents returns the objects that an object owns.
func (c *Controllers) dependents(owner runtime.Object) []runtime.Object {
	objects := c.registry.Store
	objects.RLock()
	defer objects.RUnlock()
	var all []runtime.Object
	for o := range maps.Keys(c.owners[store.Meta(owner).GetUID()]) {
		if found := objects.Get(o.kind, o.key); found != nil {
			all = append(all, found)
		}
	}
	return all
}

// orphan makes the dependents of a deleted object independent.
func (c *Controllers) orphan(owner runtime.Object) error {
	uid := store.Meta(owner).GetUID()
	for _, o := range c.dependents(owner) {
		err := change(c, garbage, o, "", func(live runtime.Object) {
			m := store.Meta(live)
			m.SetOwnerReferences(slices.DeleteFunc(m.GetOwnerReferences(),
				func(ref metav1.OwnerReference) bool { return ref.UID == uid }))
		})
		if err != nil {
			return err
		}
	}
	return c.withoutFinalizer(garbage, owner, metav1.FinalizerOrphanDependents)
}

// deleteDependents deletes the dependents of a deleted object, which ends when those that block it are gone.
func (c *Controllers) deleteDependents(owner runtime.Object) error {
	uid, foreground := store.Meta(owner).GetUID(), metav1.DeletePropagationForeground
	blocked := false
	for _, o := range c.dependents(owner) {
		for _, ref := range store.Meta(o).GetOwnerReferences() {
			blocked = blocked || ref.UID == uid && ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion
		}
		if store.Meta(o).GetDeletionTimestamp() != nil {
			continue
		}
		if err := remove(c, garbage, o, metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
			return err
		}
	}
	if blocked && len(c.dependents(owner)) > 0 {
		return nil // the end of the last one comes back here
	}
	return c.withoutFinalizer(garbage, owner, metav1.FinalizerDeleteDependents)
}
