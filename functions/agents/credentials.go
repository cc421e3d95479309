package agents

import (
	"context"
	"net/http"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/ratelimit"
	"agents.example/controlplane/shared/rehearsal"
	"agents.example/controlplane/shared/secretwrite"
)

// CredentialsView is an agent's credentials in an answer.
type CredentialsView struct {
	AgentID           string `json:"agent_id" jsonschema:"The agent's id."`
	DashboardUsername string `json:"dashboard_username" jsonschema:"The user name of the agent's dashboard."`
	DashboardPassword string `json:"dashboard_password" jsonschema:"The password of the agent's dashboard."`
	TenantAPIKey      string `json:"tenant_api_key" jsonschema:"The bearer token of the agent's own API. The control plane does not accept it."`
	CredentialVersion int64  `json:"credential_version" jsonschema:"The version of the credentials. A rotation adds one."`
	RotationPending   bool   `json:"rotation_pending" jsonschema:"True until the agent accepts this credential and refuses the previous one."`
}

// AmendSchema adds formats that the types of the fields do not imply.
func (CredentialsView) AmendSchema(s *jsonschema.Schema) { s.Properties["agent_id"].Format = "uuid" }

// Example implements function.Exampler.
func (CredentialsView) Example() any {
	return CredentialsView{
		AgentID: "0b7c2a54-6f1d-4d0e-9c1b-2f6d3a8e5b90", DashboardUsername: agent.DashboardUsername,
		DashboardPassword: "(a password)", TenantAPIKey: "(a key)", CredentialVersion: 1,
	}
}

// RevealCredentials shows the password of an agent's dashboard and the key of its API. It writes the time to the
// agent's record, so that the same commit writes an audit entry.
func RevealCredentials(agents agent.Store, secrets credential.Reader) function.Route {
	return function.Route{
		Name: "RevealCredentials", Method: http.MethodPost, Path: "/api/v1/agents/{agent_id}/credentials/reveal",
		Access: function.Admin, Needs: []function.Need{function.Firestore, function.SecretRead},
		Limit:  ratelimit.Reveals,
		Status: http.StatusOK, Summary: "Reveal an agent's credentials", Errors: []fault.Kind{fault.Conflict},
		Handle: function.Handle(func(ctx context.Context, in path) (CredentialsView, error) {
			// A repeated request gets no stored answer: it would hold secrets, and the repeat would have no audit
			// entry.
			call.From(ctx).Attempt.DiscardAnswer()
			call.From(ctx).Entry.Begin() // the credentials are read after the commit
			now := time.Now().UTC()
			a, err := agents.Change(ctx, in.id(), func(a *agent.Agent) error { return a.Reveal(now) })
			if err != nil {
				return CredentialsView{}, err
			}
			c, err := secrets.GetCredentials(ctx, a.ID, a.CredentialVersion)
			return CredentialsView{
				AgentID: a.ID, DashboardUsername: c.DashboardUsername, DashboardPassword: c.DashboardPassword,
				TenantAPIKey:      c.APIKey,
				CredentialVersion: a.CredentialVersion, RotationPending: a.RotationPending,
			}, err
		}),
	}
}

// RotateCredentials replaces an agent's credentials. The rotation is pending until the agent accepts the new
// credentials and refuses the old ones.
func RotateCredentials(writer secretwrite.Service, d agent.Display) function.Route {
	return function.Route{
		Name: "RotateCredentials", Method: http.MethodPost, Path: "/api/v1/agents/{agent_id}/credentials/rotate",
		Access: function.Admin,
		Needs:  []function.Need{function.Firestore, function.Publish, function.NudgeWebhooks, function.SecretAdd},
		Reads:  readsAgent,
		Status: http.StatusOK, Summary: "Rotate an agent's credentials", Errors: []fault.Kind{fault.Conflict},
		Rehearsal: function.Rehearse(rehearsal.Of(d)),
		Handle: function.Handle(func(ctx context.Context, in change) (agent.View, error) {
			a, err := writer.Rotate(ctx, in.id(), in.Header.IfMatch)
			return show(ctx, a, d), err
		}),
	}
}
