package system

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/handoff"
	"agents.example/controlplane/shared/organization"
)

// HandoffSessionView is the response about the session of a link.
type HandoffSessionView struct {
	Active bool `json:"active" jsonschema:"False if the session must end: the link is not one of this service, its hour is over, or its user was removed or lost the role admin since."`
}

// Example implements function.Exampler.
func (HandoffSessionView) Example() any { return HandoffSessionView{Active: true} }

// HandoffSession tells an agent whether the session that a link started goes on. The link is the credential, so the
// caller is not identified otherwise.
func HandoffSession(directory organization.Directory, keys handoff.KeySet) function.Route {
	return function.Route{
		Name: "GetHandoffSession", Method: http.MethodGet, Path: dataplane.PathHandoffSession, Access: function.Bearer,
		Needs: []function.Need{function.Firestore}, Status: http.StatusOK,
		Summary: "Tell whether the session of a link to a dashboard goes on",
		Handle: function.Handle(func(ctx context.Context, _ function.Empty) (HandoffSessionView, error) {
			claims, err := handoff.VerifySession(call.From(ctx).Token, keys, time.Now())
			if err != nil {
				slog.DebugContext(ctx, "session of a link is not active", "reason", err.Error())
				return HandoffSessionView{}, nil
			}
			ended, err := directory.SessionsEnded(ctx, claims.OrganizationID, claims.SessionSubject)
			if err != nil {
				return HandoffSessionView{}, err
			}
			return HandoffSessionView{Active: !claims.EndedBy(ended)}, nil
		}),
	}
}
