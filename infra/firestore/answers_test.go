package firestore

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/idempotency"
	"agents.example/controlplane/shared/plan"
)

// TestAnswers_ClaimIsExclusiveUntilItEnds walks a key through all of its states.
func TestAnswers_ClaimIsExclusiveUntilItEnds(t *testing.T) {
	t.Parallel()
	now := agenttest.Now()
	c := open(t, "", Options{Now: func() time.Time { return now }})
	org, answers := agentFixture(c).Tenant(t, plan.Pro), c.Answers()
	ctx, a := org.Attempt("key", "body")
	_, different := org.Attempt("key", "another body")
	claim := func(when string, wantCode string) idempotency.Claim {
		t.Helper()
		got, err := answers.Claim(ctx, a, idempotency.ClaimTime)
		code := ""
		if err != nil {
			code = fault.From(err).Code
		}
		if code != wantCode {
			t.Errorf("Claim %s: error %v, want %q", when, err, wantCode)
		}
		return got
	}
	wantKept := func(when string, want bool) {
		t.Helper()
		if got, err := answers.Kept(ctx, a); err != nil || got != want {
			t.Errorf("Kept %s = %t, %v, want %t", when, got, err, want)
		}
	}

	wantKept("before the first claim", false)
	first := claim("of an unused key", "")
	claim("during another one", "idempotency_in_progress")
	wantKept("during a claim", false)
	_, err := answers.Claim(ctx, different, idempotency.ClaimTime)
	if !fault.Is(err, fault.Invalid) {
		t.Errorf("Claim for a different request: %v, want Invalid", err)
	}
	must(t, answers.Release(ctx, a, first))

	second := claim("after a release", "")
	now = now.Add(idempotency.ClaimTime)
	third := claim("after the claim's time", "")
	must(t, answers.Keep(ctx, a, second, []byte("late")))
	claim("after the late answer of a claim that ended", "idempotency_in_progress")
	must(t, answers.Keep(ctx, a, third, []byte("answer")))
	wantKept("after Keep", true)
	if got := claim("after Keep", ""); !got.Kept || string(got.Answer) != "answer" {
		t.Errorf("Claim after Keep = %+v, want the answer", got)
	}
	if _, err := answers.Kept(ctx, different); !fault.Is(err, fault.Invalid) {
		t.Errorf("Kept for a different request: %v, want Invalid", err)
	}

	now = now.Add(idempotency.Retention)
	wantKept("after the retention", false)
	last := claim("after the retention", "")
	if last.Kept {
		t.Error("Claim after the retention returns the old answer")
	}
	call.From(ctx).Attempt.DiscardAnswer()
	must(t, answers.Keep(ctx, a, last, []byte("secret")))
	if got := claim("after a discarded answer", ""); got.Kept {
		t.Errorf("Claim after a discarded answer = %+v, want a claim", got)
	}
}

// TestAnswers_UnderFaults fails every call of a claim that ends with an answer. Without an error, the next claim finds
// the answer, or takes the key once the claim has ended.
func TestAnswers_UnderFaults(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	org := agentFixture(c).Tenant(t, plan.Pro)
	forEachFault(func(f *injectedFault) bool {
		ctx, a := org.Attempt(agenttest.ID(), "body")
		faulty := open(t, c.project(), f.options()).Answers()
		claim, err := faulty.Claim(ctx, a, idempotency.ClaimTime)
		if err == nil {
			err = faulty.Keep(ctx, a, claim, []byte("answer"))
		}
		repeat, repeatErr := c.Answers().Claim(ctx, a, idempotency.ClaimTime)
		switch {
		case err == nil && (!repeat.Kept || string(repeat.Answer) != "answer"):
			t.Errorf("%s: the next claim is %+v, %v, want the answer", f, repeat, repeatErr)
		case err != nil && !isTemporary(err, f):
			t.Errorf("%s: error %v, want Unavailable", f, err)
		case repeatErr != nil && !fault.Is(repeatErr, fault.Conflict):
			t.Errorf("%s: the next claim fails: %v", f, repeatErr)
		}
		return f.reached()
	}, codes.Unavailable, codes.DeadlineExceeded, codes.Aborted)
}
