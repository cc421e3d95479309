package bench

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/emulators/issuer"
	"agents.example/controlplane/infra/oidc"
)

const (
	tokenRounds = 11
	tokenRepeat = 5000
	// tokenTarget is the target of P3, in microseconds.
	tokenTarget = 5
	// flood is how long the flood of unknown keys takes, and floodStep is the time between two tokens.
	flood     = 10 * time.Minute
	floodStep = 50 * time.Millisecond
	// fetchInterval is the target of P3: the least time between two fetches.
	fetchInterval = 30 * time.Second
)

// measureTokens measures P3: the time to verify a session token again, and how often tokens with unknown keys make a
// process fetch the issuer's keys. The time of the flood is simulated.
func measureTokens(ctx context.Context, l *environment) (_ Report, err error) {
	i, err := issuer.Start(ctx, issuer.Options{TTL: time.Hour})
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, i.Close()) }()
	token, err := i.Session(issuer.Session{Organization: "org_bench"})
	if err != nil {
		return Report{}, err
	}
	began := time.Now()
	var ahead atomic.Int64
	sessions, err := oidc.NewSessions(oidc.Options{
		Issuer: i.URL(), Now: func() time.Time { return began.Add(time.Duration(ahead.Load())) },
	})
	if err != nil {
		return Report{}, err
	}
	var rows []Row
	if l.provisions > 0 {
		again, err := verifyAgain(ctx, sessions, token)
		if err != nil {
			return Report{}, err
		}
		rows = append(rows, again)
	}
	before := i.KeyFetches()
	for passed := floodStep; passed <= flood; passed += floodStep {
		ahead.Store(int64(passed))
		unknown, err := withUnknownKey(token)
		if err != nil {
			return Report{}, err
		}
		if _, err := sessions.Verify(ctx, unknown); err == nil {
			return Report{}, errors.New("a token with an unknown key was accepted")
		}
	}
	return Report{Rows: append(rows, Row{
		ID: "P3", What: fmt.Sprintf("%d tokens with unknown keys in %s", flood/floodStep, flood),
		Ours: float64(i.KeyFetches() - before), Limit: float64(flood / fetchInterval), Unit: "fetches of keys", Most: 1,
		Note: "limit: one in 30 s",
	})}, nil
}

// verifyAgain measures the CPU time that a verified token takes, and the hash of a token alone.
func verifyAgain(ctx context.Context, sessions *oidc.Sessions, token string) (Row, error) {
	var ours, hash []float64
	for range tokenRounds {
		used, err := cpuOfEach(tokenRepeat, func() error {
			_, err := sessions.Verify(ctx, token)
			return err
		})
		if err != nil {
			return Row{}, err
		}
		ours = append(ours, used)
		if used, err = cpuOfEach(tokenRepeat, func() error {
			_ = sha256.Sum256([]byte(token))
			return nil
		}); err != nil {
			return Row{}, err
		}
		hash = append(hash, used)
	}
	return Row{
		ID: "P3", What: "verifying a token again", Ours: median(ours), Limit: tokenTarget, Unit: "µs of CPU", Most: 1,
		Note: fmt.Sprintf("SHA-256 of the token alone: %.2f µs", median(hash)), Timed: true,
	}, nil
}

// cpuOfEach runs f n times and returns the CPU time of one run in microseconds.
func cpuOfEach(n int, f func() error) (float64, error) {
	used, err := during(0, func() error { return sendAll(1, n, f) })
	return float64(used.Nanoseconds()) / 1000 / float64(n), err
}

// withUnknownKey replaces the key of a token by one that does not exist.
func withUnknownKey(token string) (string, error) {
	encoded, rest, _ := strings.Cut(token, ".")
	decoded, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return "", err
	}
	var header map[string]any
	if err := json.Unmarshal(decoded, &header); err != nil {
		return "", err
	}
	header["kid"] = uuid.NewString()
	changed, err := json.Marshal(header)
	return base64.RawURLEncoding.EncodeToString(changed) + "." + rest, err
}
