package system

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/handoff"
	"agents.example/controlplane/shared/organization"
)

type introspectInput struct {
	Body struct {
		Token string `json:"token" jsonschema:"The token of the link."`
	} `json:"body"`
}

// Example implements function.Exampler.
func (introspectInput) Example() any {
	var in introspectInput
	in.Body.Token = "eyJhbGciOiJFUzI1NiIsImtpZCI6IjIwMjYtMDMiLCJ0eXAiOiJKV1QifQ..."
	return in
}

// HandoffSession is the response about the session of a link.
type HandoffSession struct {
	Active bool `json:"active" jsonschema:"False if the session must end: the token is not that of a link of this service, its hour is over, or its user was removed or lost the role admin since."`
}

// Example implements function.Exampler.
func (HandoffSession) Example() any { return HandoffSession{Active: true} }

// Introspect tells an agent whether the session that a link started goes on (like RFC 7662). The link is the only
// credential: whoever has it learns whether it still counts.
func Introspect(directory organization.Directory, keys handoff.KeySet) function.Route {
	return function.Route{
		Name: "IntrospectHandoff", Method: http.MethodPost, Path: dataplane.PathIntrospect, Access: function.Public,
		Needs: []function.Need{function.Firestore}, Status: http.StatusOK, BodyLimit: 8 << 10,
		Summary: "Tell whether the session of a link to a dashboard goes on",
		Handle: function.Handle(func(ctx context.Context, in introspectInput) (HandoffSession, error) {
			claims, err := handoff.VerifySession(in.Body.Token, keys, time.Now())
			if err != nil {
				slog.DebugContext(ctx, "session of a link is not active", "reason", err.Error())
				return HandoffSession{}, nil
			}
			ended, err := directory.SessionsEnded(ctx, claims.OrganizationID, claims.SessionSubject)
			if err != nil {
				return HandoffSession{}, err
			}
			return HandoffSession{Active: !claims.EndedBy(ended)}, nil
		}),
	}
}
