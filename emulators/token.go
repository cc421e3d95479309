package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"agents.example/controlplane/emulators/cloud"
	"agents.example/controlplane/emulators/issuer"
)

// token prints a session token of a running cloud.
func token(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("token", flag.ContinueOnError)
	ready := flags.String("ready", "", "the file that -ready wrote; the cloud started last otherwise")
	organization := flags.String("organization", "", "the active organization; empty for a session without one")
	role := flags.String("role", "member", "the role in the organization: admin or member")
	subject := flags.String("subject", "", "the user's id at the identity provider")
	claims := flags.String("claims", "", "a JSON object of claims that replace or add to the usual ones")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("token takes flags only, not %q", flags.Arg(0))
	}
	session := issuer.Session{Organization: *organization, Role: *role, Subject: *subject}
	if *claims != "" {
		if err := json.Unmarshal([]byte(*claims), &session.Claims); err != nil {
			return fmt.Errorf("-claims wants a JSON object: %w", err)
		}
	}
	path := *ready
	if path == "" {
		latest, err := latestFile()
		if err != nil {
			return err
		}
		path = latest
	}
	facts, err := cloud.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%w; start the cloud with: go run ./emulators", err)
	}
	minted, err := mint(ctx, facts.Issuer, session)
	if err == nil {
		fmt.Println(minted)
	}
	return err
}

// mint asks a running issuer for a token.
func mint(ctx context.Context, issuerURL string, session issuer.Session) (string, error) {
	body, err := json.Marshal(session)
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, issuerURL+"/token", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("the cloud is not running any more: %w", err)
	}
	defer res.Body.Close() //nolint:errcheck // reading is over
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return "", err
	}
	var minted struct {
		Token string `json:"token"`
	}
	if err := json.Unmarshal(answer, &minted); err != nil || res.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the issuer answered %d: %s", res.StatusCode, answer)
	}
	return minted.Token, nil
}

// latestFile is where a cloud leaves its facts, so that other commands find the one that was started last.
func latestFile() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache directory: %w; pass -ready FILE", err)
	}
	dir := filepath.Join(cache, "agents-controlplane")
	return filepath.Join(dir, "latest.json"), os.MkdirAll(dir, 0o700)
}
