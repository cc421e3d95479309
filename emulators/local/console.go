package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"

	"agents.example/controlplane/emulators/command"
	"agents.example/controlplane/emulators/issuer"
)

// console prints a link that signs in to the web console.
func console(ctx context.Context, args []string) error {
	flags := command.NewFlags("console", "Prints a link that signs a browser in to the web console, once, within 10 "+
		"minutes.")
	ready := readyFlag(flags)
	organization := flags.String("organization", "", "`id` of the organization (default: the one with the first agent)")
	role := flags.String("role", "admin", "`role` in the organization: admin or member")
	subject := flags.String("subject", "", "the user's `id` at the identity provider (default: the first admin)")
	if err := parseFlagsOnly(flags, args); err != nil {
		return err
	}
	facts, err := readFacts(ctx, *ready)
	if err != nil {
		return err
	}
	session := facts.Admin()
	session.Subject = cmp.Or(*subject, session.Subject)
	session.Organization = cmp.Or(*organization, session.Organization)
	session.Role = *role
	var link struct {
		URL string `json:"url"`
	}
	ticket := struct {
		Session    issuer.Session `json:"session"`
		ConsoleURL string         `json:"console_url"`
	}{session, facts.ConsoleURL()}
	if err := callIssuer(ctx, facts.Issuer+"/tickets", ticket, http.StatusCreated, &link); err != nil {
		return err
	}
	fmt.Println(link.URL)
	return nil
}
