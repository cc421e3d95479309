package wire

import (
	"context"
	"errors"
	"fmt"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/functions/cmd/config"
	"agents.example/controlplane/functions/cmd/internal/run"
	"agents.example/controlplane/infra/oidc"
	"agents.example/controlplane/infra/tracing"
	"agents.example/controlplane/shared/clientip"
	"agents.example/controlplane/shared/function"
)

// API opens the routes of the role api: the target, or all of them.
func API(ctx context.Context, c config.Routes) (run.Service, error) {
	return New(ctx, c.Common, RouteSettings(c, Openers{})).service(
		functions.Selection{Target: c.Target, Roles: []function.Role{function.RoleAPI}}, nil)
}

// Accounts opens the routes of the roles api and accounts: the target, or all of them.
func Accounts(ctx context.Context, c config.Routes, openers Openers) (run.Service, error) {
	roles := []function.Role{function.RoleAPI, function.RoleAccounts}
	return New(ctx, c.Common, RouteSettings(c, openers)).service(
		functions.Selection{Target: c.Target, Roles: roles}, nil)
}

// Exec opens the routes of the role exec: the target, or all of them.
func Exec(ctx context.Context, c config.Routes, openers Openers) (run.Service, error) {
	return New(ctx, c.Common, RouteSettings(c, openers)).service(
		functions.Selection{Target: c.Target, Roles: []function.Role{function.RoleExec}}, nil)
}

// RouteSettings are the settings of a process that serves routes.
func RouteSettings(c config.Routes, openers Openers) Settings {
	return Settings{
		Openers: openers, Peppers: c.AcceptedPeppers(), EdgeSecrets: c.EdgeSecrets, MaxHeldAnswers: c.MaxHeldAnswers,
		ConsoleClientID: c.ConsoleClientID, ConsoleScopes: c.ConsoleScopes, SupportURL: string(c.SupportURL),
		APIBaseURL: string(c.APIBaseURL), CLIClientID: c.CLIClientID, CLIScopes: c.CLIScopes,
		ClientsBucket: c.ClientsBucket, BackupForGKE: c.BackupForGKE,
	}
}

// Workers opens the workers: the target, or all of them.
func Workers(ctx context.Context, c config.Worker, openers Openers) (run.Service, error) {
	return withWorkers(ctx, c, Settings{Openers: openers},
		functions.Selection{Target: c.Target, Roles: []function.Role{function.RoleWorker}})
}

// All opens every function of the catalogue, each with the ports that its own needs name. The settings have the pepper.
func All(ctx context.Context, c config.Worker, s Settings) (run.Service, error) {
	return withWorkers(ctx, c, s, functions.Selection{})
}

func withWorkers(ctx context.Context, c config.Worker, s Settings, selection functions.Selection) (run.Service, error) {
	pushes, err := oidc.NewPushes(oidc.PushOptions{
		Issuer: c.PushIssuer, Audience: c.PushAudience, ServiceAccount: c.PushServiceAccount,
	})
	if err != nil {
		return run.Service{}, err
	}
	return New(ctx, c.Common, s).service(selection, pushes)
}

// voucher returns what lets functions report the address of a client whose calls they forward. It has the secrets of
// the load balancer, or without one the peppers: then one service serves all routes.
func (s Settings) voucher() clientip.Voucher {
	secrets := make([][]byte, 0, len(s.EdgeSecrets)+1)
	for _, secret := range s.EdgeSecrets {
		secrets = append(secrets, []byte(secret))
	}
	if len(secrets) == 0 {
		for _, pepper := range s.Peppers.All() {
			secrets = append(secrets, pepper)
		}
	}
	return clientip.NewVoucher(secrets...)
}

func (o *Clients) service(s functions.Selection, pushes function.PushVerifier) (run.Service, error) {
	if name, ok := s.Authenticating(); ok && len(o.settings.Peppers.Present) == 0 {
		return run.Service{}, fmt.Errorf("configuration: API_KEY_PEPPER is required: %s authenticates its callers",
			name)
	}
	if ratio := o.config.TraceRatio; ratio > 0 {
		stop, err := tracing.Start(o.ctx, tracing.Options{ProjectID: o.config.ProjectID, Ratio: ratio})
		if err != nil {
			return run.Service{}, err
		}
		o.closeLater(stop)
	}
	s.Maintenance = o.config.Maintenance
	guard, err := o.Guard()
	if err != nil {
		return run.Service{}, errors.Join(err, o.Close())
	}
	h, err := functions.Handler(s, o.For, functions.Guards{
		Guard: guard, Push: func(function.Worker) function.PushVerifier { return pushes },
	})
	if err != nil {
		return run.Service{}, errors.Join(err, o.Close())
	}
	h = clientip.NewEdge(o.settings.EdgeSecrets).Accepting(o.settings.voucher()).Handler(h)
	return run.Service{
		Handler: h, Host: o.config.Host, Port: o.config.Port, Project: o.config.ProjectID, Debug: o.config.Debug,
		Close: o.Close,
	}, nil
}
