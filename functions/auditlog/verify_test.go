package auditlog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"reflect"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"agents.example/controlplane/functions/auditlog"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/audit/seal"
	"agents.example/controlplane/shared/audit/seal/sealtest"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/handoff"
	"agents.example/controlplane/shared/plan"
)

const (
	verifyPath = listPath + "/verify"
	sealsPath  = listPath + "/seals"
)

// newSealedLog is the log of the organization on the Enterprise plan: five entries of this hour, three of them sealed.
func newSealedLog(t *testing.T) *sealtest.Memory {
	t.Helper()
	now := time.Now().UTC().Truncate(time.Second)
	log := &sealtest.Memory{OrganizationID: enterprise, Now: func() time.Time { return now }}
	for i := range 5 {
		e := newEntries(1)[0]
		e.ID, e.CreatedAt = fmt.Sprint("e", i), now.Add(time.Duration(i)*10*time.Minute-50*time.Minute)
		line, err := json.Marshal(e.Show())
		if err != nil {
			t.Fatal(err)
		}
		log.Log = append(log.Log, seal.Entry{
			ID: e.ID, CreatedAt: e.CreatedAt, WrittenAt: e.CreatedAt, ExpiresAt: now.AddDate(0, 0, 30), JSON: line,
		})
	}
	if err := (&seal.Sealer{Store: log, Now: log.Now}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return log
}

// sealedGet reads as an admin on the Enterprise plan.
func sealedGet(t *testing.T, log seal.Log, signer *handoff.Signer, path, kept string) functiontest.Response {
	t.Helper()
	query := url.Values{}
	if kept != "" {
		query.Set("seal", kept)
	}
	options := []functiontest.Option{functiontest.AsAdmin(enterprise), functiontest.Query(query)}
	return send(t, http.MethodGet, path, options, auditlog.Verify(log, signer), auditlog.ExportSeals(log, nil))
}

func TestVerify_ReportsProblems(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		plant func(log *sealtest.Memory)
		kept  func(newest seal.Anchor) seal.Anchor
		want  string
	}{
		"nothing": {
			plant: func(*sealtest.Memory) {},
			want: `"verified":true,"entries":5,"unsealed":2,"expired":0,"seals":1,"seal_found":null,` +
				`"problem_count":0,"problems":[]`,
		},
		"a changed entry": {
			plant: func(log *sealtest.Memory) {
				log.Log[1].JSON = bytes.ReplaceAll(log.Log[1].JSON, []byte(`"b`), []byte(`"c`))
				log.Log[1].JSON = bytes.Replace(log.Log[1].JSON, []byte(`"outcome":""`), []byte(`"outcome":"x"`), 1)
			},
			want: `"verified":false,"entries":5,"unsealed":2,"expired":0,"seals":1,"seal_found":null,` +
				`"problem_count":1,"problems":[{"code":"entry_changed","entry_id":"e1","sequence":1}]`,
		},
		"a missing entry": {
			plant: func(log *sealtest.Memory) { log.Log = log.Log[1:] },
			want: `"verified":false,"entries":4,"unsealed":2,"expired":0,"seals":1,"seal_found":null,` +
				`"problem_count":1,"problems":[{"code":"entry_missing","entry_id":"e0","sequence":1}]`,
		},
		"a seal that was kept": {
			plant: func(*sealtest.Memory) {},
			kept:  func(newest seal.Anchor) seal.Anchor { return newest },
			want: `"verified":true,"entries":5,"unsealed":2,"expired":0,"seals":1,"seal_found":true,` +
				`"problem_count":0,"problems":[]`,
		},
		"a seal of another log": {
			plant: func(*sealtest.Memory) {},
			kept:  func(newest seal.Anchor) seal.Anchor { newest.Hash = seal.NoHash; return newest },
			want: `"verified":false,"entries":5,"unsealed":2,"expired":0,"seals":1,"seal_found":false,` +
				`"problem_count":1,"problems":[{"code":"seal_broken","entry_id":null,"sequence":1}]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := newSealedLog(t)
			newest, kept := log.Sealed[0], ""
			c.plant(log)
			if c.kept != nil {
				kept = c.kept(newest.Anchor()).String()
			}
			var got, want seal.View
			sealedGet(t, log, nil, verifyPath, kept).Want(t, http.StatusOK, "").Decode(t, &got)
			if err := json.Unmarshal([]byte("{"+c.want+"}"), &want); err != nil {
				t.Fatal(err)
			}
			want.SealedUntil = &newest.SealedUntil
			want.NewestSeal = &seal.Name{Sequence: newest.Sequence, Hash: newest.Hash}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("verification %+v, want %+v", got, want)
			}
		})
	}
}

// TestVerify_SignsTheNewestSeal verifies the statement with the published keys.
func TestVerify_SignsTheNewestSeal(t *testing.T) {
	t.Parallel()
	private, public, err := handoff.Generate()
	if err != nil {
		t.Fatal(err)
	}
	var key handoff.Key
	if err := key.EnvDecode(private); err != nil {
		t.Fatal(err)
	}
	var keys jose.JSONWebKeySet
	if err := json.Unmarshal([]byte(public), &keys); err != nil {
		t.Fatal(err)
	}
	log := newSealedLog(t)
	res := sealedGet(t, log, handoff.NewSigner(key), verifyPath, "").Want(t, http.StatusOK, "")
	token, err := jwt.ParseSigned(res.Text("statement"), []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	var got handoff.SealClaims
	if err := token.Claims(keys, &got); err != nil {
		t.Fatal(err)
	}
	if typ := token.Headers[0].ExtraHeaders["typ"]; typ != handoff.SealType {
		t.Errorf("typ %v, want %s", typ, handoff.SealType)
	}
	if age := time.Since(got.IssuedAt.Time()); age < 0 || age > time.Minute || got.Audience != nil {
		t.Errorf("issued %v ago for %v, want now and for no audience", age, got.Audience)
	}
	want := log.Sealed[0]
	if got.OrganizationID != enterprise || got.Sequence != want.Sequence || got.Hash != want.Hash {
		t.Errorf("claims %+v, want the seal %s of %s", got, want.Anchor(), enterprise)
	}
}

func TestExportSeals_WritesOneSealPerLine(t *testing.T) {
	t.Parallel()
	log := newSealedLog(t)
	second, err := seal.New(enterprise, &log.Sealed[0], nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	log.Sealed = append(log.Sealed, second)
	res := sealedGet(t, log, nil, sealsPath, "").Want(t, http.StatusOK, "")
	if media := res.Header.Get("Content-Type"); media != "application/x-ndjson" {
		t.Errorf("Content-Type = %q, want application/x-ndjson", media)
	}
	var got []seal.Seal
	for line := range bytes.Lines(res.Body) {
		var s seal.Seal
		if err := json.Unmarshal(line, &s); err != nil {
			t.Fatal(err)
		}
		got = append(got, s)
	}
	if !reflect.DeepEqual(got, log.Sealed) {
		t.Errorf("seals %+v\nwant %+v", got, log.Sealed)
	}
}

func TestSealRoutes_RefuseOthers(t *testing.T) {
	t.Parallel()
	log := newSealedLog(t)
	for _, c := range []struct {
		as   functiontest.Option
		code string
	}{
		{as: functiontest.AsAdmin(string(plan.Business)), code: "plan_feature_required"},
		{as: functiontest.AsMember(enterprise), code: "role_required"},
	} {
		for _, path := range []string{verifyPath, sealsPath} {
			send(t, http.MethodGet, path, []functiontest.Option{c.as}, auditlog.Verify(log, nil),
				auditlog.ExportSeals(log, nil)).Want(t, http.StatusForbidden, c.code)
		}
	}
	sealedGet(t, log, nil, verifyPath, "1:abc").Want(t, http.StatusUnprocessableEntity, "validation_error")
}

// brokenLog is a seal.Log that can't be read.
type brokenLog struct{ seal.Log }

func (brokenLog) Seals(context.Context, string) iter.Seq2[seal.Seal, error] {
	return func(yield func(seal.Seal, error) bool) {
		yield(seal.Seal{}, fault.New(fault.Unavailable, "store_unavailable", "Later."))
	}
}

func TestSealRoutes_ReportAnUnavailableLog(t *testing.T) {
	t.Parallel()
	for _, path := range []string{verifyPath, sealsPath} {
		sealedGet(t, brokenLog{newSealedLog(t)}, nil, path, "").
			Want(t, http.StatusServiceUnavailable, "store_unavailable")
	}
}

// After a roll-back, a log has seals of the later release.
func TestVerify_ReportsSealsOfALaterRelease(t *testing.T) {
	t.Parallel()
	log := newSealedLog(t)
	log.Sealed[0].Leaves[1].Format = 99
	sealedGet(t, log, nil, verifyPath, "").Want(t, http.StatusServiceUnavailable, "audit_format_unknown")
}
