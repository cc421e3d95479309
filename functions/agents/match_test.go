package agents_test

import (
	"net/http"
	"testing"

	"agents.example/controlplane/functions/functiontest"
)

// TestIfMatch_GuardsWhatBelongsToAnAgent: a rehearsal names the version that the real call would change, also of calls
// that do not change the agent itself.
func TestIfMatch_GuardsWhatBelongsToAnAgent(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		route, body string
		path        map[string]string
		want        int
	}{
		{route: "PutSecrets", body: `{"secrets":{"NEW_TOKEN":"value"}}`, want: http.StatusAccepted},
		{route: "DeleteSecret", path: map[string]string{"key": "API_TOKEN"}, want: http.StatusAccepted},
		{route: "RotateCredentials", want: http.StatusOK},
		{route: "TakeSnapshot", body: `{"consistency":"crash"}`, want: http.StatusCreated},
		{route: "DeleteSnapshot", path: map[string]string{"snapshot_id": ""}, want: http.StatusAccepted},
	} {
		t.Run(row.route, func(t *testing.T) {
			t.Parallel()
			s := newSnapshotScene(t, map[string]string{"API_TOKEN": "value"})
			var options []functiontest.Option
			for name, value := range row.path {
				if name == "snapshot_id" {
					value = s.take(t)
				}
				options = append(options, functiontest.Path(name, value))
			}
			before := s.Agent(t, s.id)
			// A client that has no version, and says that it has one, must not change every version.
			for _, tag := range []string{`"another"`, ""} {
				s.call(t, row.route, row.body, append(options, functiontest.Header("If-Match", tag))...).
					Want(t, http.StatusPreconditionFailed, "version_mismatch")
			}
			if after := s.Agent(t, s.id); after.Version != before.Version {
				t.Errorf("the refused call changed the agent from version %s to %s", before.Version, after.Version)
			}
			s.call(t, row.route, row.body, append(options, functiontest.Header("If-Match", before.EntityTag()))...).
				Want(t, row.want, "")
		})
	}
}
