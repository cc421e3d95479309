package cloud_test

import (
	"net/http"
	"sync"
	"testing"

	"agents.example/controlplane/emulators/rpc"
)

// testDeletionDuringSecretWrite deletes an agent while a value is being added. No secret of the agent stays in the
// store.
func testDeletionDuringSecretWrite(t *testing.T, d deployment) {
	id := d.create(t, `{"name": "deleted", "resource_plan": "hobby", "env_vars": {"OLD_TOKEN": "old"}}`)
	d.awaitStatus(t, id, "running")
	hook, held, release := holdFirst("AddSecretVersion")
	d.secretStore.inject(id, hook)
	var writing sync.WaitGroup
	writing.Go(func() {
		a := d.call(t, d.Ready.APIKey, http.MethodPut, "/agents/"+id+"/secrets", `{"secrets": {"NEW_TOKEN": "new"}}`)
		if a.status != http.StatusConflict && a.status != http.StatusNotFound {
			t.Errorf("secret for a deleted agent: got %d %s, want 409 or 404", a.status, a.text)
		}
	})
	<-held
	o := d.operations(t, id)[0]
	d.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
	d.awaitOperation(t, id, o, "store canceled")
	release()
	writing.Wait()
	d.secretStore.inject(id, nil)
	d.await(t, id, "gone", func(a answer) bool { return a.status == http.StatusNotFound })
	checkEqual(t, "secrets left in the store", d.secretStore.countSecrets(id), 0)
}

// testWorkerKilledWhileApplyingSecrets kills the worker at every stage of an operation. The operation still succeeds,
// with one version.
func testWorkerKilledWhileApplyingSecrets(t *testing.T, d deployment) {
	for stage, test := range map[string]struct {
		held  string // the call of the secret store at which the worker is killed
		value string
		want  versions
	}{
		"sync":     {held: "AccessSecretVersion", value: `"second"`, want: versions{added: 2, enabled: 1}},
		"rollout":  {value: `"second"`, want: versions{added: 2, enabled: 1}},
		"complete": {held: "DestroySecretVersion", value: `"second"`, want: versions{added: 2, enabled: 1}},
		"destroy":  {held: "DestroySecretVersion", value: "null", want: versions{added: 1, enabled: 0}},
	} {
		t.Run(stage, func(t *testing.T) {
			id := d.create(t, `{"name": "survivor", "resource_plan": "hobby", "env_vars": {"TOKEN": "first"}}`)
			d.awaitStatus(t, id, "running")
			d.await(t, id, "complete", func(answer) bool { return d.operations(t, id)[0].state() == succeeded })
			release := make(chan struct{})
			d.secretStore.inject(id, func(called, _ string) rpc.Fault {
				if called == test.held {
					<-release
				}
				return rpc.Fault{}
			})
			if stage == "rollout" {
				injectPodFault(t, d, id, "not-ready")
			}
			o := d.putSecrets(t, id, `{"TOKEN": `+test.value+`}`)[0]
			d.awaitOperation(t, id, o, stage+" running")
			if err := d.Functions.Kill("ReconcileAgent"); err != nil {
				t.Fatal(err)
			}
			close(release)
			d.secretStore.inject(id, nil)
			injectPodFault(t, d, id, "")
			if err := d.Functions.Restart(t.Context(), "ReconcileAgent"); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if a := d.reconcile(t, id, o); a.status != http.StatusOK && a.status != http.StatusConflict {
					t.Errorf("reconciling: got %d %s, want 200 or 409", a.status, a.text)
				}
			}
			d.awaitOperation(t, id, o, succeeded)
			d.secretStore.checkVersions(t, id, "TOKEN", test.want)
			d.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
		})
	}
}
