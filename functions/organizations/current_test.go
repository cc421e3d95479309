package organizations_test

import (
	"net/http"
	"testing"

	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/functions/organizations"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

func current(t *testing.T, b *functiontest.Backend) organizations.View {
	t.Helper()
	var v organizations.View
	b.Call(t, organizations.Current(b.Directory), functiontest.AsMember("org-1")).Want(t, http.StatusOK, "").Decode(t,
		&v)
	return v
}

func TestCurrent_IsForMembers(t *testing.T) {
	t.Parallel()
	functiontest.CheckRefusals(t, organizations.Current(nil), function.Member)
}

func TestCurrent_BeginsOnHobbyWithoutUsage(t *testing.T) {
	t.Parallel()
	v := current(t, functiontest.New(t))
	if v.ID != "org-1" || v.Plan != plan.Hobby || v.Status != organization.Active {
		t.Errorf("organization %s is on %s and %s, want org-1 on hobby and active", v.ID, v.Plan, v.Status)
	}
	if v.Usage != (organizations.Amounts{}) {
		t.Errorf("usage = %+v, want none", v.Usage)
	}
	want := organizations.Amounts{Agents: 1, CPUCores: 0.5, MemoryBytes: 1 << 30, StorageBytes: 5 << 30, APIKeys: 50}
	if v.Limits != want {
		t.Errorf("limits = %+v, want %+v", v.Limits, want)
	}
}

func TestCurrent_CountsWhatTheOrganizationHolds(t *testing.T) {
	t.Parallel()
	b := functiontest.New(t)
	b.CreateKey(t, "org-1")
	b.RunningAgent(t, "org-1", nil)
	b.CreateKey(t, "org-2")
	want := organizations.Amounts{Agents: 1, CPUCores: 0.5, MemoryBytes: 1 << 30, StorageBytes: 5 << 30, APIKeys: 1}
	if got := current(t, b).Usage; got != want {
		t.Errorf("usage = %+v, want %+v", got, want)
	}
}
