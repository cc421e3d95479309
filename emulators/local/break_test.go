package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/emulators/cloud"
	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/clustertest"
)

// TestBreak_MakesAnAgentSuffer breaks agents by id, by name and the one created last, and heals one.
func TestBreak_MakesAnAgentSuffer(t *testing.T) {
	t.Parallel()
	running := clustertest.Start(t, cluster.Options{Dir: t.TempDir()})
	agents := map[string]string{"newest": uuid.NewString(), "named": uuid.NewString(), "by id": uuid.NewString()}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := agents["newest"]
		switch name := r.URL.Query().Get("name"); {
		case strings.HasSuffix(r.URL.Path, agents["by id"]):
			_ = json.NewEncoder(w).Encode(map[string]any{"id": agents["by id"]})
			return
		case name == "Named":
			id = agents["named"]
		case name != "":
			_, _ = io.WriteString(w, "[]")
			return
		}
		_ = json.NewEncoder(w).Encode([]any{map[string]any{"id": id}})
	}))
	defer api.Close()
	ready := filepath.Join(t.TempDir(), "ready.json")
	facts := cloud.Ready{BaseURL: api.URL, APIKey: "so_key", Kubeconfig: running.Kubeconfig}
	if err := facts.WriteFile(ready); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		args []string
		want string // a part of the error
	}{
		{args: []string{"oom"}},
		{args: []string{"Named", "crash-loop"}},
		{args: []string{agents["by id"], "not-ready"}},
		{args: []string{"Named", "none"}},
		{args: nil, want: "an agent and a fault"},
		{args: []string{"boom"}, want: "want one of none, crash-loop"},
		{args: []string{"Unknown", "oom"}, want: "no agent has the name"},
		{args: []string{"a", "b", "oom"}, want: "an agent and a fault"},
	} {
		err := breakAgent(t.Context(), append([]string{"-ready", ready}, row.args...))
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("break %q: error %v, want one with %q", row.args, err, row.want)
		}
	}
	faults, err := clustertest.Client(t, running.Kubeconfig).ConfigMaps(cluster.FaultsNamespace).
		Get(t.Context(), cluster.FaultsConfigMap, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for which, want := range map[string]cluster.Fault{
		"newest": cluster.OutOfMemory, "named": "", "by id": cluster.NotReady,
	} {
		if got := faults.Data["agent-"+agents[which]]; got != string(want) {
			t.Errorf("the fault of %s is %q, want %q", which, got, want)
		}
	}
}

// TestBreak_SaysThatTheCloudHasEnded: the file that describes a cloud outlives it.
func TestBreak_SaysThatTheCloudHasEnded(t *testing.T) {
	t.Parallel()
	api := httptest.NewServer(http.NotFoundHandler())
	api.Close()
	ready := filepath.Join(t.TempDir(), "ready.json")
	if err := (cloud.Ready{BaseURL: api.URL}).WriteFile(ready); err != nil {
		t.Fatal(err)
	}
	err := breakAgent(t.Context(), []string{"-ready", ready, "oom"})
	if err == nil || !strings.Contains(err.Error(), ready) || !strings.Contains(err.Error(), "start one with") {
		t.Errorf("break without its cloud: error %v, want one that names the file and says how to start a cloud", err)
	}
}
