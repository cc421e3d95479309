package simulator

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/emulators/kubeclient"
)

func TestDisks_TakeSixSnapshotsWithinAnHour(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.March, 2, 9, 30, 0, 0, time.UTC)
	d := disks{now: func() time.Time { return now }}
	take := func(disk string, want bool) (undo func()) {
		t.Helper()
		undo, ok := d.take(disk)
		if ok != want {
			t.Errorf("at %s, disk %s takes a snapshot: %t, want %t", now.Format(time.TimeOnly), disk, ok, want)
		}
		return undo
	}
	for range 6 {
		take("a", true)
		now = now.Add(time.Minute)
	}
	take("a", false)
	take("b", true)()
	now = now.Add(53 * time.Minute) // 59 after the first
	take("a", false)
	now = now.Add(time.Minute)
	take("a", true)() // it failed, so it does not count
	take("a", true)
	take("a", false)
}

func TestPruneSnapshots_KeepsThoseOfContents(t *testing.T) {
	t.Parallel()
	s := newSimulator(t, "")
	for _, name := range []string{"snapshot-a", "snapshot-b", "snapshot-c", "snapshot-left"} {
		if _, err := s.runtime.TakeSnapshot(t.Context(), name, "none", 1); err != nil {
			t.Fatal(err)
		}
	}
	content := func(name string, source, status *string) *kubeclient.VolumeSnapshotContent {
		return &kubeclient.VolumeSnapshotContent{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: kubeclient.VolumeSnapshotContentSpec{
				Source: kubeclient.VolumeSnapshotContentSource{Snapshot: source},
			},
			Status: &kubeclient.VolumeSnapshotContentStatus{Handle: status},
		}
	}
	err := s.pruneSnapshots([]*kubeclient.VolumeSnapshotContent{
		content("snapcontent-a", nil, nil), // the process ended before the content had a status
		content("other", new(handlePrefix+"snapshot-b"), nil), content("another", nil, new(handlePrefix+"snapshot-c")),
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.runtime.Snapshots()
	if err != nil || !slices.Equal(got, []string{"snapshot-a", "snapshot-b", "snapshot-c"}) {
		t.Errorf("snapshots %q, %v, want those of contents", got, err)
	}
}
