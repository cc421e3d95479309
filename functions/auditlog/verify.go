package auditlog

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/audit/seal"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/handoff"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/ratelimit"
)

// anchor is a seal that the caller kept, in a query.
type anchor struct{ seal.Anchor }

// JSONSchema implements function.Schemer.
func (anchor) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: "^[1-9][0-9]{0,17}:[0-9a-f]{64}$"}
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *anchor) UnmarshalText(text []byte) (err error) {
	a.Anchor, err = seal.ParseAnchor(string(text))
	return err
}

type verifyInput struct {
	Query struct {
		Seal anchor `json:"seal,omitzero" jsonschema:"The sequence and the hash of a seal that you kept, as in 12:9f86d081..., to find out whether the log is still the one that it sealed."`
	} `json:"query"`
}

// Verify compares the organization's audit log with its seals. It signs what the newest seal is, so that the control
// plane cannot deny it later.
func Verify(seals seal.Log, signer *handoff.Signer) function.Route {
	return function.Route{
		Name: "VerifyAuditLog", Method: http.MethodGet, Path: path + "/verify",
		Access: function.Admin, Feature: plan.AuditLog,
		Needs:  []function.Need{function.Firestore, function.HandoffSign},
		Holds:  maxExport,
		Status: http.StatusOK, Summary: "Verify the audit log (Enterprise plan)",
		Handle: function.Handle(func(ctx context.Context, in verifyInput) (seal.View, error) {
			ctx, cancel := context.WithTimeout(ctx, maxExport)
			defer cancel()
			var kept *seal.Anchor
			if in.Query.Seal.Sequence != 0 {
				kept = &in.Query.Seal.Anchor
			}
			organizationID := call.From(ctx).Caller.OrganizationID
			report, err := seal.Verify(ctx, seals, organizationID, time.Now, kept)
			if errors.Is(err, seal.ErrUnknownFormat) { // after a roll-back
				err = fault.New(fault.Unavailable, "audit_format_unknown", "The log has seals of a later release of "+
					"the API, which this one cannot verify. Retry once that release serves again.").WithCause(err)
			}
			if err != nil || report.Newest == nil {
				return report.Show(kept, nil), err
			}
			statement, err := signer.SealStatement(organizationID, report.Newest.Anchor(), time.Now())
			return report.Show(kept, statement), err
		}),
	}
}

// sealLines is the seals as lines of JSON.
type sealLines struct{ seals iter.Seq2[seal.Seal, error] }

// Reply implements function.Reply.
func (l sealLines) Reply(http.Header) any {
	return function.Raw{ContentType: "application/x-ndjson", Item: seal.Seal{}, Stream: func(w io.Writer) error {
		line := json.NewEncoder(w)
		for s, err := range l.seals {
			if err != nil {
				return err
			}
			if err := line.Encode(s); err != nil {
				return err
			}
		}
		return nil
	}}
}

// ExportSeals streams the seals of the organization's audit log, the oldest first, one a line. An answer holds one of
// the slots.
func ExportSeals(seals seal.Log, slots *ratelimit.Slots) function.Route {
	return function.Route{
		Name: "ExportAuditSeals", Method: http.MethodGet, Path: path + "/seals",
		Access: function.Admin, Feature: plan.AuditLog, Needs: []function.Need{function.Firestore},
		Holds:  maxExport,
		Status: http.StatusOK, Summary: "Export the seals of the audit log as JSON lines (Enterprise plan)",
		Handle: function.Handle(func(ctx context.Context, _ struct{}) (sealLines, error) {
			_, err := function.HoldSlot(ctx, slots)
			return sealLines{func(yield func(seal.Seal, error) bool) {
				ctx, cancel := context.WithTimeout(ctx, maxExport)
				defer cancel()
				seals.Seals(ctx, call.From(ctx).Caller.OrganizationID)(yield)
			}}, err
		}),
	}
}
