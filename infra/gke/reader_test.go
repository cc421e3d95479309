package gke

import (
	"bytes"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane"
)

const testSnapshot = "lopyycv5dzgfhgmoatseqtyhzy-k3v7x2ab"

// renderObjects writes objects as YAML.
func renderObjects(t *testing.T, objects ...object) []byte {
	t.Helper()
	var out bytes.Buffer
	for _, o := range objects {
		out.WriteString("---\n")
		out.Write(toYAML(t, o))
	}
	return out.Bytes()
}

func TestReader_MatchesGoldenFile(t *testing.T) {
	t.Parallel()
	a := testAgent()
	a.Reader = agent.Reader{Number: 3, SnapshotID: testSnapshot}
	b := blueprintOf(t, a)
	checkGolden(t, "reader.yaml", renderObjects(t, b.readerPolicy(), b.reader(testSnapshot, true),
		b.readerClaim(agent.Snapshot{ID: testSnapshot, SizeBytes: 5 << 30})))
	on, off := b.reader(testSnapshot, true), b.reader(testSnapshot, false)
	if generationOf(off) <= generationOf(on) || *off.Spec.Replicas != 0 {
		t.Errorf("the end of a reader has generation %d and %d replicas, want more than %d and none",
			generationOf(off), *off.Spec.Replicas, generationOf(on))
	}
	b.agent.Reader.Number++
	if next := b.reader(testSnapshot, true); generationOf(next) <= generationOf(off) {
		t.Errorf("the next reader has generation %d, want more than %d", generationOf(next), generationOf(off))
	}
}

// TestImports_OnlyTheImportGetsTheURL looks for the URL in the pod of an agent that begins with an archive.
func TestImports_OnlyTheImportGetsTheURL(t *testing.T) {
	t.Parallel()
	a := testAgent()
	a.Imports = true
	a.Env = append(a.Env, agent.EnvVar{Key: dataplane.EnvImportURL, SecretVersion: 1})
	b := blueprintOf(t, a, dataplane.EnvImportURL)
	pod := b.pod().Spec
	var have []string
	for _, c := range append(pod.InitContainers, pod.Containers...) {
		if slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool {
			return e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil &&
				e.ValueFrom.SecretKeyRef.Key == dataplane.EnvImportURL
		}) {
			have = append(have, c.Name)
		}
	}
	if !slices.Equal(have, []string{importName}) || pod.InitContainers[0].Name != importName {
		t.Errorf("the URL is in the containers %v, want import only, which is the first", have)
	}
	checkGolden(t, "import.yaml", renderObjects(t, b.statefulSet()))

	began := configHash(a)
	a.Imports = false
	if configHash(a) == began {
		t.Error("a pod with the import has the hash of one without")
	}
	b = blueprintOf(t, a, dataplane.EnvImportURL)
	secret, err := b.secret()
	must(t, err)
	if _, has := secret.(*corev1.Secret).Data[dataplane.EnvImportURL]; has || len(b.imports()) > 0 {
		t.Error("an agent that has run still has the URL of its archive, or the import")
	}
}

func TestJudge_ImportsFailForTheReasonOfTheirExitCode(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		exitCode      int32
		wantPermanent bool
	}{
		"unreachable": {exitCode: dataplane.ImportUnreachable},
		"killed":      {exitCode: 137},
		"refused":     {exitCode: dataplane.ImportRefused, wantPermanent: true},
		"denied":      {exitCode: dataplane.ImportDenied, wantPermanent: true},
		"missing":     {exitCode: dataplane.ImportMissing, wantPermanent: true},
		"not public":  {exitCode: dataplane.ImportNotPublic, wantPermanent: true},
		"invalid":     {exitCode: dataplane.ImportInvalid, wantPermanent: true},
		"newer":       {exitCode: dataplane.ImportNewer, wantPermanent: true},
		"incomplete":  {exitCode: dataplane.ImportIncomplete, wantPermanent: true},
		"too large":   {exitCode: dataplane.ImportTooLarge, wantPermanent: true},
	} {
		pod := &corev1.Pod{}
		pod.Annotations = map[string]string{annotationConfig: "h"}
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{
			Name:  importName,
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: c.exitCode}},
		}}
		v := desired{hash: "h"}.judge(pod)
		if v.failure == nil || v.failure.Code != codeImport || v.failure.Permanent != c.wantPermanent {
			t.Errorf("%s: %+v, want %s, permanent %v", name, v.failure, codeImport, c.wantPermanent)
		}
	}
}
