package firestore

import (
	"fmt"
	"testing"
	"time"

	gcp "cloud.google.com/go/firestore"
	"github.com/google/uuid"
	"google.golang.org/grpc/codes"

	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/audit/seal"
	"agents.example/controlplane/shared/plan"
)

// sealedLog is an organization with five sealed entries, "e0" to "e4", a minute apart.
type sealedLog struct {
	client *Client
	id     string
	now    time.Time
}

func newSealedLog(t *testing.T) sealedLog {
	t.Helper()
	c := open(t, "", Options{})
	l := sealedLog{client: c, id: "org_" + uuid.NewString(), now: time.Now().Add(time.Hour)}
	must(t, c.setPlan(t.Context(), l.id, plan.Enterprise))
	for i := range 5 {
		must(t, c.AuditLog().Append(t.Context(), l.entry(fmt.Sprintf("e%d", i), time.Duration(i)*time.Minute)))
	}
	must(t, l.seal(t))
	return l
}

func (l sealedLog) entry(id string, after time.Duration) audit.Entry {
	return audit.Entry{
		ID: id, OrganizationID: l.id, CreatedAt: l.now.Add(after - 2*time.Hour), Action: "StopAgent",
		Outcome: audit.Succeeded,
	}
}

func (l sealedLog) seal(t *testing.T) error {
	return (&seal.Sealer{Store: l.client.AuditSeals(), Now: func() time.Time { return l.now }}).Run(t.Context())
}

// TestVerify_FindsWrittenDocuments writes the documents of a sealed log, as someone with access to the database can.
func TestVerify_FindsWrittenDocuments(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		write func(t *testing.T, l sealedLog) error
		want  string
	}{
		"nothing": {write: func(*testing.T, sealedLog) error { return nil }, want: "[]"},
		"changed": {
			write: func(t *testing.T, l sealedLog) error {
				return l.update(t, auditCollection, "e1", gcp.Update{Path: "actor.id", Value: "another"})
			},
			want: "[{entry_changed e1 1}]",
		},
		"changed by Finish": {
			write: func(t *testing.T, l sealedLog) error {
				return l.client.AuditLog().Finish(t.Context(), "e1", "store_unavailable")
			},
			want: "[{entry_changed e1 1}]",
		},
		"missing": {
			write: func(t *testing.T, l sealedLog) error {
				_, err := l.client.collection(auditCollection).Doc("e2").Delete(t.Context())
				return err
			},
			want: "[{entry_missing e2 1}]",
		},
		"unreadable": {
			write: func(t *testing.T, l sealedLog) error {
				return l.update(t, auditCollection, "e2", gcp.Update{Path: "outcome", Value: 1})
			},
			want: "[{entry_missing e2 1}]",
		},
		"in another organization": {
			write: func(t *testing.T, l sealedLog) error {
				return l.update(t, auditCollection, "e2", gcp.Update{Path: "organization_id", Value: "org_2"})
			},
			want: "[{entry_missing e2 1}]",
		},
		"added": {
			write: func(t *testing.T, l sealedLog) error {
				return l.client.AuditLog().Append(t.Context(), l.entry("e9", time.Minute))
			},
			want: "[{entry_added e9 0}]",
		},
		"reordered": {
			write: func(t *testing.T, l sealedLog) error {
				at := l.entry("", 150*time.Second).CreatedAt
				return l.update(t, auditCollection, "e1", gcp.Update{Path: "created_at", Value: at})
			},
			want: "[{entry_reordered e1 1}]",
		},
		"an early end of its retention": {
			write: func(t *testing.T, l sealedLog) error {
				return l.update(t, auditCollection, "e1", gcp.Update{Path: "expires_at", Value: l.now.Add(-time.Hour)})
			},
			want: "[{entry_missing e1 1}]",
		},
		"a changed seal": {
			write: func(t *testing.T, l sealedLog) error {
				return l.update(t, sealCollection, sealID(l.id, 1), gcp.Update{Path: "root", Value: seal.NoHash})
			},
			want: "[{seal_broken  1}]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newSealedLog(t)
			must(t, c.write(t, l))
			at := openAt(t, l.client.project(), l.now)
			report, err := seal.Verify(t.Context(), at.AuditSeals(), l.id, at.now, nil)
			must(t, err)
			if got := fmt.Sprint(report.Problems); got != c.want {
				t.Errorf("problems %s, want %s", got, c.want)
			}
		})
	}
}

func (l sealedLog) update(t *testing.T, collection, id string, u gcp.Update) error {
	_, err := l.client.collection(collection).Doc(id).Update(t.Context(), []gcp.Update{u})
	return err
}

// TestCreateSeal_KeepsOneUnderFaults fails each call of a sealer, before and after it is carried out.
func TestCreateSeal_KeepsOneUnderFaults(t *testing.T) {
	t.Parallel()
	for _, loseAnswer := range []bool{false, true} {
		for call, reached := 1, true; reached; call++ {
			c := open(t, "", Options{})
			f := &injectedFault{call: call, code: codes.Unavailable, loseAnswer: loseAnswer}
			made, err := seal.New("org_1", nil, nil, time.Now())
			must(t, err)
			created, err := open(t, c.project(), f.options()).AuditSeals().Create(t.Context(), made)
			if !created || err != nil {
				t.Errorf("%s: created %t, %v; want true", f, created, err)
			}
			reached = f.reached()
		}
	}
}

// TestSealer_CostsThreeReadsWhenIdle: the organization, its newest seal, and a query for entries that finds none.
func TestSealer_CostsThreeReadsWhenIdle(t *testing.T) {
	t.Parallel()
	l := newSealedLog(t)
	l.now = l.now.Add(3 * time.Hour)
	must(t, l.seal(t)) // a seal without leaves
	l.now = l.now.Add(3 * time.Hour)
	var calls callRecorder
	l.client = open(t, l.client.project(), Options{Observe: calls.observe})
	const want = "query query query"
	if got := calls.during(func() { must(t, l.seal(t)) }); got != want {
		t.Errorf("an idle run sends %q, want %q", got, want)
	}
}
