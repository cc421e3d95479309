//go:build linux

package cluster_test

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func testLogs(t *testing.T, a *processAgent) {
	a.create(t)
	start := time.Now()
	a.call(t, http.MethodPost, "/print/first")
	a.call(t, http.MethodPost, "/exit/1")
	a.awaitPod(t, a.namespace, "restarted", func(status *corev1.PodStatus) bool {
		return ready(status) && containerOf(status, "agent").RestartCount == 1
	})
	one, bytes, old := int64(1), int64(5), int64(3600)
	later := metav1.NewTime(start.Add(time.Hour))
	for name, row := range map[string]struct {
		options corev1.PodLogOptions
		want    string
	}{
		"the run before":  {options: corev1.PodLogOptions{Previous: true, TailLines: &one}, want: "first\n"},
		"the sidecar's":   {options: corev1.PodLogOptions{Container: "front", LimitBytes: &bytes}, want: "front"},
		"nothing so new":  {options: corev1.PodLogOptions{SinceTime: &later}, want: ""},
		"an init program": {options: corev1.PodLogOptions{Container: "init", SinceSeconds: &old}, want: "init warns\n"},
	} {
		if row.options.Container == "" {
			row.options.Container = "agent"
		}
		if got := a.log(t, row.options); !strings.Contains(got, row.want) || row.want == "" && got != "" {
			t.Errorf("%s: log %q, want %q", name, got, row.want)
		}
	}
	line := a.log(t, corev1.PodLogOptions{Container: "agent", Timestamps: true, TailLines: &one})
	stamp, _, _ := strings.Cut(line, " ")
	if _, err := time.Parse(time.RFC3339Nano, stamp); err != nil || strings.Count(line, "\n") != 1 {
		t.Errorf("last line with time %q: %v", line, err)
	}
	_, err := a.client.Subresource(a.namespace, "agent-0", "log",
		&corev1.PodLogOptions{Container: "front", Previous: true}).Stream(t.Context())
	if err == nil || !strings.Contains(err.Error(), "previous terminated container") {
		t.Errorf("log of a run that was not: %v, want an error that says so", err)
	}
}

func testFollow(t *testing.T, a *processAgent) {
	a.create(t)
	stream, err := a.client.Subresource(a.namespace, "agent-0", "log",
		&corev1.PodLogOptions{Container: "agent", Follow: true}).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	a.call(t, http.MethodPost, "/print/live")
	lines := bufio.NewScanner(stream)
	for lines.Scan() && lines.Text() != "live" {
	}
	if lines.Text() != "live" {
		t.Errorf("the stream ended before the line that the agent printed: %v", lines.Err())
	}
	a.call(t, http.MethodPost, "/exit/0")
	for lines.Scan() { // ends with the container
	}
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
}
