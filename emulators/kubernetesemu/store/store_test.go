package store

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"agents.example/controlplane/emulators/kubernetesemu/kinds"
)

func newStore(t *testing.T) (*Store, *kinds.Catalog) {
	t.Helper()
	catalog, err := kinds.Load()
	if err != nil {
		t.Fatal(err)
	}
	return New(catalog.Kinds, nil), catalog
}

func configMap(namespace, name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{"value": value},
	}
}

func put(s *Store, k *kinds.Kind, o *corev1.ConfigMap) { s.Put(k, Key{o.Namespace, o.Name}, o) }

// describe returns names and values of objects.
func describe(objects []runtime.Object) []string {
	var texts []string
	for _, o := range objects {
		m := o.(*corev1.ConfigMap)
		texts = append(texts, m.Namespace+"/"+m.Name+"="+m.Data["value"])
	}
	return texts
}

func TestListAt_IsWhatListWas(t *testing.T) {
	t.Parallel()
	s, catalog := newStore(t)
	k := catalog.Core("ConfigMap")
	type state struct {
		version    uint64
		all, inOne []string
	}
	var states []state
	remember := func() {
		states = append(states, state{s.Version(), describe(s.List(k, "")), describe(s.List(k, "one"))})
	}
	remember()
	for _, o := range []*corev1.ConfigMap{
		configMap("one", "b", "1"), configMap("two", "a", "1"), configMap("one", "a", "1"), configMap("one", "b", "2"),
	} {
		put(s, k, o)
		remember()
	}
	s.Remove(k, Key{"one", "a"}, configMap("one", "a", "1"))
	remember()
	put(s, k, configMap("one", "a", "3"))
	remember()
	for _, then := range states {
		for namespace, want := range map[string][]string{"": then.all, "one": then.inOne} {
			got, ok := s.ListAt(k, namespace, then.version)
			if !ok || !slices.Equal(describe(got), want) {
				t.Errorf("objects of %q at version %d = %q, %t, want %q", namespace, then.version, describe(got),
					ok, want)
			}
		}
	}
}

func TestSince_ForgetsTheOldestChanges(t *testing.T) {
	t.Parallel()
	s, catalog := newStore(t)
	k := catalog.Core("ConfigMap")
	first := s.Version()
	for i := range 2*keptChanges + 1 {
		put(s, k, configMap("one", "a", fmt.Sprint(i)))
	}
	if _, _, complete := s.Since(k, first); complete {
		t.Errorf("all of %d changes are kept", 2*keptChanges+1)
	}
	changes, _, complete := s.Since(k, s.Version()-keptChanges)
	if !complete || len(changes) != keptChanges || changes[0].Version != s.Version()-keptChanges+1 {
		t.Errorf("%d changes since the last %d, complete: %t", len(changes), keptChanges, complete)
	}
	if _, _, complete := s.Since(catalog.Core("Secret"), first); !complete {
		t.Error("changes of one kind made the store forget those of another")
	}
}

func TestRestore_ContinuesWithWhatWasSaved(t *testing.T) {
	t.Parallel()
	before, catalog := newStore(t)
	k := catalog.Core("ConfigMap")
	put(before, k, configMap("one", "a", "1"))
	put(before, k, configMap("one", "b", "1"))
	before.Remove(k, Key{"one", "b"}, configMap("one", "b", "1"))
	path := filepath.Join(t.TempDir(), "objects")
	if err := before.Save(path); err != nil {
		t.Fatal(err)
	}
	after, _ := newStore(t)
	if err := after.Restore(path, catalog); err != nil {
		t.Fatal(err)
	}
	if got, want := describe(after.List(k, "")), []string{"one/a=1"}; !slices.Equal(got, want) {
		t.Errorf("objects = %q, want %q", got, want)
	}
	was, is := before.Get(k, Key{"one", "a"}), after.Get(k, Key{"one", "a"})
	if got, want := Meta(is).GetResourceVersion(), Meta(was).GetResourceVersion(); got != want ||
		after.Version() != before.Version() {
		t.Errorf("version %s of %d, want %s of %d", got, after.Version(), want, before.Version())
	}
	if _, _, complete := after.Since(k, before.Version()-1); complete {
		t.Error("a watch resumes from changes that were not saved")
	}
	if _, _, complete := after.Since(k, before.Version()); !complete {
		t.Error("a watch cannot resume from the saved version")
	}
}

func TestRestore_BeginsEmptyWithoutAFile(t *testing.T) {
	t.Parallel()
	s, catalog := newStore(t)
	if err := s.Restore(filepath.Join(t.TempDir(), "none"), catalog); err != nil {
		t.Error(err)
	}
}

func TestPut_StoresObjectsThatReadersDoNotChange(t *testing.T) {
	t.Parallel()
	s, catalog := newStore(t)
	limit := resource.NewQuantity(1<<30, resource.BinarySI)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "one", Name: "a"},
		Spec: corev1.PodSpec{Volumes: []corev1.Volume{{
			VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: limit}},
		}}},
	}
	s.Put(catalog.Core("Pod"), Key{"one", "a"}, pod)
	stored := *limit
	if text := limit.String(); *limit != stored {
		t.Errorf("formatting the quantity %s changed it from %#v to %#v", text, stored, *limit)
	}
}

func TestPages_ExpireInOrder(t *testing.T) {
	t.Parallel()
	p := NewPages()
	first := p.Keep(Page{Version: 1})
	second := p.Keep(Page{Version: 2})
	for range keptPages - 1 {
		p.Keep(Page{})
	}
	if _, err := p.Take(first); !apierrors.IsResourceExpired(err) {
		t.Errorf("oldest page: error = %v, want Expired", err)
	}
	for range 2 { // a client may repeat its request
		if kept, err := p.Take(second); err != nil || kept.Version != 2 {
			t.Errorf("page = %+v, %v, want that of version 2", kept, err)
		}
	}
	if _, err := p.Take("none"); !apierrors.IsBadRequest(err) {
		t.Errorf("malformed token: error = %v, want BadRequest", err)
	}
}
