package function_test

import (
	"context"
	"net/http"
	"testing"

	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/rehearsal"
)

// serveRehearsals serves a route that can be rehearsed at /api/v1/things, one that cannot at /api/v1/others, and counts
// real calls.
func serveRehearsals(g function.Guard, real *int) http.Handler {
	route := function.Route{
		Name: "ChangeThing", Method: http.MethodPost, Path: "/api/v1/things", Access: function.Admin,
		Status: http.StatusAccepted,
		Rehearsal: function.Rehearse(func(context.Context, *rehearsal.Rehearsal, identity.Caller) (echo, error) {
			return echo{"rehearsed"}, nil
		}),
		Handle: function.Handle(func(ctx context.Context, in echoInput) (echo, error) {
			if call.From(ctx).Rehearsal == nil {
				*real++
			}
			return echo{in.Body.Text}, nil
		}),
	}
	other := route
	other.Name, other.Path, other.Rehearsal = "ChangeOther", "/api/v1/others", nil
	return serveRoutes(g, route, other)
}

// TestRehearsal_NeverTakesAParameterForARealCall sends what clients may write for true and false.
func TestRehearsal_NeverTakesAParameterForARealCall(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]struct {
		status  int
		code    string
		real    int
		entries int
	}{
		"":                            {status: http.StatusAccepted, real: 1, entries: 1},
		"dry_run=true":                {status: http.StatusOK},
		"dry_run=True":                {status: http.StatusOK},
		"dry_run=1":                   {status: http.StatusOK},
		"dry_run=yes":                 {status: http.StatusOK},
		"dry_run=false":               {status: http.StatusAccepted, real: 1, entries: 1},
		"dry_run=false&dry_run=true":  {status: http.StatusUnprocessableEntity, code: "validation_error"},
		"dry_run=true&dry_run=false":  {status: http.StatusUnprocessableEntity, code: "validation_error", entries: 1},
		"dry_run=":                    {status: http.StatusUnprocessableEntity, code: "validation_error", entries: 1},
		"dry_run=maybe":               {status: http.StatusUnprocessableEntity, code: "validation_error", entries: 1},
		"dry_run=true&dry_run=":       {status: http.StatusUnprocessableEntity, code: "validation_error", entries: 1},
		"dry_run=%ff":                 {status: http.StatusUnprocessableEntity, code: "validation_error", entries: 1},
		"dry_run=true;a=b":            {status: http.StatusUnprocessableEntity, code: "validation_error", entries: 1},
		"dry_run=%zz":                 {status: http.StatusUnprocessableEntity, code: "validation_error", entries: 1},
		"a=%zz":                       {status: http.StatusUnprocessableEntity, code: "validation_error", entries: 1},
		"dry_run%zz=true":             {status: http.StatusUnprocessableEntity, code: "validation_error", entries: 1},
		"d%72y_run%=true":             {status: http.StatusUnprocessableEntity, code: "validation_error", entries: 1},
		"dry_run=true&other=ignored":  {status: http.StatusOK},
		"dry_run=%74rue":              {status: http.StatusOK},
		"DRY_RUN=true&dry_run=no&a=b": {status: http.StatusUnprocessableEntity, code: "validation_error", entries: 1},
		"dry_runs=true":               {status: http.StatusAccepted, real: 1, entries: 1},
		"dry%5Frun=true":              {status: http.StatusOK},
	} {
		t.Run(query, func(t *testing.T) {
			t.Parallel()
			log, real := &fakeAuditLog{}, 0
			h := serveRehearsals(function.Guard{Audit: log}, &real)
			send(t, h, newRequest(http.MethodPost, "/api/v1/things?"+query, "admin", `{"text":"a"}`)).
				check(t, want.status, want.code)
			if real != want.real || len(log.entries) != want.entries {
				t.Errorf("%d real calls and %d audit entries, want %d and %d", real, len(log.entries), want.real,
					want.entries)
			}
			send(t, h, newRequest(http.MethodPost, "/api/v1/things", "admin", `{"text":"a"}`)).
				check(t, http.StatusAccepted, "") // as the next caller of the process sees it
		})
	}
}

// TestRehearsal_OfAMemberIsRefusedAndAudited probes with a key what it may do.
func TestRehearsal_OfAMemberIsRefusedAndAudited(t *testing.T) {
	t.Parallel()
	log, real := &fakeAuditLog{}, 0
	h := serveRehearsals(function.Guard{Audit: log}, &real)
	send(t, h, newRequest(http.MethodPost, "/api/v1/things?dry_run=true", "member", `{"text":"a"}`)).
		check(t, http.StatusForbidden, "role_required")
	if len(log.entries) != 1 || log.entries[0].Outcome != audit.RehearsalRefused || log.entries[0].Actor.ID != "u2" {
		t.Errorf("audit entries %+v, want one of the refusal", log.entries)
	}
}
