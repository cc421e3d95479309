package cloud_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/infra/gke/keptlog"
	"agents.example/controlplane/shared/agent"
)

// testEndedLogs ends the container of an agent three times. The log of each run is there afterwards, also while the
// agent is stopped and when it runs again, and goes with the agent.
func testEndedLogs(t *testing.T, d deployment) {
	const runs = 3
	id := d.create(t, `{"name": "ends three times", "resource_plan": "hobby"}`)
	api, _ := d.awaitStatus(t, id, "running").body["api_url"].(string)
	key := d.revealCredentials(t, id).key
	for n := 1; n <= runs; n++ {
		d.chat(t, api, key, n)
		injectPodFault(t, d, id, cluster.ImagePull) // ends the container once
		d.await(t, id, "ended", func(answer) bool { return d.chatOfEnded(t, id, 1) == n })
		d.await(t, id, "done with a log that is kept", func(answer) bool { // a list of pods may be older than the end
			d.tick(t, "ObserveAgents")
			return d.keptLogs(t, id) == n
		})
		injectPodFault(t, d, id, "")
		d.await(t, id, "back", func(answer) bool {
			return d.askAgent(t, http.MethodGet, strings.TrimSuffix(api, "/")+"/models", key, "") == http.StatusOK
		})
	}
	check := func(when string) {
		t.Helper()
		for n := 1; n <= runs; n++ {
			checkEqual(t, fmt.Sprintf("chat in the log of the last run but %d, %s", n-1, when), d.chatOfEnded(t, id, n),
				runs+1-n)
		}
		refused := d.must(t, http.StatusConflict, http.MethodGet, "/api/v1/agents/"+id+"/logs?ended=4", "")
		checkEqual(t, "code of a log that no run wrote, "+when, refused.body["code"], "agent_not_restarted")
	}
	check("while it runs")
	d.must(t, http.StatusOK, http.MethodPost, "/agents/"+id+"/stop", "")
	d.await(t, id, "without a log", func(answer) bool {
		return d.call(t, d.Ready.APIKey, http.MethodGet, "/api/v1/agents/"+id+"/logs", "").status == http.StatusConflict
	})
	check("while it is stopped")
	d.must(t, http.StatusOK, http.MethodPost, "/agents/"+id+"/start", "")
	d.awaitStatus(t, id, "running")
	check("when it runs again")
	d.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
	d.await(t, id, "gone", func(a answer) bool { return a.status == http.StatusNotFound })
	_, err := d.cluster.ConfigMaps(agent.Namespace(id)).Get(t.Context(), "agent-log-1", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("a kept log of a deleted agent: %v, want that there is none", err)
	}
}

// keptLogs returns how many logs the namespace of an agent keeps.
func (d deployment) keptLogs(t *testing.T, id string) int {
	t.Helper()
	kept, err := d.cluster.ConfigMaps(agent.Namespace(id)).List(t.Context(),
		metav1.ListOptions{LabelSelector: keptlog.Label})
	if err != nil {
		t.Fatal(err)
	}
	return len(kept.Items)
}

// chatOfEnded returns the number of messages of the last chat in the log of a container that has ended, whose first
// line says how it ended; 0 for a log that is not there.
func (d deployment) chatOfEnded(t *testing.T, id string, n int) int {
	t.Helper()
	a := d.call(t, d.Ready.APIKey, http.MethodGet, fmt.Sprintf("/api/v1/agents/%s/logs?ended=%d", id, n), "")
	if a.status != http.StatusOK {
		return 0
	}
	lines := decodeLog(t, a.text)
	if !strings.Contains(a.text, `"ended":{"started_at":`) {
		t.Errorf("log of an ended container = %.300s, want one that says how it ended", a.text)
	}
	for i := len(lines) - 1; i >= 0; i-- {
		if chat := chatIn(lines[i]); chat > 0 {
			return chat
		}
	}
	return 0
}
