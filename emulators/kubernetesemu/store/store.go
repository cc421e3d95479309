// Package store holds the objects of the embedded Kubernetes in memory, with a history of their changes for watches, as
// etcd and the API server's caches do. It does not check what it stores.
package store

import (
	"cmp"
	"maps"
	"slices"
	"sort"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"agents.example/controlplane/emulators/kubernetesemu/kinds"
)

const (
	// keptChanges is how many changes of a kind a watch can resume from.
	keptChanges = 4096
	// firstVersion is the version of an empty store. It is not the least one, so that an ancient version, as of another
	// cluster, is refused.
	firstVersion = 100
)

// Key names an object of a kind. Namespace is empty for objects that are in none.
type Key struct{ Namespace, Name string }

// Change is one write of an object.
type Change struct {
	Version uint64
	Kind    *kinds.Kind
	Key     Key
	Before  runtime.Object // nil for a new object
	After   runtime.Object // nil for a deleted object
	Last    runtime.Object // After, or the deleted object as of this change
}

// Store holds objects. Its mutex guards it: a caller of the other methods holds it, for writing where they change
// something. Stored objects are never changed, so they may be used without it.
type Store struct {
	sync.RWMutex
	version uint64
	tables  map[*kinds.Kind]*table
	observe func(Change)
}

// table has the objects and the latest changes of one kind.
type table struct {
	objects map[string]map[string]runtime.Object // by namespace and name
	count   int
	changes []Change
	dropped uint64        // version of the newest change that is no longer in changes
	changed chan struct{} // closed by the next change
}

// New returns an empty store of all kinds. observe is called for each change while the store is locked; it may be nil.
func New(all []*kinds.Kind, observe func(Change)) *Store {
	s := &Store{version: firstVersion, tables: map[*kinds.Kind]*table{}, observe: observe}
	for _, k := range all {
		s.tables[k] = &table{
			objects: map[string]map[string]runtime.Object{}, dropped: firstVersion, changed: make(chan struct{}),
		}
	}
	return s
}

// Version returns the version of the latest change.
func (s *Store) Version() uint64 { return s.version }

// Get returns an object, or nil.
func (s *Store) Get(k *kinds.Kind, key Key) runtime.Object {
	return s.tables[k].objects[key.Namespace][key.Name]
}

// List returns the objects of a namespace, or of all where that is empty, ordered by namespace and name.
func (s *Store) List(k *kinds.Kind, namespace string) []runtime.Object {
	t := s.tables[k]
	namespaces := []string{namespace}
	all := make([]runtime.Object, 0, len(t.objects[namespace]))
	if namespace == metav1.NamespaceAll {
		namespaces, all = slices.Sorted(maps.Keys(t.objects)), make([]runtime.Object, 0, t.count)
	}
	for _, n := range namespaces {
		for _, name := range slices.Sorted(maps.Keys(t.objects[n])) {
			all = append(all, t.objects[n][name])
		}
	}
	return all
}

// ListAt returns what List returned at a version. It reports false if the store no longer knows.
func (s *Store) ListAt(k *kinds.Kind, namespace string, version uint64) ([]runtime.Object, bool) {
	changes, _, complete := s.Since(k, version)
	if !complete {
		return nil, false
	}
	then := map[Key]runtime.Object{}
	for _, o := range s.List(k, namespace) {
		then[Key{Meta(o).GetNamespace(), Meta(o).GetName()}] = o
	}
	for _, c := range slices.Backward(changes) {
		switch {
		case namespace != "" && c.Key.Namespace != namespace:
		case c.Before == nil:
			delete(then, c.Key)
		default:
			then[c.Key] = c.Before
		}
	}
	keys := slices.SortedFunc(maps.Keys(then), func(a, b Key) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	all := make([]runtime.Object, 0, len(keys))
	for _, key := range keys {
		all = append(all, then[key])
	}
	return all, true
}

// Put stores an object, which gets the next version and must not change afterwards.
func (s *Store) Put(k *kinds.Kind, key Key, o runtime.Object) {
	t := s.tables[k]
	before := t.objects[key.Namespace][key.Name]
	if t.objects[key.Namespace] == nil {
		t.objects[key.Namespace] = map[string]runtime.Object{}
	}
	if before == nil {
		t.count++
	}
	t.objects[key.Namespace][key.Name] = o
	s.record(t, Change{Kind: k, Key: key, Before: before, After: o, Last: o})
}

// Remove removes an object. last is what it was in the end; it must not be a stored object.
func (s *Store) Remove(k *kinds.Kind, key Key, last runtime.Object) {
	t := s.tables[k]
	before := t.objects[key.Namespace][key.Name]
	if before == nil {
		return
	}
	t.count--
	if delete(t.objects[key.Namespace], key.Name); len(t.objects[key.Namespace]) == 0 {
		delete(t.objects, key.Namespace)
	}
	s.record(t, Change{Kind: k, Key: key, Before: before, Last: last})
}

func (s *Store) record(t *table, c Change) {
	s.version++
	c.Version = s.version
	Meta(c.Last).SetResourceVersion(strconv.FormatUint(s.version, 10))
	settle(c.Last)
	if t.changes = append(t.changes, c); len(t.changes) > 2*keptChanges {
		t.dropped = t.changes[keptChanges-1].Version
		t.changes = slices.Clone(t.changes[keptChanges:])
	}
	close(t.changed)
	t.changed = make(chan struct{})
	if s.observe != nil {
		s.observe(c)
	}
}

// settle makes an object one that many may read at the same time. A quantity keeps its text when it is first encoded,
// which changes an object that points to the quantity.
func settle(o runtime.Object) {
	if message, ok := o.(interface{ Size() int }); ok {
		message.Size() // makes the text of each quantity
	}
}

// Since returns the changes of a kind after a version, and a channel that is closed at the next one. It reports false
// if the store no longer has all of them.
func (s *Store) Since(k *kinds.Kind, version uint64) (changes []Change, changed <-chan struct{}, complete bool) {
	t := s.tables[k]
	i := sort.Search(len(t.changes), func(i int) bool { return t.changes[i].Version > version })
	return t.changes[i:len(t.changes):len(t.changes)], t.changed, version >= t.dropped
}

// Meta returns the metadata of an object, which must be one of the catalog.
func Meta(o runtime.Object) metav1.Object {
	m, err := meta.Accessor(o)
	if err != nil {
		return &metav1.ObjectMeta{} // no type of the catalog is without metadata
	}
	return m
}
