package agent_test

import (
	"encoding/json"
	"strings"
	"testing"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/identity"
)

// failing returns an agent that fails because of the variable TOKEN, with a code.
func failing(code string) agent.Agent {
	a := in(agent.Error)
	message := "Something is wrong with TOKEN. Set it again."
	a.Failure = &agent.Failure{Code: code, Stage: agent.StageSecrets, Message: message}
	a.Stages = []agent.Stage{
		{Name: agent.StageSecrets, Status: agent.StageFailed, Attempt: 1, ErrorCode: code, Message: message},
	}
	return a
}

// TestShow_NamesNoVariablesToMembers: an agent that has no value of a secret says which one to admins only.
func TestShow_NamesNoVariablesToMembers(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		code                  string
		wantAdmin, wantMember bool
	}{
		{code: agent.CodeValueUnavailable, wantAdmin: true},
		{code: "object_rejected", wantAdmin: true},
		{code: "pod_crash_loop", wantAdmin: true, wantMember: true}, // its message names none
	} {
		for role, want := range map[identity.Role]bool{
			identity.RoleAdmin: row.wantAdmin, identity.RoleMember: row.wantMember,
		} {
			a := failing(row.code)
			v := a.Show(identity.Caller{OrganizationID: "o", Role: role}, agent.Addresses{})
			for field, text := range map[string]string{
				"error_message":                        *v.ErrorMessage,
				"config.error.message":                 v.Config.Error.Message,
				"config.provisioning_stages[].message": *v.Config.ProvisioningStages[0].Message,
			} {
				if got := strings.Contains(text, "TOKEN"); got != want || text == "" {
					t.Errorf("%s of %s for the role %s names the variable: %t, want %t: %q", field, row.code, role, got,
						want, text)
				}
			}
			if a.Failure.Message != failing(row.code).Failure.Message {
				t.Errorf("to show the agent changed its record: %q", a.Failure.Message)
			}
		}
	}
}

// TestEvents_NameNoVariablesToMembers: members read the same events as admins.
func TestEvents_NameNoVariablesToMembers(t *testing.T) {
	t.Parallel()
	for _, code := range []string{agent.CodeValueUnavailable, "object_rejected"} {
		var types []event.Type
		for _, e := range agent.Events(in(agent.Pending), failing(code)) {
			data, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			if types = append(types, e.Type); e.Type.ForMembers() && strings.Contains(string(data), "TOKEN") {
				t.Errorf("the event %s names the variable: %s", e.Type, data)
			}
			if !strings.Contains(string(data), code) {
				t.Errorf("the event %s does not have the code %s: %s", e.Type, code, data)
			}
		}
		if len(types) != 2 {
			t.Errorf("events %q, want one about the stage and one about the status", types)
		}
	}
}
