package cloud_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/emulators/rpc"
)

// deletedMeanwhile deletes an agent while a value is being added: nothing of it stays in the secret store.
func deletedMeanwhile(t *testing.T, w world) {
	id := w.create(t, `{"name": "deleted", "resource_plan": "hobby", "env_vars": {"OLD_TOKEN": "old"}}`)
	w.awaitStatus(t, id, "running")
	hold, held := make(chan struct{}), make(chan struct{})
	var first sync.Once
	w.vault.breaks(id, func(method, _ string) rpc.Fault {
		if method == "AddSecretVersion" {
			first.Do(func() { close(held); <-hold })
		}
		return rpc.Fault{}
	})
	var put sync.WaitGroup
	put.Go(func() {
		a := w.call(t, w.Ready.APIKey, http.MethodPut, "/agents/"+id+"/secrets", `{"secrets": {"NEW_TOKEN": "new"}}`)
		if a.status != http.StatusConflict && a.status != http.StatusNotFound {
			t.Errorf("a value for a deleted agent: %d %s", a.status, a.text)
		}
	})
	<-held
	o := w.operations(t, id)[0]
	w.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
	w.until(t, id, o, "store canceled")
	began := time.Now()
	close(hold)
	put.Wait()
	w.vault.breaks(id, nil)
	w.await(t, id, "gone", func(a answer) bool { return a.status == http.StatusNotFound })
	if n := w.vault.secrets(t, id); n != 0 {
		t.Errorf("%d secrets are left after %v", n, time.Since(began))
	}
}

// killedAtSecrets ends the worker with SIGKILL at every stage of an operation. However it goes on, there is one version
// for it.
func killedAtSecrets(t *testing.T, w world) {
	for stage, method := range map[string]string{"sync": "AccessSecretVersion", "rollout": "",
		"complete": "DestroySecretVersion", "destroy": "DestroySecretVersion"} {
		t.Run(stage, func(t *testing.T) {
			id := w.create(t, `{"name": "survivor", "resource_plan": "hobby", "env_vars": {"TOKEN": "first"}}`)
			w.awaitStatus(t, id, "running")
			w.await(t, id, "complete", func(answer) bool { return w.operations(t, id)[0].is() == succeeded })
			hold := make(chan struct{})
			w.vault.breaks(id, func(called, _ string) rpc.Fault {
				if called == method {
					<-hold
				}
				return rpc.Fault{}
			})
			if stage == "rollout" {
				breakPods(t, w, id, "not-ready")
			}
			value := `"second"`
			if stage == "destroy" {
				value = "null"
			}
			o := w.put(t, id, `{"TOKEN": `+value+`}`)[0]
			w.until(t, id, o, stage+" running")
			if err := w.Functions.Kill("ReconcileAgent"); err != nil {
				t.Fatal(err)
			}
			close(hold)
			w.vault.breaks(id, nil)
			breakPods(t, w, id, "")
			if err := w.Functions.Restart(t.Context(), "ReconcileAgent"); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				a := w.call(t, w.Ready.APIKey, http.MethodPost, "/agents/"+id+"/secret-operations/"+o.ID+"/reconcile",
					"")
				if a.status != http.StatusOK && a.status != http.StatusConflict {
					t.Errorf("reconciled: %s", a.text)
				}
			}
			w.until(t, id, o, succeeded)
			want := [2]int{2, 1}
			if stage == "destroy" {
				want = [2]int{1, 0}
			}
			if ever, there := w.vault.versions(t, id, "TOKEN"); ever != want[0] || there != want[1] {
				t.Errorf("there were %d versions and are %d, want %v", ever, there, want)
			}
			w.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
		})
	}
}
