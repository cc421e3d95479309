package podworker

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestExpand_ReplacesKnownVariables(t *testing.T) {
	t.Parallel()
	values := map[string]string{"A": "1", "REF": "$(A)"}
	for text, want := range map[string]string{
		"x$(A)y": "x1y", "$(UNKNOWN)": "$(UNKNOWN)", "$$(A)": "$(A)", "$(A": "$(A", "$": "$", "$A": "$A",
		"$(REF)": "$(A)", "$(A)$(A)": "11", "": "",
	} {
		if got := expand(text, values); got != want {
			t.Errorf("expand(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestFieldOf_ReadsWhatPodsMayRefer(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "p", UID: "u", Labels: map[string]string{"b/c": "2", "a": "1"}, Annotations: map[string]string{"x": "y"},
	}}
	for path, want := range map[string]string{
		"metadata.name": "p", "metadata.uid": "u", "metadata.labels": "a=\"1\"\nb/c=\"2\"",
		"metadata.labels['b/c']":  "2",
		"metadata.labels['none']": "", "metadata.annotations['x']": "y",
	} {
		if got, err := fieldOf(pod, path); err != nil || got != want {
			t.Errorf("field %s = %q, %v; want %q", path, got, err, want)
		}
	}
	if _, err := fieldOf(pod, "spec.hostNetwork"); err == nil {
		t.Error("an unsupported field has a value, want an error")
	}
}

func TestResourceOf_RoundsUpToTheDivisor(t *testing.T) {
	t.Parallel()
	c := &corev1.Container{Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("1500m"), corev1.ResourceMemory: resource.MustParse("1537Mi"),
		},
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")},
	}}
	for _, row := range []struct{ resource, divisor, want string }{
		{resource: "limits.cpu", divisor: "1", want: "2"},
		{resource: "limits.cpu", divisor: "1m", want: "1500"},
		{resource: "limits.memory", divisor: "1Mi", want: "1537"},
		{resource: "limits.memory", divisor: "1Gi", want: "2"},
		{resource: "requests.cpu", divisor: "0", want: "1"},
		{resource: "requests.memory", divisor: "1", want: "0"},
	} {
		selector := &corev1.ResourceFieldSelector{Resource: row.resource, Divisor: resource.MustParse(row.divisor)}
		if got, err := resourceOf(c, selector); err != nil || got != row.want {
			t.Errorf("%s in %s = %q, %v; want %q", row.resource, row.divisor, got, err, row.want)
		}
	}
}

// objects has one ConfigMap and one Secret.
type objects struct{ Objects }

func (objects) ConfigMap(context.Context, string, string) (*corev1.ConfigMap, error) {
	return &corev1.ConfigMap{Data: map[string]string{"agent.json": "{}", "PLAIN": "$(PORT)"}}, nil
}

func (objects) Secret(context.Context, string, string) (*corev1.Secret, error) {
	return &corev1.Secret{Data: map[string][]byte{"KEY": []byte("the value")}}, nil
}

// TestProgram_HasVariablesThatReferToOthersAndFiles: references have the values that the process gets, also of the port
// and of paths, and those of a ConfigMap are no references.
func TestProgram_HasVariablesThatReferToOthersAndFiles(t *testing.T) {
	t.Parallel()
	named := corev1.LocalObjectReference{Name: "x"}
	mode := int32(0o400)
	c := &corev1.Container{
		Args:    []string{"--config", "/config/agent.json", "/configuration"},
		EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: named}}},
		Env: []corev1.EnvVar{
			{Name: "PORT", Value: "3000"},
			{Name: "CONFIG", Value: "/config/agent.json"},
			{Name: "GATEWAY_PORT", Value: "$(PORT)"},
			{Name: "COPY", Value: "$(CONFIG)"},
		},
		VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/config"}},
	}
	w := &worker{
		runtime: &Runtime{options: Options{Objects: objects{}}}, dir: t.TempDir(),
		port: podPort{declared: 3000, free: 4711},
		pod: &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{
			Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ConfigMap: &corev1.ConfigMapProjection{
					LocalObjectReference: named, Items: []corev1.KeyToPath{{Key: "agent.json", Path: "agent.json"}},
				}},
				{Secret: &corev1.SecretProjection{
					LocalObjectReference: named, Items: []corev1.KeyToPath{{Key: "KEY", Path: "deep/key", Mode: &mode}},
				}},
			}},
		}}}}},
	}
	var p program
	for range 2 { // the second start of the container
		var err error
		if p, err = w.program(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(w.dir, "volumes", "config")
	file := filepath.Join(dir, "agent.json")
	for _, want := range []string{
		"PORT=4711", "GATEWAY_PORT=4711", "CONFIG=" + file, "COPY=" + file, "PLAIN=$(PORT)",
	} {
		if !slices.Contains(p.env, want) {
			t.Errorf("the variables are %v, want %s", p.env, want)
		}
	}
	if want := []string{"--config", file, "/configuration"}; !slices.Equal(p.args, want) {
		t.Errorf("the arguments are %v, want %v", p.args, want)
	}
	key := filepath.Join(dir, "deep", "key")
	text, err := os.ReadFile(key)
	info, statErr := os.Stat(key)
	if err != nil || statErr != nil || string(text) != "the value" || info.Mode() != 0o400 {
		t.Errorf("the file of the secret is %q, %v; want its value, for the owner to read", text, err)
	}
	w.pod.Spec.Volumes[0].Projected.Sources[1].Secret.Items[0].Key = "NONE"
	if _, err := w.program(t.Context(), c); err == nil {
		t.Error("a key that is missing is no error")
	}
}
