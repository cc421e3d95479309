package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"agents.example/controlplane/emulators/command"
	"agents.example/controlplane/emulators/issuer"
)

// token prints a session token of a running cloud.
func token(ctx context.Context, args []string) error {
	flags := command.NewFlags("token", "Prints a session token for a running local cloud.")
	ready := readyFlag(flags)
	organization := flags.String("organization", "", "`id` of the active organization; empty for a session without one")
	role := flags.String("role", "member", "`role` in the organization: admin or member")
	subject := flags.String("subject", "", "the user's `id` at the identity provider")
	claims := flags.String("claims", "", "claims to add or to replace, as a `JSON` object")
	if err := parseFlagsOnly(flags, args); err != nil {
		return err
	}
	session := issuer.Session{Organization: *organization, Role: *role, Subject: *subject}
	if *claims != "" {
		if err := json.Unmarshal([]byte(*claims), &session.Claims); err != nil {
			return fmt.Errorf("-claims must be a JSON object: %w", err)
		}
	}
	facts, err := readFacts(ctx, *ready)
	if err != nil {
		return err
	}
	minted, err := requestToken(ctx, facts.Issuer, session)
	if err != nil {
		return err
	}
	fmt.Println(minted)
	return nil
}

// requestToken gets a token from a running issuer.
func requestToken(ctx context.Context, issuerURL string, session issuer.Session) (string, error) {
	var minted struct {
		Token string `json:"token"`
	}
	err := callIssuer(ctx, issuerURL+"/token", session, http.StatusOK, &minted)
	return minted.Token, err
}

// callIssuer sends JSON to a running issuer and decodes its answer.
func callIssuer(ctx context.Context, url string, in any, want int, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close() //nolint:errcheck // reading is over
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer, out); err != nil || res.StatusCode != want {
		return fmt.Errorf("the local issuer answered with status %d: %s", res.StatusCode, answer)
	}
	return nil
}

// latestFile returns the path of the file that describes the cloud started last. It makes the directory.
func latestFile() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache directory: %w; pass -ready FILE", err)
	}
	dir := filepath.Join(cache, "agents-controlplane")
	return filepath.Join(dir, "latest.json"), os.MkdirAll(dir, 0o700)
}
